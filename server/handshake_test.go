package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/admission"
	"rollcall/proto"
	"rollcall/zk/jute"
)

func TestGrantedTimeout(t *testing.T) {
	w := newWorld(t, false, func(c *Config) { c.MinTimeout, c.MaxTimeout = 2*time.Second, 20*time.Second })
	for asked, want := range map[int32]int32{
		-5: 2000, 0: 2000, 1: 2000, 1999: 2000, 2000: 2000, 5000: 5000, 20000: 20000, 20001: 20000, 1<<31 - 1: 20000, -1 << 31: 2000,
	} {
		c := w.open()
		if got := c.hello(jute.ConnectRequest{TimeOut: asked}).TimeOut; got != want {
			t.Errorf("asked for %d ms, granted %d, want %d", asked, got, want)
		}
	}
}

func TestNewSession(t *testing.T) {
	tests := []struct {
		name string
		req  jute.ConnectRequest
		size int // of the answer's body
	}{
		{name: "with readOnly byte", req: jute.ConnectRequest{Passwd: make([]byte, 16), HasReadOnly: true}, size: 37},
		{name: "without", req: jute.ConnectRequest{Passwd: make([]byte, 16)}, size: 36},
		{name: "readOnly set", req: jute.ConnectRequest{Passwd: make([]byte, 16), ReadOnly: true, HasReadOnly: true}, size: 37},
		{name: "other protocol version", req: jute.ConnectRequest{ProtocolVersion: 7, HasReadOnly: true}, size: 37},
		{name: "null password", req: jute.ConnectRequest{HasReadOnly: true}, size: 37},
		{name: "empty password", req: jute.ConnectRequest{Passwd: []byte{}, HasReadOnly: true}, size: 37},
		{name: "short password", req: jute.ConnectRequest{Passwd: make([]byte, 8), HasReadOnly: true}, size: 37},
		{name: "some password", req: jute.ConnectRequest{Passwd: bytes.Repeat([]byte{9}, 16), HasReadOnly: true}, size: 37},
	}
	w := newWorld(t, false, nil)
	seen := map[string]bool{string(make([]byte, 16)): true, string(bytes.Repeat([]byte{9}, 16)): true}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := w.open()
			tt.req.TimeOut = 10000
			c.send(tt.req)
			frame, err := c.read()
			if err != nil {
				t.Fatal(err)
			}
			var res jute.ConnectResponse
			d := jute.NewDecoder(frame)
			res.Decode(&d)
			if len(frame) != tt.size || res.ProtocolVersion != 0 || res.TimeOut != 10000 || res.SessionID == 0 ||
				len(res.Passwd) != 16 || res.ReadOnly {
				t.Errorf("answer % x, %+v", frame, res)
			}
			if seen[string(res.Passwd)] {
				t.Errorf("password % x is not the server's own, or not fresh", res.Passwd)
			}
			seen[string(res.Passwd)] = true
		})
	}
}

func TestFirstBytes(t *testing.T) {
	hello := frameOf(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true})
	tests := []struct {
		name  string
		bytes []byte
		want  string // an answer before the end, if any
	}{
		{name: "a request", bytes: frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpPing})},
		{name: "length 0", bytes: []byte{0, 0, 0, 0}},
		{name: "length -1", bytes: []byte{255, 255, 255, 255}},
		{name: "length above the limit", bytes: []byte{0, 0x10, 0, 0}},
		{name: "one byte short", bytes: append(binary.BigEndian.AppendUint32(nil, 43), hello[4:47]...)},
		{name: "http", bytes: []byte("GET ")},
		{name: "unknown word", bytes: []byte("abcd")},
		{name: "word", bytes: []byte("ruok"), want: "imok"},
		{name: "word and a newline", bytes: []byte("ruok\n"), want: "imok"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newWorld(t, true, nil).open()
			c.write(tt.bytes)
			got, err := io.ReadAll(c)
			if string(got) != tt.want || err != nil && tt.want != "" {
				t.Errorf("answer %q, %v, want %q and the end", got, err, tt.want)
			}
		})
	}
}

