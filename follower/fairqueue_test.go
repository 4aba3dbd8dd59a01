package follower

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// multiOf returns the body of a multi of n checks. Bodies of the same n are equal.
func multiOf(n int) string {
	ops := make([]jute.MultiOp, n)
	for i := range ops {
		ops[i] = jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte("/"), Version: int32(n)}}
	}
	return string(jute.AppendMulti(nil, ops))
}

// lanes is an outbox that a test offers writes to, and takes them from.
type lanes struct {
	*outbox
	t       *testing.T
	applies uint64
}

func newLanes(t *testing.T, maxBytes int) *lanes {
	o := newOutbox(Config{Self: 1, Boot: 1, Monotonic: monotonic.System{}, MaxInFlight: 1 << 20, MaxInFlightBytes: 1 << 30, MaxQueued: 1 << 20, MaxQueuedBytes: maxBytes})
	o.allowNumbering()
	return &lanes{outbox: o, t: t}
}

// put submits a multi, or a light write if body is too short for a multi.
func (l *lanes) put(conn uint64, body string) bool {
	op := jute.OpMulti
	if len(body) < 100 {
		op = jute.OpSetData
	}
	return l.trySubmit(&proto.Txn{Conn: conn, Op: int32(op), Body: []byte(body)}, nil)
}

// sends returns the connections of the writes that are sent during a rest, if there has been a long write.
func (l *lanes) sends() []uint64 { return l.sendsAt(time.Time{}) }

// sendsAt returns the connections of the writes that are sent at a time.
func (l *lanes) sendsAt(now time.Time) (conns []uint64) {
	for _, txn := range l.takeSendable(nil, now) {
		conns = append(conns, txn.Conn)
	}
	return conns
}

// apply applies the n oldest writes that are sent.
func (l *lanes) apply(n int) {
	l.t.Helper()
	for range n {
		l.applies++
		if _, _, ok := l.takeApplied(l.applies); !ok {
			l.t.Fatalf("write %d was not sent", l.applies)
		}
	}
}

// The weight of a write follows from its bytes. The weight of a multi follows from its operations too.
func TestWeigh(t *testing.T) {
	for _, test := range []struct {
		op     jute.Op
		body   string
		weight int
		class  int
	}{
		{jute.OpSetData, "", 1, 0},
		{jute.OpSetData, string(make([]byte, bytesPerUnit)), 2, 0},
		{jute.OpSetData, string(make([]byte, 1<<20)), 4097, 7},
		{jute.OpMulti, multiOf(64), 64, 0},
		{jute.OpMulti, multiOf(65), 65, 1},
		{jute.OpMulti, multiOf(10_000), 10_000, 8},
		{jute.OpMulti, "not a multi", 1, 0},
		{jute.OpSetData, multiOf(65), 6, 0}, // as bytes
	} {
		cost, err := costOf(&proto.Txn{Op: int32(test.op), Body: []byte(test.body)})
		if err != nil {
			t.Fatal(err)
		}
		got := cost.weight
		if got != test.weight || classOf(got) != test.class {
			t.Errorf("%v of %d bytes weighs %d, class %d; want %d, class %d", test.op, len(test.body), got, classOf(got), test.weight, test.class)
		}
	}
	if c := classOf(1 << 40); c != numClasses-1 {
		t.Errorf("class %d of an impossible weight", c)
	}
}

// Thirty-two connections have many of the largest multis. No more of them is sent at a time than
// the window has room for. Light writes are sent at once, beside the multi that is under way and
// before the next one.
func TestHeavyWritesLeaveRoom(t *testing.T) {
	const hostile, each = 32, 3
	l := newLanes(t, 1<<30)
	heavy := multiOf(9_000)
	for i := range uint64(hostile) {
		for range each {
			l.put(100+i, heavy)
		}
	}
	l.put(1, "a")
	l.put(1, "b")
	if got := l.sends(); !slices.Equal(got, []uint64{1, 1, 100}) {
		t.Fatalf("sent for %v, want the light writes and one multi", got)
	}
	l.apply(2)
	for i := range uint64(hostile*each - 1) {
		l.put(1, "c")
		if got := l.sends(); !slices.Equal(got, []uint64{1}) {
			t.Fatalf("sent for %v beside a multi, want the light write alone", got)
		}
		l.put(1, "d")
		l.apply(1) // the multi
		if got := l.sends(); !slices.Equal(got, []uint64{1}) {
			t.Fatalf("sent for %v during the rest after a multi, want the light write alone", got)
		}
		if got, next := l.sendsAt(time.Now().Add(maxPause)), 100+(i+1)%hostile; !slices.Equal(got, []uint64{next}) {
			t.Fatalf("sent for %v after the rest, want the multi of %d", got, next)
		}
		l.apply(2)
	}
	l.apply(1)
	if n := len(l.lanes); n != 0 || l.inFlight.heavyWeight != 0 || l.queued.heavyBytes != 0 {
		t.Errorf("left: %d lanes, heavy: %d units sent, %d bytes held", n, l.inFlight.heavyWeight, l.queued.heavyBytes)
	}
}

