package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/jute"
	"rollcall/member"
)

// What one schedule does, at least: 4 sessions, 100 writes, one leader lost while
// writes are in flight.
const (
	schedules        = 200 // in CI; ROLLCALL_SCHEDULES sets another number
	sessions         = 4
	writesPerSession = 30
	window           = 5 // writes that a session has under way
)

// totals are what all schedules saw together.
type totals struct {
	leaders, resent, dropped, acknowledged, unknown atomic.Uint64
}

// Every acknowledged write is there, once and in its session's order, though leaders
// are killed with writes in flight; clients of the surviving members notice nothing.
func TestLeaderKilledWithWritesInFlight(t *testing.T) {
	n := schedules
	if s := os.Getenv("ROLLCALL_SCHEDULES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 {
			t.Fatalf("ROLLCALL_SCHEDULES=%q: want a number from 1", s)
		}
	}
	var sum totals
	for seed := range uint64(n) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { schedule(t, seed, &sum) })
		})
	}
	fmt.Printf("%d schedules: %d leader changes, %d writes sent again, %d duplicates dropped, %d writes acknowledged, %d of unknown outcome\n",
		n, sum.leaders.Load(), sum.resent.Load(), sum.dropped.Load(), sum.acknowledged.Load(), sum.unknown.Load())
	if sum.leaders.Load() == 0 || sum.resent.Load() == 0 || sum.dropped.Load() == 0 {
		t.Error("the schedules are too tame: each of these must happen")
	}
}

// writer is one session and what became of its writes.
type writer struct {
	client *cluster.Client
	dir    string
	acked  map[int]bool
	lost   map[int]bool // outcome unknown
	others []error
	done   chan struct{}
	told   atomic.Int64
}

func schedule(t *testing.T, seed uint64, sum *totals) {
	rng := rand.New(rand.NewPCG(seed, 1))
	e := cluster.Start(t, 3, cluster.Options{Events: func(ev member.Event) {
		if ev.Kind == member.EventLeader {
			sum.leaders.Add(1)
		}
	}})
	first := e.Ready()
	writers := startWriters(t, e, rng)

	at := int64(rng.IntN(sessions * writesPerSession / 2))
	for told(writers) < at {
		if rng.IntN(8) == 0 {
			disturb(e, first, rng)
		}
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
	}
	collect(e.Member(first), sum)
	e.Kill(first)
	if rng.IntN(2) == 0 {
		time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
		e.Boot(first)
	}
	for _, w := range writers {
		<-w.done
	}
	for _, w := range writers {
		w.check(t, e, first, sum)
	}
	if !e.Running(first) {
		e.Boot(first)
	}
	e.Ready()
	e.Equal()
	for _, id := range e.IDs() {
		collect(e.Member(id), sum)
	}
}

// disturb keeps the log from one follower for a moment, and meanwhile breaks the
// connection on which it forwards: it sends again what is in the log already.
func disturb(e *cluster.Ensemble, leader uint32, rng *rand.Rand) {
	f := e.Followers()[rng.IntN(2)]
	e.BlockLog(leader, f)
	time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
	e.ResetForwarding(f, leader)
	time.Sleep(time.Duration(40+rng.IntN(60)) * time.Millisecond)
	e.UnblockLog(leader, f)
}

func collect(m *member.Member, sum *totals) {
	s := m.Stats()
	sum.resent.Add(s.Resent)
	sum.dropped.Add(s.Dropped)
}

func told(writers []*writer) (n int64) {
	for _, w := range writers {
		n += w.told.Load()
	}
	return n
}

// startWriters opens a session on each member and one more anywhere; each writes on its
// own.
func startWriters(t *testing.T, e *cluster.Ensemble, rng *rand.Rand) []*writer {
	homes := append(e.IDs(), e.IDs()[rng.IntN(3)])
	var writers []*writer
	for i, home := range homes {
		order := []uint32{home}
		for _, id := range e.IDs() {
			if id != home {
				order = append(order, id)
			}
		}
		w := &writer{
			client: e.Connect(10*time.Second, order...), dir: fmt.Sprintf("/s%d", i),
			acked: map[int]bool{}, lost: map[int]bool{}, done: make(chan struct{}),
		}
		if _, err := w.client.Create(w.dir, nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		writers = append(writers, w)
	}
	for _, w := range writers {
		go w.run()
	}
	return writers
}

// run writes sequential nodes whose data counts up, some at a time.
func (w *writer) run() {
	defer close(w.done)
	calls := make([]*cluster.Call, writesPerSession)
	for i := range calls {
		if i >= window {
			w.settle(i-window, calls[i-window])
		}
		calls[i] = w.client.Go(jute.OpCreate, &jute.CreateRequest{
			Path: []byte(w.dir + "/w-"), Data: []byte(strconv.Itoa(i)), ACL: jute.OpenACL, Flags: jute.PersistentSequential,
		})
		time.Sleep(time.Millisecond)
	}
	for i := writesPerSession - window; i < writesPerSession; i++ {
		w.settle(i, calls[i])
	}
}

// settle waits for write i.
func (w *writer) settle(i int, call *cluster.Call) {
	_, err := call.Wait()
	switch {
	case err == nil:
		w.acked[i] = true
	case errors.Is(err, cluster.ErrLoss):
		w.lost[i] = true
	default:
		w.others = append(w.others, fmt.Errorf("write %d: %w", i, err))
	}
	w.told.Add(1)
}

// check compares what the session was told with what is there.
func (w *writer) check(t *testing.T, e *cluster.Ensemble, killed uint32, sum *totals) {
	t.Helper()
	sum.acknowledged.Add(uint64(len(w.acked)))
	sum.unknown.Add(uint64(len(w.lost)))
	for _, err := range w.others {
		t.Errorf("%s: %v", w.dir, err)
	}
	home := w.client.Home()
	if n := w.client.Disconnects(); home != killed && (n > 0 || len(w.lost) > 0) {
		t.Errorf("%s: client of surviving member %d saw %d disconnects and lost sight of %d writes", w.dir, home, n, len(w.lost))
	}
	present := map[int]int{}
	var last int64
	previous := -1
	for _, child := range w.children(t) {
		i, zxid := w.read(t, child)
		present[i]++
		if zxid <= last {
			t.Errorf("%s: node %s is not in the order of zxids", w.dir, child)
		}
		if i <= previous {
			t.Errorf("%s: write %d stands behind write %d", w.dir, i, previous)
		}
		last, previous = zxid, i
	}
	for i := range writesPerSession {
		switch {
		case w.acked[i] && present[i] != 1:
			t.Errorf("%s: acknowledged write %d is there %d times", w.dir, i, present[i])
		case present[i] > 1:
			t.Errorf("%s: write %d is there %d times", w.dir, i, present[i])
		case !w.acked[i] && !w.lost[i]:
			t.Errorf("%s: write %d was never answered", w.dir, i)
		}
	}
}

// children lists the nodes by sequence number.
func (w *writer) children(t *testing.T) []string {
	t.Helper()
	if err := w.client.Sync(); err != nil {
		t.Fatalf("sync: %v", err)
	}
	r, err := w.client.Do(jute.OpGetChildren, &jute.GetChildrenRequest{Path: []byte(w.dir)})
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

// read returns which write made the node, and its czxid.
func (w *writer) read(t *testing.T, child string) (i int, czxid int64) {
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
	return i, resp.Stat.Czxid
}

func decode(t *testing.T, r wire.Reply, rec wire.Readable) {
	t.Helper()
	if err := r.Into(rec); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
}
