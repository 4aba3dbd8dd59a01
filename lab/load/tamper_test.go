package load

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/result"
	"rollcall/rollcalltest"
	"rollcall/zk/jute"
)

// tamper stands between clients and a server, and makes the server look broken. Its functions get complete frames
// without their lengths and return the frames that are passed on. If a function is nil, all are.
type tamper struct {
	request func(c *wire, h jute.RequestHeader, frame []byte) [][]byte
	reply   func(c *wire, h jute.ReplyHeader, frame []byte) [][]byte
	// closed runs when the server has closed the connection, before the client's is closed.
	closed func(c *wire)
}

// wire is one connection.
type wire struct {
	client, server net.Conn
	mu             sync.Mutex // for the test's own state
	asked          map[int32]request
	dead           chan struct{} // closed with the client's connection
	state          map[string]int
	kept           []byte
}

type request struct {
	op   jute.Op
	path string
}

// injected is the xid of requests that the client has not sent. Their replies are dropped.
const injected = 1 << 30

// dialer returns a dialer that dials the ensemble through the tamper.
func (m tamper) dialer(e *rollcalltest.Ensemble) dialer {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		server, err := e.Dial(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		near, far := net.Pipe()
		c := &wire{
			client: far, server: server, asked: map[int32]request{}, dead: make(chan struct{}),
			state: map[string]int{},
		}
		go m.requests(c)
		go m.replies(c)
		return near, nil
	}
}

func (m tamper) requests(c *wire) {
	defer c.server.Close()
	defer close(c.dead)
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(c.client, nil, jute.DefaultMaxBuffer)
		if err != nil {
			return
		}
		out := [][]byte{frame}
		if !first {
			var h jute.RequestHeader
			d := jute.NewDecoder(frame)
			h.Decode(&d)
			path := ""
			if h.Op != jute.OpPing && h.Op != jute.OpCloseSession && h.Op != jute.OpSetWatches {
				path = string(d.ReadBytes())
			}
			c.mu.Lock()
			c.asked[h.Xid] = request{h.Op, path}
			if m.request != nil {
				out = m.request(c, h, frame)
			}
			c.mu.Unlock()
		}
		for _, f := range out {
			_ = jute.WriteFrame(c.server, f) // if it is closed, replies ends the connection
		}
	}
}

func (m tamper) replies(c *wire) {
	defer c.client.Close()
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(c.server, nil, jute.DefaultMaxBuffer)
		if err != nil {
			if m.closed != nil {
				m.closed(c)
			}
			return
		}
		out := [][]byte{frame}
		if !first {
			var h jute.ReplyHeader
			d := jute.NewDecoder(frame)
			h.Decode(&d)
			c.mu.Lock()
			if m.reply != nil {
				out = m.reply(c, h, frame)
			}
			if h.Xid >= injected {
				out = nil
			}
			c.mu.Unlock()
		}
		for _, f := range out {
			if jute.WriteFrame(c.client, f) != nil {
				return
			}
		}
	}
}

// replyLength is the length of a ReplyHeader, and versionAt the place of a Stat's version.
const (
	replyLength = 16
	versionAt   = 32
)

// after returns a function for inDrill that only waits.
func after(wait time.Duration) func(*testing.T, *drill) []judge.Fault {
	return func(*testing.T, *drill) []judge.Fault {
		time.Sleep(wait)
		return nil
	}
}