// Heavy writes that are not long are under way together, up to maxHeavy units and one write more. A light write goes beside them,
// and the next heavy one when one of them is applied.
func TestHeavyWritesTogether(t *testing.T) {
	const ops = 1_000
	l := newLanes(t, 1<<30)
	for conn := range uint64(32) {
		l.put(100+conn, multiOf(ops))
	}
	if got, most := len(l.sends()), (maxHeavy+ops-1)/ops; got != most {
		t.Fatalf("%d heavy writes are under way, want %d", got, most)
	}
	l.put(1, "light")
	if got := l.sends(); !slices.Equal(got, []uint64{1}) {
		t.Fatalf("sent for %v beside them, want the light write alone", got)
	}
	l.apply(1)
	if got := len(l.sends()); got != 1 {
		t.Errorf("%d heavy writes are sent after one is applied, want 1", got)
	}
}

// While every class always has more to send, each is sent the same weight, whatever a single write
// weighs and however many connections have writes.
func TestClassesShareByWeight(t *testing.T) {
	l := newLanes(t, 1<<30)
	bodies := map[uint64]string{1: "light", 2: multiOf(100), 3: multiOf(1_000), 4: multiOf(9_000), 5: multiOf(9_000)}
	var sent [numClasses]int
	next := func(conn uint64) {
		if !l.put(conn, bodies[conn]) {
			t.Fatal("no room")
		}
	}
	for conn := range bodies {
		next(conn)
		next(conn)
	}
	for range 40_000 {
		l.mu.Lock()
		ok := l.numberNext(time.Now().Add(maxPause)) // after each rest, so that all classes are compared, and not only lighter ones
		r := *l.inFlight.writes.At(l.inFlight.writes.Len() - 1)
		l.mu.Unlock()
		if !ok {
			t.Fatal("nothing to send")
		}
		sent[classOf(r.weight)] += r.weight
		l.apply(1)
		next(r.txn.Conn)
	}
	most := slices.Max(sent[:])
	for class, weight := range sent {
		if busy := class == 0 || class == classOf(100) || class == classOf(1_000) || class == classOf(9_000); busy && weight < most-2*9_000 || !busy && weight != 0 {
			t.Errorf("class %d was sent %d units, the others up to %d", class, weight, most)
		}
	}
}

// A class that had nothing to send does not catch up: the other classes continue at once.
func TestIdleClassSavesNothing(t *testing.T) {
	l := newLanes(t, 1<<30)
	for range 20_000 {
		l.put(1, "light")
		l.apply(len(l.sends()))
	}
	for range 5 {
		l.put(2, multiOf(1_000))
		l.put(3, multiOf(100))
	}
	l.put(1, "light")
	if got := l.sends(); len(got) != 11 || got[0] != 1 {
		t.Errorf("sent for %v, want the light write first", got)
	}
}

// Heavy writes take at most half of the lanes' bytes. A connection with light writes under way has
// room while heavy ones wait, and a heavy write gets in when another has been sent.
func TestHeavyWritesHoldHalfOfTheLanes(t *testing.T) {
	heavy := multiOf(9_000)
	l := newLanes(t, 4*(txnOverhead+len(heavy)))
	for conn := range uint64(2) {
		if !l.put(10+conn, heavy) {
			t.Fatal("no room for the first ones")
		}
	}
	for conn := range uint64(3) { // the last one has nothing unapplied
		if l.put(10+conn, heavy) {
			t.Errorf("a heavy write of connection %d got in beside half of the bytes", 10+conn)
		}
	}
	if !l.put(1, "a") || !l.put(1, "b") {
		t.Error("no room for light writes")
	}
	waits := make(chan error, 1)
	synctest.Test(t, func(t *testing.T) {
		go func() {
			waits <- l.submit(t.Context(), &proto.Txn{Conn: 10, Op: int32(jute.OpMulti), Body: []byte(heavy)}, nil)
		}()
		synctest.Wait()
		if len(waits) != 0 {
			t.Error("a heavy write did not wait")
		}
		l.apply(len(l.sends())) // one of the two is sent
		synctest.Wait()
		if len(waits) != 1 {
			t.Error("a heavy write waits although there is room")
		}
	})
}
