package integration

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/config"
	"rollcall/integration/cluster"
	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/member"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// A leader's disk hangs. No client notices, until the disk has been away for so long that the leader gives its clients
// and its leadership to the others: its clients move elsewhere, and the others' clients notice nothing. When the disk
// works again, the member is a follower with the same state.
func TestStalledLeader(t *testing.T) {
	synctest.Test(t, stalledLeader)
}

func stalledLeader(t *testing.T) {
	e := cluster.Start(t, 3, cluster.Options{})
	old := e.Ready()
	time.Sleep(5 * time.Second) // all take part in elections
	rest := e.Followers()
	others := e.Connect(20*time.Second, rest...)
	own := e.Connect(20*time.Second, old, rest[0])
	raw, _ := e.Open(old, 20*time.Second)

	const long = 60 * time.Second
	begin := time.Now()
	e.Disk(old).Stall()
	time.AfterFunc(long, e.Disk(old).Release)
	away := begin.Add(10 * config.DefaultStallLimit) // diskAwayLimits of package member
	for i := 0; time.Now().Before(away.Add(-500 * time.Millisecond)); i++ {
		for _, c := range []*cluster.Client{own, others} {
			begun := time.Now()
			if _, err := c.Create(fmt.Sprintf("/%d-%d", c.Member(), i), nil, jute.Persistent); err != nil ||
				time.Since(begun) > 20*time.Millisecond {
				t.Fatalf("a write at member %d: %v, after %v", c.Member(), err, time.Since(begun))
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	if own.Disconnects() > 0 || e.Leader() != old {
		t.Errorf("%d disconnects of a client of the member, and %d leads", own.Disconnects(), e.Leader())
	}
	var longest time.Duration
	for i := 0; time.Since(away) < 2*time.Second; i++ {
		begun := time.Now()
		if _, err := others.Create(fmt.Sprint("/away-", i), nil, jute.Persistent); err != nil {
			t.Fatalf("a write by a client of another member: %v", err)
		}
		longest = max(longest, time.Since(begun))
		time.Sleep(10 * time.Millisecond)
	}
	if longest > 600*time.Millisecond || others.Disconnects() > 0 {
		t.Errorf("a write by a client of another member took %v, and it was disconnected %d times", longest, others.Disconnects())
	}
	if err := raw.Closed(time.Second); err != nil {
		t.Errorf("client of the stalled member: %v", err)
	}
	if err := own.WaitConnected(10 * time.Second); err != nil || own.Member() != rest[0] {
		t.Errorf("its client is at %d, %v", own.Member(), err)
	}
	if role := e.Member(old).Role(); role != "" {
		t.Errorf("the stalled member says it is a %s", role)
	}
	if c, err := e.Dial(old); err == nil {
		if _, err := c.Open(time.Second); err == nil {
			t.Error("the stalled member takes a new client")
		}
	}
	if l := e.Leader(); l == old {
		t.Error("the stalled member leads")
	}

	time.Sleep(time.Until(begin.Add(long)))
	e.Wait("the member to serve again", 20*time.Second, func() bool { return e.Member(old).Role() == "follower" })
	home := e.Connect(10*time.Second, old)
	if _, err := home.Create("/after", nil, jute.Persistent); err != nil {
		t.Errorf("a write by a client of the member that woke: %v", err)
	}
	e.Equal()
}

// A follower's disk hangs for 20 s, and no client notices. Then it hangs for so long that its clients move to others,
// whose clients notice nothing. The follower continues under the same leader.
func TestStalledFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaders := atomic.Int64{}
		e := cluster.Start(t, 3, cluster.Options{Events: func(ev member.Event) {
			if ev.Kind == member.EventLeader {
				leaders.Add(1)
			}
		}})
		leader := e.Ready()
		time.Sleep(5 * time.Second)
		before := leaders.Load()
		late := e.Followers()[0]
		c := e.Connect(20*time.Second, leader)
		own := e.Connect(20*time.Second, late, leader)
		e.Disk(late).Stall()
		for i := range 70 {
			begun := time.Now()
			if _, err := c.Create(fmt.Sprint("/", i), nil, jute.Persistent); err != nil {
				t.Fatal(err)
			}
			if i < 40 {
				if _, err := own.Create(fmt.Sprint("/own-", i), nil, jute.Persistent); err != nil ||
					time.Since(begun) > 50*time.Millisecond || own.Disconnects() > 0 {
					t.Fatalf("write %d of the follower's client: %v after %v, %d disconnects", i, err, time.Since(begun), own.Disconnects())
				}
			}
			time.Sleep(500 * time.Millisecond)
		}
		if own.Member() != leader || c.Disconnects() > 0 {
			t.Errorf("the client of the follower is at %d, that of the leader was disconnected %d times", own.Member(), c.Disconnects())
		}
		e.Disk(late).Release()
		e.Equal()
		if e.Leader() != leader || leaders.Load() != before {
			t.Error("the leader or its term has changed")
		}
		e.Wait("the member to serve again", 10*time.Second, func() bool { return e.Member(late).Role() == "follower" })
	})
}

