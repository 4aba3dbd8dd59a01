package member_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/serverlist"
	"rollcall/member"
	"rollcall/operator/admin"
	"rollcall/zk/jute"
)

// recovered makes members whose data went through a recovery, or were planted. A single one is an ensemble of one, and
// no standalone server.
func recovered(cfg *member.Config) {
	if cfg.EnsembleText == nil {
		host, _, _ := strings.Cut(cfg.Servers[0].GrpcAddr, ":")
		cfg.EnsembleText = fmt.Appendf(nil, "server.%d=%s:2888:3888;2181\n", cfg.ID, host)
	}
	_ = cfg.Stores.Stable.Set([]byte("RollcallRecovery"), binary.BigEndian.AppendUint64(make([]byte, 32), 7)) // it is in memory
}

// The only voter of an ensemble that was recovered or planted takes another server in. It serves meanwhile, although
// that one cannot get the log: it does not vote yet. Members that have gone do not count, although it was recovered
// with them.
func TestRecoveredMemberServesWhileItGrows(t *testing.T) {
	for first := 1; first <= 3; first += 2 {
		t.Run(fmt.Sprintf("recovered with %d", first), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := cluster.Start(t, first, cluster.Options{Adjust: recovered})
				leader := e.Ready()
				change := func(c serverlist.Change) {
					t.Helper()
					e.Wait("the change to be made", time.Minute, func() bool {
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
						defer cancel()
						_, err := e.Member(leader).Operations().ChangeMembers(ctx, admin.MembersChange{Change: c, Version: -1, Force: true})
						return err == nil
					})
				}
				for id := uint32(1); id <= uint32(first); id++ {
					if id != leader {
						change(serverlist.Change{Leaving: fmt.Sprint(id)})
						e.Wait("it to leave", time.Minute, func() bool { return !has(e, leader, id) })
						e.Kill(id)
					}
				}
				e.Add(9)
				e.BlockLog(leader, 9)
				e.Boot(9)
				time.Sleep(2 * time.Second)
				c := e.Connect(10*time.Second, leader)
				change(serverlist.Change{Joining: e.ServerLine(9, false)})
				e.Wait("the server to be taken in", time.Minute, func() bool { return has(e, leader, 9) })
				for i := range 20 {
					before := time.Now()
					if _, err := c.Create(fmt.Sprint("/", i), nil, jute.Persistent); err != nil || time.Since(before) > time.Second {
						t.Fatalf("a write took %v: %v", time.Since(before), err)
					}
					time.Sleep(time.Second)
				}
				if c.Disconnects() > 0 {
					t.Errorf("the client was disconnected %d times", c.Disconnects())
				}
				e.UnblockLog(leader, 9)
				e.Wait("the server to vote", time.Minute, func() bool { return e.Member(leader).Shown().Voters == 2 })
			})
		})
	}
}

// has reports whether a member's configuration has a server.
func has(e *cluster.Ensemble, at, id uint32) bool {
	for _, p := range e.Member(at).RaftConfiguration() {
		if p.ID == id {
			return true
		}
	}
	return false
}
