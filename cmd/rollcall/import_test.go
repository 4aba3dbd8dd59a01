package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/migrate"
	"rollcall/migrate/datadir"
	"rollcall/zk/jute"
)

// zooKeepers writes a directory as ZooKeeper would, and returns its path. It has a session with an ephemeral node.
func zooKeepers(t *testing.T, more ...datadir.Node) string {
	t.Helper()
	s := datadir.NewState()
	s.Zxid, s.Epoch = 0x3_0000_0005, 3
	s.Sessions[0x0100_0000_0000_0007] = 10_000
	nodes := []datadir.Node{
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
	text := "dataDir=" + data + "\nclientPort=0\n" + strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, data
}

// command runs a command line and returns its output and its error.
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

// A backup can be exported, without a member. What ZooKeeper would read is the state in the backup.
func TestExportOfBackup(t *testing.T) {
	dir := t.TempDir()
	file := writeBackup(t, dir)
	back := filepath.Join(dir, "back")
	out, err := command(t, "export", "--backup", file, "-o", "json", back)
	if err != nil || !strings.Contains(out, `"nodes": 6`) || !strings.Contains(out, `"born": 1`) || !strings.Contains(out, `"confirmed": false`) {
		t.Fatalf("%v\n%s", err, out)
	}
	fitsSchema(t, "export", out)
	sure := t.TempDir()
	if out, err := command(t, "export", "--backup", writeBackupAs(t, sure, true), "-o", "json", filepath.Join(sure, "back")); err != nil || !strings.Contains(out, `"confirmed": true`) {
		t.Errorf("of a confirmed backup: %v\n%s", err, out)
	}
	state, _, err := datadir.Read([]datadir.Directory{{Data: back}}, datadir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := state.Get("/app"); n == nil || string(n.Data) != "of before" || n.Mzxid != 5<<32+6 || n.Version != 3 || len(state.Sessions) != 1 {
		t.Errorf("%+v, sessions %v", n, state.Sessions)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.backup")
	if err := os.WriteFile(cut, whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{other}, "--config names no zoo.cfg of the member, and --backup no backup"},
		{[]string{"--backup", file, "--config", "zoo.cfg", other}, "give one of them"},
		{[]string{"--backup", "none.backup", other}, "none.backup"},
		{[]string{"--backup", cut, other}, cut + ": the backup is damaged: it is cut short at byte"},
		{[]string{"--backup", file, back}, back},
	} {
		if out, err := command(t, append([]string{"export"}, tt.args...)...); err == nil || !strings.HasPrefix(err.Error(), "export: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v\n%s", tt.args, err, out)
		}
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("an export that failed has written something")
	}
}

// An import prints one JSON object of its schema, even if it is rejected.
func TestImportAsJSON(t *testing.T) {
	file, data := zooCfg(t)
	good, strange := zooKeepers(t), []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("plugin"), ID: []byte("x")}}}
	bad := zooKeepers(t, datadir.Node{Path: "/strange", ACL: strange})
	for _, tt := range []struct {
		args   []string
		want   []string
		status cli.Status
	}{
		{[]string{"--check", good}, []string{`"member": 0`, `"nodes": 6`, `"refused": []`}, cli.OK},
		{[]string{"--check", bad}, []string{`"digest": ""`, `"1 nodes, such as`}, cli.Conflict},
		{[]string{"--config", file, good}, []string{`"member": 1`, `"data": "` + data + `"`, `"transactions": 0`}, cli.OK},
	} {
		var out, errs strings.Builder
		err := runCommand(t.Context(), append([]string{"import", "-o", "json"}, tt.args...), nil, &out, &errs)
		if cli.StatusOf(err) != tt.status {
			t.Errorf("%q: %v\n%s", tt.args, err, errs.String())
		}
		fitsSchema(t, "import", out.String())
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q printed %s, want %s", tt.args, out.String(), want)
			}
		}
	}
}

