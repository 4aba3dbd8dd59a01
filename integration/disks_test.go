package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// cached is more entries than raft keeps in memory.
const cached = 100

// leaders returns the running members that lead.
func leaders(e *cluster.Ensemble) (ids []uint32) {
	for _, id := range e.IDs() {
		if e.Running(id) && e.Member(id).Role() == "leader" {
			ids = append(ids, id)
		}
	}
	return ids
}

// running fails the test unless the members run. That a member which has ended does not lead would
// prove nothing.
func running(t *testing.T, e *cluster.Ensemble, ids ...uint32) {
	t.Helper()
	for _, id := range ids {
		if !e.Running(id) {
			t.Fatalf("member %d has ended: %v", id, e.Exited(id))
		}
	}
}

// write creates n nodes, and logs how many were acknowledged.
func write(t *testing.T, c *cluster.Client, dir string, n int, data []byte) {
	t.Helper()
	for i := range n {
		if _, err := c.Create(fmt.Sprintf("%s%d", dir, i), data, jute.Persistent); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
}

// An acknowledged write is on two members of three. One of them loses its disk, the other is away,
// and the third lags. The empty member must not help the third to lead without that write.
func TestWipedMemberDoesNotElectALaggard(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Isolate(b)
		c := e.Connect(20*tick, leader, a, b)
		write(t, c, "/acknowledged", 10, nil)
		e.Kill(leader)
		e.Kill(a)
		e.Wipe(a)
		e.Rejoin(b)
		e.Boot(a)
		for range 300 {
			time.Sleep(tick / 10)
			running(t, e, a, b)
			if l := leaders(e); len(l) > 0 {
				t.Fatalf("member %d leads, and no member has the acknowledged writes", l[0])
			}
		}
		e.Boot(leader)
		e.Ready()
		e.Equal()
		if !has(e, b, "/acknowledged9") {
			t.Error("an acknowledged write is lost")
		}
	})
}

// A wiped member is killed again while it catches up. It must not vote for a member that lags,
// neither then nor later.
func TestWipedMemberKilledHalfCaughtUp(t *testing.T) {
	for _, after := range []time.Duration{1, 5, 20, 100, 300, 600} {
		t.Run(fmt.Sprintf("after %d ms", after), func(t *testing.T) {
			ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
				e.Isolate(b)
				c := e.Connect(20*tick, leader, a, b)
				write(t, c, "/acknowledged", 60, make([]byte, 1000))
				e.Kill(a)
				e.Wipe(a)
				e.Disk(a).SetLatency(20 * time.Millisecond)
				e.Rejoin(b)
				between(e.Network.Hang, leader, b) // it must not catch up
				e.Boot(a)
				time.Sleep(after * time.Millisecond)
				e.KillTorn(a, rand.New(rand.NewPCG(uint64(after), 3)))
				e.Kill(leader)
				between(e.Network.EndHang, leader, b)
				e.Boot(a)
				for range 200 {
					time.Sleep(tick / 10)
					running(t, e, a, b)
					if l := leaders(e); len(l) > 0 && !has(e, l[0], "/acknowledged59") {
						t.Fatalf("member %d leads without an acknowledged write", l[0])
					}
				}
				e.Boot(leader)
				e.Ready()
				e.Equal()
				if !has(e, b, "/acknowledged59") {
					t.Error("an acknowledged write is lost")
				}
			})
		})
	}
}

// Two of three members have lost their disks: nothing starts by itself.
func TestTwoWipedOfThree(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		write(t, e.Connect(20*tick), "/n", 3, nil)
		e.Equal()
		for _, id := range e.IDs() {
			e.Kill(id)
		}
		e.Wipe(a)
		e.Wipe(b)
		for _, id := range e.IDs() {
			e.Boot(id)
		}
		for range 600 {
			time.Sleep(tick / 10)
			running(t, e, e.IDs()...)
			for _, id := range e.IDs() {
				if role := e.Member(id).Role(); role != "" {
					t.Fatalf("member %d is a %s after two of three lost their data", id, role)
				}
			}
		}
	})
}

// Members start for the first time in every order, some long before the others: there is one
// ensemble.
func TestFirstStartInEveryOrder(t *testing.T) {
	for _, order := range [][]uint32{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := cluster.Start(t, 3, cluster.Options{})
				for _, id := range e.IDs() {
					e.Kill(id)
					e.Wipe(id)
				}
				for i, id := range order {
					e.Boot(id)
					time.Sleep(7 * tick)
					if l := leaders(e); i < len(order)-1 && len(l) > 0 {
						t.Fatalf("member %d leads before all members have said that they have no data", l[0])
					}
				}
				e.Ready()
				write(t, e.Connect(10*tick), "/n", 3, nil)
				e.Equal()
			})
		})
	}
}

// A member crashes, or its disk fails, at each of its first writes. The files that are on the disk
// afterwards are enough to start, or to start over. The first write, of the disk's id, comes before the process starts anything.
func TestBootstrapKilledHalfWay(t *testing.T) {
	for n := 2; n <= 9; n++ {
		for _, victims := range [][]uint32{{2}, {1, 2, 3}} {
			t.Run(fmt.Sprintf("write %d of %v", n, victims), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := cluster.Start(t, 3, cluster.Options{Write: time.Millisecond})
					for _, id := range e.IDs() {
						e.Kill(id)
						e.Wipe(id)
					}
					for _, id := range victims {
						e.Disk(id).FailAt(n)
					}
					for _, id := range e.IDs() {
						e.Boot(id)
					}
					begun := time.Now()
					e.Play(nil, nil, func() bool { return len(leaders(e)) > 0 || time.Since(begun) > 20*tick })
					e.Ready()
					write(t, e.Connect(10*tick), "/n", 3, nil)
					e.Equal()
				})
			})
		}
	}
}

