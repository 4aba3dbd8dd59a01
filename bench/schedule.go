package bench

import (
	"math"
	"time"
)

// schedule says when each request of a run at a fixed rate is due: request g at g/rate seconds.
// Each of n connections takes every n-th request. The rate is therefore kept however long a single
// request takes. A request that a stall delays still counts from the time when it was due.
type schedule struct {
	rate  float64 // requests per second, positive
	conns int64   // number of connections
}

// dueTime returns when request g is due.
func (s schedule) dueTime(g int64) time.Duration {
	return time.Duration(math.Round(float64(g) / s.rate * float64(time.Second)))
}

// dueCount returns how many requests are due at now or before.
func (s schedule) dueCount(now time.Duration) int64 {
	if now < 0 {
		return 0
	}
	g := int64(now.Seconds()*s.rate) + 1
	for g > 0 && s.dueTime(g-1) > now { // corrects rounding
		g--
	}
	for s.dueTime(g) <= now {
		g++
	}
	return g
}

// dueTimeOf returns when request k of a connection is due.
func (s schedule) dueTimeOf(conn, k int64) time.Duration { return s.dueTime(conn + k*s.conns) }

// offerWhenDue calls offer with the connection of each request when it is due, until no more requests are
// due before end, or stop is closed. since returns the time since the run began, and sleep waits.
// pace returns how late each call was.
func (s schedule) offerWhenDue(end time.Duration, stop <-chan struct{}, since func() time.Duration, sleep func(time.Duration), offer func(conn int64)) *Histogram {
	late := &Histogram{}
	for g := int64(0); s.dueTime(g) < end; {
		select {
		case <-stop:
			return late
		default:
		}
		now := since()
		if wait := s.dueTime(g) - now; wait > 0 {
			sleep(min(wait, maxPacerSleep))
			continue
		}
		for due := s.dueCount(min(now, end-1)); g < due; g++ {
			late.Add(now - s.dueTime(g))
			offer(g % s.conns)
		}
	}
	return late
}

// maxPacerSleep is how long the pacer sleeps at most, so that it notices soon that it is to stop.
const maxPacerSleep = 100 * time.Millisecond