// --check writes nothing, and lists the losses.
func TestImportCheck(t *testing.T) {
	sasl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("sasl"), ID: []byte("somebody")}}}
	source := zooKeepers(t,
		datadir.Node{Path: "/sasl", ACL: sasl},
		datadir.Node{Path: "/brief", Owner: datadir.TTLOwner(1000)})
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
		t.Error("the data directory was created")
	}
	out, err = command(t, "import", "--check", source)
	if err != nil || strings.Contains(out, "without") {
		t.Errorf("without a zoo.cfg: %v\n%s", err, out)
	}
}

// A state that cannot carry over leaves the member empty, and the exit status says so.
func TestImportRefuses(t *testing.T) {
	host := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("host"), ID: []byte("example.org")}}}
	source := zooKeepers(t, datadir.Node{Path: "/host", ACL: host})
	file, data := zooCfg(t)
	for _, args := range [][]string{{"--check"}, {}} {
		out, err := command(t, append([]string{"import", "--config", file, source}, args...)...)
		if cli.StatusOf(err) != cli.Conflict || !strings.Contains(err.Error(), `the scheme "host"`) || !strings.Contains(out, "Prevents the import:\n") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(data, "rollcall")); err == nil {
		t.Error("the member has a directory")
	}
	for _, tt := range []struct{ args, want string }{
		{"import", "an argument is missing; it takes directories of ZooKeeper's servers"},
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

// The directories of a minority may lack acknowledged writes.
func TestImportOfFew(t *testing.T) {
	servers := []string{"initLimit=10", "syncLimit=5", "server.1=127.0.0.1:2888:3888", "server.2=127.0.0.1:2889:3889", "server.3=127.0.0.1:2890:3890"}
	file, _ := zooCfg(t, servers...)
	source := zooKeepers(t)
	if _, err := command(t, "import", "--check", "--myid", "1", "--config", file, source); cli.StatusOf(err) != cli.UsageError || !strings.Contains(err.Error(), "1 of 3 servers that vote are given") {
		t.Errorf("one of three: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(source, link); err != nil {
		t.Fatal(err)
	}
	for _, again := range []string{source, source + "/.", link} {
		_, err := command(t, "import", "--check", "--myid", "1", "--config", file, source, again)
		if want := source + " and " + again + " are the same directory"; cli.StatusOf(err) != cli.UsageError || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, args := range [][]string{{source, zooKeepers(t)}, {"--few", source}} {
		if out, err := command(t, append([]string{"import", "--check", "--myid", "1", "--config", file}, args...)...); err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
}

// An observer's directory is not one of the majority. A directory without its id may be an observer's.
func TestImportCountsVoters(t *testing.T) {
	lines := []string{"initLimit=10", "syncLimit=5"}
	for id := 1; id <= 5; id++ {
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d%s", id, 2887+id, 3887+id, map[bool]string{true: ":observer"}[id > 3]))
	}
	file, _ := zooCfg(t, lines...)
	for _, tt := range []struct {
		ids  []string // of the directories; "": the directory has none
		want string
	}{
		{[]string{"1", "2"}, ""},
		{[]string{"1", "4", "5"}, "1 of 3 servers that vote are given"},
		{[]string{"", "", ""}, "1 of 3 servers that vote are given"},
		{[]string{"", "", "4"}, "1 of 3 servers that vote are given"},
		{[]string{"", "", "4", "5"}, ""},
		{[]string{"", "", "", ""}, ""},
		{[]string{"1", "0", "4"}, "1 of 3 servers that vote are given"}, // 0 may be 5 by now
		{[]string{"1", "0", "4", "5"}, ""},
	} {
		args := []string{"import", "--check", "--myid", "1", "--config", file}
		for _, id := range tt.ids {
			dir := zooKeepers(t)
			if id != "" {
				if err := os.WriteFile(filepath.Join(dir, "myid"), []byte(id+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args = append(args, dir)
		}
		if out, err := command(t, args...); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("directories of %q: %v, want %q\n%s", tt.ids, err, tt.want, out)
		}
	}
}

// A directory without logs is taken only if that is meant: a dataLogDir may have been forgotten.
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
	for _, tt := range []struct{ file, want string }{{file, "there is a snapshot, but no log beside it"}, {apart, apart + " has a dataLogDir, and that of " + source + " is not given: name it after a comma, as in " + source + ",LOGS"}} {
		if _, err := command(t, "import", "--config", tt.file, source); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
		if out, err := command(t, "import", "--check", "--no-logs", "--config", tt.file, source); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// If zoo.cfg has a dataLogDir, an import requires each server's. One server's does not stand for the others'.
func TestImportAsksForEachLogDirectory(t *testing.T) {
	file, _ := zooCfg(t, "dataLogDir="+t.TempDir(), "initLimit=10", "syncLimit=5", "server.1=127.0.0.1:2888:3888", "server.2=127.0.0.1:2889:3889", "server.3=127.0.0.1:2890:3890")
	first, second := zooKeepers(t), zooKeepers(t)
	check := []string{"import", "--check", "--myid", "1", "--config", file}
	_, err := command(t, append(check, first+","+first, second)...)
	if want := file + " has a dataLogDir, and that of " + second + " is not given"; cli.StatusOf(err) != cli.UsageError || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if out, err := command(t, append(check, first+","+first, second+","+second)...); err != nil {
		t.Errorf("with all: %v\n%s", err, out)
	}
}

// The sed of docs/moving-in.md keeps a dataLogDir apart from the dataDir, by which an import asks for the logs.
func TestMovingInKeepsTheLogDirectory(t *testing.T) {
	page, err := os.ReadFile("../../docs/moving-in.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "    $ sed ")
	line, _, ok := strings.Cut(rest, " /etc/zookeeper/conf/zoo.cfg >")
	if !ok {
		t.Fatal("the page has no such sed")
	}
	cmd := exec.Command("sh", "-c", "sed "+line)
	cmd.Stdin = strings.NewReader("dataDir=/srv/zk\n dataLogDir = /srv/logs\nclientPort=2181\n")
	out, err := cmd.CombinedOutput()
	if want := "dataDir=/var/lib/rollcall\ndataLogDir=/var/lib/rollcall/log\nclientPort=2181\n"; err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// An import is rejected while something listens where ZooKeeper would, or while its process runs. A check is
// not, and a flag allows it.
func TestImportWhileZooKeeperRuns(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	taken := listener.Addr().String()
	_, port, _ := net.SplitHostPort(taken)
	source := zooKeepers(t)
	for _, line := range []string{
		"clientPort=" + port + "\nclientPortAddress=127.0.0.1",
		"server.1=127.0.0.1:1:" + port + "\nserver.2=127.0.0.1:2:3\nserver.3=127.0.0.1:4:5\ninitLimit=10\nsyncLimit=5",
	} {
		file, data := zooCfg(t, line)
		args := []string{"import", "--few", "--myid", "1", "--config", file, source}
		_, err := command(t, args...)
		if err == nil || cli.StatusOf(err) != cli.Conflict || !strings.Contains(err.Error(), "something takes connections at "+taken) || !strings.Contains(err.Error(), "--although-running imports") {
			t.Errorf("%s: %v", line, err)
		}
		if _, err := os.Stat(data); err == nil {
			t.Error("the data directory was created")
		}
		if out, err := command(t, append(args, "--check")...); err != nil {
			t.Errorf("%s: check: %v\n%s", line, err, out)
		}
		if out, err := command(t, append(args, "--although-running")...); err != nil || !strings.Contains(out, "has the state with digest") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

// The file that zkServer.sh writes counts only if the process is alive and is ZooKeeper's.
func TestProcessOf(t *testing.T) {
	dir := t.TempDir()
	machine := fstest.MapFS{
		"proc/17/cmdline": {Data: []byte("java\x00org.apache.zookeeper.server.quorum.QuorumPeerMain\x00")},
		"proc/18/cmdline": {Data: []byte("nginx\x00")},
	}
	if sign := zooKeeperProcess(dir, machine); sign != "" {
		t.Errorf("without a file: %s", sign)
	}
	for text, runs := range map[string]bool{"17": true, "17\n": true, "18\n": false, "19\n": false, "-1": false, "": false, "17 18": false} {
		if err := os.WriteFile(filepath.Join(dir, pidFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if sign := zooKeeperProcess(dir, machine); (sign != "") != runs || runs && !strings.Contains(sign, "names process 17") {
			t.Errorf("%q: %q", text, sign)
		}
	}
}

// A directory that is to be made in one that does not exist leaves a warning with its key.
func TestWarnOfNewPlace(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		data, logs string
		want       []string
	}{
		{dir, "", nil},
		{filepath.Join(dir, "new"), "", nil},
		{filepath.Join(dir, "new", "data"), "", []string{"key=dataDir"}},
		{dir, filepath.Join(dir, "new", "log") + "/", []string{"key=dataLogDir"}},
	} {
		var log bytes.Buffer
		warnMissingParent(config.Config{Settings: config.Settings{Dir: tt.data, LogDir: tt.logs}}, slog.New(slog.NewTextHandler(&log, nil)))
		if n := strings.Count(log.String(), "level=WARN"); n != len(tt.want) || n > 0 && !strings.Contains(log.String(), tt.want[0]) {
			t.Errorf("%+v: %s", tt, &log)
		}
	}
	file, data := zooCfg(t, "dataLogDir="+filepath.Join(dir, "missing", "log"))
	out, err := command(t, "import", "--no-logs", "--config", file, zooKeepers(t))
	if err != nil || !strings.Contains(out, "the directory above a data directory is missing") || !strings.Contains(out, "key=dataLogDir") {
		t.Errorf("%s: %v\n%s", data, err, out)
	}
}

// The texts name everything that is special.
func TestImportTexts(t *testing.T) {
	report := &datadir.Report{
		Directory: datadir.Directory{Data: "/d", Logs: "/l"}, Transactions: 1, Logs: []string{"a", "b"}, ChoiceReason: "it is the best", Notes: []string{"odd"}, Losses: []string{"one"},
	}
	if got, want := reportText(report), "Read /d and /l: an empty tree and 1 transaction after it in 2 logs; 0 digests compared.\n  chosen: it is the best\n  note: odd\n  lost: one\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got := exportText(cli.ExportResult{Into: "/out", Index: 9, Term: 4, Nodes: 2, Sessions: 3, RollcallSessions: 1, RollcallEphemerals: 2, OrphanNodes: 1, TTLs: 2, UsedUpParents: 2, UsedUpParent: "/q"})
	want := `Wrote 2 nodes and 3 sessions, up to index 9 of term 4, into /out.
No leader had confirmed the backup: the last writes may be missing.
1 session opened in Rollcall, and 2 ephemeral nodes of theirs, will end: their clients get new sessions.
2 nodes with a time to live: ZooKeeper needs extendedTypesEnabled=true, or it removes them when it starts.
1 node of sessions that have ended were left out.
2 parents with longer sequential names (the first is /q): the numbers of ZooKeeper end at 2147483647. ZooKeeper gives that number again, or the create fails. Let clients use other parents.
Copy the directory to each server's dataDir, add the server's myid, and start ZooKeeper.
`
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	i := importer{configFile: "zoo.cfg", cfg: config.Config{}}
	i.cfg.Rules.DataQuota = 10
	plan := &migrate.ImportPlan{Findings: migrate.Findings{Bytes: 11, X509: 1}}
	if advice := strings.Join(i.configAdvice(plan), "\n"); !strings.Contains(advice, "dataQuota is smaller") || !strings.Contains(advice, "without TLS for clients") || strings.Contains(advice, "SASL") {
		t.Error(advice)
	}
}