// The server acknowledges a write and drops it. Its reply has the version that the write would have made.
func TestServerDropsWrite(t *testing.T) {
	m := tamper{
		request: func(c *wire, h jute.RequestHeader, frame []byte) [][]byte {
			path := c.asked[h.Xid].path
			if h.Op != jute.OpSetData || !strings.HasSuffix(path, "/any") {
				return [][]byte{frame}
			}
			if c.state["sets"]++; c.state["sets"] != 20 {
				return [][]byte{frame}
			}
			c.state["dropped"] = int(h.Xid)
			instead := jute.RequestHeader{Xid: h.Xid, Op: jute.OpExists}.Append(nil)
			return [][]byte{jute.WatchedPath{Path: []byte(path)}.Append(instead)}
		},
		reply: func(c *wire, h jute.ReplyHeader, frame []byte) [][]byte {
			if c.state["dropped"] == int(h.Xid) && h.Err == jute.OK {
				frame[replyLength+versionAt+3]++
			}
			return [][]byte{frame}
		},
	}
	verdicts := inDrill(t, m.dialer, after(3*time.Second))
	want(t, slices.DeleteFunc(verdicts, func(v result.Verdict) bool {
		return v.Rule == "reads-back" // fails if the session reads before its next write
	}), "lost-writes")
}

// A server that acknowledges a create and drops it.
func TestServerDropsCreate(t *testing.T) {
	m := tamper{
		request: func(c *wire, h jute.RequestHeader, frame []byte) [][]byte {
			path := c.asked[h.Xid].path
			if h.Op != jute.OpCreate2 || !strings.HasSuffix(path, "/1-000010-") {
				return [][]byte{frame}
			}
			c.state["dropped"] = int(h.Xid)
			instead := jute.RequestHeader{Xid: h.Xid, Op: jute.OpExists}.Append(nil)
			return [][]byte{jute.WatchedPath{Path: []byte("/")}.Append(instead)}
		},
		reply: func(c *wire, h jute.ReplyHeader, frame []byte) [][]byte {
			if c.state["dropped"] != int(h.Xid) {
				return [][]byte{frame}
			}
			r := jute.Create2Response{Path: []byte(c.asked[h.Xid].path + "0000009999")}
			return [][]byte{r.Append(h.Append(nil))}
		},
	}
	want(t, inDrill(t, m.dialer, after(3*time.Second)), "lost-writes")
}

// A server that carries writes out twice.
func TestServerDoublesWrites(t *testing.T) {
	for name, op := range map[string]jute.Op{"create": jute.OpCreate2, "set": jute.OpSetData} {
		t.Run(name, func(t *testing.T) {
			m := tamper{request: func(c *wire, h jute.RequestHeader, frame []byte) [][]byte {
				path := c.asked[h.Xid].path
				if h.Op != op || !strings.HasSuffix(path, "/1-000010-") && !strings.HasSuffix(path, "/any") {
					return [][]byte{frame}
				}
				if c.state["writes"]++; op == jute.OpSetData && c.state["writes"] != 10 {
					return [][]byte{frame}
				}
				twin := append(jute.AppendInt32(nil, injected+h.Xid), frame[4:]...)
				return [][]byte{twin, frame}
			}}
			want(t, inDrill(t, m.dialer, after(3*time.Second)), "doubled-writes")
		})
	}
}

// The server replies to a read with data of an earlier reply.
func TestServerReadsBack(t *testing.T) {
	m := tamper{reply: func(c *wire, h jute.ReplyHeader, frame []byte) [][]byte {
		r := c.asked[h.Xid]
		if r.op != jute.OpGetData || !strings.HasSuffix(r.path, "/probe/2") || h.Err != jute.OK {
			return [][]byte{frame}
		}
		switch c.state["reads"]++; c.state["reads"] {
		case 10:
			c.kept = frame[replyLength:]
		case 20:
			return [][]byte{append(frame[:replyLength:replyLength], c.kept...)}
		}
		return [][]byte{frame}
	}}
	want(t, inDrill(t, m.dialer, after(3*time.Second)), "reads-back")
}

