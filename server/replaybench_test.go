package server

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// populate creates /n and nodes below it, and then changes their data in turn. It returns the zxid before the changes.
func (w *world) populate(nodes, changes int) (before int64) {
	w.tb.Helper()
	const each = 1000 // of an entry
	path := func(i int) string { return fmt.Sprintf("/n/%040d", i) }
	w.apply(w.txn(jute.OpCreate, create("/n", "", 0)))
	inEntries := func(count int, txn func(i int) *proto.Txn) {
		var txns []*proto.Txn
		for i := range count {
			if txns = append(txns, txn(i)); len(txns) == each || i == count-1 {
				w.apply(txns...)
				txns = nil
			}
		}
	}
	inEntries(nodes, func(i int) *proto.Txn { return w.txn(jute.OpCreate, create(path(i), "", 0)) })
	before = w.state.Zxid()
	inEntries(changes, func(i int) *proto.Txn { return w.txn(jute.OpSetData, setData(path(i%nodes), "x")) })
	return before
}

// countEvents reads up to a number of replies, and returns the number of events before the last one.
func (c *client) countEvents(replies int) (events int) {
	for replies > 0 {
		switch h, _ := c.reply(); {
		case h.Xid == jute.XidNotification:
			events++
		case h.Xid == jute.XidPing:
		case h.Err != jute.OK:
			c.tb.Errorf("reply %d: %v", h.Xid, h.Err)
			return events
		default:
			replies--
		}
	}
	return events
}

// sampler notes the greatest memory until stop is called.
type sampler struct {
	done  chan struct{}
	ended sync.WaitGroup
	held  int64  // bytes that the server counts
	heap  uint64 // bytes of the process, above those at the beginning
}

func (w *world) sample() *sampler {
	s := &sampler{done: make(chan struct{})}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before := heap()
	s.ended.Go(func() {
		for {
			s.held = max(s.held, w.srv.Stats().HeldBytes)
			if now := heap(); now > before {
				s.heap = max(s.heap, now-before)
			}
			select {
			case <-s.done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return s
}

func (s *sampler) report(b *testing.B) {
	close(s.done)
	s.ended.Wait()
	b.ReportMetric(float64(s.held)/1e6, "MB-held")
	b.ReportMetric(float64(s.heap)/1e6, "MB-heap")
}

// BenchmarkReplayOfManyPaths has one client that sets 100,000 persistent watches again after 1,000,000 changes of their nodes, in
// batches of 128 KiB as ZooKeeper's client sends them, with the default history and one that keeps all changes.
func BenchmarkReplayOfManyPaths(b *testing.B) {
	const paths, changes = 100_000, 1_000_000
	for _, history := range []int64{16 << 20, 128 << 20} {
		b.Run(fmt.Sprintf("history=%dM", history>>20), func(b *testing.B) {
			w := newWorldOf(b, newFakeMemberWithHistory(history), true, nil)
			seen := w.populate(paths, changes)
			for b.Loop() {
				c := w.connect()
				s := w.sample()
				var batches [][]string
				for i, size := 0, fullBatchBytes; i < paths; i++ {
					if size >= fullBatchBytes {
						batches, size = append(batches, nil), 0
					}
					path, last := fmt.Sprintf("/n/%040d", i), len(batches)-1
					batches[last], size = append(batches[last], path), size+len(path)
				}
				var sender sync.WaitGroup
				current := make(chan struct{})
				sender.Go(func() {
					for _, batch := range batches {
						c.restore(seen, batch, nil)
					}
					for { // a silent client is dropped
						select {
						case <-current:
							return
						case <-time.After(time.Second):
							c.send(jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})
						}
					}
				})
				events := c.countEvents(len(batches))
				close(current)
				sender.Wait()
				s.report(b)
				b.ReportMetric(float64(w.replays(replayDone)+w.replays(replayOverrun)), "replays")
				b.ReportMetric(float64(len(batches)), "batches")
				b.ReportMetric(float64(events), "events")
				c.must(jute.OpCloseSession)
			}
		})
	}
}

// BenchmarkReplayOfManyClients has 1,000 clients that set a recursive watch again at the same time, after 1,000 changes below it. An
// operation ends when the last one has its reply.
func BenchmarkReplayOfManyClients(b *testing.B) {
	const clients, changes = 1000, 1000
	w := newWorldOf(b, newFakeMemberWithHistory(16<<20), true, func(cfg *Config) { cfg.Limits.MaxClientConns = 2 * clients })
	seen := w.populate(1000, changes)
	for b.Loop() {
		all := make([]*client, clients)
		for i := range all {
			all[i] = w.connect()
		}
		s := w.sample()
		var current sync.WaitGroup
		for _, c := range all {
			current.Go(func() {
				c.restore(seen, nil, []string{"/n"})
				if n := c.countEvents(1); n != changes {
					b.Errorf("%d events", n)
				}
			})
		}
		current.Wait()
		s.report(b)
		for _, c := range all {
			c.must(jute.OpCloseSession)
		}
	}
}
