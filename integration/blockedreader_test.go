package integration

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

// A member that gets no entries, and whose clients read all the time, requests leases all the time. Writes wait for its
// current lease, and no longer.
func TestWritesGoOnWhileAReaderGetsNoEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Linear: true})
		leader := e.Ready()
		a := e.Followers()[0]
		writer, _ := e.Open(leader, 10*tick)
		alive(t, writer, 1, "/before")
		e.Equal()
		reader, _ := e.Open(a, 10*tick)
		if _, _, err := reader.Call(1, jute.OpExists, &jute.ExistsRequest{Path: []byte("/before")}); err != nil {
			t.Fatal(err)
		}
		var readers []*wire.Conn
		for range 40 {
			one, _ := e.Open(a, 10*tick)
			readers = append(readers, one)
		}
		e.BlockLog(leader, a)
		defer e.UnblockLog(leader, a)
		stop := make(chan struct{})
		defer close(stop)
		for i, one := range readers {
			go func() {
				time.Sleep(time.Duration(i) * tick / 40)
				for xid := int32(1); ; xid++ {
					select {
					case <-stop:
						return
					case <-time.After(tick / 50):
						_ = one.Send(xid, jute.OpExists, &jute.ExistsRequest{Path: []byte("/before")})
					}
				}
			}()
		}
		time.Sleep(tick / 10)
		begun := time.Now()
		alive(t, writer, 2, "/after")
		t.Logf("the write took %v", time.Since(begun))
		if took := time.Since(begun); took > tick/4 {
			t.Errorf("the write took %v, want the time of two leases at most", took)
		}
	})
}

// The leader's own lease delays no write: the leader holds what it proposes.
func TestWritesDoNotWaitForTheLeadersLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Linear: true})
		leader := e.Ready()
		writer, _ := e.Open(leader, 10*tick)
		alive(t, writer, 1, "/before")
		time.Sleep(tick) // the leases of earlier terms have ended
		if _, _, err := writer.Call(2, jute.OpExists, &jute.ExistsRequest{Path: []byte("/before")}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		alive(t, writer, 3, "/after")
		if took := time.Since(begun); took > tick/40 {
			t.Errorf("the write took %v after a read at the leader, want less than a lease", took)
		}
	})
}