func TestHandshakeByteByByte(t *testing.T) {
	c := newWorld(t, false, nil).open()
	for _, b := range frameOf(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true}) {
		c.write([]byte{b})
	}
	if c.welcome(); c.id == 0 {
		t.Error("no session")
	}
}

func TestPipelinedBehindHandshake(t *testing.T) {
	w := newWorld(t, false, nil)
	w.hold()
	c := w.open()
	b := frameOf(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true})
	b = append(b, frameOf(jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})...)
	b = append(b, frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpCreate}, create("/a", "", 0))...)
	c.write(b)
	if n := w.touched(self<<56 + 1); n != 0 {
		t.Errorf("%d requests were served before the session was created", n)
	}
	w.release()
	c.welcome()
	c.expect(jute.XidPing, jute.OK)
	c.expect(1, jute.OK)
}

func TestSecondConnectRequest(t *testing.T) {
	c := newWorld(t, false, nil).connect()
	c.send(jute.ConnectRequest{TimeOut: 10000, HasReadOnly: true})
	if h := c.expect(0, jute.Unimplemented); h.Zxid != -1 {
		t.Errorf("zxid %d, want -1", h.Zxid)
	}
	c.expectClosed()
}

func TestClientAhead(t *testing.T) {
	w := newWorld(t, false, nil)
	live := w.connect()
	for _, req := range []jute.ConnectRequest{
		{TimeOut: 10000, LastZxidSeen: 1 << 40},
		{TimeOut: 10000, LastZxidSeen: 1 << 40, SessionID: live.id, Passwd: live.password},
	} {
		c := w.open()
		c.send(req)
		c.expectClosed()
	}
	live.must(jute.OpPing) // its session is not lost
	if again := w.resume(live); again.id != live.id {
		t.Errorf("resumed %v, want %v", again.id, live.id)
	}
}

// A client that has seen a transaction of another member is served when that is applied here too. If that takes half
// a tick, the client is dropped, and its sync is forgotten.
func TestClientAheadWaitsForTheCommit(t *testing.T) {
	const id, allowed = jute.SessionID(other<<56 + 1), testTick / catchUpWaitDivisor
	password := bytes.Repeat([]byte{5}, passwordSize)
	begin := func(t *testing.T, wait time.Duration) (w *world, c *client) {
		w = newWorld(t, false, nil)
		w.hold()
		w.inject(other, &proto.Txn{
			Session: int64(id), Conn: 7, Op: int32(jute.OpCreateSession), Body: encode(&proto.OpenSession{TimeoutMs: 10000, Password: password}),
		})
		c = w.open()
		c.send(jute.ConnectRequest{TimeOut: 10000, LastZxidSeen: w.zxid() + 1, SessionID: id, Passwd: password})
		time.Sleep(wait)
		synctest.Wait()
		return w, c
	}
	synctest.Test(t, func(t *testing.T) {
		w, c := begin(t, allowed-time.Millisecond)
		w.release()
		if res := c.welcome(); res.SessionID != id {
			t.Errorf("resumed %v, want %v", res.SessionID, id)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w, c := begin(t, allowed)
		c.expectClosed()
		synctest.Wait()
		if n := w.srv.Stats().EndedByReason["client_ahead"]; n != 1 || len(w.detached) != 1 {
			t.Errorf("%d clients dropped, %d detached", n, len(w.detached))
		}
	})
}

// A rejection arrives whole before the end of the connection, although the client has sent more than the server has
// read. (A close with unread bytes would reset the connection.)
func TestRefusals(t *testing.T) {
	w := newWorld(t, true, nil)
	live := w.connect()
	closed := w.connect()
	closed.must(jute.OpCloseSession)
	tests := []struct {
		name string
		id   jute.SessionID
		pass []byte
	}{
		{name: "unknown", id: 99999, pass: make([]byte, 16)},
		{name: "wrong password", id: live.id, pass: bytes.Repeat([]byte{1}, 16)},
		{name: "password cut short", id: live.id, pass: live.password[:15]},
		{name: "null password", id: live.id},
		{name: "closed", id: closed.id, pass: closed.password},
	}
	for _, tt := range tests {
		for _, aware := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				want := append(binary.BigEndian.AppendUint32(nil, 36), make([]byte, 36)...)
				want[4+4+4+8+3] = 16
				if aware {
					want[3] = 37
					want = append(want, 0)
				}
				c := w.open()
				b := frameOf(jute.ConnectRequest{TimeOut: 10000, SessionID: tt.id, Passwd: tt.pass, HasReadOnly: aware})
				c.write(append(b, make([]byte, 3<<20)...))
				got, err := io.ReadAll(c.in)
				if !bytes.Equal(got, want) || err != nil {
					t.Errorf("answer % x, %v, want % x and the end", got, err, want)
				}
			})
		}
	}
	live.must(jute.OpPing) // a stranger ends no other connection
}

