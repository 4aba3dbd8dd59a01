package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/rollcalltest"
	"rollcall/zk/jute"
)

// startRelay starts a relay without a fault on TCP, to servers that end with the test.
func startRelay(t *testing.T, servers Servers) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(l, servers, 0, nil, nil)
	t.Cleanup(func() { r.closeAll() })
	return r
}

// dialRelay connects to a relay. Its reads and writes take a minute at most.
func dialRelay(t *testing.T, r *relay) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Four-letter commands pass as they are.
func TestFourLetterCommands(t *testing.T) {
	srv := rollcalltest.Start(t)
	r := startRelay(t, Servers{Addresses: []string{srv.ConnectString()}})
	conn := dialRelay(t, r)
	if _, err := conn.Write([]byte("ruok")); err != nil {
		t.Fatal(err)
	}
	if reply, err := io.ReadAll(conn); err != nil || string(reply) != "imok" {
		t.Errorf("ruok: %q, %v", reply, err)
	}
}

// A frame above the limit ends the connection, and the run reports the reason.
func TestFrameAboveTheLimit(t *testing.T) {
	srv := rollcalltest.Start(t)
	r := startRelay(t, Servers{Addresses: []string{srv.ConnectString()}})
	conn := dialRelay(t, r)
	if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, maxFrame+1)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came", n)
	}
	_ = conn.Close()
	if seen := r.closeAll(); seen.broken == nil || !strings.Contains(seen.broken.Error(), "67108865 bytes, limit 67108864") {
		t.Errorf("the reason is %v", seen.broken)
	}
}

