package integration

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// After all members were stopped or killed and started again, everything is as before, on all
// members: sessions with their ephemerals, znodes and cursors.
func TestRestartOfAllMembers(t *testing.T) {
	for _, n := range []int{1, 3} {
		for name, end := range map[string]func(*cluster.Ensemble, uint32){"stopped": (*cluster.Ensemble).Stop, "killed": (*cluster.Ensemble).Kill} {
			t.Run(fmt.Sprintf("%d members %s", n, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { restart(t, n, end) })
			})
		}
	}
}

func restart(t *testing.T, n int, end func(*cluster.Ensemble, uint32)) {
	e := cluster.Start(t, n, cluster.Options{})
	e.Ready()
	c := e.Connect(20 * time.Second)
	id := c.Session()
	populate(t, c)
	e.Equal()
	before := snapshotOf(t, e.Member(1).State())

	for _, id := range e.IDs() {
		end(e, id)
	}
	time.Sleep(time.Minute) // an outage of any length, in which no session's time passes
	for _, id := range e.IDs() {
		e.Boot(id)
	}
	e.Ready()
	if err := c.WaitConnected(20 * time.Second); err != nil {
		t.Fatalf("client after the restart: %v", err)
	}
	if c.Session() != id {
		t.Errorf("session %v after the restart, %v before", c.Session(), id)
	}
	e.Equal()
	after := e.Member(1).State()
	compareTrees(t, before, after)
	for _, path := range []string{"/e", "/dir/n-0000000002"} {
		if _, err := c.Exists(path, false); err != nil {
			t.Errorf("%s after the restart: %v", path, err)
		}
	}
}

// populate creates something of every kind, and changes and deletes some of it.
func populate(t *testing.T, c *cluster.Client) {
	t.Helper()
	for _, n := range []struct {
		path string
		mode jute.CreateMode
	}{
		{"/dir", jute.Persistent},
		{"/e", jute.Ephemeral},
		{"/dir/n-", jute.PersistentSequential},
		{"/dir/n-", jute.EphemeralSequential},
		{"/dir/n-", jute.PersistentSequential},
		{"/gone", jute.Persistent},
	} {
		if _, err := c.Create(n.path, []byte(n.path), n.mode); err != nil {
			t.Fatalf("create %s: %v", n.path, err)
		}
	}
	if _, err := c.Do(jute.OpDelete, &jute.DeleteRequest{Path: []byte("/gone"), Version: -1}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(jute.OpSetData, &jute.SetDataRequest{Path: []byte("/dir"), Data: []byte("new"), Version: 0}); err != nil {
		t.Fatal(err)
	}
}

// remembered is the part of a state that a restart must not change.
type remembered struct {
	nodes   map[string]jute.Stat
	session znode.Session
}

func snapshotOf(t *testing.T, s *znode.State) remembered {
	t.Helper()
	s.RLock()
	defer s.RUnlock()
	r := remembered{nodes: map[string]jute.Stat{}}
	for _, path := range []string{"/", "/dir", "/e", "/dir/n-0000000000", "/dir/n-0000000001", "/dir/n-0000000002"} {
		_, st, code := s.GetData([]byte(path), nil, nil)
		if code != jute.OK {
			t.Fatalf("%s: %v", path, code)
		}
		r.nodes[path] = st
	}
	sessions := slices.Collect(s.Sessions(0))
	if len(sessions) != 1 {
		t.Fatalf("%d sessions, want 1", len(sessions))
	}
	r.session = sessions[0]
	return r
}

func compareTrees(t *testing.T, before remembered, s *znode.State) {
	t.Helper()
	after := snapshotOf(t, s)
	for path, st := range before.nodes {
		if after.nodes[path] != st {
			t.Errorf("%s: %+v after the restart, %+v before", path, after.nodes[path], st)
		}
	}
	b, a := before.session, after.session
	if a.ID != b.ID || a.Password != b.Password || a.Timeout != b.Timeout || a.CreatedMs != b.CreatedMs {
		t.Errorf("session %+v after the restart, %+v before", a, b)
	}
}
