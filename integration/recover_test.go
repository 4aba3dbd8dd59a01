package integration

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/quorum/disk"
	"rollcall/zk/jute"
)

// Two of three members lose their disks for good. The third is recovered, and all start with the same server list. The
// connected client continues with the same session and the same nodes, and losing a leader does no harm any more.
func TestRecoverLostMajority(t *testing.T) {
	for _, survivor := range []uint32{1, 3} {
		t.Run(fmt.Sprintf("member %d survives", survivor), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { recoverLostMajority(t, survivor) })
		})
	}
}

func recoverLostMajority(t *testing.T, survivor uint32) {
	dir := filepath.Join(t.TempDir(), "data")
	var servers []member.Server
	e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) {
		servers = cfg.Servers
		if cfg.ID == survivor {
			cfg.Stores, cfg.Dir = nil, dir
		}
	}})
	e.Ready()
	c := e.Connect(20 * time.Second)
	session := c.Session()
	if _, err := c.Create("/kept", nil, jute.Ephemeral); err != nil {
		t.Fatal(err)
	}
	e.Equal()
	time.Sleep(5 * time.Second) // a member that was late for its first start has joined
	for _, id := range e.IDs() {
		e.Kill(id)
		if id != survivor {
			e.Wipe(id)
		}
	}
	if err := member.Recover(member.RecoverConfig{ID: survivor, Servers: servers, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	for _, id := range e.IDs() {
		e.Boot(id)
	}
	e.Ready()
	if _, err := insist(c, "/more"); err != nil {
		t.Fatalf("write after the recovery: %v", err)
	}
	if _, err := c.Exists("/kept", false); err != nil || c.Session() != session {
		t.Errorf("/kept: %v; session %v, was %v", err, c.Session(), session)
	}
	e.Equal()

	e.Wait("the others to lead without the survivor", time.Minute, func() bool {
		time.Sleep(5 * time.Second) // for the leader to make members that have caught up voters
		leader := e.Leader()
		e.Kill(leader)
		time.Sleep(5 * time.Second)
		e.Boot(leader)
		e.Ready()
		return e.Leader() != survivor
	})
	if _, err := insist(c, "/again"); err != nil {
		t.Fatalf("write after a change of leader: %v", err)
	}
	e.Equal()
}

// Before a recovery, the running members report the last index of their data. A member that was down for the last writes
// is behind.
func TestExamineBeforeRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		r := member.RecoverConfig{ID: 1, Dir: dir}
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) {
			switch cfg.ID {
			case 1:
				cfg.Stores, cfg.Dir = nil, dir
			case 2:
				r.Servers, r.Dial = cfg.Servers, cfg.Network.Dial // the network of a member that is down does not work
			}
		}})
		e.Ready()
		c := e.Connect(20*time.Second, 2, 3)
		if _, err := c.Create("/all", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		e.Equal()
		time.Sleep(5 * time.Second) // a member that was late for its first start has joined
		if _, err := member.CollectDataExtents(t.Context(), r); !errors.Is(err, disk.ErrInUse) {
			t.Errorf("Examine of a member that runs: %v, want disk.ErrInUse", err)
		}
		e.Kill(1)
		begin := time.Now()
		if _, err := insist(c, "/later"); err != nil {
			t.Fatal(err)
		}
		e.Kill(3)
		findings, err := member.CollectDataExtents(t.Context(), r)
		if err != nil || len(findings) != 3 {
			t.Fatalf("%+v, %v", findings, err)
		}
		own, two, three := findings[0], findings[1], findings[2]
		if own.ID != 1 || own.Index == 0 || own.Term == 0 || own.LastTime.After(begin) || begin.Sub(own.LastTime) > time.Minute {
			t.Errorf("what member 1 says of itself: %+v; it was killed at %v", own, begin)
		}
		if two.ID != 2 || two.Err != nil || !own.Before(two.DataEnd) || two.Before(own.DataEnd) {
			t.Errorf("member 2, which has more than %+v: %+v", own.DataEnd, two)
		}
		if three.ID != 3 || three.Err == nil {
			t.Errorf("member 3, which is down: %+v", three)
		}
		e.Boot(1)
		e.Ready()
		e.Wait("member 1 to have /later", time.Minute, func() bool {
			return nodeCount(e.Member(1)) == nodeCount(e.Member(2))
		})
	})
}

// nodeCount returns the number of znodes that a member has applied.
func nodeCount(m *member.Member) int {
	s := m.State()
	s.RLock()
	defer s.RUnlock()
	return s.TreeView().NodeCount()
}

// insist creates a node, however often the connection breaks.
func insist(c *cluster.Client, path string) (string, error) {
	for {
		made, err := c.Create(path, nil, jute.Persistent)
		if !errors.Is(err, cluster.ErrLoss) {
			if errors.Is(err, jute.NodeExists) {
				return path, nil // created by the request before, whose outcome was unknown
			}
			return made, err
		}
	}
}

// The survivor serves as soon as one more member votes, and not before.
func TestRecoveredServesWithOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		var servers []member.Server
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) {
			servers = cfg.Servers
			if cfg.ID == 1 {
				cfg.Stores, cfg.Dir = nil, dir
			}
		}})
		e.Ready()
		time.Sleep(5 * time.Second) // a member that was late for its first start has joined
		for _, id := range e.IDs() {
			e.Kill(id)
			e.Wipe(id)
		}
		if err := member.Recover(member.RecoverConfig{ID: 1, Servers: servers, Dir: dir}); err != nil {
			t.Fatal(err)
		}
		e.Boot(1)
		const timeout = 4 * time.Second
		time.Sleep(10 * timeout)
		if role := e.Member(1).Role(); role != "" {
			t.Errorf("a member alone serves as %s", role)
		}
		e.Boot(2)
		e.Wait("member 2 to serve", time.Minute, func() bool { return e.Member(2).Role() == "follower" })
		c := e.Connect(timeout)
		time.Sleep(5 * time.Second) // until it has a vote
		before := c.Disconnects()
		time.Sleep(10 * timeout)
		if n := c.Disconnects() - before; n != 0 {
			t.Errorf("%d disconnects with two of three members", n)
		}
	})
}
