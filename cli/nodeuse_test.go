package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/logs/logtest"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

// liveOutput is an output that a test can wait for.
type liveOutput struct {
	logtest.Buffer
	more chan struct{} // has room for one
}

func newLiveOutput() *liveOutput { return &liveOutput{more: make(chan struct{}, 1)} }

func (l *liveOutput) Write(p []byte) (int, error) {
	n, err := l.Buffer.Write(p)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return n, err
}

// wait waits until so many lines have been printed.
func (l *liveOutput) wait(t *testing.T, lines int) {
	t.Helper()
	deadline := time.After(time.Minute)
	for strings.Count(l.String(), "\n") < lines {
		select {
		case <-l.more:
		case <-deadline:
			t.Fatalf("printed %q in a minute, want %d lines", l.String(), lines)
		}
	}
}

// start runs a command in the background. end stops it, as Ctrl-C does, and returns its error.
func start(t *testing.T, w IOStreams, args ...string) (end func() error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runArgs(ctx, w, args...) }()
	return func() error {
		stop()
		return <-ended
	}
}

// connectionCloser passes connections on to the shared member, and can cut them.
type connectionCloser struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func newConnectionCloser(t *testing.T) *connectionCloser {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &connectionCloser{Listener: l}
	t.Cleanup(func() {
		c.Close()
		c.closeAll()
	})
	go func() {
		for {
			in, err := c.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", memberAddr)
			if err != nil {
				in.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, in, out)
			c.mu.Unlock()
			go func() { _, _ = io.Copy(in, out) }()
			go func() { _, _ = io.Copy(out, in) }()
		}
	}()
	return c
}

func (c *connectionCloser) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// rollcall watch prints events at once, in order, with their time, until Ctrl-C or for so many events. It
// goes on when its connection breaks, and says so.
func TestWatch(t *testing.T) {
	w, s := nodeWorld(t)
	through := newConnectionCloser(t)
	w.Env = []string{"ROLLCALL_HOSTS=" + through.Addr().String() + s.Root}
	out, errs := newLiveOutput(), newLiveOutput()
	w.Out, w.Err = out, errs
	w.Now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6000000, time.UTC) }
	ended := start(t, w, "watch", "-r", "/a")
	awaitWatch(t, s, "/a")
	create := func(path string) {
		t.Helper()
		if _, _, err := s.Client.Create(t.Context(), s.FullPath(path), nil, client.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	create("/a")
	create("/a/\u202eb")
	create("/ab")
	out.wait(t, 2) // live: the command has not ended
	through.closeAll()
	errs.wait(t, 2)
	create("/a/c")
	out.wait(t, 4)
	if err := ended(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	const at = "2026-01-02T03:04:05.006Z  NodeCreated          "
	twice := at + `/a/\u202eb` + "\n" // the member cannot know that the client has seen the last one
	if want := at + "/a\n" + twice + twice + at + "/a/c\n"; out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out, want)
	}
	if text := errs.String(); !strings.Contains(text, "the connection is lost") || !strings.Contains(text, "connected again; the last event may come again, and events of changes meanwhile may be missing if the server does not keep them") {
		t.Errorf("warned %q", text)
	}
}

// awaitWatch waits until somebody watches a node.
func awaitWatch(t *testing.T, s nodes.Space, path string) {
	t.Helper()
	awaitWatched(t, s, path, true)
}

// awaitWatched waits until somebody watches a node, or nobody does.
func awaitWatched(t *testing.T, s nodes.Space, path string, want bool) {
	t.Helper()
	watched := func() bool {
		state := oneMember.State()
		state.RLock()
		defer state.RUnlock()
		return state.Watches().IsWatched(s.FullPath(path))
	}
	for end := time.Now().Add(time.Minute); watched() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is watched: %t, want %t", path, !want, want)
		}
	}
}

// rollcall watch --count ends after so many events, and its JSON is an array. A node alone has events of its
// data and its list of children.
func TestWatchCount(t *testing.T) {
	w, s := nodeWorld(t)
	if got := mustRun(t, w, "create /a"); got != "/a\n" {
		t.Errorf("created %q", got)
	}
	out := newLiveOutput()
	w.Out = out
	ended := make(chan error, 1)
	go func() { ended <- runArgs(t.Context(), w, "watch", "--count", "3", "-o", "json", "/a") }()
	awaitWatch(t, s, "/a")
	mustRun(t, w, "set /a x")
	mustRun(t, w, "create /a/b")
	mustRun(t, w, "create /a/b/c")
	mustRun(t, w, "rm -r --yes /a/b")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	const want = `[
{"time":"TIME","type":"NodeDataChanged","path":"/a","zxid":"0x…"},
{"time":"TIME","type":"NodeChildrenChanged","path":"/a","zxid":"0x…"},
{"time":"TIME","type":"NodeChildrenChanged","path":"/a","zxid":"0x…"}
]
`
	if got := maskChanging(out.String()); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
	checkSchema(t, "watch", out.String())
}