// A follower that serves is sent a snapshot. Its clients come back with their sessions, and lose no
// acknowledged write and no watch.
func TestSnapshotInstalledUnderClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { cfg.SnapCount = 20 }})
		leader := e.Ready()
		a := e.Followers()[0]
		e.Disk(leader).KeepLog(4)
		c := e.Connect(20*tick, a, leader)
		session := c.Session()
		if _, err := c.Create("/mine", nil, jute.Ephemeral); err != nil {
			t.Fatal(err)
		}
		writer := e.Connect(20*tick, leader)
		e.BlockLog(leader, a)
		calls := make([]*cluster.Call, 5) // their outcome is unknown, or they are answered: never twice
		for i := range calls {
			calls[i] = c.Go(jute.OpCreate, &jute.CreateRequest{Path: fmt.Appendf(nil, "/from%d", i), ACL: jute.OpenACL})
		}
		write(t, writer, "/fill", cached, []byte("x"))
		e.Wait("the leader to take a snapshot", 60*tick, func() bool { return e.Disk(leader).Snapshots() > 0 })
		e.UnblockLog(leader, a)
		e.Wait("the snapshot to be installed", 60*tick, func() bool { return e.Disk(a).Installs() > 0 })
		if err := c.WaitConnected(20 * tick); err != nil || c.Session() != session {
			t.Fatalf("session %v after the snapshot, %v before: %v", c.Session(), session, err)
		}
		if c.Disconnects() == 0 {
			t.Error("no connection was closed by the snapshot")
		}
		for i, call := range calls {
			if _, err := call.Wait(); err == nil && !has(e, leader, fmt.Sprintf("/from%d", i)) {
				t.Errorf("write %d was acknowledged and is not there", i)
			}
		}
		if _, err := insistExists(c, "/mine"); err != nil {
			t.Errorf("the session's ephemeral: %v", err)
		}
		if _, err := insist(c, "/on"); err != nil {
			t.Errorf("write after the snapshot: %v", err)
		}
		write(t, e.Connect(20*tick, a), "/by-this-member", 3, nil)
		e.Ready()
		e.Equal()
	})
}

// The leader dies while it sends a snapshot, and no connection is reset. The member that was
// receiving it votes, discards the rest, and receives another snapshot from the next leader.
func TestLeaderDiesWhileSendingASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { cfg.SnapCount = 20 }})
		leader := e.Ready()
		e.Joined() // the member that started last has a vote
		a, b := e.Followers()[0], e.Followers()[1]
		for _, id := range e.IDs() {
			e.Disk(id).KeepLog(4)
		}
		writer := e.Connect(20*tick, leader, b)
		write(t, writer, "/before", 5, nil)
		e.Equal()
		e.Kill(a)
		write(t, writer, "/fill", cached, make([]byte, 40_000))
		e.Wait("snapshots", 60*tick, func() bool { return e.Disk(leader).Snapshots() > 0 && e.Disk(b).Snapshots() > 0 })
		e.Network.DelayBy(leader, a, tick) // 256 KiB a second
		e.Boot(a)
		time.Sleep(8 * tick)
		if e.Disk(a).Installs() > 0 {
			t.Fatal("the snapshot has arrived already")
		}
		present := term(e, leader).Term
		e.Pause(leader) // like a process that is dead and resets nothing
		e.Network.DelayBy(leader, a, 0)
		e.Wait("the receiver's vote", 2*tick, func() bool { return e.Disk(a).Votes(b) > present })
		// The new leader is elected at once and needs this very member to commit. So the member
		// must accept the next snapshot at once. It must not wait until it gives the first one up,
		// after five seconds without a byte.
		e.Wait("another leader", 4*tick, func() bool { return e.Member(b).Role() == "leader" })
		e.Wait("a snapshot of the new leader", 60*tick, func() bool { return e.Disk(a).Installs() > 0 })
		e.Resume(leader)
		e.Restart() // it may have stopped by itself
		e.Ready()
		e.Equal()
	})
}

// All members crash at the same time with writes in flight. Each disk keeps a random part of these.
// Every acknowledged write is on a majority of the disks.
func TestTornWrites(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := cluster.Start(t, 3, cluster.Options{Write: 3 * time.Millisecond})
				e.Ready()
				rng := rand.New(rand.NewPCG(seed, 4))
				writers := startWriters(t, e, rng, sessions, 40, sessionTimeout, 5*time.Millisecond)
				time.Sleep(time.Duration(20+rng.IntN(50)) * time.Millisecond)
				for _, id := range e.IDs() { // all at once, each with what its disk keeps
					e.Network.Kill(id)
				}
				for _, id := range e.IDs() {
					e.KillTorn(id, rng)
				}
				for _, id := range e.IDs() {
					e.Boot(id)
				}
				e.Ready()
				for _, w := range writers {
					<-w.done
					w.check(t)
				}
				e.Equal()
			})
		})
	}
}