// A server whose replies go back to an older transaction.
func TestServerGoesBack(t *testing.T) {
	m := tamper{reply: func(c *wire, h jute.ReplyHeader, frame []byte) [][]byte {
		if c.asked[h.Xid].op == jute.OpGetData && h.Err == jute.OK {
			if c.state["reads"]++; c.state["reads"]%10 == 0 {
				h.Zxid -= 100
				return [][]byte{append(h.Append(nil), frame[replyLength:]...)}
			}
		}
		return [][]byte{frame}
	}}
	want(t, inDrill(t, m.dialer, after(3*time.Second)), "reads-back")
}

// sharedEvent returns the path of an event of a shared key, or "".
func sharedEvent(h jute.ReplyHeader, frame []byte) string {
	if h.Xid != jute.XidNotification {
		return ""
	}
	var e jute.WatcherEvent
	d := jute.NewDecoder(frame[replyLength:])
	e.Decode(&d)
	if path := string(e.Path); strings.Contains(path, sharedParent+"/") {
		return path
	}
	return ""
}

// A server that drops an event, sends one twice, or sends one too late.
func TestServerBreaksWatches(t *testing.T) {
	const turn = 10 // the event that goes wrong, on each connection
	for _, tt := range []struct {
		name  string
		reply func(c *wire, h jute.ReplyHeader, frame []byte) [][]byte
		rules []string
	}{
		{name: "drops", rules: []string{"watch-lost", "watch-order"}, reply: func(c *wire, h jute.ReplyHeader, frame []byte) [][]byte {
			if sharedEvent(h, frame) != "" {
				if c.state["events"]++; c.state["events"] == turn {
					return nil
				}
			}
			return [][]byte{frame}
		}},
		{name: "doubles", rules: []string{"watch-doubled"}, reply: func(c *wire, h jute.ReplyHeader, frame []byte) [][]byte {
			if sharedEvent(h, frame) != "" {
				if c.state["events"]++; c.state["events"] == turn {
					return [][]byte{frame, frame}
				}
			}
			return [][]byte{frame}
		}},
		{name: "delays", rules: []string{"watch-order"}, reply: func(c *wire, h jute.ReplyHeader, frame []byte) [][]byte {
			path := sharedEvent(h, frame)
			switch {
			case c.kept != nil && c.asked[h.Xid] == request{jute.OpGetData, c.asked[int32(-turn)].path}:
				late := c.kept
				c.kept = nil
				return [][]byte{frame, late}
			case path != "":
				if c.state["events"]++; c.state["events"] == turn {
					c.kept, c.asked[-turn] = frame, request{path: path}
					return nil
				}
			}
			return [][]byte{frame}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want(t, inDrill(t, tamper{reply: tt.reply}.dialer, after(5*time.Second)), tt.rules...)
		})
	}
}

