package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"rollcall/cli"
	"rollcall/client"
)

// testServer is a `rollcall test-server` that runs.
type testServer struct {
	t       *testing.T
	connect string
	stdin   io.WriteCloser
	stdout  *bufio.Scanner
	ended   chan error
}

// startTestServer starts the command in dir, with flags.
func startTestServer(ctx context.Context, t *testing.T, flags ...string) *testServer {
	t.Helper()
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	s := &testServer{t: t, stdin: stdin, stdout: bufio.NewScanner(stdout), ended: make(chan error, 1)}
	go func() {
		err := runCommandLine(ctx, append([]string{"test-server"}, flags...), cli.IOStreams{In: in, Out: out, Err: io.Discard, Now: time.Now})
		_ = out.CloseWithError(io.EOF)
		s.ended <- err
	}()
	t.Cleanup(func() { _ = stdin.Close() })
	s.connect = s.line()
	return s
}

// line reads a line of stdout.
func (s *testServer) line() string {
	s.t.Helper()
	if !s.stdout.Scan() {
		s.t.Fatalf("stdout has ended: %v", <-s.ended)
	}
	return s.stdout.Text()
}

// do sends a command and returns the acknowledgement.
func (s *testServer) do(command string) string {
	s.t.Helper()
	if _, err := io.WriteString(s.stdin, command+"\n"); err != nil {
		s.t.Fatal(err)
	}
	return s.line()
}

// must sends commands that succeed with just "ok".
func (s *testServer) must(commands ...string) {
	s.t.Helper()
	for _, command := range commands {
		if got := s.do(command); got != "ok" {
			s.t.Fatalf("%s: %s, want ok", command, got)
		}
	}
}

// open opens a session at addrs.
func (s *testServer) open(addrs string) *client.Client {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, addrs, client.Config{Timeout: 10 * time.Second, GiveUpAfter: client.NeverGiveUp})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Abandon)
	return c
}

// create creates a node when the session has a connection.
func create(c *client.Client, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.AwaitConnected(ctx); err != nil {
		return err
	}
	_, _, err := c.Create(ctx, path, nil, client.Ephemeral)
	return err
}

// The faults of sessions and connections do what they say. The server ends when stdin does, and leaves no file.
func TestTestServerClientFaults(t *testing.T) {
	t.Chdir(t.TempDir())
	s := startTestServer(t.Context(), t)
	c := s.open(s.connect)
	id, _ := c.Session()
	if got := s.do("sessions"); got != "ok "+id.String() {
		t.Errorf("sessions: %s, want that of %s", got, id)
	}
	s.must("lose-request 1")
	if err := create(c, "/a"); !errors.Is(err, client.ErrConnectionLost) {
		t.Errorf("a lost request: %v", err)
	}
	s.must(fmt.Sprintf("lose-reply 2 %d", int64(id)))
	if err := create(c, "/a"); err != nil {
		t.Errorf("the request was carried out: %v", err)
	}
	if err := create(c, "/b"); !errors.Is(err, client.ErrConnectionLost) {
		t.Errorf("a lost reply: %v", err)
	}
	if err := create(c, "/b"); !errors.Is(err, client.ErrNodeExists) {
		t.Errorf("the request was not carried out: %v", err)
	}
	s.must("delay-reply 1 300ms")
	began := time.Now()
	if err := create(c, "/c"); err != nil || time.Since(began) < 300*time.Millisecond {
		t.Errorf("a delayed reply came after %v, %v", time.Since(began), err)
	}
	if got := s.do("drop-connections " + id.String()); got != "ok 1" {
		t.Errorf("drop-connections: %s", got)
	}
	if err := insist(c, "/d"); err != nil && !errors.Is(err, client.ErrNodeExists) {
		t.Errorf("without the connection: %v", err)
	}
	s.must("expire " + id.String())
	if err := insist(c, "/e"); !errors.Is(err, client.ErrExpired) {
		t.Errorf("an expired session: %v", err)
	}
	_ = s.stdin.Close()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("files are left: %v, %v", files, err)
	}
}

