package cases

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// Clients pipeline on every member. An event never comes before the reply that set its watch, and
// never after a reply that shows its change. Zxids never go back on a connection, and no reply
// after an event shows a state before it.
func TestWatchOrder(t *testing.T) {
	const writes = 400
	on(t, standalone|leader, cluster.Options{}, func(s *stage) {
		maker := s.open(s.at, usual)
		maker.create("/data", jute.Persistent)
		s.quiesce()
		var readers, writers sync.WaitGroup
		quit := make(chan struct{})
		var watchers []*watcher
		for _, m := range append(s.IDs(), s.IDs()...) {
			w := &watcher{k: s.open(m, usual)}
			watchers = append(watchers, w)
			readers.Go(func() { w.pollNode(quit) })
		}
		for _, m := range append(s.IDs(), s.at) {
			k := s.open(m, usual)
			watchers = append(watchers, &watcher{k: k}) // a writer gets only the events of its own watch
			writers.Go(func() { write(k, writes) })
		}
		writers.Wait()
		time.Sleep(10 * writePause) // for the last of them to be seen
		close(quit)
		readers.Wait()
		s.quiesce()
		events := 0
		for _, w := range watchers {
			w.check(s)
			events += w.events
		}
		if events < writes/2 {
			s.Errorf("%d events: too few to show anything", events)
		}
	})
}

const writePause = 100 * time.Microsecond

// write changes /data and creates and removes /flag, pipelined, and reads with a watch in between.
func write(k *session, n int) {
	for i := range n {
		switch i % 4 {
		case 0:
			k.send(jute.OpSetData, set("/data", "y"))
		case 1:
			k.send(jute.OpCreate, create("/flag", jute.Persistent)) // fails if the node exists
		case 2:
			k.send(jute.OpGetData, jute.GetDataRequest{Path: []byte("/data"), Watch: true})
		case 3:
			k.send(jute.OpDelete, remove("/flag")) // fails if the node does not exist
		}
		time.Sleep(writePause)
	}
}

// watcher reads with watches all the time. What it gets is checked at the end. Each kind of request
// has its own xids.
type watcher struct {
	k      *session
	events int
	read   [2]seen // of /data and /flag
}

// seen is the knowledge of a connection about a node.
type seen struct {
	set    bool  // a watch is set: a reply has said so, and no event has come since
	mzxid  int64 // of the reply that set it first; 0: the node did not exist
	behind int64 // the zxid of the newest event
}

const (
	xidData = 1_000_000
	xidFlag = 2_000_000
)

func (w *watcher) pollNode(quit chan struct{}) {
	for i := int32(0); ; i++ {
		select {
		case <-quit:
			return
		default:
		}
		w.k.sendAs(xidData+i, jute.OpGetData, jute.GetDataRequest{Path: []byte("/data"), Watch: true})
		w.k.sendAs(xidFlag+i, jute.OpExists, jute.ExistsRequest{Path: []byte("/flag"), Watch: true})
		if i%7 == 0 {
			time.Sleep(writePause / 2)
		}
	}
}

// check checks everything that came, in order.
func (w *watcher) check(s *stage) {
	s.Helper()
	w.k.drop()
	var zxid int64
	for f, ok := w.k.next(); ok; f, ok = w.k.next() {
		if f.Zxid < zxid {
			s.Errorf("member %d: %v after zxid %#x", w.k.member, f.Reply, zxid)
		}
		zxid = f.Zxid
		var err error
		switch {
		case f.isEvent():
			w.events++
			err = w.event(f)
		case f.Xid >= xidFlag:
			err = w.stat(f, &w.read[1])
		case f.Xid >= xidData, isRead(f):
			err = w.stat(f, &w.read[0])
		}
		if err != nil {
			s.Errorf("member %d: %v", w.k.member, err)
			return
		}
	}
}

// isRead reports whether f is a reply to a writer's read; only those have data and a Stat.
func isRead(f frame) bool {
	var r jute.GetDataResponse
	return f.Into(&r) == nil && len(r.Data) == 1
}

func (w *watcher) event(f frame) error {
	n := &w.read[0]
	if string(f.Event().Path) == "/flag" {
		n = &w.read[1]
	}
	switch {
	case !n.set:
		return fmt.Errorf("%v, but no reply has set a watch", f.Reply)
	case f.Zxid <= n.mzxid:
		return fmt.Errorf("%v, but the reply that set the watch showed %#x", f.Reply, n.mzxid)
	}
	n.set, n.behind = false, f.Zxid
	return nil
}

// stat handles a reply that set a watch.
func (w *watcher) stat(f frame, n *seen) error {
	var mzxid int64
	switch {
	case f.Err == jute.NoNode:
	case f.Xid >= xidFlag:
		var r jute.ExistsResponse
		if err := f.Into(&r); err != nil {
			return err
		}
		mzxid = r.Stat.Mzxid
	default:
		var r jute.GetDataResponse
		if err := f.Into(&r); err != nil {
			return err
		}
		mzxid = r.Stat.Mzxid
	}
	switch {
	case n.set && mzxid != n.mzxid:
		return fmt.Errorf("%v shows %#x, the watch was set at %#x, and no event came between", f.Reply, mzxid, n.mzxid)
	case mzxid != 0 && mzxid < n.behind:
		return fmt.Errorf("%v shows %#x after an event of %#x", f.Reply, mzxid, n.behind)
	}
	n.set, n.mzxid = true, mzxid
	return nil
}