// A wrong password that this member can recognize needs no log and no leader.
func TestWrongPasswordIsSeenHere(t *testing.T) {
	w := newWorld(t, false, nil)
	live := w.connect()
	w.hold()
	for _, password := range [][]byte{live.password[:15], append(live.password[:15:15], live.password[15]^1), append(live.password[:16:16], 0)} {
		c := w.open()
		if res := c.hello(jute.ConnectRequest{TimeOut: 10000, SessionID: live.id, Passwd: password}); res.SessionID != 0 || res.TimeOut != 0 {
			t.Errorf("answer %+v", res)
		}
	}
	if n := w.countSubmitted(); n != 0 {
		t.Errorf("%d transactions were submitted", n)
	}
}

func TestResume(t *testing.T) {
	w := newWorld(t, false, nil)
	old := w.connect()
	old.must(jute.OpCreate, create("/e", "x", jute.Ephemeral))
	c := w.open()
	res := c.hello(jute.ConnectRequest{TimeOut: 12000, SessionID: old.id, Passwd: old.password, HasReadOnly: true})
	if res.SessionID != old.id || !bytes.Equal(res.Passwd, old.password) || res.TimeOut != 12000 {
		t.Errorf("resumed as %+v", res)
	}
	old.expectClosed()
	c.must(jute.OpExists, exists("/e", false))
	c.must(jute.OpSetData, setData("/e", "y")) // owns the session
}

func TestSilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		quiet, begun := w.open(), w.open()
		begun.write([]byte{0, 0, 0, 45, 0}) // the beginning of a frame whose rest never comes
		time.Sleep(DefaultHandshake - time.Millisecond)
		quiet.expectSilence(time.Microsecond)
		begun.expectSilence(time.Microsecond)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		quiet.expectClosed()
		begun.expectClosed()
		if n := w.srv.Stats().EndedByReason["handshake_timeout"]; n != 2 {
			t.Errorf("%d late handshakes counted, want 2", n)
		}
	})
}

// A handshake waits for a leader for a third of the granted timeout, but not beyond
// Limits.Handshake. The third begins with the client's request, not with its connection.
func TestHandshakeWaitsForAThirdOfTheTimeout(t *testing.T) {
	for _, tt := range []struct {
		name    string
		asked   time.Duration
		request jute.ConnectRequest
		late    time.Duration // from the connection to the request
		want    time.Duration // from the connection to its end
	}{
		{name: "short", asked: 4 * time.Second, want: 4 * time.Second / 3},
		{name: "attach", asked: 4 * time.Second, request: jute.ConnectRequest{SessionID: 99999}, want: 4 * time.Second / 3},
		{name: "shortest granted", asked: time.Millisecond, want: 2 * testTick / 3},
		{name: "long", asked: 24 * time.Second, want: 8 * time.Second},
		{name: "longer than three times the limit", asked: time.Minute, want: DefaultHandshake},
		{name: "late request", asked: 24 * time.Second, late: time.Second, want: 9 * time.Second},
		{name: "too late a request", asked: 24 * time.Second, late: 5 * time.Second, want: DefaultHandshake},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, func(c *Config) { c.MaxTimeout = time.Minute })
				w.hold()
				c := w.open()
				time.Sleep(tt.late)
				tt.request.TimeOut, tt.request.Passwd = int32(tt.asked.Milliseconds()), make([]byte, 16)
				c.send(tt.request)
				c.expectSilence(tt.want - tt.late - time.Millisecond)
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				if n := w.srv.Stats().EndedByReason["handshake_timeout"]; n != 1 {
					t.Errorf("%d late handshakes counted, want 1", n)
				}
				c.expectClosed()
			})
		})
	}
}

