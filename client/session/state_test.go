package session

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// Changes of the state come in order, with the server, the time and the reason.
func TestStates(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var h heard
		var p *peer
		f.down["a"] = true
		c := f.open(Config{Servers: []string{"a", "b", "c"}, OnState: func(s Change) {
			h.add("%v %q %v, reason %t", s.State, s.Server, s.At.Sub(f.began).Round(time.Second), s.Err != nil)
		}}, func() {
			p = <-f.peers
			p.accept()
		})
		time.Sleep(time.Second)
		_ = p.Close()
		time.Sleep(time.Second)
		p = <-f.peers
		p.accept()
		synctest.Wait()
		time.Sleep(time.Second)
		c.Abandon()
		want := []string{
			`connecting "" 0s, reason false`, `connected "b" 0s, reason false`, `suspended "b" 1s, reason true`,
			`reconnected "c" 2s, reason false`, `closed "c" 3s, reason false`,
		}
		if got := h.take(); !slices.Equal(got, want) {
			t.Errorf("states\n%q, want\n%q", got, want)
		}
	})
}

func TestStateNames(t *testing.T) {
	connected, final := "", ""
	for s := State(0); s <= AuthFailed+1; s++ {
		if s.IsConnected() {
			connected += s.String() + " "
		}
		if s.IsFinal() {
			final += s.String() + " "
		}
	}
	if connected != "connected reconnected read-only " || final != "expired closed auth failed " {
		t.Errorf("connected %q, final %q", connected, final)
	}
	if State(0).String() != "no state" || (AuthFailed+1).String() != "no state" || Suspended.String() != "suspended" {
		t.Error("a name is wrong")
	}
}

// acceptReadOnly replies to a handshake as a server without a leader does.
func (p *peer) acceptReadOnly(id jute.SessionID) jute.ConnectRequest {
	p.t.Helper()
	req := p.connectRequest()
	p.write(jute.ConnectResponse{
		TimeOut: req.TimeOut, SessionID: id, Passwd: make([]byte, 16), HasReadOnly: true, ReadOnly: true,
	})
	return req
}

// answerPings replies to pings until the client closes the connection.
func (p *peer) answerPings() {
	for {
		if _, err := jute.ReadFrame(p.r, nil, 1<<20); err != nil {
			return
		}
		_ = jute.WriteFrame(p.Conn, jute.ReplyHeader{Xid: jute.XidPing}.Append(nil))
	}
}

// isro replies to a query for a server that can write.
func (p *peer) isro(reply string) {
	p.t.Helper()
	word := make([]byte, 4)
	if _, err := io.ReadFull(p.r, word); err != nil || string(word) != "isro" {
		p.t.Errorf("server %s: got %q, %v, want isro", p.addr, word, err)
	}
	_, _ = p.Write([]byte(reply))
	_ = p.Close()
}

// At a read-only server, a Session has no right. It queries the others for one that can write, moves to that, and opens
// a new session there.
func TestReadOnly(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var h heard
		var a *peer
		f.down["c"] = true
		c := f.open(Config{
			Servers: []string{"a", "b", "c", "d"}, AllowReadOnly: true,
			OnState: func(s Change) { h.add("%v %s %v", s.State, s.Server, s.Err) },
		}, func() {
			a = <-f.peers
			if req := a.acceptReadOnly(77); !req.ReadOnly || req.SessionID != 0 {
				t.Errorf("handshake: %+v", req)
			}
		})
		if c.Right().Held() {
			t.Error("a right at a read-only server")
		}
		a.reply(send(t, c, a), 1, jute.NotReadOnly, nil)
		left := make(chan struct{})
		go func() {
			defer close(left)
			a.answerPings()
		}()
		for i, reply := range []string{"ro", "", "null", "ro", "ro", "r", "ro", "rw"} {
			from := time.Now()
			q := <-f.peers
			if i == 0 && (time.Since(from) > minSearchPause || q.addr != "b") {
				t.Errorf("queried %s after %v", q.addr, time.Since(from))
			}
			if reply == "" { // it does not reply
				_, _ = io.ReadFull(q.r, make([]byte, 4))
				q.ended()
			} else {
				q.isro(reply)
			}
			if c.Right().Held() {
				t.Error("a right at a read-only server")
			}
		}
		<-left
		d := <-f.peers
		if req := d.accept(); d.addr != "d" || req.SessionID != 0 || !slices.Equal(req.Passwd, make([]byte, 16)) {
			t.Errorf("server %s, handshake: %+v", d.addr, req)
		}
		synctest.Wait()
		if id, _ := c.Identity(); id != fakeSession || !c.Right().Held() {
			t.Errorf("session %v", id)
		}
		time.Sleep(time.Second)
		_ = d.Close()
		if req := (<-f.peers).accept(); req.SessionID != fakeSession {
			t.Errorf("handshake after the move: %+v", req)
		}
		synctest.Wait()
		want := []string{
			"connecting  <nil>", "read-only a <nil>", "suspended a " + errWriterFound.Error(), "connected d <nil>",
			"suspended d EOF", "reconnected b <nil>",
		}
		if got := h.take(); !slices.Equal(got, want) {
			t.Errorf("states\n%q, want\n%q", got, want)
		}
	})
}

