package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

// window is the number of writes that a session has in flight.
const window = 5

// writer is one session with the outcomes of its writes. It writes sequential nodes with data that
// count up, and an ephemeral node.
type writer struct {
	client *cluster.Client
	dir    string
	shared string        // the node that it shares with others
	n      int           // how many writes
	pace   time.Duration // the longest pause between two writes
	rng    *rand.Rand
	linear bool // reads need no sync before them

	begun []time.Time // when each write was sent
	ended []time.Time // when its outcome was known
	made  []aged      // the nodes that were found, as check has read them

	acked  map[int]bool
	lost   map[int]bool // writes of unknown outcome
	others []error
	done   chan struct{}
	told   atomic.Int64
}

// startWriters opens a session on each member, and more up to the number sessions. Each creates its nodes and then
// writes n times on its own. Their clients also know the members of more, which may come later.
func startWriters(t *testing.T, e *cluster.Ensemble, rng *rand.Rand, sessions, n int, timeout, pace time.Duration, more ...uint32) []*writer {
	t.Helper()
	var writers []*writer
	for i := range sessions {
		home := e.IDs()[i%len(e.IDs())]
		order := []uint32{home}
		for _, id := range append(e.IDs(), more...) {
			if id != home {
				order = append(order, id)
			}
		}
		w := &writer{
			client: e.Connect(timeout, order...), dir: fmt.Sprintf("/s%d", i), shared: sharedBy(i), n: n, pace: pace, linear: e.Linear(),
			rng:   rand.New(rand.NewPCG(rng.Uint64(), uint64(i))),
			acked: map[int]bool{}, lost: map[int]bool{}, done: make(chan struct{}),
		}
		if _, err := w.client.Create(w.dir, nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		if _, err := w.client.Create(w.dir+"-alive", nil, jute.Ephemeral); err != nil {
			t.Fatal(err)
		}
		if i%sharers == 0 {
			if _, err := w.client.Create(w.shared, []byte("new"), jute.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		writers = append(writers, w)
	}
	for _, w := range writers {
		go w.run()
	}
	return writers
}

// run writes, several writes at a time.
func (w *writer) run() {
	defer close(w.done)
	calls := make([]*cluster.Call, w.n)
	w.begun, w.ended = make([]time.Time, w.n), make([]time.Time, w.n)
	for i := range calls {
		if i >= window {
			w.awaitWrite(i-window, calls[i-window])
		}
		w.begun[i] = time.Now()
		calls[i] = w.client.Go(jute.OpCreate, &jute.CreateRequest{
			Path: []byte(w.dir + "/w-"), Data: []byte(strconv.Itoa(i)), ACL: jute.OpenACL, Flags: jute.PersistentSequential,
		})
		if i%4 == 0 {
			w.share(i)
		}
		time.Sleep(time.Duration(w.rng.Int64N(int64(w.pace))))
	}
	for i := w.n - window; i < w.n; i++ {
		w.awaitWrite(i, calls[i])
	}
}

// sharers is the number of sessions that write, read and watch a node together. The more of them there are, the longer
// it takes to decide whether the history of one node is linearizable.
const sharers = 4

// sharedBy returns the node that a session shares with others.
func sharedBy(session int) string { return fmt.Sprintf("/shared%d", session/sharers) }

// share writes or reads the shared node. The history checks the results.
func (w *writer) share(i int) {
	if i%8 < 4 {
		w.client.Go(jute.OpSetData, &jute.SetDataRequest{Path: []byte(w.shared), Data: fmt.Appendf(nil, "%s %d", w.dir, i), Version: -1})
		return
	}
	if !w.linear {
		w.client.Go(jute.OpSync, &jute.SyncRequest{Path: []byte(w.shared)})
	}
	w.client.Go(jute.OpGetData, &jute.GetDataRequest{Path: []byte(w.shared), Watch: true})
}

// awaitWrite waits for write i.
func (w *writer) awaitWrite(i int, call *cluster.Call) {
	_, err := call.Wait()
	switch {
	case err == nil:
		w.acked[i] = true
	case errors.Is(err, cluster.ErrLoss):
		w.lost[i] = true
	default:
		w.others = append(w.others, fmt.Errorf("write %d: %w", i, err))
	}
	w.ended[i] = time.Now()
	w.told.Add(1)
}

// finished reports whether all writers have finished.
func finished(writers []*writer) bool {
	for _, w := range writers {
		select {
		case <-w.done:
		default:
			return false
		}
	}
	return true
}

// check compares the outcomes that the session knows with the nodes that exist. Every acknowledged write is there once,
// in the session's order, and no other write is duplicate.
func (w *writer) check(t *testing.T) {
	t.Helper()
	for _, err := range w.others {
		t.Errorf("%s: %v", w.dir, err)
	}
	if err := w.client.Err(); err != nil {
		t.Errorf("%s: session ended: %v", w.dir, err)
		return
	}
	present := map[int]int{}
	var last int64
	previous := -1
	for _, child := range w.children(t) {
		i, stat := w.read(t, child)
		zxid, until := stat.Czxid, w.ended[i]
		if w.lost[i] {
			until = time.Now()
		}
		w.made = append(w.made, aged{path: w.dir + "/" + child, stat: stat, from: w.begun[i], to: until})
		present[i]++
		if zxid <= last {
			t.Errorf("%s: node %s is not in the order of zxids", w.dir, child)
		}
		if i <= previous {
			t.Errorf("%s: write %d comes after write %d", w.dir, i, previous)
		}
		last, previous = zxid, i
	}
	for i := range w.n {
		switch {
		case w.acked[i] && present[i] != 1:
			t.Errorf("%s: acknowledged write %d is there %d times", w.dir, i, present[i])
		case present[i] > 1:
			t.Errorf("%s: write %d is there %d times", w.dir, i, present[i])
		case !w.acked[i] && !w.lost[i]:
			t.Errorf("%s: write %d was never answered", w.dir, i)
		}
	}
	if _, err := insistExists(w.client, w.dir+"-alive"); err != nil {
		t.Errorf("%s: the session's ephemeral: %v", w.dir, err)
	}
}

// insistExists reads a node, however often the connection breaks.
func insistExists(c *cluster.Client, path string) (jute.Stat, error) {
	for {
		stat, err := c.Exists(path, false)
		if !errors.Is(err, cluster.ErrLoss) {
			return stat, err
		}
	}
}

// children returns the nodes that exist now, ordered by sequence number.
func (w *writer) children(t *testing.T) []string {
	t.Helper()
	for {
		err := w.client.Sync()
		if errors.Is(err, cluster.ErrLoss) {
			continue
		}
		if err != nil {
			t.Fatalf("sync: %v", err)
		}
		r, err := w.client.Do(jute.OpGetChildren, &jute.GetChildrenRequest{Path: []byte(w.dir)})
		if errors.Is(err, cluster.ErrLoss) {
			continue
		}
		if err != nil {
			t.Fatalf("children of %s: %v", w.dir, err)
		}
		var resp jute.GetChildrenResponse
		decode(t, r, &resp)
		var names []string
		for _, c := range resp.Children {
			names = append(names, string(c))
		}
		return names // the server sorts them
	}
}

// read returns the number of the write that created the node, and the node's Stat.
func (w *writer) read(t *testing.T, child string) (i int, stat jute.Stat) {
	t.Helper()
	r, err := w.client.Do(jute.OpGetData, &jute.GetDataRequest{Path: []byte(w.dir + "/" + child)})
	if err != nil {
		t.Fatalf("read %s: %v", child, err)
	}
	var resp jute.GetDataResponse
	decode(t, r, &resp)
	if i, err = strconv.Atoi(string(resp.Data)); err != nil {
		t.Fatalf("read %s: %v", child, err)
	}
	return i, resp.Stat
}

func decode(t *testing.T, r wire.Reply, rec wire.Readable) {
	t.Helper()
	if err := r.Into(rec); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
}
