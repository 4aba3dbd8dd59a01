package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/crossing"
	"rollcall/jute"
	"rollcall/quorum/disk"
	"rollcall/zkdata"
)

// zooKeepers writes a folder as ZooKeeper would, and returns its path. It has a session with an ephemeral node.
func zooKeepers(t *testing.T, more ...zkdata.Node) string {
	t.Helper()
	s := zkdata.NewState()
	s.Zxid, s.Epoch = 0x3_0000_0005, 3
	s.Sessions[0x0100_0000_0000_0007] = 10_000
	nodes := []zkdata.Node{
		{Path: "/"},
		{Path: "/zookeeper"},
		{Path: "/zookeeper/config"},
		{Path: "/zookeeper/quota"},
		{Path: "/a", Data: []byte("x"), Czxid: 0x3_0000_0001, Mzxid: 0x3_0000_0001, Pzxid: 0x3_0000_0001, Creates: 7},
		{Path: "/a/e", Czxid: 0x3_0000_0005, Mzxid: 0x3_0000_0005, Pzxid: 0x3_0000_0005, Owner: 0x0100_0000_0000_0007},
	}
	for _, n := range append(nodes, more...) {
		if n.ACL == nil {
			n.ACL = jute.OpenACL
		}
		if err := s.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// zooCfg writes the zoo.cfg of a standalone member, with more lines, and returns its path and that of the dataDir.
func zooCfg(t *testing.T, lines ...string) (file, data string) {
	t.Helper()
	dir := t.TempDir()
	file, data = filepath.Join(dir, "zoo.cfg"), filepath.Join(dir, "data")
	text := "dataDir=" + data + "\nclientPort=2181\n" + strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, data
}

// command runs a command line and returns what it printed and its error.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := runCommand(t.Context(), args, nil, &out, &out)
	return out.String(), err
}

// What was imported can be exported, and imported again: it is the same state, with the same digest.
func TestImportThenExport(t *testing.T) {
	digests := map[string]bool{}
	source := zooKeepers(t)
	for range 2 {
		file, _ := zooCfg(t)
		out, err := command(t, "import", "--config", file, source)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_, digest, ok := strings.Cut(out, "has the state with digest ")
		if !ok || !strings.Contains(out, "  6 nodes\n  1 session\n  1 ephemeral node\n") {
			t.Fatal(out)
		}
		digests[digest[:16]] = true
		back := filepath.Join(t.TempDir(), "back")
		out, err = command(t, "export", "--config", file, back)
		if err != nil || !strings.Contains(out, "Wrote 6 nodes and 1 session, up to index ") || strings.Contains(out, "opened in Rollcall") {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := command(t, "import", "--config", file, back); err == nil {
			t.Errorf("the import fills a member that has data:\n%s", out)
		}
		source = back
	}
	if len(digests) != 1 {
		t.Errorf("the digests are %v", digests)
	}
}

// --check writes nothing, and says what would not carry over.
func TestImportCheck(t *testing.T) {
	sasl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("sasl"), ID: []byte("somebody")}}}
	source := zooKeepers(t,
		zkdata.Node{Path: "/sasl", ACL: sasl},
		zkdata.Node{Path: "/brief", Owner: zkdata.TTLOwner(1000)})
	file, data := zooCfg(t)
	out, err := command(t, "import", "--check", "--config", file, source)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"  1 node with a time to live\n", "without extendedTypesEnabled=true", "without SASL", "The state has the digest ", ". Nothing was written.\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nlacks %q", out, want)
		}
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data folder was created")
	}
	out, err = command(t, "import", "--check", source)
	if err != nil || strings.Contains(out, "without") {
		t.Errorf("without a zoo.cfg: %v\n%s", err, out)
	}
}