// A disk works again just before, when, and just after its leader is given up because of it. In
// each case there is one leader, and the write that hung is there once.
func TestStallThatEndsAsItCounts(t *testing.T) {
	t.Parallel()
	for long := config.DefaultStallLimit - 20*time.Millisecond; long <= config.DefaultStallLimit+600*time.Millisecond; long += 20 * time.Millisecond {
		t.Run(fmt.Sprint(long), func(t *testing.T) {
			ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, _ uint32) {
				e.Joined()
				c := e.Connect(10*tick, a)
				e.Disk(leader).Stall()
				time.AfterFunc(long, e.Disk(leader).Release)
				if path, err := c.Create("/n-", nil, jute.PersistentSequential); err != nil || path != "/n-0000000000" {
					t.Errorf("the write that hung: %s, %v", path, err)
				}
				time.Sleep(time.Second)
				e.Ready()
				if path, err := c.Create("/n-", nil, jute.PersistentSequential); err != nil || path != "/n-0000000001" {
					t.Errorf("the next one: %s, %v", path, err)
				}
				if n := c.Disconnects(); n > 0 {
					t.Errorf("%d disconnects of a client of another member", n)
				}
				e.Ready()
				e.Equal()
			})
		})
	}
}

// The leader's disk hangs, and then a follower's: no member leads until one of the disks works
// again. The first of these forms a majority with the third member while the other disk still
// hangs.
func TestTwoStalls(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("first wakes first=%t", first), func(t *testing.T) {
			ensemble(t, func(t *testing.T, e *cluster.Ensemble, old, a, b uint32) {
				e.Joined()
				c := e.Connect(20*tick, a, b)
				e.Disk(old).Stall()
				write(t, c, "/hangs", 1, nil)
				if e.Leader() != old {
					t.Error("the leader whose disk hangs was replaced")
				}
				next := a
				e.Disk(next).Stall()
				stuck := c.Go(jute.OpCreate, &jute.CreateRequest{Path: []byte("/stuck"), ACL: jute.OpenACL})
				time.Sleep(5 * tick)
				for range 50 {
					time.Sleep(tick / 10)
					if l := leaders(e); len(l) > 0 {
						t.Fatalf("member %d leads with two of three disks hanging", l[0])
					}
				}
				wakes, sleeps := old, next
				if !first {
					wakes, sleeps = next, old
				}
				e.Disk(wakes).Release()
				e.Wait("a leader", 5*tick, func() bool { return len(leaders(e)) == 1 })
				if l := leaders(e)[0]; l == sleeps {
					t.Errorf("member %d leads, whose disk hangs", l)
				}
				if _, err := stuck.Wait(); err != nil && !errors.Is(err, cluster.ErrLoss) {
					t.Errorf("the write that hung: %v", err)
				}
				if _, err := insist(c, "/one-hangs"); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * tick)
				e.Disk(sleeps).Release()
				e.Ready()
				e.Equal()
			})
		})
	}
}

