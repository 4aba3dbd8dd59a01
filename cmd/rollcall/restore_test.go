package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/cli"
	"rollcall/client"
	"rollcall/operator/archive"
	"rollcall/operator/archive/archivetest"
	"rollcall/operator/backup"
	"rollcall/operator/logs/logtest"
	"rollcall/operator/past/pasttest"
	"rollcall/quorum/disk"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const restoredSession = 7<<56 + 1

// writeBackup writes a backup of a session, its ephemeral node and a plain one, and returns its name.
func writeBackup(t *testing.T, dir string) string {
	t.Helper()
	return writeBackupAs(t, dir, false)
}

// writeBackupAs is writeBackup for a backup that a leader has confirmed, or not.
func writeBackupAs(t *testing.T, dir string, confirmed bool) string {
	t.Helper()
	nodes := []znode.ImageNode{
		{Path: "/"},
		{Path: "/app", Data: []byte("of before"), Czxid: 4, Mzxid: 5<<32 + 6, Version: 3, CreateCount: 2},
		{Path: "/lock", OwnerSession: restoredSession},
		{Path: "/zookeeper"},
		{Path: "/zookeeper/config"},
		{Path: "/zookeeper/quota"},
	}
	h := znode.ImageHead{
		Index: 20, Zxid: 5<<32 + 9, Term: znode.Term{Term: 5, Leader: 7}, SessionCount: 1, NodeCount: uint64(len(nodes)),
		Members: []znode.MemberProgress{{ID: 7, Incarnation: 8, Format: znode.FormatLevel, HighestSession: restoredSession}},
	}
	write := func(w io.Writer) (digest uint64) {
		iw, err := znode.NewImageWriter(w, h)
		if err == nil {
			err = iw.WriteSession(znode.Session{ID: restoredSession, Timeout: 20 * time.Second, Password: [16]byte{1}})
		}
		for _, n := range nodes {
			n.ACL = jute.OpenACL
			err = errors.Join(err, iw.WriteNode(n))
		}
		digest, cerr := iw.Close()
		if err = errors.Join(err, cerr); err != nil {
			t.Fatal(err)
		}
		return digest
	}
	name := filepath.Join(dir, "ensemble.backup")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := backup.NewWriter(f, backup.Head{Confirmed: confirmed, Index: h.Index, Term: 5, Zxid: h.Zxid, Nodes: len(nodes), Sessions: 1, Digest: backup.FormatDigest(write(io.Discard))})
	if err != nil {
		t.Fatal(err)
	}
	write(w)
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return name
}

// writeConfigs writes the zoo.cfg of each of three members into dir, with ports from base on.
func writeConfigs(t *testing.T, dir string, base int) (files, clients []string) {
	t.Helper()
	servers := ""
	for i := range 3 {
		servers += fmt.Sprintf("server.%d=127.0.0.1:%d:%d\n", i+1, base+3*i, base+3*i+1)
	}
	for i := range 3 {
		data := filepath.Join(dir, fmt.Sprint(i+1))
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, fmt.Sprintf("zoo%d.cfg", i+1))
		text := fmt.Sprintf("dataDir=%s\ntickTime=500\ninitLimit=10\nsyncLimit=5\nclientPortAddress=127.0.0.1\nclientPort=%d\nadmin.enableServer=false\n%s", data, base+3*i+2, servers)
		for name, text := range map[string]string{file: text, filepath.Join(data, "myid"): fmt.Sprint(i + 1)} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		files, clients = append(files, file), append(clients, fmt.Sprintf("127.0.0.1:%d", base+3*i+2))
	}
	return files, clients
}

// restoreCommand runs the command and returns its output.
func restoreCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := runCommand(t.Context(), append([]string{"backup", "restore"}, args...), nil, &out, io.Discard)
	return out.String(), err
}

