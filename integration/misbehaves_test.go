package integration

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// misbehaving is an ensemble of three. Clients of all members read one node, and clients of the leader and of a follower
// write it.
type misbehaving struct {
	*cluster.Ensemble
	bad, leader, third uint32

	shown   atomic.Int32 // a read that begins now must return this version of the node, or a later one
	longest atomic.Int64 // nanoseconds that a write took
	over    atomic.Bool
}

func (e *misbehaving) noteShown(version int32) {
	for at := e.shown.Load(); version > at && !e.shown.CompareAndSwap(at, version); {
		at = e.shown.Load()
	}
}

// goOn has a client do something until the test is over, or its session ends.
func (e *misbehaving) goOn(id uint32, do func(c *cluster.Client)) {
	c := e.Connect(20*tick, id)
	go func() {
		for !e.over.Load() && c.Err() == nil {
			do(c)
			time.Sleep(3 * time.Millisecond)
		}
	}()
}

func (e *misbehaving) start(t *testing.T) {
	for _, id := range e.IDs() {
		e.goOn(id, func(c *cluster.Client) {
			shown := e.shown.Load()
			s, err := c.Exists("/n", false)
			if err == nil && s.Version < shown {
				t.Errorf("a read at member %d showed version %d after %d was shown", id, s.Version, shown)
			}
			e.noteShown(s.Version)
		})
	}
	e.goOn(e.bad, func(c *cluster.Client) { // asks for a lease, although it has no reply to the one before
		c.Go(jute.OpSync, &jute.SyncRequest{Path: []byte("/")})
		time.Sleep(10 * time.Millisecond)
	})
	for _, id := range []uint32{e.leader, e.third} {
		e.goOn(id, func(c *cluster.Client) {
			began := time.Now()
			var resp jute.SetDataResponse
			r, err := c.Do(jute.OpSetData, &jute.SetDataRequest{Path: []byte("/n"), Version: -1})
			if err == nil && r.Into(&resp) == nil {
				e.noteShown(resp.Stat.Version)
			}
			for at, took := e.longest.Load(), int64(time.Since(began)); took > at && !e.longest.CompareAndSwap(at, took); {
				at = e.longest.Load()
			}
		})
	}
}

// A follower with a lease for reads sends nothing or gets nothing, on all of its links or on one. The writes of the
// others' clients stop for a lease and its bound at most, and no read is stale.
func TestWritesWhileOneMisbehaves(t *testing.T) {
	const lease, limit = 100 * time.Millisecond, 150 * time.Millisecond
	for _, tt := range []struct {
		name       string
		begin, end func(e *misbehaving)
	}{
		{"it is paused", func(e *misbehaving) { e.Pause(e.bad) }, func(e *misbehaving) { e.Resume(e.bad) }},
		{
			"it does not hear the leader", func(e *misbehaving) { e.Network.Hang(e.leader, e.bad) },
			func(e *misbehaving) { e.Network.EndHang(e.leader, e.bad) },
		},
		{
			"the leader does not hear it", func(e *misbehaving) { e.Network.Hang(e.bad, e.leader) },
			func(e *misbehaving) { e.Network.EndHang(e.bad, e.leader) },
		},
		{
			"the third does not hear it", func(e *misbehaving) { e.Network.Hang(e.bad, e.third) },
			func(e *misbehaving) { e.Network.EndHang(e.bad, e.third) },
		},
		{
			"it gets no entries, and asks for leases", func(e *misbehaving) { e.Shut(e.bad, cluster.RaftPort, cluster.In|cluster.Silent) },
			func(e *misbehaving) { e.Unshut(e.bad, cluster.RaftPort, cluster.In|cluster.Silent) },
		},
		{"its disk stalls", func(e *misbehaving) { e.Disk(e.bad).Stall() }, func(e *misbehaving) { e.Disk(e.bad).Release() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &misbehaving{}
				e.Ensemble = cluster.Start(t, 3, cluster.Options{
					Linear: true, Logger: logger(), Write: time.Millisecond,
					Adjust: func(cfg *member.Config) { cfg.Rules.ReadLeaseMs = uint64(lease.Milliseconds()) },
				})
				e.leader = e.Ready()
				e.bad, e.third = e.Followers()[0], e.Followers()[1]
				for _, ends := range [][2]uint32{{e.leader, e.bad}, {e.leader, e.third}, {e.bad, e.third}} {
					e.Network.DelayBy(ends[0], ends[1], time.Millisecond)
					e.Network.DelayBy(ends[1], ends[0], time.Millisecond)
				}
				if _, err := e.Connect(20*tick).Create("/n", nil, jute.Persistent); err != nil {
					t.Fatal(err)
				}
				e.start(t)
				time.Sleep(tick / 2)
				e.longest.Store(0)
				before := e.shown.Load()
				tt.begin(e)
				time.Sleep(tick)
				if n := e.shown.Load() - before; n < 100 {
					t.Errorf("%d writes meanwhile", n)
				}
				tt.end(e)
				time.Sleep(tick)
				e.over.Store(true)
				if d := time.Duration(e.longest.Load()); d > limit {
					t.Errorf("a write took %v, want %v at most with leases of %v", d, limit, lease)
				}
			})
		})
	}
}
