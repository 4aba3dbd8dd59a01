package integration

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/integration/cluster"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// announcements returns the number of announcements of a member in another member's log.
func announcements(t *testing.T, e *cluster.Ensemble, at, member uint32) (n int) {
	t.Helper()
	for _, l := range e.Disk(at).Log() {
		var entry proto.Entry
		if l.Type != raft.LogCommand {
			continue
		}
		if err := protobuf.Unmarshal(l.Data, &entry); err != nil {
			t.Fatal(err)
		}
		for _, txn := range entry.GetTxns() {
			if txn.GetMember() == member && jute.Op(txn.GetOp()) == jute.OpAnnounce {
				n++
			}
		}
	}
	return n
}

// underWay starts a follower and returns while its first announcement is on a slow wire to the leader.
func underWay(e *cluster.Ensemble, member, leader uint32) {
	const slow = tick / 10
	e.Network.DelayBy(member, leader, slow)
	e.Boot(member)
	for !e.Forwards(member, leader) {
		time.Sleep(slow / 20)
	}
	time.Sleep(3 * slow / 2) // the hello takes one of them, and the announcement, right after it, the next
}

// The announcement of a process that has died would arrive late, when the next process of its member has
// announced itself and serves. It does not: the connections of a process end when the next one has said hello.
func TestLateAnnouncement(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, _ uint32) {
		e.Joined()
		e.Kill(a)
		underWay(e, a, leader)
		e.OrphanForwarding(a, leader, 4*tick)
		died := time.Now()
		e.Kill(a)
		e.Network.DelayBy(a, leader, 0)
		e.Boot(a)
		e.Ready()
		c := e.Connect(20*tick, a)
		write(t, c, "/before", 10, nil)
		if time.Since(died) > 3*tick {
			t.Fatal("the announcement came before the next process served")
		}
		announced := announcements(t, e, leader, a)
		time.Sleep(5 * tick)
		if n := announcements(t, e, leader, a) - announced; n != 0 {
			t.Errorf("%d announcements came late", n)
		}
		if err := e.Exited(a); err != nil {
			t.Fatalf("the member ended: %v", err)
		}
		write(t, c, "/after", 10, nil)
		if n := c.Disconnects(); n != 0 {
			t.Errorf("%d disconnects", n)
		}
		e.Equal()
	})
}

// A process announces itself twice: once on a connection that it has given up, and once on the next one. The first
// announcement is delayed and arrives after the first writes of the second connection. The second announcement counts,
// and the numbers of the writes must continue as before.
func TestRepeatedAnnouncement(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, _ uint32) {
		e.Joined()
		e.Kill(a)
		underWay(e, a, leader)
		e.OrphanForwarding(a, leader, 3*tick)
		orphaned := time.Now()
		e.Network.DelayBy(a, leader, 0)
		e.Ready()
		c := e.Connect(20*tick, a)
		write(t, c, "/before", 10, nil)
		if time.Since(orphaned) > 2*tick {
			t.Fatal("the announcement came before the first writes")
		}
		announced := announcements(t, e, leader, a)
		time.Sleep(4 * tick)
		if n := announcements(t, e, leader, a) - announced; n != 1 {
			t.Fatalf("announced %d times after its first writes, want 1: this shows nothing", n)
		}
		write(t, c, "/after", 10, nil)
		if n := c.Disconnects(); n != 0 {
			t.Errorf("%d disconnects", n)
		}
		e.Equal()
	})
}