// The faults of servers do what they say. The servers have the ports that were named, and end with the context.
func TestTestServerServerFaults(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	base := freePorts(t, 3)
	s := startTestServer(ctx, t, "--members", "3", "--port", fmt.Sprint(base), "--tick", "100ms")
	if want := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", base, base+1, base+2); s.connect != want {
		t.Errorf("the servers are at %s, want %s", s.connect, want)
	}
	c := s.open(s.connect)
	killed := ""
	for tries := 1; ; tries++ {
		led := s.leader("leader")
		if killed = s.leader("kill-leader"); killed == led {
			break
		}
		if tries == 5 { // once, the leader may change between the two
			t.Fatalf("kill-leader: server %s, and server %s has led", killed, led)
		}
		s.must("restart "+killed, "wait-ready")
	}
	s.must("wait-ready")
	if err := insist(c, "/a"); err != nil && !errors.Is(err, client.ErrNodeExists) {
		t.Error(err)
	}
	if got := s.leader("leader"); got == killed {
		t.Errorf("server %s leads, which was killed", got)
	}
	s.must("restart "+killed, "wait-ready", "partition 1 2", "heal 1 2", "slow-disk 1 1ms", "slow-disk 1 0s", "wait-ready")
	s.must("pause "+killed, "resume "+killed, "kill "+killed, "restart "+killed, "wait-ready")
	if err := insist(c, "/b"); err != nil && !errors.Is(err, client.ErrNodeExists) {
		t.Error(err)
	}
	cancel()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// leader sends a command that needs a leader until there is one, and returns its number.
func (s *testServer) leader(command string) string {
	s.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		if number, ok := strings.CutPrefix(s.do(command), "ok "); ok {
			return number
		}
	}
	s.t.Fatalf("%s: %s", command, s.do(command))
	return ""
}

// insist creates a node, again and again while connections break, and returns the outcome. It may be client.ErrNodeExists.
func insist(c *client.Client, path string) error {
	for {
		err := create(c, path)
		if !errors.Is(err, client.ErrConnectionLost) && !errors.Is(err, client.ErrSuspended) {
			return err
		}
	}
}

// freePorts returns the first of n ports in a row that were free a moment ago.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for range 100 {
		base, free := 10000+rand.IntN(20000), true // below those that the kernel gives to others
		for i := range n {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+i))
			if free = free && err == nil; err == nil {
				_ = l.Close()
			}
		}
		if free {
			return base
		}
	}
	t.Fatalf("there are no %d free ports in a row", n)
	return 0
}

// A line that is wrong is acknowledged with what is allowed, and the next one is read.
func TestTestServerRejectsLines(t *testing.T) {
	s := startTestServer(t.Context(), t)
	for line, want := range map[string]string{
		"expires 0x1":        `"expires" is no command; there are sessions, expire, drop-connections,`,
		"expire":             "expire has 0 arguments; it must be: expire SESSION",
		"expire 0x1 0x2":     "expire has 2 arguments",
		"expire x":           `"x" is not the id of a session`,
		"expire 0x1":         "no such session",
		"lose-reply 1 0x2 3": "it must be: lose-reply N [SESSION]",
		"lose-reply one":     `"one" is not a number`,
		"lose-reply 0":       "must be at least 1",
		"delay-reply 1 5":    `"5" is not a duration such as 500ms or 2s`,
		"slow-disk 1 -1s":    `"-1s" is not a duration`,
		"pause 2":            `"2" is not the number of a server, which is 1 to 1`,
		"restart 1":          "it runs already",
		"partition 1 1":      "name two servers",
	} {
		if got := s.do(line); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	if got := s.do("\n  leader  "); got != "ok 1" {
		t.Errorf("leader: %s", got)
	}
	go func() { _, _ = io.WriteString(s.stdin, strings.Repeat("x", 2*maxTestServerLine)+"\n") }()
	if err := <-s.ended; !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("after an endless line: %v", err)
	}
}

// A start that fails says why.
func TestTestServerStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--members", "10"}, "10 servers must be 1 to 9"},
		{[]string{"--port", "65535", "--members", "2"}, "Port 65535 must be 1 to 65534"},
		{[]string{"--tick", "1ms"}, "must be at least 10ms"},
		{[]string{"--port", fmt.Sprint(l.Addr().(*net.TCPAddr).Port)}, "--port takes others"},
	} {
		if out, err := command(t, append([]string{"test-server"}, tt.flags...)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %s; it printed %s", tt.flags, err, tt.want, out)
		}
	}
}