// The leader dies while a follower's disk hangs. That follower cannot vote, so no member leads.
// When its disk works again, its late votes and candidacies make one leader.
func TestStallWhileVoting(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, old, a, b uint32) {
		e.Joined()
		c := e.Connect(20*tick, b)
		e.Disk(a).Stall()
		e.Kill(old)
		stuck := c.Go(jute.OpCreate, &jute.CreateRequest{Path: []byte("/stuck"), ACL: jute.OpenACL})
		for range 100 {
			time.Sleep(tick / 10)
			if l := leaders(e); len(l) > 0 {
				t.Fatalf("member %d leads on its own vote", l[0])
			}
		}
		e.Disk(a).Release()
		e.Wait("a leader", 5*tick, func() bool { return len(leaders(e)) == 1 })
		if _, err := stuck.Wait(); err != nil && !errors.Is(err, cluster.ErrLoss) {
			t.Errorf("the write that waited: %v", err)
		}
		if _, err := insist(c, "/after"); err != nil {
			t.Error(err)
		}
		e.Boot(old)
		e.Ready()
		e.Equal()
		if l := leaders(e); len(l) != 1 {
			t.Errorf("members %v lead", l)
		}
	})
}

// hanging is a Hooks that hangs in apply, under the tree's lock, as on a machine that swaps.
type hanging struct {
	until atomic.Int64 // nanoseconds since 1970
	hangs atomic.Bool  // it has begun
}

func (h *hanging) EntryFinished(uint64) {
	rest := time.Until(time.Unix(0, h.until.Load()))
	h.hangs.Store(rest > 0)
	time.Sleep(rest)
}

func (*hanging) TermStarted(znode.Term, znode.LeaderCause)         {}
func (*hanging) MemberAnnounced(uint32, uint64, uint64)            {}
func (*hanging) SessionOpened(znode.Session)                       {}
func (*hanging) SessionAttached(znode.Session, znode.SessionOwner) {}
func (*hanging) SessionClosed(znode.Session, znode.SessionEnd)     {}
func (*hanging) ServerListChanged(znode.ServerList)                {}
func (*hanging) TxnApplied(*proto.Txn, *znode.Result)              {}
func (*hanging) TxnDropped(*proto.Txn)                             {}
func (*hanging) QuotaExceeded(znode.ExceededQuota)                 {}
func (*hanging) SessionSwept(jute.SessionID, bool)                 {}
func (*hanging) NodesRemoved(znode.Removal, []string)              {}
func (*hanging) SnapshotRestored()                                 {}

// The same happens with a leader that hangs in apply. This test runs in real time, because a goroutine that waits for
// the tree's lock would stop a bubble's clock. A busy machine looks like a stalled member, so only the nightly form has
// it.
func TestLeaderStalledInApply(t *testing.T) {
	needs.Check(t, needs.Nightly)
	const tick, limit = 400 * time.Millisecond, time.Second
	observers := map[uint32]*hanging{1: {}, 2: {}, 3: {}}
	e := cluster.Start(t, 3, cluster.Options{Tick: tick, Adjust: func(cfg *member.Config) {
		cfg.Hooks = observers[cfg.ID]
		cfg.StoreStallLimit = limit
	}})
	old := e.Ready()
	e.Joined()
	rest := e.Followers()
	others := e.Connect(20*tick, rest...)
	raw, _ := e.Open(old, 20*tick)
	busy, _ := e.Open(old, 20*tick)
	begin := time.Now()
	observers[old].until.Store(begin.Add(4 * limit).UnixNano())
	if _, err := others.Create("/hangs", nil, jute.Persistent); err != nil { // the others commit it without the leader's apply
		t.Fatal(err)
	}
	e.Wait("the leader to hang in apply", limit, observers[old].hangs.Load) // the others may have answered first
	if err := busy.Send(jute.XidPing, jute.OpPing, nil); err != nil {       // its reader waits for apply from here on
		t.Fatal(err)
	}
	for _, c := range []*wire.Conn{raw, busy} {
		if err := c.Closed(2 * limit); err != nil {
			t.Errorf("client of the stalled member: %v", err)
		}
	}
	e.Wait("another leader", 3*limit, func() bool { // while it still hangs
		return e.Member(rest[0]).Role() == "leader" || e.Member(rest[1]).Role() == "leader"
	})
	if role := e.Member(old).Role(); role != "" {
		t.Errorf("the stalled member says it is a %s", role)
	}
	if _, err := others.Create("/meanwhile", nil, jute.Persistent); err != nil || others.Disconnects() > 0 {
		t.Errorf("a client of another member: %v, %d disconnects", err, others.Disconnects())
	}
	e.Wait("the member to serve again", 10*limit, func() bool { return e.Member(old).Role() == "follower" })
	e.Equal()
}