// A session that is created in time is not held to the handshake's limits.
func TestHandshakeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		w.hold()
		c := w.open()
		c.send(jute.ConnectRequest{TimeOut: 6000, Passwd: make([]byte, 16)})
		time.Sleep(2*time.Second - time.Millisecond)
		w.release()
		c.welcome()
		c.expectSilence(5 * time.Second)
		c.must(jute.OpPing)
	})
}

// While there is no leader no entry is applied. The handshake waits, and then its connection is closed without a reply.
// No client hears that its session is unknown or expired.
func TestHandshakeWaitsForLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, func(c *Config) { c.MaxTimeout = time.Minute })
		w.hold()
		create, attach := w.open(), w.open()
		create.send(jute.ConnectRequest{TimeOut: 60000})
		attach.send(jute.ConnectRequest{TimeOut: 60000, SessionID: 99999, Passwd: make([]byte, 512)})
		create.expectSilence(DefaultHandshake / 2)
		attach.expectSilence(time.Millisecond)
		if n := w.countSubmitted(); n != 2 {
			t.Fatalf("%d transactions wait, want 2", n)
		}
		if n := len(w.pending[1].Body); n > 100 {
			t.Errorf("the log would hold %d bytes of a client without a session", n)
		}
		time.Sleep(DefaultHandshake / 2)
		synctest.Wait()
		create.expectClosed()
		attach.expectClosed()
		if !w.wasDetached(99999) || !w.wasDetached(self<<56+1) {
			t.Error("the member was not told that the connections are gone")
		}
		w.release() // applied late, when the connections are gone
		if n := w.srv.Stats().Connections; n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// The server notices at once that a client gives up, so that its attach cannot take the session
// back from the connection that the client opens next.
func TestClientGivesUpHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		w.hold()
		c := w.open()
		c.send(jute.ConnectRequest{TimeOut: 10000, SessionID: 99999, Passwd: make([]byte, 16)})
		synctest.Wait()
		_ = c.Close()
		synctest.Wait()
		if !w.wasDetached(99999) {
			t.Error("the member was not told that the connection is gone")
		}
		w.release()
	})
}

// elsewhere makes the transaction of an attach at another member.
func elsewhere(c *client, conn, since uint64) *proto.Txn {
	return &proto.Txn{
		Session: int64(c.id), Conn: conn, Op: int32(jute.OpAttach),
		Body: encode(&proto.Attach{Password: c.password, TimeoutMs: 4000, OwnerIndex: since}),
	}
}

func (w *world) since(c *client) uint64 {
	w.state.RLock()
	defer w.state.RUnlock()
	s, _ := w.state.Session(c.id)
	return s.OwnerIndex
}

// An attach that meets a newer owner in the log is sent once more, with the since of that owner.
func TestAttachMeetsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		old := w.connect()
		first := w.since(old)
		w.hold()
		w.inject(other, elsewhere(old, 7, first)) // comes before this member's attach in the log
		c := w.open()
		c.send(jute.ConnectRequest{TimeOut: 10000, SessionID: old.id, Passwd: old.password})
		synctest.Wait()
		w.step() // the other member's attach
		w.step() // this member's, which is refused
		synctest.Wait()
		c.expectSilence(time.Millisecond)
		if n := w.countSubmitted(); n != 1 {
			t.Fatalf("%d transactions wait, want the second try", n)
		}
		w.release()
		if res := c.welcome(); res.SessionID != old.id {
			t.Errorf("got session %v, want %v", res.SessionID, old.id)
		}
		c.must(jute.OpCreate, create("/a", "", 0))
	})
}

