package leader

import (
	"log/slog"
	"sync"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// expired counts and logs the sessions that have expired, together for each entry.
type expired struct {
	log      *slog.Logger
	clock    monotonic.Clock
	sessions *sessiontracker.GlobalTable
	count    *Counters

	sealed []sessiontracker.Overdue // whose expiry is in the entry that is under way; only for batchLoop, and for Run when it has ended

	mu      sync.Mutex
	applied []jute.SessionID // not reported yet; in the order of sealed
}

// add records that an expiry has been applied. Apply calls it.
func (e *expired) add(id jute.SessionID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.applied = append(e.applied, id)
}

// report counts and logs the expiries that were applied since the last call.
func (e *expired) report() {
	e.mu.Lock()
	ids := e.applied
	e.applied = nil
	e.mu.Unlock()
	if len(ids) > 0 {
		e.countLate(ids, e.clock.Now())
		e.count.Expired.Add(uint64(len(ids)))
		e.log.Info("sessions expired", "count", len(ids), "first", ids[0])
	}
}

// countLate counts how long after their time the sessions have expired. It leaves out the time for which
// table time stood still, because this process was paused: a pause counts against no session.
func (e *expired) countLate(ids []jute.SessionID, now time.Time) {
	at := e.sessions.Now(now)
	for _, s := range e.sealed {
		if len(ids) > 0 && ids[0] == s.ID { // not so if its client came back meanwhile
			e.count.Late.Add(at - s.Heard - s.Timeout)
			ids = ids[1:]
		}
	}
}
