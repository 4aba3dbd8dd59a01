package shell

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/client"
)

// The exit status is that of the last command, or of the only one.
func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		line   string
		status int
		err    string
	}{
		{"ls /", 0, ""},
		{"get /none", 1, "Node does not exist: /none\n"},
		{"get none", 1, "Path must start with / character\n"},
		{"get", 1, "get [-s] [-w] path\n"},
		{"get -x", 1, "Unrecognized option: -x\n"},
		{"set -v x /none x", 1, "-v argument must be an int value\n"},
		{"help", 0, usageText(verbTable()) + "\n"},
		{"nonsense", 127, usageText(verbTable()) + "\nCommand not found: Command not found nonsense\n"},
		{"quit", 0, ""},
	} {
		if got := runShell(t, Config{Command: strings.Fields(tt.line)}); got.status != tt.status || got.err != tt.err {
			t.Errorf("%s: %+v, want status %d and %q", tt.line, got, tt.status, tt.err)
		}
		if got := runLines(t, Config{}, "get /none", tt.line); tt.line != "quit" && got.status != tt.status {
			t.Errorf("%s, as a line: status %d, want %d", tt.line, got.status, tt.status)
		}
	}
	if got := runLines(t, Config{}, "get /none", "quit"); got.status != 1 {
		t.Errorf("quit after a failure: status %d", got.status)
	}
}

// The words of the command line are taken as they are, without another look for quotes.
func TestCommandWords(t *testing.T) {
	if got := runShell(t, Config{Command: []string{"create", "/words", `"two words"`}}); got.err != "Created /words\n" {
		t.Errorf("%+v", got)
	}
	if got := runLines(t, Config{}, "get /words", "delete /words"); !strings.HasPrefix(got.out, "\"two words\"\n") {
		t.Errorf("%+v", got)
	}
}

// redo and history count lines as zkCli.sh does.
func TestRedo(t *testing.T) {
	got := runLines(t, Config{}, "create /redo 1", "redo 0", "", "redo 1", "redo 7", "redo 1x", "redo", "history", "delete /redo", "redo")
	wantErr := "Created /redo\nNode already exists: /redo\nNode already exists: /redo\nCommand index out of range\nredo: \"1x\" is not a number of a line; history lists them\n"
	wantOut := "0 - create /redo 1\n1 - create /redo 1\n2 - create /redo 1\n3 - redo 7\n4 - redo 1x\n5 - redo\n6 - history\n"
	if got.err != wantErr || got.out != wantOut || got.status != 0 {
		t.Errorf("%+v\nwant %s%s", got, wantErr, wantOut)
	}
	if got := runLines(t, Config{}, "redo 0", "redo 0"); got.err != "Command index out of range\nNo redoing redos\n" {
		t.Errorf("%+v", got)
	}
}

// With a root, paths, created nodes and events are those below it.
func TestBelowRoot(t *testing.T) {
	if got := runShell(t, Config{Command: []string{"create", "/below"}}); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	got := runLines(t, Config{Hosts: addr + "/below"}, "addWatch /", "create -s /n- x", "ls -R /", "stat /none", "getEphemerals", "deleteall /n-0000000000")
	wantOut := "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:NodeCreated path:/n-0000000000\n/\n/n-0000000000\n[]\n" +
		"\nWATCHER::\n\nWatchedEvent state:SyncConnected type:NodeDeleted path:/n-0000000000\n"
	if got.out != wantOut || got.err != "Created /n-0000000000\nNode does not exist: /none\n" {
		t.Errorf("%+v\nwant %s", got, wantOut)
	}
	if got := runShell(t, Config{Hosts: addr + "/nowhere", Command: []string{"ls", "/"}}); got.err != "Node does not exist: /\n" {
		t.Errorf("%+v", got)
	}
	runShell(t, Config{Command: []string{"delete", "/below"}})
}

// After close, verbs say that there is no session; connect opens one, at another address, too.
func TestConnect(t *testing.T) {
	got := runLines(t, Config{}, "create -e /connect x", "connect", "get /connect") // the session has ended
	if got.err != "Created /connect\nNode does not exist: /connect\n" {
		t.Errorf("%+v", got)
	}
	got = runLines(t, Config{}, "printwatches off", "close", "ls /none", "history", "connect "+addr, "ls /none", "connect nowhere:x", "connect", "ls /none2", "quit")
	wantOut := "Not connected\n0 - printwatches off\n1 - close\n2 - ls /none\n3 - history\nNot connected\n"
	if got.out != wantOut || got.err != "Node does not exist: /none\n\"nowhere:x\": \"nowhere:x\": a port is a number from 1 to 65535\nNode does not exist: /none2\n" {
		t.Errorf("%+v\nwant %s", got, wantOut)
	}
}