// The same happens with a follower: its clients move elsewhere with their sessions, the others' clients notice nothing,
// and the leader stays.
func TestFollowerStalledInApply(t *testing.T) {
	needs.Check(t, needs.Nightly)
	const tick, limit = 400 * time.Millisecond, 2 * time.Second
	observers := map[uint32]*hanging{1: {}, 2: {}, 3: {}}
	e := cluster.Start(t, 3, cluster.Options{Tick: tick, Adjust: func(cfg *member.Config) {
		cfg.Hooks = observers[cfg.ID]
		cfg.StoreStallLimit = limit
		cfg.HeartbeatTimeout = limit / 4 // the machine may give the process no time for a moment
	}})
	leader := e.Ready()
	e.Joined()
	led := term(e, leader).Term
	late, other := e.Followers()[0], e.Followers()[1]
	others := e.Connect(20*tick, other)
	own := e.Connect(20*tick, late, leader)
	if _, err := own.Create("/own", nil, jute.Ephemeral); err != nil {
		t.Fatal(err)
	}
	observers[late].until.Store(time.Now().Add(3 * limit).UnixNano())
	if _, err := others.Create("/hangs", nil, jute.Persistent); err != nil {
		t.Fatal(err)
	}
	e.Wait("the client of the stalled member to be elsewhere", 2*limit, func() bool { return own.Member() == leader })
	if role := e.Member(late).Role(); role != "" {
		t.Errorf("the stalled member says it is a %s", role)
	}
	if stat, err := own.Exists("/own", false); err != nil || stat.EphemeralOwner != own.Session() {
		t.Errorf("its ephemeral node: owner %#x, %v", stat.EphemeralOwner, err)
	}
	if _, err := others.Create("/meanwhile", nil, jute.Persistent); err != nil || others.Disconnects() > 0 {
		t.Errorf("a client of another member: %v, %d disconnects", err, others.Disconnects())
	}
	e.Wait("the member to serve again", 10*limit, func() bool { return e.Member(late).Role() == "follower" })
	if l := e.Leader(); l != leader || term(e, l).Term != led {
		t.Errorf("member %d leads in term %d, want %d in term %d", l, term(e, l).Term, leader, led)
	}
	e.Equal()
}

// A single member stops leading while its disk hangs, and opens another term when the disk works
// again.
func TestStalledAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leaders atomic.Int64
		e := cluster.Start(t, 1, cluster.Options{Events: func(ev member.Event) {
			if ev.Kind == member.EventLeader {
				leaders.Add(1)
			}
		}})
		e.Ready()
		c := e.Connect(20 * time.Second)
		e.Disk(1).Stall()
		stuck := c.Go(jute.OpCreate, &jute.CreateRequest{Path: []byte("/stuck"), ACL: jute.OpenACL})
		time.Sleep(10 * time.Second)
		if _, err := stuck.Wait(); !errors.Is(err, cluster.ErrLoss) || e.Member(1).Role() != "" {
			t.Errorf("write on the stalled member: %v; it is %q", err, e.Member(1).Role())
		}
		e.Disk(1).Release()
		if err := c.WaitConnected(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Create("/after", nil, jute.Persistent); err != nil {
			t.Error(err)
		}
		if _, err := c.Exists("/stuck", false); err != nil { // it was in the log
			t.Error(err)
		}
		if n := leaders.Load(); n != 2 {
			t.Errorf("%d terms, want 2", n)
		}
	})
}