// The server continues to reply to a client whose session it has ended.
func TestServerAnswersAfterExpiry(t *testing.T) {
	m := tamper{
		request: func(c *wire, h jute.RequestHeader, frame []byte) [][]byte {
			if h.Op == jute.OpCreate2 && strings.Contains(c.asked[h.Xid].path, "/holder-1-") {
				c.state["holder"] = 1
			}
			return [][]byte{frame}
		},
		closed: func(c *wire) {
			c.mu.Lock()
			holder := c.state["holder"] == 1
			clear(c.asked) // those have their replies
			c.mu.Unlock()
			if !holder {
				return
			}
			answered := map[int32]bool{}
			for range 40 { // for two seconds
				c.mu.Lock()
				for xid, r := range c.asked {
					if r.op == jute.OpExists && !answered[xid] {
						answered[xid] = true
						reply := jute.ReplyHeader{Xid: xid}.Append(nil)
						go func() { _ = jute.WriteFrame(c.client, append(reply, make([]byte, jute.StatSize)...)) }()
					}
				}
				c.mu.Unlock()
				select {
				case <-c.dead:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		},
	}
	verdicts := inDrill(t, m.dialer, func(t *testing.T, d *drill) []judge.Fault {
		time.Sleep(2 * time.Second)
		if err := d.ExpireSession(d.sessionsOf("holder-1")[0]); err != nil {
			t.Error(err)
		}
		time.Sleep(4 * time.Second)
		return nil
	})
	want(t, verdicts, "connected-after-expiry", "session-ended")
}

// A server that acknowledges the end of a session and keeps it, and one that keeps a silent session.
func TestServerKeepsSessions(t *testing.T) {
	closing := tamper{request: func(c *wire, h jute.RequestHeader, frame []byte) [][]byte {
		switch {
		case strings.Contains(c.asked[h.Xid].path, sessionsParent+"/holder-"):
			c.state["holder"] = 1
		case h.Op == jute.OpCloseSession && c.state["holder"] == 1:
			ping := jute.RequestHeader{Xid: h.Xid, Op: jute.OpPing}.Append(nil)
			return [][]byte{ping}
		}
		return [][]byte{frame}
	}}
	silent := tamper{request: func(c *wire, h jute.RequestHeader, frame []byte) [][]byte {
		if h.Op == jute.OpCreate { // package client creates with create2
			go func() {
				for {
					select {
					case <-c.dead:
						return
					case <-time.After(time.Second):
						_ = jute.WriteFrame(c.server, jute.RequestHeader{Xid: injected, Op: jute.OpPing}.Append(nil))
					}
				}
			}()
		}
		return [][]byte{frame}
	}}
	t.Run("closed", func(t *testing.T) {
		want(t, inDrill(t, closing.dialer, after(time.Second)), "ephemeral-stayed")
	})
	t.Run("silent", func(t *testing.T) {
		want(t, inDrill(t, silent.dialer, func(t *testing.T, d *drill) []judge.Fault {
			if err := d.Silence(t.Context(), 1); err != nil {
				t.Error(err)
			}
			time.Sleep(4 * testTimeout)
			return nil
		}), "session-stayed")
	})
	t.Run("silent, under the next leader", func(t *testing.T) {
		want(t, inDrill(t, silent.dialer, func(t *testing.T, d *drill) []judge.Fault {
			if err := d.Silence(t.Context(), 1); err != nil {
				t.Error(err)
			}
			from := d.Now().At
			killed, err := d.KillLeader()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(testTimeout)
			if err := killed.Restart(); err != nil {
				t.Fatal(err)
			}
			to := d.Now().At
			time.Sleep(2 * time.Second)
			fault := judge.Fault{Members: []string{name(killed)}, From: from, To: to, Text: "kill"}
			if left := d.StayedFor([]judge.Fault{fault}); left == 0 {
				t.Error("the session may live no longer, although there is another leader")
			} else {
				time.Sleep(left + time.Second)
			}
			return []judge.Fault{fault}
		}), "session-stayed")
	})
}

// The server lets a second client have a lock, and does not notify the first one: its node is deleted, and the event is
// dropped.
func TestServerGivesLockTwice(t *testing.T) {
	m := tamper{
		reply: func(c *wire, h jute.ReplyHeader, frame []byte) [][]byte {
			r := c.asked[h.Xid]
			if r.op == jute.OpCreate2 && strings.Contains(r.path, lockParent+"/") && h.Err == jute.OK {
				d := jute.NewDecoder(frame[replyLength:])
				c.state[string(d.ReadBytes())] = 1
			}
			if h.Xid == jute.XidNotification {
				var e jute.WatcherEvent
				d := jute.NewDecoder(frame[replyLength:])
				e.Decode(&d)
				if c.state[string(e.Path)] == 1 {
					return nil
				}
			}
			return [][]byte{frame}
		},
	}
	verdicts := inDrill(t, m.dialer, func(t *testing.T, d *drill) []judge.Fault {
		for deleted := 0; deleted < 20; time.Sleep(300 * time.Millisecond) {
			if d.delete(lockParent, "_c_") { // nobody may hold the lock at the moment
				deleted++
			}
		}
		return nil
	})
	want(t, verdicts, "two-holders")
}
