package server

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// follows reports whether the members of a world have followed a reconfig.
type follows struct {
	mu      sync.Mutex
	done    bool
	changed chan struct{}
	asked   int
}

func (f *follows) settled() (bool, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.done, f.changed
}

// change closes the channel that settled has returned, and sets what it reports.
func (f *follows) change(done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = done
	close(f.changed)
	f.changed = make(chan struct{})
}

// reconfigWorld returns a world in which every reconfig succeeds with the text "list". The members follow when f says
// so.
func reconfigWorld(t *testing.T) (w *world, f *follows) {
	f = &follows{changed: make(chan struct{})}
	w = newWorld(t, false, func(cfg *Config) { cfg.MembersInSync = f.settled })
	w.reconfigured = &znode.Result{ConfigText: []byte("list"), Stat: jute.Stat{Version: -1, DataLength: 4}}
	return w, f
}

// The reply to a reconfig comes when the members have followed it. Reads, pings and writes of the connection wait for
// it, and a read shows nothing of a later write. Other connections do not wait.
func TestReconfigIsAnsweredWhenItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := reconfigWorld(t)
		a, b := w.connect(), w.connect()
		a.must(jute.OpCreate, create("/a", "x", 0))
		go func() { // the server reads nothing while the first write waits
			a.request(jute.OpReconfig, jute.ReconfigRequest{CurConfigID: -1}) // 2
			a.request(jute.OpGetData, getData("/a", false))
			a.send(jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})
			a.request(jute.OpSetData, setData("/a", "y"))
			a.request(jute.OpReconfig, jute.ReconfigRequest{CurConfigID: -1})
		}()
		a.expectSilence(maxReconfigWait / 2)
		if got := b.must(jute.OpGetData, getData("/a", false)); string(got[4:5]) != "x" {
			t.Errorf("the other client reads %q", got)
		}
		f.change(false)
		a.expectSilence(maxReconfigWait / 4)
		f.change(true)
		var res jute.GetDataResponse
		h, body := a.reply()
		d := jute.NewDecoder(body)
		if res.Decode(&d); h.Xid != 2 || h.Err != jute.OK || string(res.Data) != "list" || res.Stat.Version != -1 || d.Err() != nil {
			t.Errorf("reply %+v: %q, %+v, %v", h, res.Data, res.Stat, d.Err())
		}
		if h, body = a.reply(); h.Xid != 3 || string(body[4:5]) != "x" {
			t.Errorf("reply to %d: % x, want the data from before the write", h.Xid, body)
		}
		a.expect(jute.XidPing, jute.OK)
		a.expect(4, jute.OK)
		a.expect(5, jute.OK)
		if st := w.srv.Stats(); st.OutstandingRequests != 0 {
			t.Errorf("%d requests outstanding, want 0", st.OutstandingRequests)
		}
	})
}

// A server that was added and does not run delays the reply by at most a second, and by at most a quarter of the
// session's timeout. The connection may end meanwhile.
func TestReconfigIsAnsweredInTime(t *testing.T) {
	for _, test := range []struct{ timeout, wait time.Duration }{
		{20 * testTick, maxReconfigWait},
		{2 * testTick, 2 * testTick / reconfigWaitDivisor},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, f := reconfigWorld(t)
			c, gone := w.open(), w.connect()
			c.hello(jute.ConnectRequest{TimeOut: int32(test.timeout.Milliseconds()), Passwd: make([]byte, 16)})
			gone.request(jute.OpReconfig, jute.ReconfigRequest{CurConfigID: -1})
			synctest.Wait()
			_ = gone.Close()
			synctest.Wait()
			if !w.wasDetached(gone.id) {
				t.Error("the connection that its client has closed waits for the answer")
			}
			asked := f.asked
			begun := time.Now()
			c.request(jute.OpReconfig, jute.ReconfigRequest{CurConfigID: -1})
			c.expect(1, jute.OK)
			if took := time.Since(begun); took != test.wait || f.asked != asked+1 {
				t.Errorf("answered after %v, asked %d times, want %v and once", took, f.asked-asked, test.wait)
			}
		})
	}
}

// A rejected reconfig changes nothing, so its reply does not wait.
func TestRefusedReconfigIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := reconfigWorld(t)
		c := w.connect()
		for i, code := range []jute.Code{jute.ReconfigDisabled, jute.NoAuth, jute.BadVersion, jute.BadArguments, jute.NewConfigNoQuorum} {
			w.reconfigured = &znode.Result{Code: code}
			c.request(jute.OpReconfig, jute.ReconfigRequest{CurConfigID: -1})
			c.expect(int32(i+1), code)
		}
		if f.asked != 0 {
			t.Errorf("asked %d times whether the members have followed", f.asked)
		}
	})
}
