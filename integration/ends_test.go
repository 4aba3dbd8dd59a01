package integration

import (
	"slices"
	"testing"
	"testing/synctest"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/stateview"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// endsOf returns the ends of sessions that a member keeps, newest first.
func endsOf(e *cluster.Ensemble, id uint32) []znode.SessionEnd {
	return slices.Collect(e.Member(id).SessionEnds(stateview.EndFilter{}))
}

// The ends of sessions outlive the log that they came with: a member with an empty disk is sent them
// in a snapshot, and all members have them after each was killed.
func TestEndsOutliveTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { cfg.SnapCount = 20 }})
		leader := e.Ready()
		e.Joined()
		for _, id := range e.IDs() {
			e.Disk(id).KeepLog(4)
		}
		for range 3 {
			c, _ := e.Open(leader, 4*tick)
			if err := c.Send(1, jute.OpCloseSession, nil); err != nil {
				t.Fatal(err)
			}
		}
		silent, _ := e.Open(leader, 4*tick)
		_ = silent.Close() // its session expires
		e.Wait("the sessions to end", 10*tick, func() bool { return len(endsOf(e, leader)) == 4 })
		want := endsOf(e, leader)

		wiped := e.Followers()[0]
		e.Kill(wiped)
		e.Wipe(wiped)
		writer := e.Connect(20*tick, leader)
		write(t, writer, "/fill", cached, []byte("x")) // so that the log begins after the ends
		e.Wait("a snapshot that has them", 60*tick, func() bool { return e.Disk(leader).Snapshots() > 0 })
		e.Boot(wiped)
		e.Wait("the snapshot to be installed", 60*tick, func() bool { return e.Disk(wiped).Installs() > 0 })
		e.Healed()
		e.Equal()
		if got := endsOf(e, wiped); !slices.Equal(got, want) {
			t.Errorf("the wiped member has %+v, want %+v", got, want)
		}

		for _, id := range e.IDs() {
			e.Kill(id)
		}
		for _, id := range e.IDs() {
			e.Boot(id)
		}
		e.Healed()
		e.Equal()
		for _, id := range e.IDs() {
			if got := endsOf(e, id); !slices.Equal(got, want) {
				t.Errorf("member %d has %+v, want %+v", id, got, want)
			}
		}
	})
}