// The attach of a session that another member owns, which is known here, names that owner. So it is right at the first try.
func TestAttachNamesTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		old := w.connect()
		w.hold()
		w.inject(other, elsewhere(old, 7, w.since(old)))
		w.step()
		c := w.open()
		c.send(jute.ConnectRequest{TimeOut: 10000, SessionID: old.id, Passwd: old.password})
		synctest.Wait()
		w.step()
		if res := c.welcome(); res.SessionID != old.id || w.countSubmitted() != 0 {
			t.Errorf("got session %v, and %d transactions wait; want %v and none", res.SessionID, w.countSubmitted(), old.id)
		}
	})
}

func TestAttachLosesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		old := w.connect()
		w.hold()
		w.inject(other, elsewhere(old, 7, w.since(old)))
		c := w.open()
		c.send(jute.ConnectRequest{TimeOut: 10000, SessionID: old.id, Passwd: old.password})
		synctest.Wait()
		w.step() // the other member's first attach
		w.inject(other, elsewhere(old, 8, w.since(old)))
		w.step() // this member's, which is refused
		synctest.Wait()
		w.release() // the other member's second attach, then this member's
		c.expectClosed()
		synctest.Wait()
		if n := w.srv.Stats().EndedByReason["attach_lost"]; n != 1 {
			t.Errorf("%d attaches counted as lost, want 1", n)
		}
	})
}

// If an accept fails, for example for want of file descriptors, the server continues.
func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember()
		srv, err := New(Config{Member: m, State: m.state, Tick: testTick})
		if err != nil {
			t.Fatal(err)
		}
		m.srv = srv
		l := newPipeListener()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- srv.Serve(ctx, l) }()
		begin := time.Now()
		for range 20 {
			l.fails <- errors.New("too many open files")
		}
		if took := time.Since(begin); took < 10*time.Second || took > 20*maxAcceptPause {
			t.Errorf("20 failures took %v: no back-off, or too long a one", took)
		}
		w := &world{fakeMember: m, tb: t, dial: l.dial}
		w.connect()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// While descriptors are short, accept fails after each client that gets one. That is logged once a second.
func TestAcceptFailuresLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer // only accept writes to it
		m := newFakeMember()
		srv, err := New(Config{Member: m, State: m.state, Tick: testTick, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		m.srv = srv
		l := newPipeListener()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- srv.Serve(ctx, l) }()
		const fails = 300
		for range fails {
			l.fails <- errors.New("too many open files")
			_ = l.dial().Close()
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		took := fails * acceptPause
		if n := strings.Count(log.String(), "accept failed"); n != 1+int(took/admission.LogInterval) ||
			!strings.Contains(log.String(), "unlogged=") {
			t.Errorf("%d lines about %d failures in %v:\n%s", n, fails, took, &log)
		}
	})
}

// The first frame of a connection has at most maxFirstFrame bytes, however long requests may be, and a longer one is not read. Later
// frames may be longer.
func TestLongFirstFrame(t *testing.T) {
	hello := func(size int) []byte {
		return frameOf(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, size-29), HasReadOnly: true})
	}
	for name, tcp := range map[string]bool{"memory": false, "tcp": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tcp, nil)
			c := w.open()
			c.write(hello(maxFirstFrame))
			if h := c.welcome(); h.SessionID == 0 {
				t.Error("a frame as long as allowed is refused")
			}
			c.must(jute.OpCreate, create("/a", strings.Repeat("x", 10*maxFirstFrame), 0))

			c = w.open()
			c.write(hello(maxFirstFrame + 1)[:8]) // the length is enough
			c.expectClosed()
			waitFor(t, func() bool { return w.srv.Stats().EndedByReason["bad_frame"] == 1 })
		})
	}
}
