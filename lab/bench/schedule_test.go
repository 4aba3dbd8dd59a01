package bench

import (
	"testing"
	"testing/synctest"
	"time"
)

// dueCount returns the number of requests that are due at or before a time. It is exact to the nanosecond at every
// rate.
func TestScheduleDue(t *testing.T) {
	for _, rate := range []float64{0.3, 1, 7, 333, 1000, 99_999.5, 3e6} {
		s := schedule{rate: rate, conns: 3}
		for _, g := range []int64{0, 1, 2, 3, 100, 12_345, 1 << 30} {
			at := s.dueTime(g)
			if got := s.dueCount(at); got != g+1 {
				t.Errorf("rate %v: %d are due at the start of request %d", rate, got, g)
			}
			if got := s.dueCount(at - 1); got != g {
				t.Errorf("rate %v: %d are due before request %d", rate, got, g)
			}
		}
		if s.dueTimeOf(2, 5) != s.dueTime(17) {
			t.Errorf("rate %v: request 5 of connection 2 starts at %v", rate, s.dueTimeOf(2, 5))
		}
	}
}

// Each request is offered when it is due, to the connections in turn. A pacer that was paused
// offers everything that has become due at once, and then offers the rest on time.
func TestSchedulePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedule{rate: 100, conns: 4}
		base := time.Now()
		since := func() time.Duration { return time.Since(base) }
		var g int64
		late := s.offerWhenDue(time.Second, nil, since, time.Sleep, func(conn int64) {
			want := s.dueTime(g)
			if g >= 30 && g < 50 {
				want = s.dueTime(50) // the pacer was paused until then
			}
			if conn != g%4 || since() != want {
				t.Errorf("request %d is offered to connection %d at %v", g, conn, since())
			}
			if g++; g == 30 {
				time.Sleep(210 * time.Millisecond)
			}
		})
		if g != 100 || late.Count() != 100 || late.Max() != 200*time.Millisecond {
			t.Errorf("%d offered, %d counted, at most %v late", g, late.Count(), late.Max())
		}
	})
}

// A pacer stops on request, even if nothing is due for a long time.
func TestSchedulePaceStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		base := time.Now()
		since := func() time.Duration { return time.Since(base) }
		schedule{rate: 0.001, conns: 1}.offerWhenDue(time.Hour, stop, since, time.Sleep, func(int64) {})
		if since() > time.Second+maxPacerSleep {
			t.Errorf("ended after %v", since())
		}
	})
}
