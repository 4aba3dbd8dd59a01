package cases

// operators is the rest of group S: requests of operators.
var operators = []row{
	{number: 343, name: "half-close", held: "server.TestWordAnswers"},
	{number: 344, name: "ruok by HTTP", held: "operator/admin.TestCommandAnswers"},
	{number: 345, name: "unknown command by HTTP", held: "operator/admin.TestCommandAnswers"},
	{number: 346, name: "mntr by HTTP", held: "operator/admin.TestCommandAnswers"},
	{number: 347, name: "two server lines, no myid", held: "config.TestLoadCases"},
}

// scenarios is group T: real client programs.
var scenarios = []row{
	{number: 348, name: "Java: connection killed", held: "integration/clients.TestJavaCases"},
	{number: 349, name: "Java: expired while cut off", held: "integration/clients.TestJavaCases"},
	{number: 350, name: "Java: write while cut off", held: "integration/clients.TestJavaCases"},
	{number: 351, name: "Java: watches over a restart", held: "integration/clients.TestJavaCases"},
	{number: 352, name: "Java: chroot", held: "integration/clients.TestJavaCases"},
	{number: 353, name: "Java: chroot to nothing", held: "integration/clients.TestJavaCases"},
	{number: 354, name: "Java: unknown scheme", held: "integration/clients.TestJavaCases"},
	{number: 355, name: "Java: xids wrap", held: "integration/clients.TestJavaCases"},
	{number: 356, name: "go-zookeeper: states", held: "integration/clients.TestGoStates"},
	{number: 357, name: "go-zookeeper: another server", held: "integration/clients.TestGoServerReplaced"},
	{number: 358, name: "go-zookeeper: multi", held: "integration/clients.TestGoMulti"},
	{number: 359, name: "go-zookeeper: slow line", held: "integration/clients.TestGoSlowServer"},
	{number: 360, name: "kazoo: started again", held: "integration/clients.TestKazooCases"},
	{number: 361, name: "kazoo: expired", held: "integration/clients.TestKazooCases"},
	{number: 362, name: "kazoo: identities", held: "integration/clients.TestKazooCases"},
	{number: 363, name: "kazoo: transaction", held: "integration/clients.TestKazooCases"},
	{number: 364, name: "Curator: holder expires", held: "integration/clients.TestCuratorHolderExpires"},
}
