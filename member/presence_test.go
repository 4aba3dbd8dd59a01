package member_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/serverlist"
	"rollcall/member"
	"rollcall/operator/admin"
	"rollcall/zk/jute"
)

// changeList asks a member for a change of the list, once.
func changeList(t *testing.T, e *cluster.Ensemble, asked uint32, c serverlist.Change) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := e.Member(asked).Operations().ChangeMembers(ctx, admin.MembersChange{Change: c, Version: -1})
	return err
}

// settled waits until raft's configuration is the list.
func settled(t *testing.T, e *cluster.Ensemble) {
	t.Helper()
	e.Wait("raft's configuration to follow", time.Minute, e.Settled)
}

// one starts an ensemble of one member, which is no standalone server.
func one(t *testing.T, opts cluster.Options) *cluster.Ensemble {
	t.Helper()
	adjust := opts.Adjust
	opts.Adjust = func(cfg *member.Config) {
		if cfg.ID == 1 {
			cfg.EnsembleText = []byte("server.1=m1:2888:3888:participant;m1:2181")
		}
		if adjust != nil {
			adjust(cfg)
		}
	}
	e := cluster.Start(t, 1, opts)
	e.Ready()
	return e
}

// An ensemble of one grows to three, each time with one request, which comes as soon as the new member has been
// started, or even before. With certificates, the new member cannot come to the leader, which does not know its host.
func TestGrowsFromOne(t *testing.T) {
	for _, tt := range []struct {
		name    string
		certify bool
		late    time.Duration // after the request, the new member is started
	}{
		{"plain", false, 0},
		{"plain, started late", false, 2 * time.Second},
		{"with certificates", true, 0},
		{"with certificates, started late", true, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var opts cluster.Options
				if tt.certify {
					opts.Adjust = certify(t)
				}
				e := one(t, opts)
				for id := uint32(2); id <= 3; id++ {
					e.Add(id)
					outcome := make(chan error, 1)
					go func() { outcome <- changeList(t, e, 1, serverlist.Change{Joining: e.ServerLine(id, false)}) }()
					time.Sleep(tt.late)
					e.Boot(id)
					if err := <-outcome; err != nil {
						t.Fatalf("member %d: %v", id, err)
					}
					settled(t, e)
				}
				e.Ready()
			})
		})
	}
}

// A member that waits somewhere else does not stand for the one that the list names.
func TestStrangerIsNotPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := one(t, cluster.Options{Reconfig: true})
		e.Add(2)
		named := e.ServerLine(2, false)
		e.Move(2)
		e.Boot(2)
		time.Sleep(5 * time.Second) // it asks
		failed(t, changeList(t, e, 1, serverlist.Change{Joining: named}), http.StatusConflict, "does not reach [2] at their addresses there")
		if _, err := e.Reconfigure(t.Context(), 1, serverlist.Change{Joining: named}); !errors.Is(err, jute.NewConfigNoQuorum) {
			t.Errorf("a client's request: %v", err)
		}
		if _, err := e.Reconfigure(t.Context(), 1, serverlist.Change{Joining: e.ServerLine(2, false)}); err != nil {
			t.Errorf("a client's request that names its address: %v", err)
		}
		settled(t, e)
	})
}

// One of two voters moves: it starts at its new address, and is asked itself for the change, because the other one
// does not find it. As long as it is not there, the change is refused.
func TestOneOfTwoVotersMoves(t *testing.T) {
	for _, role := range []string{"leader", "follower"} {
		synctest.Test(t, func(t *testing.T) {
			e := cluster.Start(t, 2, cluster.Options{})
			moved := e.Ready()
			if role == "follower" {
				moved = e.Followers()[0]
			}
			time.Sleep(5 * time.Second) // both have announced themselves: the one that moves must have the longer log, or the same
			e.Kill(moved)
			before := e.ServerLine(moved, false)
			e.Move(moved)
			after := e.ServerLine(moved, false)
			e.Boot(moved)
			e.Wait("the member that has moved to lead", time.Minute, func() bool { return e.Member(moved).Role() == "leader" })
			if err := changeList(t, e, moved, serverlist.Change{Joining: after}); err != nil {
				t.Fatalf("the %s: %v", role, err)
			}
			settled(t, e)
			if got := e.Ready(); got != moved {
				t.Errorf("the %s has moved, and member %d leads, want %d", role, got, moved)
			}
			for _, asked := range []uint32{moved, 3 - moved} {
				failed(t, changeList(t, e, asked, serverlist.Change{Joining: before}), http.StatusConflict, "start them there first")
			}
			e.Ready()
		})
	}
}

// Two members that would take each other's addresses wait for each other, so such a list is refused. One after the
// other, by way of a free address, would do.
func TestSwapIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Reconfig: true})
		leader := e.Ready()
		swap := serverlist.Change{Joining: "server.2=m3:2888:3888;2181,server.3=m2:2888:3888;2181"}
		for _, force := range []bool{false, true} {
			_, err := e.Member(leader).Operations().ChangeMembers(t.Context(), admin.MembersChange{Change: swap, Version: -1, Force: force})
			failed(t, err, http.StatusBadRequest, "server.2 would get the address m3:3888 of server.3")
		}
		if _, err := e.Reconfigure(t.Context(), leader, swap); !errors.Is(err, jute.NewConfigNoQuorum) {
			t.Errorf("a client's request: %v", err)
		}
		e.Ready()
	})
}