// Several sessions at one time are distinguished. The records of a request have neither a password nor data.
func TestRecordsSessions(t *testing.T) {
	srv := rollcalltest.Start(t)
	r := startRelay(t, Servers{Addresses: []string{srv.ConnectString()}})
	var passwords [][]byte
	for _, path := range []string{"/a", "/b"} {
		c, err := client.Dial(t.Context(), r.listener.Addr().String(), client.Config{Auth: []client.Auth{client.DigestAuth("ada", "lovelace")}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abandon()
		if _, _, err := c.Create(t.Context(), path, []byte("confidential"), client.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	seen := r.closeAll()
	for _, s := range r.sessions {
		passwords = append(passwords, s.password)
	}
	var keys []string
	var text bytes.Buffer
	for _, req := range seen.requests {
		keys = append(keys, req.Key().String())
	}
	if err := WriteJSON(&text, Result{Recorded: seen.requests}); err != nil {
		t.Fatal(err)
	}
	const want = "s1 connect #1, s1 auth #1, s1 create2 /a #1, s2 connect #1, s2 auth #1, s2 create2 /b #1"
	if got := strings.Join(keys, ", "); got != want {
		t.Errorf("recorded %s\nwant %s", got, want)
	}
	for _, secret := range append(passwords, []byte("lovelace"), []byte("confidential")) {
		if len(secret) == 0 || bytes.Contains(text.Bytes(), secret) {
			t.Errorf("a report has %q", secret)
		}
	}
	if len(passwords) != 2 || len(r.unclosedSessions()) != 2 {
		t.Errorf("%d passwords are known, %d sessions are left, want 2", len(passwords), len(r.unclosedSessions()))
	}
}

// On an existing ensemble, each run has a node of its own. It is removed with all nodes below it, and the sessions that
// the program leaves are ended.
func TestExistingEnsembleIsLeftAsItWas(t *testing.T) {
	srv := rollcalltest.Start(t)
	c, err := client.Dial(t.Context(), srv.ConnectString(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	// A container would be removed when it is empty again.
	if _, _, err := c.Create(t.Context(), "/app", nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	var seen []string
	cfg := Config{
		Ensemble: Existing{Addresses: []string{srv.ConnectString()}, Base: "/app"}, Faults: []Fault{Before, Expire},
		Program: inProcess(func(connect string) error {
			own, err := client.Dial(t.Context(), connect, client.Config{Timeout: time.Minute})
			if err != nil {
				return err
			}
			defer own.Abandon()
			children, _, err := own.Children(t.Context(), "/")
			if err == nil && len(children) > 0 {
				t.Errorf("a run sees %q of another one", children)
			}
			_, chroot, _ := strings.Cut(connect, "/")
			seen = append(seen, chroot)
			err = own.CreateAll(t.Context(), "/x/y", client.Persistent)
			if err == nil {
				_, _, err = own.Create(t.Context(), "/x/here", nil, client.Ephemeral)
			}
			if err != nil && !client.MayHaveHappened(err) {
				t.Logf("the program has lost its session: %v", err)
			}
			return nil
		}),
	}
	result, err := Survey(t.Context(), cfg)
	if err != nil || len(result.Broken()) > 0 || result.Counts[Survived] == 0 {
		t.Fatalf("%v, %v", err, result.Counts)
	}
	// Dial checks the chroot before the program sends any request.
	for i, op := range []string{OpConnect, "exists", "getChildren2"} {
		if req := result.Recorded[i]; req.Op != op || i > 0 && req.Path != "/" {
			t.Errorf("request %d was recorded as %v, want %s of /", i, req, op)
		}
	}
	slices.Sort(seen)
	for i, chroot := range seen {
		if !strings.HasPrefix("/"+chroot, "/app"+chrootPrefix) || i > 0 && chroot == seen[i-1] {
			t.Errorf("a run was below %q", chroot)
		}
	}
	if children, _, err := c.Children(t.Context(), "/app"); err != nil || len(children) > 0 {
		t.Errorf("the survey left %q, %v", children, err)
	}
	if ids, err := srv.Sessions(); err != nil || len(ids) != 1 {
		t.Errorf("the sessions %x are there, %v; want that of this test alone", ids, err)
	}
}

// inProcess is a program that is a function.
type inProcess func(connect string) error

func (f inProcess) Start(_ context.Context, connect string, _ io.Writer) (Process, error) {
	return functionProcess{f(connect)}, nil
}

// functionProcess is a function that has returned.
type functionProcess struct{ err error }

func (p functionProcess) Wait() error     { return p.err }
func (p functionProcess) Kill()           {}
func (p functionProcess) Stop() error     { return nil }
func (p functionProcess) Continue() error { return nil }

// A command is stopped, continued and killed with its children, and gets the connect string twice.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	out := new(lastLines)
	// The child writes its number over and over; the parent waits for it.
	loop := `echo $0 $ROLLCALL_CONNECT; (i=0; while :; do i=$((i+1)); echo $i >` + dir + `/n.new && mv ` + dir + `/n.new ` + dir + `/n; done) & wait`
	p, err := Command{"sh", "-c", loop, "at={connect}"}.Start(t.Context(), "127.0.0.1:1/x", out)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	changes := func() bool {
		before, _ := os.ReadFile(filepath.Join(dir, "n"))
		for range 50 {
			time.Sleep(10 * time.Millisecond)
			if now, _ := os.ReadFile(filepath.Join(dir, "n")); !bytes.Equal(before, now) {
				return true
			}
		}
		return false
	}
	until := func(running bool) bool { // a busy machine is slow to run it, and to finish a write that is under way
		for began := time.Now(); time.Since(began) < time.Minute; {
			if changes() == running {
				return true
			}
		}
		return false
	}
	if !until(true) {
		t.Error("the child does not run")
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if !until(false) {
		t.Error("the child runs while the program is stopped")
	}
	if err := p.Continue(); err != nil {
		t.Fatal(err)
	}
	if !until(true) {
		t.Error("the child does not run again")
	}
	p.Kill()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the program ended with %v", err)
	}
	if !until(false) {
		t.Error("the child outlives the program")
	}
	if got := strings.Join(out.lastOf(9), "|"); got != "at=127.0.0.1:1/x 127.0.0.1:1/x" {
		t.Errorf("the program printed %q", got)
	}
	if _, err := (Command{filepath.Join(dir, "none")}).Start(t.Context(), "", out); err == nil ||
		!strings.Contains(err.Error(), "start "+dir) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// The end of an output is kept, and no more.
func TestTail(t *testing.T) {
	out := new(lastLines)
	line := strings.Repeat("x", 99) + "\n"
	for range 5 * maxOutput / len(line) {
		_, _ = out.Write([]byte(line))
	}
	_, _ = out.Write([]byte("the last\xff\n"))
	if len(out.kept) > 2*maxOutput {
		t.Errorf("%d bytes are kept", len(out.kept))
	}
	if got := out.lastOf(2); len(got) != 2 || got[0]+"\n" != line || got[1] != "the last?" {
		t.Errorf("the last lines are %q", got)
	}
	if got := new(lastLines).lastOf(2); got != nil {
		t.Errorf("no output has the lines %q", got)
	}
}

// A session that has ended already is no error, and neither is its second end. A wrong password ends nothing.
func TestEndSession(t *testing.T) {
	srv := rollcalltest.Start(t)
	servers := Servers{Addresses: []string{srv.ConnectString()}}
	r := startRelay(t, servers)
	c, err := client.Dial(t.Context(), r.listener.Addr().String(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c.Abandon()
	r.closeAll()
	s := r.unclosedSessions()[0]
	end := func(password []byte) (left int) {
		t.Helper()
		if err := endSession(t.Context(), servers, srv.ConnectString(), session{id: s.id, password: password, timeout: s.timeout}); err != nil {
			t.Error(err)
		}
		ids, err := srv.Sessions()
		if err != nil {
			t.Fatal(err)
		}
		return len(ids)
	}
	if left := end(bytes.Repeat([]byte{1}, 16)); left != 1 {
		t.Errorf("a wrong password left %d sessions, want 1", left)
	}
	for range 2 {
		if left := end(s.password); left != 0 {
			t.Errorf("%d sessions are left", left)
		}
	}
	if err := endSession(t.Context(), servers, "127.0.0.1:1", *s); err == nil ||
		!strings.Contains(err.Error(), "end session "+jute.SessionID(s.id).String()) {
		t.Errorf("no server: %v", err)
	}
}

// A program that makes node after node does not make the proxy grow. The target of a run is counted however late it comes.
func TestCountsAreLimited(t *testing.T) {
	at := &Point{Key: Key{Session: 1, Op: "create2", Pattern: "/last", Occurrence: 2}, Fault: Before}
	l := &pipeListener{closed: make(chan struct{})}
	r := newRelay(l, Servers{Addresses: []string{"none:1"}}, 0, at, nil)
	defer r.closeAll()
	s := &session{number: 1}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range 3 * maxRecorded {
		if fault := r.keepRequest(Request{Op: "create2", Path: fmt.Sprintf("/n%d", i)}, s); fault != "" {
			t.Fatalf("request %d got the fault %s", i, fault)
		}
	}
	if got := len(r.record.counts); got > maxCounted || len(r.record.requests) != maxRecorded || r.record.unkept != 2*maxRecorded {
		t.Errorf("%d kinds are counted, %d requests are kept, %d are not", got, len(r.record.requests), r.record.unkept)
	}
	if last := r.record.requests[maxRecorded-1]; last.Occurrence != 1 || last.InRun != 1 {
		t.Errorf("the last request that is kept is %+v", last)
	}
	for _, want := range []Fault{"", Before} {
		if fault := r.keepRequest(Request{Op: "create2", Path: "/last"}, s); fault != want {
			t.Errorf("the fault was %q, want %q", fault, want)
		}
	}
}

// A program that opens session after session does not make the proxy grow. Sessions that are over go first, then the
// first ones that have no connection; a session that has one stays.
func TestSessionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &pipeListener{closed: make(chan struct{})}
		r := newRelay(l, Servers{Addresses: []string{"none:1"}}, 0, nil, nil)
		defer r.closeAll()
		const timeout, long = 4 * time.Second, 40 * time.Second
		last := jute.SessionID(0)
		open := func(timeout time.Duration) *session {
			last++
			s, _ := r.noteConnect(newLink(r, nil, int(last), "none:1"), jute.ConnectRequest{})
			r.noteOpened(s, jute.ConnectResponse{SessionID: last, Passwd: []byte("secret"), TimeOut: int32(timeout.Milliseconds())})
			return s
		}
		unlink := func(s *session) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.noteConnEnded(s)
		}
		check := func(what string, dropped int) {
			t.Helper()
			if len(r.sessions) > maxSessions || r.record.dropped != dropped {
				t.Fatalf("after %s, %d sessions are kept, and %d were dropped that may live; want %d at most, and %d",
					what, len(r.sessions), r.record.dropped, maxSessions, dropped)
			}
		}

		linked := open(timeout)
		for i := range maxSessions {
			s := open(max(timeout, long*time.Duration(1-i)))
			r.noteClosed(s)
			unlink(s)
		}
		check("sessions that were closed", 0)
		if got := r.longestTimeout(); got != long {
			t.Errorf("the longest timeout is %v, want %v", got, long)
		}
		for range maxSessions {
			unlink(open(timeout))
		}
		time.Sleep(pauseLimit(timeout) + 1)
		first := open(timeout)
		unlink(first)
		for range maxSessions - 2 { // with linked and first, as many as are kept
			unlink(open(timeout))
		}
		check("sessions that have timed out", 1) // of these, and of linked, there was one too many
		unlink(open(timeout))
		check("sessions that live", 2)
		if s, _ := r.noteConnect(newLink(r, nil, 0, "none:1"), jute.ConnectRequest{SessionID: linked.id}); s != linked {
			t.Error("the session that always had a connection is not recognised any more")
		}
		if r.sessions[first.id] != nil || len(r.unclosedSessions()) != maxSessions {
			t.Errorf("%d sessions are left to be ended, and among them the first: %t", len(r.unclosedSessions()), r.sessions[first.id] != nil)
		}
		if u := r.record.unendedOf(); u.sessions != 2 || u.err == nil {
			t.Errorf("the report has %d sessions that could not be ended (%v)", u.sessions, u.err)
		}
	})
}

// A session can be ended after its server has closed the connection by itself: the request for which that happens may
// still arrive.
func TestExpireAfterServerHasClosed(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		if c, err := server.Accept(); err == nil {
			_ = c.Close()
		}
	}()
	r := startRelay(t, Servers{Addresses: []string{server.Addr().String()}})
	client, program := net.Pipe()
	defer program.Close()
	l := newLink(r, client, 1, server.Addr().String())
	s, _ := r.noteConnect(l, jute.ConnectRequest{})
	l.session.Store(s)
	l.forward()
	r.cancel() // so that nothing waits for an ensemble
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.expireSession(program)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it waits for ever")
	}
}

// After a request whose reply is lost, no later request of the connection is forwarded: the link waits for its end and says that
// the request was the last. After others it is not.
func TestNothingFollowsALostReply(t *testing.T) {
	for fault, want := range map[Fault]bool{After: true, Move: true, Late: false, "": false} {
		server, peer := net.Pipe()
		client, program := net.Pipe()
		l := newLink(&relay{}, client, 1, "")
		go func() {
			_, _ = jute.ReadFrame(peer, nil, maxFrame)
			l.End()
		}()
		if last := l.forwardOrFail(request{xid: 1, fault: fault}, []byte("request"), server); last != want {
			t.Errorf("%q: the last request: %t, want %t", fault, last, want)
		}
		for _, c := range []net.Conn{server, peer, client, program} {
			_ = c.Close()
		}
	}
}

// A session that the server no longer knows is over: it is not ended again after the run.
func TestUnknownSessionIsOver(t *testing.T) {
	for id, left := range map[jute.SessionID]int{7: 1, 0: 0} {
		r := startRelay(t, Servers{Addresses: []string{"nobody:1"}})
		s, _ := r.noteConnect(&proxyLink{relay: r, number: 1}, jute.ConnectRequest{SessionID: 7})
		r.noteOpened(s, jute.ConnectResponse{SessionID: id})
		if got := r.unclosedSessions(); len(got) != left {
			t.Errorf("a reply with the session %d: %d sessions are left, want %d", id, len(got), left)
		}
	}
}

// A fault that is not possible at its request does not happen, and the run reports the reason.
func TestImpossibleFault(t *testing.T) {
	at := &Point{Key: Key{Session: 1, Op: "create2", Pattern: "/a", Occurrence: 1}, Fault: Move}
	r := newRelay(&pipeListener{closed: make(chan struct{})}, Servers{Addresses: []string{"none:1"}}, 0, at, nil)
	defer r.closeAll()
	r.mu.Lock()
	defer r.mu.Unlock()
	fault := r.keepRequest(Request{Op: "create2", Path: "/a"}, &session{number: 1})
	if fault != "" || r.record.fired == nil || r.record.undone == nil || r.record.undone.Error() != "there is only one server" {
		t.Errorf("the fault %q, and the reason %v", fault, r.record.undone)
	}
	if got := judgeOutcome(at, r.record, nil, false); got != NotDone {
		t.Errorf("the outcome is %v, want %v", got, NotDone)
	}
}
