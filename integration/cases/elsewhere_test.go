package cases

const adminServer = "the AdminServer"

// operators is what is left of group S: what operators ask.
var operators = []row{
	{number: 343, name: "half-close", held: "server.TestWordAnswers"},
	{number: 344, name: "ruok by HTTP", later: adminServer},
	{number: 345, name: "unknown command by HTTP", later: adminServer},
	{number: 346, name: "mntr by HTTP", later: adminServer},
	{number: 347, name: "two server lines, no myid", held: "cmd/rollcall.TestLoadCases"},
}

// scenarios is group T: whole clients, run as such.
var scenarios = []row{}
