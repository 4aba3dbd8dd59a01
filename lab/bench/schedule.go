package bench

import (
	"math"
	"time"
)

// schedule has the due times of requests at a fixed rate: request g is due at g/rate seconds. Each of the
// connections takes every conns-th request. So a slow request does not lower the rate, and a delayed request
// counts from its due time.
type schedule struct {
	rate  float64 // requests per second, positive
	conns int64   // number of connections
}

// dueTime returns the due time of request g.
func (s schedule) dueTime(g int64) time.Duration {
	return time.Duration(math.Round(float64(g) / s.rate * float64(time.Second)))
}

// dueCount returns the number of requests that are due by now.
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

// dueTimeOf returns the due time of request k of a connection.
func (s schedule) dueTimeOf(conn, k int64) time.Duration { return s.dueTime(conn + k*s.conns) }

// offerWhenDue calls offer with the connection of each request when it is due, until end or until stop is
// closed. since returns the time since the run began, and sleep waits. offerWhenDue returns the delay of each
// call.
func (s schedule) offerWhenDue(end time.Duration, stop <-chan struct{}, since func() time.Duration,
	sleep func(time.Duration), offer func(conn int64),
) *Histogram {
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

// maxPacerSleep limits a sleep of the pacer, so that it notices stop soon.
const maxPacerSleep = 100 * time.Millisecond
