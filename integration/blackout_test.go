package integration

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/quorum/disk"
	quorumwire "rollcall/quorum/wire"
)

// A new disk gets its vote without the last two configurations, because it hangs while the disk that it replaces leaves. Then all
// members crash, and the leader's machine stays away. The other member has all configurations and needs the new disk's copies of
// them. It does not know which entries are committed, and the new disk has no vote in the last configuration but one.
func TestVoterWithoutTheLastConfigurations(t *testing.T) {
	ensembleWith(t, cluster.Options{Write: 2 * time.Millisecond}, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Joined()
		lost := e.Disk(b).ID()
		e.Kill(b)
		e.Wipe(b)
		e.Boot(b)
		until := func(what string, ok func() bool) {
			t.Helper()
			for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond / 4) {
				if time.Now().After(end) {
					t.Fatalf("waited a minute for %s", what)
				}
			}
		}
		has := func(member uint32, d disk.ID) bool {
			return slices.ContainsFunc(e.Disk(member).Configuration(), func(p quorumwire.Peer) bool { return p.DiskID == d })
		}
		until("the new disk to come in", func() bool { return e.Disk(b).ID() != 0 && has(leader, e.Disk(b).ID()) })
		until("the lost disk to leave", func() bool { return !has(leader, lost) })
		e.Disk(b).Stall()
		until("the new disk to vote", func() bool {
			return slices.ContainsFunc(e.Disk(a).Configuration(), func(p quorumwire.Peer) bool { return p.DiskID == e.Disk(b).ID() && !p.Observer })
		})
		time.Sleep(3 * time.Millisecond) // the write of that configuration
		for _, id := range []uint32{leader, a, b} {
			e.Kill(id)
		}
		if !has(b, lost) {
			t.Fatal("the new disk knows that the lost one has left: this shows nothing")
		}
		e.Boot(a)
		e.Boot(b)
		e.Wait("the two that are left to serve", 60*tick, func() bool { return e.Member(a).Role() != "" && e.Member(b).Role() != "" })
		if got := e.Leader(); got != a {
			t.Errorf("member %d leads, and only %d can", got, a)
		}
		e.Boot(leader)
		e.Healed()
		e.Equal()
	})
}

// darkTotals counts what cluster.Darkened has added to schedules.
type darkTotals struct{ blackouts, strays, unsaved atomic.Uint64 }

func (d *darkTotals) add(e *cluster.Ensemble) {
	d.blackouts.Add(uint64(e.Blackouts()))
	d.strays.Add(uint64(e.StrayCount()))
	d.unsaved.Add(uint64(e.UnsavedCount()))
}

func (d *darkTotals) String() string {
	return fmt.Sprintf("%d power failures of all members, %d of them with an entry that all other disks have lost, %d members crashed with applied entries that their disks lacked",
		d.blackouts.Load(), d.strays.Load(), d.unsaved.Load())
}
