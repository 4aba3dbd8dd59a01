package member_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/member"
	"rollcall/zk/jute"
)

// readers starts an ensemble whose members serve in read-only mode while they know no leader.
func readers(t *testing.T, n int) *cluster.Ensemble {
	t.Helper()
	e := cluster.Start(t, n, cluster.Options{Tick: time.Second, Adjust: func(cfg *member.Config) { cfg.ReadOnlyMode = true }})
	e.Ready()
	e.Joined()
	return e
}

// greet does a handshake with a member. It returns io.EOF if the member closes the connection unanswered.
func greet(t *testing.T, e *cluster.Ensemble, id uint32, req jute.ConnectRequest) (*wire.Conn, jute.ConnectResponse, error) {
	t.Helper()
	c, err := e.Dial(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	req.TimeOut, req.HasReadOnly = 6000, true
	res, err := c.Handshake(req)
	return c, res, err
}

func asks(session jute.ConnectResponse) jute.ConnectRequest {
	return jute.ConnectRequest{SessionID: session.SessionID, Passwd: session.Passwd, ReadOnly: true}
}

// A member that is cut off serves in read-only mode after two seconds without a leader. What it shows may be old: a
// node whose owner has expired elsewhere is still there. No session of the ensemble is answered there, and no
// read-only session reaches the log. When the leader is back, read-only clients are closed.
func TestReadOnlyWhileCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := readers(t, 3)
		alone, other := e.Followers()[0], e.Followers()[1]
		owner := e.Connect(4*time.Second, other)
		if _, err := owner.Create("/e", nil, jute.Ephemeral); err != nil {
			t.Fatal(err)
		}
		_, kept, err := greet(t, e, alone, jute.ConnectRequest{})
		if err != nil {
			t.Fatal(err)
		}
		e.Equal()
		m := e.Member(alone)
		e.Isolate(alone)
		e.Wait("a member without a leader", time.Minute, func() bool { return m.Role() == "" })
		time.Sleep(1900 * time.Millisecond)
		if role := m.Role(); role != "" {
			t.Errorf("role %q after less than two seconds without a leader", role)
		}
		time.Sleep(300 * time.Millisecond)
		if role := m.Role(); role != "read-only" {
			t.Fatalf("role %q after more than two seconds without a leader", role)
		}
		if text, serves := m.Health().StatusText(); serves {
			t.Errorf("a member that serves only readers says it serves: %s", text)
		}
		if shown := m.Shown(); shown.Role != "read-only" || shown.Nodes == 0 {
			t.Errorf("shown: role %q, %d nodes", shown.Role, shown.Nodes)
		}
		owner.Abandon()
		e.Wait("the owner's end", time.Minute, func() bool { return !sees(e, other, "/e") })

		for _, req := range []jute.ConnectRequest{{}, asks(kept), {SessionID: kept.SessionID, Passwd: kept.Passwd}} {
			begun := time.Now()
			if _, res, err := greet(t, e, alone, req); !errors.Is(err, io.EOF) || time.Since(begun) > 0 {
				t.Errorf("%+v: answered %+v, %v after %v; want the end at once", req, res, err, time.Since(begun))
			}
		}
		c, res, err := greet(t, e, alone, asks(jute.ConnectResponse{}))
		if err != nil || !res.ReadOnly || res.TimeOut != 6000 {
			t.Fatalf("%+v, %v", res, err)
		}
		if r, _, err := c.Call(1, jute.OpExists, jute.ExistsRequest{Path: []byte("/e"), Watch: true}); err != nil || r.Err != jute.OK {
			t.Errorf("a stale read: %v, %v", r, err)
		}
		if r, _, err := c.Call(2, jute.OpSync, jute.SyncRequest{Path: []byte("/")}); err != nil || r.Err != jute.NotReadOnly {
			t.Errorf("sync: %v, %v", r, err)
		}

		e.Rejoin(alone)
		e.Healed()
		r, err := c.Recv() // the owner's end may come first, as an event
		for err == nil && r.Event().Type == jute.EventNodeDeleted {
			r, err = c.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("a read-only connection with a leader: %v, %v; want its end", r, err)
		}
		if _, again, err := greet(t, e, alone, asks(res)); err != nil || again.SessionID != 0 {
			t.Errorf("the read-only session is resumed: %+v, %v", again, err)
		}
		if _, again, err := greet(t, e, alone, asks(jute.ConnectResponse{})); err != nil || again.ReadOnly || again.SessionID == 0 {
			t.Errorf("with a leader: %+v, %v; want an ordinary session", again, err)
		}
		e.Equal()
	})
}

// sees reports whether a member's state has a node.
func sees(e *cluster.Ensemble, id uint32, path string) bool {
	state := e.Member(id).State()
	state.RLock()
	defer state.RUnlock()
	_, code := state.Exists([]byte(path), nil, nil)
	return code == jute.OK
}

// A leader that comes back every second keeps a member out of the read-only mode.
func TestNoReadOnlyWhileLeadersFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := readers(t, 3)
		alone := e.Followers()[0]
		m, lost := e.Member(alone), 0
		for range 20 {
			e.Isolate(alone)
			for range 100 {
				time.Sleep(10 * time.Millisecond)
				switch m.Role() {
				case "read-only":
					t.Fatal("read-only after a second without a leader")
				case "":
					lost++
				}
			}
			e.Rejoin(alone)
			e.Wait("a leader", time.Minute, func() bool { return m.Role() == "follower" })
		}
		if lost == 0 {
			t.Error("the member always knew a leader: this test has shown nothing")
		}
	})
}

// A member that has had no leader since its start is not read-only: it does not know how much of its log is
// committed, so that its state may be much older than what its clients have seen.
func TestNoReadOnlyBeforeALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := readers(t, 3)
		alone := e.Followers()[0]
		for _, id := range e.IDs() {
			e.Kill(id)
		}
		e.Boot(alone)
		time.Sleep(time.Minute)
		if role := e.Member(alone).Role(); role != "" {
			t.Errorf("role %q", role)
		}
		if _, res, err := greet(t, e, alone, asks(jute.ConnectResponse{})); !errors.Is(err, io.EOF) {
			t.Errorf("answered %+v, %v", res, err)
		}
		for _, id := range e.IDs() {
			if id != alone {
				e.Boot(id)
			}
		}
		e.Ready()
	})
}

// A member that runs alone is never read-only.
func TestReadOnlyNeedsAnEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := readers(t, 1)
		time.Sleep(10 * time.Second)
		if _, res, err := greet(t, e, 1, asks(jute.ConnectResponse{})); err != nil || res.ReadOnly || res.SessionID == 0 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}