// Identities of the configuration and of addauth are shown to the server. A rejected one ends the
// session.
func TestIdentities(t *testing.T) {
	got := runLines(t, Config{Session: client.Config{Auth: []client.Auth{{Scheme: "digest", Proof: []byte("a:x")}}}}, "addauth digest b:y", "whoami", "addauth nonsense z", "ls /")
	for _, want := range []string{"digest: a\n", "digest: b\n", "WatchedEvent state:AuthFailed type:None path:null\nNot connected\n"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%+v\nwant %s", got, want)
		}
	}
	if got.err != "KeeperErrorCode = AuthFailed\n" {
		t.Errorf("%q", got.err)
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Hosts: "x:y"}, `hosts: "x:y": "x:y": a port is a number from 1 to 65535`},
		{Config{Hosts: "x", Timeout: -1}, "timeout -1ns must be 1ms to 24h0m0s"},
		{Config{Hosts: "x", Timeout: 25 * time.Hour}, "timeout 25h0m0s must be 1ms to 24h0m0s"},
		{Config{Hosts: "x", Timeout: time.Microsecond}, "timeout 1µs must be 1ms to 24h0m0s"},
	} {
		if _, err := Run(t.Context(), tt.cfg); err == nil || err.Error() != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// If no server can be reached, a command says so and why, as soon as all have been tried.
func TestUnreachable(t *testing.T) {
	got := runShell(t, Config{Hosts: "127.0.0.1:1,127.0.0.1:2", Command: []string{"ls", "/"}})
	if got.status != 1 || !strings.HasPrefix(got.err, "KeeperErrorCode = ConnectionLoss for /\nno server can be reached: dial tcp 127.0.0.1:") {
		t.Errorf("%+v", got)
	}
}

// The end of ctx ends a command that waits, and the shell.
func TestInterrupted(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := silent.Accept()
		cancel()
		if err == nil {
			defer conn.Close()
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	var errs outputBuffer
	status, err := Run(ctx, Config{Hosts: silent.Addr().String(), Command: []string{"ls", "/"}, Out: io.Discard, Err: &errs, EscapeText: visible})
	if status != statusInterrupted || err != nil || errs.String() != "interrupted\n" {
		t.Errorf("status %d, %v, %q", status, err, &errs)
	}
}

// A line may not be longer than any request.
func TestLongLine(t *testing.T) {
	in := io.MultiReader(strings.NewReader("get /none\n"), strings.NewReader(strings.Repeat("x", maxLine+1)))
	var errs outputBuffer
	status, err := Run(t.Context(), Config{Hosts: addr, In: in, Out: io.Discard, Err: &errs, EscapeText: visible})
	if status != 1 || err == nil || err.Error() != "a line is longer than 16777216 bytes" || !strings.HasPrefix(errs.String(), "Node does not exist: /none\n") {
		t.Errorf("status %d, %v, %q", status, err, &errs)
	}
}

// proxy is a way to the member that can be shut.
type proxy struct {
	net.Listener
	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

func newProxy(t *testing.T) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &proxy{Listener: l}
	t.Cleanup(func() { l.Close(); g.setShut(true) })
	go g.serve()
	return g
}

func (g *proxy) serve() {
	for {
		from, err := g.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", addr)
		g.mu.Lock()
		if err != nil || g.shut {
			from.Close()
			if err == nil {
				to.Close()
			}
		} else {
			g.conns = append(g.conns, from, to)
			go func() { _, _ = io.Copy(to, from); to.Close() }()
			go func() { _, _ = io.Copy(from, to); from.Close() }()
		}
		g.mu.Unlock()
	}
}

// setShut ends all connections. If shut is set, there will be no others until it is called again.
func (g *proxy) setShut(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	for _, c := range g.conns {
		c.Close()
	}
	g.conns = nil
}

// The shell reports a lost connection and its return, and the session continues with its watches. It
// also reports an expired session, and connect opens another one.
func TestLostConnection(t *testing.T) {
	g := newProxy(t)
	in, say := io.Pipe()
	var out, errs outputBuffer
	ended := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), Config{Hosts: g.Addr().String(), Timeout: 4 * time.Second, In: in, Out: &out, Err: &errs, ErrTerminal: true, EscapeText: visible})
		ended <- err
	}()
	command := func(line string) { _, _ = io.WriteString(say, line+"\n") }
	event := func(text string) { out.awaitText(t, "\nWATCHER::\n\nWatchedEvent state:"+text+"\n") }

	command("create -e /lost x")
	errs.awaitText(t, "Created /lost\n")
	command("get -w /lost")
	out.awaitText(t, "\nx\n")
	g.setShut(false)
	event("Disconnected type:None path:null")
	errs.awaitText(t, "The connection broke: ")
	command("set /lost y")
	event("SyncConnected type:NodeDataChanged path:/lost")
	command("get /lost")
	out.awaitText(t, "\ny\n")

	g.setShut(true)
	other, err := client.Dial(t.Context(), addr, client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Abandon()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, exists, err := other.Exists(t.Context(), "/lost")
		if err == nil && !exists {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the session does not expire: %v", err)
		}
	}
	g.setShut(false)
	event("Expired type:None path:null")
	errs.awaitText(t, "The servers have expired the session.")
	command("ls /lost")
	out.awaitText(t, "Not connected\n")
	command("connect")
	command("ls /lost")
	errs.awaitText(t, "Node does not exist: /lost\n")
	say.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