// serveAll runs members until the test ends. It returns false if a port is taken.
func serveAll(t *testing.T, files []string, log io.Writer) bool {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, len(files))
	var starts logtest.Buffer
	log = io.MultiWriter(log, &starts)
	for _, file := range files {
		go func() { ended <- runCommand(ctx, []string{"serve", file}, nil, log, log) }()
	}
	for strings.Count(starts.String(), `msg="member starts"`) < len(files) { // a member that starts has opened its ports
		select {
		case err := <-ended:
			stop()
			for range len(files) - 1 {
				err = errors.Join(err, <-ended)
			}
			if !errors.Is(err, syscall.EADDRINUSE) {
				t.Fatal(err)
			}
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Cleanup(func() {
		stop()
		for range files {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return true
}

// runRestoring runs the commands of docs/restoring.md in dir, except those that start members. It returns what they
// print.
func runRestoring(t *testing.T, dir string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/restoring.md")
	if err != nil {
		t.Fatal(err)
	}
	back, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	defer t.Chdir(back) // for the page, and a second try
	var out strings.Builder
	ran := 0
	for _, m := range regexp.MustCompile(`(?m)^        rollcall (.*)$`).FindAllStringSubmatch(string(page), -1) {
		if args := strings.Fields(m[1]); args[0] != "serve" {
			ran++
			if err := runCommand(t.Context(), args, nil, &out, io.Discard); err != nil {
				t.Fatalf("rollcall %s: %v", m[1], err)
			}
		}
	}
	if ran < 2 {
		t.Errorf("%d commands of the page were run", ran)
	}
	return out.String()
}

// A backup begins a new ensemble, whose members start at once. A client resumes its session, or finds that it has
// ended, as the flag says. It sees the node that the backup has, and new zxids are above those of the backup.
func TestRestoreBeginsAnEnsemble(t *testing.T) {
	for _, keep := range []bool{true, false} {
		var clients []string
		for tries := 0; ; tries++ {
			if tries == 20 {
				t.Fatal("no free ports")
			}
			dir := t.TempDir()
			file := writeBackup(t, dir)
			var configs []string
			configs, clients = writeConfigs(t, dir, 10_000+rand.IntN(18_000))
			args, want := []string{file, configs[0]}, []string{"5 nodes and 0 sessions", "1 sessions are closed"}
			if keep {
				want = []string{"6 nodes and 1 sessions, as of index 20", "The last zxid is 0x500000009. New ones begin above 0x1000500000000.", "Member 1 has it in ", "Start all 3 members now. The others start with empty directories"}
			} else {
				args = append([]string{"--sessions", "close"}, args...)
			}
			var out string
			var err error
			start := "rollcall serve " + configs[0]
			if keep {
				out, start = runRestoring(t, dir), "rollcall serve zoo1.cfg"
			} else if out, err = restoreCommand(t, args...); err != nil {
				t.Fatal(err)
			}
			for _, text := range append(want, "Start this one with: "+start) {
				if !strings.Contains(out, text) {
					t.Errorf("prints %q, want %q", out, text)
				}
			}
			if _, err := restoreCommand(t, args...); !errors.Is(err, disk.ErrHasData) {
				t.Errorf("a second time: %v", err)
			}
			if serveAll(t, configs, io.Discard) {
				break
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var cfg client.Config
		if keep {
			cfg.Resume = &client.Handover{Session: restoredSession, Password: append([]byte{1}, make([]byte, 15)...), LastZxid: 5<<32 + 9}
		}
		c, err := client.Dial(ctx, strings.Join(clients, ","), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Abandon)
		if id, _ := c.Session(); (id == restoredSession) != keep {
			t.Errorf("session %v", id)
		}
		data, st, err := c.Get(ctx, "/app")
		if err != nil || string(data) != "of before" || st.Version != 3 || st.Changed != 5<<32+6 {
			t.Errorf("%q, %+v, %v", data, st, err)
		}
		if st, exists, err := c.Exists(ctx, "/lock"); err != nil || exists != keep || keep && st.Owner != restoredSession {
			t.Errorf("/lock: %+v, %v", st, err)
		}
		path, _, err := c.Create(ctx, "/app/n-", nil, client.PersistentSequential)
		if err != nil || path != "/app/n-0000000002" {
			t.Errorf("%q, %v", path, err)
		}
		if st, _, err := c.Exists(ctx, path); err != nil || st.Created < (5+1<<16)<<32 {
			t.Errorf("%+v, %v", st, err)
		}
		restoreIntoEnsemble(t, c, clients)
	}
}

// restoreIntoEnsemble writes a node of the backup, which a client has changed, back into the ensemble that serves c.
func restoreIntoEnsemble(t *testing.T, c *client.Client, clients []string) {
	t.Helper()
	if _, err := c.Set(t.Context(), "/app", []byte("of today"), -1); err != nil {
		t.Fatal(err)
	}
	out, err := restoreCommand(t, "--subtree", "/app", "--yes", "--hosts", strings.Join(clients, ","), writeBackup(t, t.TempDir()))
	if err := c.Sync(t.Context()); err != nil { // the member of c may not have applied it yet
		t.Fatal(err)
	}
	if data, st, gerr := c.Get(t.Context(), "/app"); err != nil || gerr != nil || string(data) != "of before" || st.Version != 5 {
		t.Errorf("%s, %v: the node has %q, %+v, %v", out, err, data, st, gerr)
	}
}

// Restore names what is wrong, and then fills nothing.
func TestRestoreRefuses(t *testing.T) {
	dir := t.TempDir()
	file := writeBackup(t, dir)
	configs, _ := writeConfigs(t, t.TempDir(), 20_000)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.backup")
	if err := os.WriteFile(cut, whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{file}, "--subtree restores into an ensemble that runs"},
		{[]string{"--subtree", "/app", file, configs[0]}, "--hosts names the ensemble"},
		{[]string{"--subtree", "/app", "--sessions", "keep", file}, "--subtree restores no sessions"},
		{[]string{"--yes", file, configs[0]}, "--yes is for --subtree"},
		{[]string{"--sessions", "drop", file, configs[0]}, "must be keep or close"},
		{[]string{file, configs[0], configs[1]}, "the zoo.cfg of one member; the others start with empty directories and copy it"},
		{[]string{file, filepath.Join(dir, "none.cfg")}, "none.cfg"},
		{[]string{filepath.Join(dir, "none.backup"), configs[0]}, "none.backup"},
		{[]string{cut, configs[0]}, "cut short at byte"},
		{[]string{"--sessions", "close", cut, configs[0]}, "cut short at byte"},
	} {
		if _, err := restoreCommand(t, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.want)
		}
	}
	if out, err := restoreCommand(t, "-o", "json", file, configs[2]); err != nil || !strings.Contains(out, `"member": 3`) && !strings.Contains(out, `"member":3`) {
		t.Errorf("%q, %v", out, err)
	}
}

// After a restore or an import that failed in the middle, serve refuses the directories and names the command
// to run again.
func TestServeRefusesWhatIsIncomplete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "the operator's")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file, source := writeBackup(t, dir), zooKeepers(t)
	for _, tt := range []struct {
		args []string // before the zoo.cfg
		want string   // the command, before the zoo.cfg
	}{
		{[]string{"backup", "restore", "--sessions", "close", file}, "rollcall backup restore --sessions=close '" + strings.ReplaceAll(file, "'", `'\''`) + "' "},
		{[]string{"import", "--no-logs", source, "--config"}, "rollcall import --config="},
	} {
		logs := t.TempDir()
		zoo, data := zooCfg(t, "dataLogDir="+logs)
		release := lockLogs(t, logs)
		args := append(tt.args, zoo)
		if _, err := command(t, args...); !errors.Is(err, disk.ErrInUse) || !strings.Contains(err.Error(), "run the command again: "+tt.want+zoo) {
			t.Errorf("%q: %v", args, err)
		}
		release()
		if _, err := command(t, "serve", zoo); !errors.Is(err, disk.ErrIncomplete) || !strings.Contains(err.Error(), "run the command that fills it again: "+tt.want+zoo) || !strings.Contains(err.Error(), filepath.Join(data, "rollcall")) {
			t.Errorf("%q, and then serve: %v", args, err)
		}
		if out, err := command(t, args...); err != nil {
			t.Errorf("%q again: %v\n%s", args, err, out)
		}
	}
}

// lockLogs locks the log directory of a member that has none yet, as another process would, until release.
func lockLogs(t *testing.T, dir string) (release func()) {
	t.Helper()
	own := filepath.Join(dir, "rollcall")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(own, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { _ = lock.Close() }
}

// A moment of an archive begins a new ensemble with the same state as a backup of that moment, which has the digest that members had.
// Without --at it is the newest one.
func TestRestoreMoment(t *testing.T) {
	e := pasttest.New(t, time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC).UnixMilli())
	c := e.Connect("10.0.0.7:1")
	digests := map[string]uint64{}
	c.Create("/app", "", 0)
	for i := range 4 {
		digests[fmt.Sprintf("--at=0x%x", c.Set("/app", fmt.Sprint("value ", i)))] = e.State.Digest()
	}
	digests["--at=0s"] = e.State.Digest() // the newest one
	archived := t.TempDir()
	archivetest.Fill(t, archive.NewDirectory(archived), e)
	restored := map[string]bool{}
	for at, digest := range digests {
		dir := t.TempDir()
		saved := filepath.Join(dir, "saved.backup")
		if err := runCommand(t.Context(), []string{"backup", "save", "--archive", archived, at, saved}, nil, io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(saved)
		if err != nil {
			t.Fatal(err)
		}
		if h, _, err := backup.Verify(f); err != nil || h.Digest != backup.FormatDigest(digest) || f.Close() != nil {
			t.Errorf("%s: %+v, %v; want digest %016x", at, h, err, digest)
		}
		files, _ := writeConfigs(t, dir, 20000)
		var done [2]cli.RestoreResult
		for i, args := range [][]string{{"--archive", archived, at, files[0]}, {saved, files[1]}} {
			out, err := restoreCommand(t, append([]string{"-o", "json"}, args...)...)
			if jerr := json.Unmarshal([]byte(out), &done[i]); err != nil || jerr != nil {
				t.Fatalf("%s: %v, %v, %s", args, err, jerr, out)
			}
		}
		if done[0].Digest != done[1].Digest || done[0].Zxid != done[1].Zxid || !strings.Contains(done[0].File, "the state after zxid") {
			t.Errorf("%s: from the archive %+v, from the backup %+v", at, done[0], done[1])
		}
		restored[done[0].Digest] = true
	}
	if len(restored) != 4 {
		t.Errorf("%d states, want 4", len(restored))
	}
	for _, tt := range []struct{ args, want string }{
		{"--at 0x100000002 zoo.cfg", "--at needs --archive or --dir"},
		{"--archive " + archived + " file zoo.cfg", "zoo.cfg of one member"},
		{"--archive " + archived + " --subtree /app file", "flags only with --subtree and --archive"},
	} {
		if _, err := restoreCommand(t, strings.Fields(tt.args)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
		}
	}
}
