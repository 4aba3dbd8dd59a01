package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rollcall/client"
)

// watchedNodes are nodes that sessions watch. Watch i of all sessions is on node i % Count, and session s has the watches from
// s*PerSession on.
type watchedNodes struct {
	Parent     string
	Count      int
	PerSession int  // at most Count
	Persistent bool // one watch for all events, instead of one that is set again by a read after each event
}

// path returns the path of a node, as parent.appendNodePath does.
func (w *watchedNodes) path(node int) string {
	return string(appendPadded([]byte(w.Parent+"/"), int64(node)))
}

// nodeOf returns the number of a node, or -1 if the path is of another one.
func (w *watchedNodes) nodeOf(path string) int {
	name, below := strings.CutPrefix(path, w.Parent+"/")
	n, err := strconv.Atoi(name)
	if !below || err != nil || n < 0 || n >= w.Count {
		return -1
	}
	return n
}

// writeSchedule says when each watched node is written. Write g of all nodes, from 0, is at node g % Nodes, and is due at Start plus
// g/Rate. The data of a node are the number of its newest write, from 1, as encodeNumber has it.
type writeSchedule struct {
	Start time.Time
	From  time.Time // earlier writes belong to the warm-up
	Rate  float64   // writes per second
	Nodes int
}

// dueTime returns the due time of a write of one node.
func (w *writeSchedule) dueTime(node int, number int64) time.Time {
	all := schedule{rate: w.Rate}
	return w.Start.Add(all.dueTime((number-1)*int64(w.Nodes) + int64(node)))
}

func encodeNumber(number int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(number)) }

func decodeNumber(data []byte) (int64, error) {
	if len(data) != 8 {
		return 0, fmt.Errorf("a watched node has %d bytes of data; the bench writes 8", len(data))
	}
	return int64(binary.BigEndian.Uint64(data)), nil
}

// watchCounts counts the events of watches.
type watchCounts struct {
	Events *Histogram // of the measured time: from when the write was due until its event had come
	// Delivered are all events, and Merged the writes that a session saw with a later one: its watch was not set again in time. Together
	// they are all writes, once for each watch.
	Delivered, Merged int64
	Failed            int64 // watches that could not be set again
}

func (w *watchCounts) add(o watchCounts) {
	w.Events.Merge(o.Events)
	w.Delivered += o.Delivered
	w.Merged += o.Merged
	w.Failed += o.Failed
}

// watchingSession is a session that watches some nodes. The client's reader calls its methods, apart from setWatches.
type watchingSession struct {
	holder *localHolder
	nodes  *watchedNodes
	first  int // the node of its first watch
	client *client.Client
	known  []int64 // by watch: the number of the newest write that it knows
}

func newWatchingSession(h *localHolder, nodes *watchedNodes, number int) *watchingSession {
	return &watchingSession{
		holder: h, nodes: nodes, first: int(int64(number) * int64(nodes.PerSession) % int64(nodes.Count)),
		known: make([]int64, nodes.PerSession),
	}
}

// setWatches sets all watches, and returns when they are in force.
func (s *watchingSession) setWatches(ctx context.Context) error {
	if s.nodes.Persistent {
		for i := range s.known {
			if err := s.client.AddWatch(ctx, s.nodes.path(s.nodeAt(i)), false); err != nil {
				return err
			}
		}
		return nil
	}
	return sendEach(len(s.known), func(i int, done func(error)) error {
		return s.client.Pipeline().GetAndWatch(ctx, s.nodes.path(s.nodeAt(i)), func(_ []byte, _ client.Stat, err error) { done(err) })
	})
}

func (s *watchingSession) nodeAt(watch int) int { return (s.first + watch) % s.nodes.Count }

// onEvent records the event of a write. Unless the watch is persistent, the session reads the node and sets its watch again.
func (s *watchingSession) onEvent(e client.Event) {
	arrived := time.Now()
	node := s.nodes.nodeOf(e.Path)
	if node < 0 || e.Type != client.DataChanged {
		return
	}
	watch := (node - s.first + s.nodes.Count) % s.nodes.Count
	if watch >= len(s.known) {
		return
	}
	if s.nodes.Persistent {
		s.learn(watch, s.known[watch]+1, arrived)
		return
	}
	done := func(data []byte, _ client.Stat, err error) {
		number := int64(0)
		if err == nil {
			number, err = decodeNumber(data)
		}
		if err != nil {
			s.holder.recordWatchFailure()
			return
		}
		s.learn(watch, number, arrived)
	}
	if err := s.client.Pipeline().GetAndWatch(s.holder.run.ctx, e.Path, done); err != nil {
		done(nil, client.Stat{}, err)
	}
}

// learn records that the session knows of a write by the event that arrived at a time. The event was that of the first write which
// it did not know.
func (s *watchingSession) learn(watch int, number int64, arrived time.Time) {
	event, merged := s.known[watch]+1, number-s.known[watch]-1
	if number < event {
		return // a read of an earlier event has had it
	}
	s.known[watch] = number
	s.holder.recordEvent(s.nodeAt(watch), event, merged, arrived)
}

func (h *localHolder) recordEvent(node int, number, merged int64, arrived time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.Watches.Delivered++
	h.counts.Watches.Merged += merged
	if due := h.writes.dueTime(node, number); !due.Before(h.writes.From) {
		h.counts.Watches.Events.Add(arrived.Sub(due))
	}
}

func (h *localHolder) recordWatchFailure() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.Watches.Failed++
}