// A state that cannot carry over leaves the member empty, and the exit status says so.
func TestImportRefuses(t *testing.T) {
	host := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("host"), ID: []byte("example.org")}}}
	source := zooKeepers(t, zkdata.Node{Path: "/host", ACL: host})
	file, data := zooCfg(t)
	for _, args := range [][]string{{"--check"}, {}} {
		out, err := command(t, append([]string{"import", "--config", file, source}, args...)...)
		if cli.StatusOf(err) != cli.Conflict || !strings.Contains(err.Error(), `the scheme "host"`) || !strings.Contains(out, "Prevents the import:\n") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(data, "rollcall")); err == nil {
		t.Error("the member has a folder")
	}
	for _, tt := range []struct{ args, want string }{
		{"import", "an argument is missing; it takes folders of ZooKeeper's servers"},
		{"import " + source, "--config names no zoo.cfg"},
		{"import --check " + t.TempDir(), "has no snapshot and no log"},
		{"import --check /nowhere", "no such file"},
		{"export " + data, "--config names no zoo.cfg"},
		{"export --config " + file + " " + data, "no data"},
	} {
		if _, err := command(t, strings.Fields(tt.args)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("rollcall %s: %v, want %q", tt.args, err, tt.want)
		}
	}
}

// The folders of a minority may lack what clients were told is done.
func TestImportOfFew(t *testing.T) {
	servers := []string{"initLimit=10", "syncLimit=5", "server.1=127.0.0.1:2888:3888", "server.2=127.0.0.1:2889:3889", "server.3=127.0.0.1:2890:3890"}
	file, _ := zooCfg(t, servers...)
	source := zooKeepers(t)
	if _, err := command(t, "import", "--check", "--myid", "1", "--config", file, source); cli.StatusOf(err) != cli.WrongUse || !strings.Contains(err.Error(), "1 of 3 servers are given") {
		t.Errorf("one of three: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(source, link); err != nil {
		t.Fatal(err)
	}
	for _, again := range []string{source, source + "/.", link} {
		_, err := command(t, "import", "--check", "--myid", "1", "--config", file, source, again)
		if want := source + " and " + again + " are the same folder"; cli.StatusOf(err) != cli.WrongUse || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, args := range [][]string{{source, zooKeepers(t)}, {"--few", source}} {
		if out, err := command(t, append([]string{"import", "--check", "--myid", "1", "--config", file}, args...)...); err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
}

// A folder without logs is taken only if that is meant: a dataLogDir may have been forgotten.
func TestImportWithoutLogs(t *testing.T) {
	source := zooKeepers(t)
	logs, err := filepath.Glob(filepath.Join(source, "version-2", "log.*"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("%q, %v", logs, err)
	}
	if err := os.Remove(logs[0]); err != nil {
		t.Fatal(err)
	}
	file, _ := zooCfg(t)
	apart, _ := zooCfg(t, "dataLogDir="+t.TempDir())
	for _, tt := range []struct{ file, want string }{{file, "there is a snapshot, but no log beside it"}, {apart, apart + " has a dataLogDir, and no server's is given: name it after a comma, as in " + source + ",LOGS"}} {
		if _, err := command(t, "import", "--config", tt.file, source); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
		if out, err := command(t, "import", "--check", "--no-logs", "--config", tt.file, source); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// The texts name everything that is special.
func TestImportTexts(t *testing.T) {
	report := &zkdata.Report{
		Folder: zkdata.Folder{Data: "/d", Logs: "/l"}, Transactions: 1, Logs: []string{"a", "b"}, Why: "it is the best", Notes: []string{"odd"}, Losses: []string{"one"},
	}
	if got, want := reportText(report), "Read /d and /l: an empty tree and 1 transaction after it in 2 logs; 0 digests compared.\n  chosen: it is the best\n  note: odd\n  lost: one\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got := exportText(disk.Extent{Index: 9, Term: 4}, crossing.Losses{Nodes: 2, Sessions: 3, Born: 1, BornEphemerals: 2, Ended: 1, TTLs: 2}, "/out")
	want := `Wrote 2 nodes and 3 sessions, up to index 9 of term 4, into /out.
1 session opened in Rollcall, and 2 ephemeral nodes of theirs, will end: their clients get new sessions.
2 nodes with a time to live: ZooKeeper needs extendedTypesEnabled=true, or it removes them when it starts.
1 node of sessions that have ended were left out.
Copy the folder to each server's dataDir, add the server's myid, and start ZooKeeper.
`
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	i := importing{file: "zoo.cfg", cfg: config.Config{}}
	i.cfg.Rules.DataQuota = 10
	plan := &crossing.Plan{Findings: crossing.Findings{Bytes: 11, X509: 1}}
	if advice := strings.Join(i.advice(plan), "\n"); !strings.Contains(advice, "dataQuota is smaller") || !strings.Contains(advice, "without TLS for clients") || strings.Contains(advice, "SASL") {
		t.Error(advice)
	}
}