// When the connection to a read-only server is lost, the search ends, and the next server is tried.
func TestSearchEndsWithConnection(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		f.open(Config{Servers: []string{"a", "b"}, AllowReadOnly: true}, func() {
			p = <-f.peers
			p.acceptReadOnly(77)
		})
		q := <-f.peers // the first query, to which no reply comes
		_, _ = io.ReadFull(q.r, make([]byte, 4))
		lost := time.Now()
		_ = p.Close()
		q.ended()
		p = <-f.peers
		if req := p.accept(); req.SessionID != 0 || p.addr != "b" || time.Since(lost) > searchTimeout/2 {
			t.Errorf("server %s after %v: %+v", p.addr, time.Since(lost), req)
		}
		time.Sleep(5 * time.Second)
		if n := len(f.peers); n != 0 {
			t.Errorf("%d queries after the loss", n)
		}
	})
}

// The search for a server that can write doubles its pauses up to a minute, and ends with the connection.
func TestSearchPauses(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var a *peer
		var began []time.Time
		c := f.open(Config{Servers: []string{"a"}, AllowReadOnly: true}, func() {
			a = <-f.peers
			a.acceptReadOnly(77)
		})
		_ = a.Close()
		limited, cancel := context.WithCancel(ctx)
		defer cancel()
		last := time.Now()
		findWriter(limited, func(context.Context, string) (net.Conn, error) {
			began = append(began, time.Now())
			if len(began) == 14 {
				cancel()
			}
			return nil, errors.New("refused")
		}, []candidate{{"b", "b"}})
		for i, at := range began {
			most := min(minSearchPause<<i, maxSearchPause)
			if pause := at.Sub(last); pause < most/2 || pause > most {
				t.Errorf("pause %d: %v, want %v to %v", i, pause, most/2, most)
			}
			last = at
		}
		c.Abandon()
	})
}

// A session that only a read-only server knew is not given up: the next handshake opens a new one.
func TestNoGivingUpLocalSession(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var a *peer
		c := f.open(Config{Servers: []string{"a"}, AllowReadOnly: true}, func() {
			a = <-f.peers
			a.acceptReadOnly(77)
		})
		f.mu.Lock()
		f.down["a"] = true
		f.mu.Unlock()
		_ = a.Close()
		time.Sleep(time.Hour)
		f.mu.Lock()
		f.down["a"] = false
		f.mu.Unlock()
		if req := (<-f.peers).accept(); req.SessionID != 0 {
			t.Errorf("handshake: %+v", req)
		}
		if err := c.AwaitReady(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A session that other servers know is resumed at a read-only server, if that lets it, and gains no right there.
func TestKnownSessionAtReadOnlyServer(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var a *peer
		c := f.open(Config{Servers: []string{"a"}, AllowReadOnly: true}, func() {
			a = <-f.peers
			a.accept()
		})
		time.Sleep(time.Second)
		_ = a.Close()
		a = <-f.peers
		if req := a.acceptReadOnly(fakeSession); req.SessionID != fakeSession {
			t.Errorf("handshake: %+v", req)
		}
		synctest.Wait()
		a.reply(send(t, c, a), 1, jute.OK, nil)
		synctest.Wait()
		rightUntil(t, c, 27*time.Second)
		_ = a.Close()
		if req := (<-f.peers).accept(); req.SessionID != fakeSession {
			t.Errorf("handshake: %+v", req)
		}
		synctest.Wait()
	})
}

// The client leaves a server that is read-only, unless it accepts such servers.
func TestReadOnlyNotAllowed(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		f.open(Config{}, func() {
			a := <-f.peers
			a.acceptReadOnly(77)
			a.ended()
			(<-f.peers).accept()
		})
	})
}
