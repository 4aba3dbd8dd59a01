package follower

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// One long write is under way at a time. The next one waits for pauseShare times as long as it took,
// and wakes the link then. Other writes pass, heavy ones among them.
func TestLongWritesRest(t *testing.T) {
	for _, test := range []struct{ took, rests time.Duration }{
		{10 * time.Millisecond, pauseShare * 10 * time.Millisecond},
		{time.Minute, maxPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLanes(t, 1<<30)
			long, heavy := multiOf(longOps+1), multiOf(longOps)
			now := func() (conns []uint64) {
				for _, txn := range l.takeSendable(nil, time.Now()) {
					conns = append(conns, txn.Conn)
				}
				return conns
			}
			l.put(1, long)
			l.put(2, long)
			if got := now(); !slices.Equal(got, []uint64{1}) {
				t.Fatalf("sent for %v, want one long write", got)
			}
			l.put(3, heavy)
			l.put(4, "light")
			if got := now(); !slices.Equal(got, []uint64{4, 3}) {
				t.Fatalf("sent for %v beside a long write, want the others", got)
			}
			time.Sleep(test.took)
			l.apply(3)
			<-l.work
			time.Sleep(test.rests - time.Nanosecond)
			l.put(4, "light")
			<-l.work
			if got := now(); !slices.Equal(got, []uint64{4}) {
				t.Fatalf("sent for %v during the rest, want the light write", got)
			}
			began := time.Now()
			<-l.work
			if got := now(); !slices.Equal(got, []uint64{2}) || time.Since(began) != time.Nanosecond {
				t.Errorf("sent for %v after %v, want the second long write at the end of the rest", got, time.Since(began))
			}
		})
	}
}

// Each write of more than longOps operations is in a class of long writes.
func TestLongClass(t *testing.T) {
	if classOf(longOps) >= longClass || classOf(longOps+1) != longClass {
		t.Errorf("classes %d and %d, want less than %d and that", classOf(longOps), classOf(longOps+1), longClass)
	}
}
