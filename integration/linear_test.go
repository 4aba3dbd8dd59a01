package integration

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/leader"
	"rollcall/member"
	"rollcall/zk/jute"
)

// With linearizable reads, a member that does not get the log replies to a read only when it has caught up with the
// writes that other members have acknowledged. A member that has lost its leader replies to no read.
func TestLinearizableReadOnALaggingMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Linear: true, Logger: logger()})
		leader := e.Ready()
		a := e.Followers()[0]
		c, _ := e.Open(a, 10*tick)
		writer, _ := e.Open(leader, 10*tick)
		alive(t, writer, 1, "/before")
		e.Equal()
		e.BlockLog(leader, a)
		alive(t, writer, 2, "/after")
		time.AfterFunc(tick, func() { e.UnblockLog(leader, a) })
		r, _, err := c.Call(1, jute.OpExists, &jute.ExistsRequest{Path: []byte("/after")})
		if err != nil || r.Err != jute.OK {
			t.Errorf("read on a member that lags: %v, %v; want what was acknowledged before it", r, err)
		}

		old, _ := e.Open(leader, 10*tick)
		for _, id := range e.Followers() {
			e.Network.Cut(leader, id)
		}
		if err := old.Send(1, jute.OpExists, &jute.ExistsRequest{Path: []byte("/before")}); err != nil {
			t.Fatal(err)
		}
		if err := old.Closed(20 * tick); err != nil {
			t.Errorf("read on a leader that is cut off: %v; want no answer", err)
		}
	})
}

// grants counts the requests to a leader for read leases.
type grants struct {
	leader.Log
	asked *atomic.Int64
}

func (g grants) GrantRead(term uint64, member uint32, disk uint64, request leader.LeaseRequest) (time.Duration, uint64) {
	g.asked.Add(1)
	return g.Log.GrantRead(term, member, disk, request)
}

// leased is an ensemble of three whose members read by leases, in which nothing is under way. Each member has a client that has read.
type leased struct {
	*cluster.Ensemble
	leader, a, b uint32
	clients      map[uint32]*wire.Conn
	asked        atomic.Int64 // for leases
	xid          int32
}

// readLease is the lease of these ensembles: see cluster.Options.Linear.
const readLease = tick / 20

func withReadLeases(t *testing.T, test func(t *testing.T, e *leased)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &leased{clients: map[uint32]*wire.Conn{}}
		e.Ensemble = cluster.Start(t, 3, cluster.Options{Linear: true, Logger: logger(), Adjust: func(cfg *member.Config) {
			wrap := cfg.WrapLog
			cfg.WrapLog = func(l leader.Log) leader.Log { return grants{wrap(l), &e.asked} }
		}})
		e.leader = e.Ready()
		e.a, e.b = e.Followers()[0], e.Followers()[1]
		for _, id := range []uint32{e.leader, e.a, e.b} {
			e.clients[id], _ = e.Open(id, 10*tick)
		}
		e.write(t, "/n")
		e.Equal()
		time.Sleep(tick)
		test(t, e)
	})
}

// read reads at a member, and returns the time that it took.
func (e *leased) read(t *testing.T, id uint32, path string) time.Duration {
	t.Helper()
	e.xid++
	began := time.Now()
	r, _, err := e.clients[id].Call(e.xid, jute.OpExists, &jute.ExistsRequest{Path: []byte(path)})
	if err != nil || r.Err != jute.OK {
		t.Errorf("read %s at member %d: %v, %v", path, id, r, err)
	}
	return time.Since(began)
}

// write writes at the leader, and returns the time that it took.
func (e *leased) write(t *testing.T, path string) time.Duration {
	t.Helper()
	e.xid++
	began := time.Now()
	alive(t, e.clients[e.leader], e.xid, path)
	return time.Since(began)
}

// All members, the leader among them, read by a lease without a call to the leader, and without a lease with one.
func TestReadsByLease(t *testing.T) {
	withReadLeases(t, func(t *testing.T, e *leased) {
		for _, id := range []uint32{e.leader, e.a, e.b} {
			before := e.asked.Load()
			e.read(t, id, "/n")
			for range 10 {
				time.Sleep(readLease / 25)
				e.read(t, id, "/n")
			}
			if asked := e.asked.Load() - before; asked != 1 {
				t.Errorf("member %d asked for %d leases in less than half of one, want 1", id, asked)
			}
			for range 50 {
				time.Sleep(readLease / 25)
				e.read(t, id, "/n")
			}
			if asked := e.asked.Load() - before; asked < 3 || asked > 6 {
				t.Errorf("member %d asked for %d leases in 2.4 times one", id, asked)
			}
		}
	})
}

// A member that is cut off reads until its lease ends. Until 5/4 of the lease have passed, the leader acknowledges no
// write. Later writes do not wait.
func TestReadsByLeaseOfMemberThatIsCutOff(t *testing.T) {
	withReadLeases(t, func(t *testing.T, e *leased) {
		e.read(t, e.a, "/n")
		granted := time.Now()
		e.Isolate(e.a)
		var wrote atomic.Int64 // nanoseconds after the grant
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, err := e.clients[e.leader].Call(1000, jute.OpCreate, &jute.CreateRequest{Path: []byte("/late"), ACL: jute.OpenACL})
			if err != nil {
				t.Error(err)
			}
			wrote.Store(int64(time.Since(granted)))
		}()
		var last time.Duration // after which a read was answered at once
		for time.Since(granted) < readLease*9/10 {
			if took := e.read(t, e.a, "/n"); took > 0 {
				t.Fatalf("read after %v took %v", time.Since(granted), took)
			}
			last = time.Since(granted)
			time.Sleep(readLease / 100)
		}
		e.xid++
		time.Sleep(readLease + 1 - time.Since(granted))
		if err := e.clients[e.a].Send(e.xid, jute.OpExists, &jute.ExistsRequest{Path: []byte("/late")}); err != nil {
			t.Fatal(err)
		}
		<-done
		if d := time.Duration(wrote.Load()); d < last || d > readLease*5/4+readLease/10 {
			t.Errorf("a write was answered %v after the lease began, which lasts %v; the last read was at %v", d, readLease, last)
		}
		for _, path := range []string{"/p", "/q"} {
			if took := e.write(t, path); took > readLease/10 {
				t.Errorf("a later write took %v", took)
			}
		}
		e.Rejoin(e.a)
		r, err := e.clients[e.a].Recv()
		if err != nil || r.Err != jute.OK {
			t.Errorf("the read that came after the lease: %v, %v; want what was written meanwhile", r, err)
		}
	})
}

// A member that stops gives its lease back, so no write waits for it.
func TestStoppedMemberGivesItsLeaseBack(t *testing.T) {
	withReadLeases(t, func(t *testing.T, e *leased) {
		e.read(t, e.a, "/n")
		granted := time.Now()
		e.Stop(e.a)
		if d := time.Since(granted); d > readLease/2 {
			t.Fatalf("the stop took %v; a lease of %v is to last longer", d, readLease)
		}
		if took := e.write(t, "/late"); took > readLease/10 {
			t.Errorf("a write took %v after a member was stopped", took)
		}
	})
}