// The JSON of rollcall watch is as its schema says when Ctrl-C ends it, with events and without any.
func TestWatchJSON(t *testing.T) {
	w, s := nodeWorld(t)
	for _, paths := range [][]string{nil, {"/a"}, {"/a/b", "/a/\u202ec"}} {
		out := newLiveOutput()
		w.Out = out
		ended := start(t, w, "watch", "-r", "-o", "json", "/a")
		awaitWatch(t, s, "/a")
		for _, path := range paths {
			if _, _, err := s.Client.Create(t.Context(), s.FullPath(path), nil, client.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		out.wait(t, len(paths)) // the line of an event ends when the next one begins
		for len(paths) > 0 && !strings.Contains(out.String(), strings.Trim(strconv.QuoteToASCII(paths[len(paths)-1]), `"`)) {
			<-out.more
		}
		if err := ended(); err != nil {
			t.Error(err)
		}
		if checkSchema(t, "watch", out.String()); strings.Count(out.String(), `"zxid":"0x`) != len(paths) {
			t.Errorf("after %q printed %s", paths, out)
		}
		awaitWatched(t, s, "/a", false) // or the next step takes this watch for its own
	}
}

// Ctrl-C before the watch is set leaves an array without events.
func TestWatchStoppedAtOnce(t *testing.T) {
	w, s := nodeWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	out := newLiveOutput()
	c := &nodeWatchCommand{nodeCommand: newNodeCommand(w), eventRows: make(chan eventRow, 1), endReason: make(chan error, 1)}
	c.output.streams.Out, c.output.format = out, "json"
	if err := c.run(ctx, s, []string{"/a"}); err != nil || strings.TrimSpace(out.String()) != "[]" {
		t.Errorf("printed %q, %v", out, err)
	}
}

// A watch ends with an error if its session ends, or if its output does not keep up.
func TestWatchEnds(t *testing.T) {
	c := &nodeWatchCommand{nodeCommand: newNodeCommand(IOStreams{Now: time.Now}), eventRows: make(chan eventRow, 1), endReason: make(chan error, 1)}
	c.onEvent(client.Event{Type: client.NodeCreated, Path: "/a", Zxid: 7})
	c.onEvent(client.Event{Type: client.NodeDeleted, Path: "/a", Zxid: 8})
	c.onState(client.StateChange{State: client.Expired, Err: client.ErrExpired}) // the first error counts
	if err := <-c.endReason; !strings.Contains(err.Error(), "wait to be printed") {
		t.Error(err)
	}
	c.onState(client.StateChange{State: client.Expired, Err: client.ErrExpired})
	if err := <-c.endReason; !errors.Is(err, jute.SessionExpired) {
		t.Error(err)
	}
}

// An ephemeral node of create --hold is there until Ctrl-C, and then gone at once. If its session ends
// before, that is an error.
func TestCreateHold(t *testing.T) {
	w, s := nodeWorld(t)
	out, errs := newLiveOutput(), newLiveOutput()
	w.Out, w.Err = out, errs
	ended := start(t, w, "create", "-e", "-s", "--hold", "/lock-", "me")
	errs.wait(t, 1)
	if _, stat, err := s.Get(t.Context(), "/lock-0000000000"); err != nil || stat.EphemeralOwner == 0 || out.String() != "/lock-0000000000\n" {
		t.Errorf("held: %+v, %v, printed %q", stat, err, out)
	}
	if err := ended(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	if _, err := s.Stat(t.Context(), "/lock-0000000000"); !errors.Is(err, client.ErrNoNode) {
		t.Errorf("after Ctrl-C the node is there: %v", err)
	}

	failed := make(chan error, 1)
	go func() { failed <- runArgs(t.Context(), w, "create", "-e", "--hold", "/lock") }()
	errs.wait(t, 2)
	stat, err := s.Stat(t.Context(), "/lock")
	if err != nil {
		t.Fatal(err)
	}
	if err := oneMember.KillSession(t.Context(), jute.SessionID(stat.EphemeralOwner), "test"); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "the session has ended, and the node with it") {
		t.Errorf("the session was killed: %v", err)
	}
}

// Data go to a pipe byte for byte, and to a terminal without anything that it would obey.
func TestGetBytes(t *testing.T) {
	w, _ := nodeWorld(t)
	const data = "a\x1b[31m\nb\xff\x00\u009b"
	w.In = strings.NewReader(data)
	mustRun(t, w, "create /a -")
	if got := mustRun(t, w, "get /a"); got != data {
		t.Errorf("to a pipe: %q", got)
	}
	if got := mustRun(t, w, "get -o json /a"); !strings.Contains(got, `"data": "YRtbMzFtCmL/AMKb"`) || !strings.Contains(got, `"text": null`) {
		t.Errorf("as JSON: %s", got)
	}
	w.OutTerminal = true
	if got := mustRun(t, w, "get --raw /a"); got != data {
		t.Errorf("raw: %q", got)
	}
	if got := mustRun(t, w, "get /a"); got != `a\x1b[31m`+"\n"+`b\xff\x00\u009b`+"\n" {
		t.Errorf("to a terminal: %q", got)
	}
	w.In = iotestErr{}
	if err := runLine(t, w, "set /a -"); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("an input that fails: %v", err)
	}
	w.In = io.LimitReader(zeros{}, maxData+1)
	if err := runLine(t, w, "set /a -"); StatusOf(err) != UsageError || !strings.Contains(err.Error(), "the input has more than 16777216 bytes") {
		t.Errorf("an input that is too long: %v", err)
	}
	w.In = io.LimitReader(zeros{}, 2<<20)
	if err := runLine(t, w, "set /a -"); StatusOf(err) != UsageError || !strings.Contains(err.Error(), "nothing was sent. If jute.maxbuffer") {
		t.Errorf("data that are too long: %v", err)
	}
	w.In = io.LimitReader(zeros{}, 2<<20)
	if err := runLine(t, w, "set --max-request 3000000 /a -"); StatusOf(err) != Failed || !strings.Contains(err.Error(), "probably reject 2097152 bytes") {
		t.Errorf("data that are too long for the servers: %v", err)
	}
	for _, bytes := range []string{"1023", "67108865", "1m"} {
		if err := runLine(t, w, "set --max-request "+bytes+" /a x"); StatusOf(err) != UsageError || !strings.Contains(err.Error(), "from 1024 to 67108864") {
			t.Errorf("--max-request %s: %v", bytes, err)
		}
	}
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// What others choose as names of nodes cannot steer a terminal, whichever command prints it.
func TestHostileNames(t *testing.T) {
	w, s := nodeWorld(t)
	name := "/\u202eevil\u00a0\u061c"
	for _, path := range []string{name, name + name} {
		if _, _, err := s.Client.Create(t.Context(), s.FullPath(path), []byte("\x1b]0;x\a"), client.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"ls"},
		{"ls", "-l"},
		{"ls", "-o", "json"},
		{"stat", name},
		{"stat", "-o", "yaml", name},
		{"get", "-o", "wide", name},
		{"get", "-o", "json", name},
		{"tree"},
		{"tree", "-o", "yaml"},
		{"du"},
		{"du", "-o", "json"},
		{"dump", name},
		{"rm", "-r", "--dry-run", name},
		{"set", name, "x"},
		{"create", name + "/y"},
		{"rm", name},
		{"get", name + "/none"},
	} {
		out := new(bytes.Buffer)
		w.Out, w.Err = out, out
		err := runArgs(t.Context(), w, args...)
		if err != nil {
			out.WriteString(err.Error())
		}
		if text := strings.ReplaceAll(out.String(), "\n", ""); EscapeUnprintable(text) != text || !strings.Contains(text, `evil\u00a0\u061c`) {
			t.Errorf("%q printed %q", args, out)
		}
	}
}

// On a terminal, rm -r asks first, and says how much it would delete.
func TestRmAsks(t *testing.T) {
	w, s := nodeWorld(t)
	mustRun(t, w, "create -p /a/b/c 12345")
	if _, _, err := s.Client.Create(t.Context(), s.FullPath("/a/lock"), nil, client.Ephemeral); err != nil {
		t.Fatal(err)
	}
	w.InTerminal = true
	for _, tt := range []struct {
		answer string
		done   bool
	}{{"no\n", false}, {"", false}, {"yes\n", true}} {
		errs := new(bytes.Buffer)
		w.In, w.Err = strings.NewReader(tt.answer), errs
		err := runLine(t, w, "rm -r /a")
		if _, gone := s.Stat(t.Context(), "/a"); (err == nil) != tt.done || errors.Is(gone, client.ErrNoNode) != tt.done || !strings.Contains(errs.String(), "Delete /a with 4 nodes, 1 of them ephemeral, and 5 B of data? Type yes") {
			t.Errorf("answer %q: %v, %v, asked %q", tt.answer, err, gone, errs)
		}
	}
}

// dump --out replaces a file only by a whole dump. A dump that lacks nodes is whole, with an error.
func TestDumpFile(t *testing.T) {
	w, s := nodeWorld(t)
	mustRun(t, w, "create /a 1")
	file := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runLine(t, w, "dump --out "+file+" /none"); StatusOf(err) != NotFound {
		t.Errorf("no node: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "old" {
		t.Errorf("after a failure the file is %q, %v", text, err)
	}
	mustRun(t, w, "create --acl digest:x:y:cdrwa /a/b")
	if _, _, err := s.Client.Create(t.Context(), s.FullPath("/a/lock"), nil, client.Ephemeral); err != nil {
		t.Fatal(err)
	}
	errs := new(bytes.Buffer)
	w.Err = errs
	if err := runLine(t, w, "dump --out "+file+" /a"); StatusOf(err) != Denied || !strings.Contains(err.Error(), "dump: /a: the dump lacks parts of 1 node") {
		t.Errorf("a node that may not be read: %v (status %d)", err, StatusOf(err))
	}
	if want := "/a/b: it may not be read"; !strings.Contains(errs.String(), want) || !strings.Contains(errs.String(), "dumped 1 node with 1 B of data; left out 1 ephemeral node") {
		t.Errorf("warned %q", errs)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if sum, err := subtree.CheckDump(f, false, nil); err != nil || sum.Count != 1 || sum.Unread != 1 {
		t.Errorf("the file: %+v, %v", sum, err)
	}
	if rest, err := os.ReadDir(filepath.Dir(file)); err != nil || len(rest) != 1 {
		t.Errorf("files are left: %v, %v", rest, err)
	}
	if err := runLine(t, w, "dump --out "+filepath.Join(file, "x")+" /a"); StatusOf(err) != UsageError || !strings.Contains(err.Error(), "--out:") {
		t.Errorf("a file that cannot be made: %v", err)
	}
	if err := runLine(t, w, "load --replace "+file); err == nil || !strings.Contains(err.Error(), "--merge deletes nothing; nothing was changed") {
		t.Errorf("replace by a dump that lacks nodes: %v", err)
	}
	if err := runLine(t, w, "dump /a/lock"); err == nil || !strings.Contains(err.Error(), "/a/lock is an ephemeral node, which a dump leaves out; --with-ephemerals shows it") {
		t.Errorf("an ephemeral node: %v", err)
	}
}

// ls, tree and du name nodes that may not be read, and end with an error.
func TestUnread(t *testing.T) {
	w, _ := nodeWorld(t)
	mustRun(t, w, "create -p /a/c 1")
	mustRun(t, w, "create --acl digest:x:y:cdrwa /a/b 1")
	for line, want := range map[string]string{
		"ls -o json /a": `"path":"/a/c"`, "tree /a": "└── c  (1 B)\n", "tree -o json /a": `"path":"/a/c"`, "du -o json /a": `"nodes":3`,
	} {
		out, errs := new(bytes.Buffer), new(bytes.Buffer)
		w.Out, w.Err = out, errs
		err := runLine(t, w, line)
		if StatusOf(err) != Denied || !strings.Contains(err.Error(), "1 node may not be read") || !strings.Contains(errs.String(), "/a/b may not be read") || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, warned %q, printed %q", line, err, errs, out)
		}
	}
	for _, line := range []string{"ls /a/b", "ls -l /a/b", "tree /a/b", "du /a/b", "get /a/b", "dump /a/b", "rm -r --yes /a/b"} {
		if err := runLine(t, w, line); StatusOf(err) != Denied || !strings.Contains(err.Error(), ": /a/b: its access control list does not allow it") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// A command that has not logged in where it must says which flag does that.
func TestLoginRequired(t *testing.T) {
	answer := &client.Error{Op: "getChildren", Path: "/a", Err: client.ErrLoginRequired}
	err := explainNodeError("ls", nodes.Space{}, false, answer)
	if StatusOf(err) != Denied || !strings.HasPrefix(err.Error(), "ls: /a: ") || !strings.Contains(err.Error(), "--jaas FILE") {
		t.Errorf("status %d, %v", StatusOf(err), err)
	}
}

// A dump, a load or a removal that is interrupted is a failure, which says how to go on.
func TestInterruptedNodes(t *testing.T) {
	w, _ := nodeWorld(t)
	mustRun(t, w, "create -p /a/b/c 1")
	file := filepath.Join(t.TempDir(), "a.json")
	mustRun(t, w, "dump --out "+file+" /a")
	for _, tt := range []struct{ line, want string }{
		{"dump /a", "interrupted after"},
		{"load --into /x " + file, "interrupted after 0 of 0 nodes; with --merge, the same command does the rest"},
		{"load --replace " + file, "interrupted after 0 of 0 nodes; the same command does the rest"},
		{"rm -r --yes /a", "interrupted after 0 nodes were deleted; the same command deletes the rest"},
	} {
		ctx, stop := context.WithCancel(t.Context())
		n := newNodeCommand(w)
		s, err := n.openSpace(ctx)
		if err != nil {
			t.Fatal(err)
		}
		stop()
		words := strings.Fields(tt.line)
		switch words[0] {
		case "dump":
			err = (&dumpCommand{nodeCommand: n}).run(ctx, s, words[1:])
		case "rm":
			err = (&removeCommand{nodeCommand: n, recursive: true, skipConfirm: true}).run(ctx, s, words[3:])
		case "load":
			f, openErr := os.Open(file)
			if openErr != nil {
				t.Fatal(openErr)
			}
			err = (&loadCommand{nodeCommand: n, replace: words[1] == "--replace"}).loadOrShow(ctx, s, f)
			f.Close()
		}
		if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.line, err, tt.want)
		}
		closeSession(s.Client)
	}
}

// load takes a dump from its input, too.
func TestLoadFromInput(t *testing.T) {
	w, s := nodeWorld(t)
	mustRun(t, w, "create -p /a/b 1")
	w.In = strings.NewReader(mustRun(t, w, "dump /a"))
	mustRun(t, w, "load --into /copy -")
	if data, _, err := s.Get(t.Context(), "/copy/b"); err != nil || string(data) != "1" {
		t.Errorf("loaded %q, %v", data, err)
	}
	in, out, err := os.Pipe() // a file that cannot be read twice, as a shell makes it of <(...)
	if err != nil {
		t.Fatal(err)
	}
	text := mustRun(t, w, "dump /a")
	go func() {
		_, _ = io.WriteString(out, text)
		out.Close()
	}()
	mustRun(t, w, fmt.Sprintf("load --into /again /dev/fd/%d", in.Fd()))
	if data, _, err := s.Get(t.Context(), "/again/b"); err != nil || string(data) != "1" {
		t.Errorf("loaded %q, %v", data, err)
	}
	in.Close()
	w.In = iotestErr{}
	if err := runLine(t, w, "load --into /x -"); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("an input that fails: %v", err)
	}
}

// A path is completed from what the servers have. A name that a shell would take for something else is not
// offered.
func TestCompletePath(t *testing.T) {
	w, s := nodeWorld(t)
	for _, path := range []string{"/app", "/app/one", "/app/other", "/app/\u202eo", "/app/two", "/b"} {
		if _, _, err := s.Client.Create(t.Context(), s.FullPath(path), nil, client.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"get /": "/app /b", "ls ": "/app /b", "stat /a": "/app", "tree /app/": "/app/one /app/other /app/two", "rm /app/o": "/app/one /app/other", "set /none/": "", "du x": "", "get //a/": "",
	} {
		command, begun, _ := strings.Cut(line, " ")
		out := new(bytes.Buffer)
		w.Out = out
		if err := runArgs(t.Context(), w, "__complete", command, begun); err != nil {
			t.Fatal(err)
		}
		got, _, _ := strings.Cut(out.String(), ":")
		if strings.Join(strings.Fields(got), " ") != want {
			t.Errorf("%s is completed to %q, want %s", line, out, want)
		}
	}
	w.Env = []string{"ROLLCALL_HOSTS=127.0.0.1:1"}
	w.Out = new(bytes.Buffer)
	if err := runArgs(t.Context(), w, "__complete", "get", "/"); err != nil {
		t.Errorf("without a server: %v", err)
	}
}

// A change to which nobody answers may have been made. A read to which nobody answers has not been.
func TestSilentServers(t *testing.T) {
	for change, want := range map[bool]Status{true: OutcomeUnknown, false: Unavailable} {
		err := explainNodeError("get", nodes.Space{}, change, &client.Error{Op: "getData", Path: "/a", Err: subtree.ErrNoReply})
		if StatusOf(err) != want || err.Error() != "get: /a: no answer for 45s" {
			t.Errorf("change %v: %v (status %d), want %d", change, err, StatusOf(err), want)
		}
	}
}
