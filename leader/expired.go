package leader

import (
	"log/slog"
	"sync"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// expiryReporter counts and logs the sessions that have expired, together for each entry.
type expiryReporter struct {
	log      *slog.Logger
	clock    monotonic.Clock
	sessions *sessiontracker.GlobalTable
	counters *Counters

	// sealedExpiries are in the entry with removals that is under way. Only batchLoop, and Run when that has ended, use them.
	sealedExpiries []sessiontracker.OverdueSession

	mu         sync.Mutex
	appliedIDs []jute.SessionID // not reported yet; in the order of sealedExpiries
}

// recordApplied records that an expiry has been applied. Apply calls it.
func (e *expiryReporter) recordApplied(id jute.SessionID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.appliedIDs = append(e.appliedIDs, id)
}

// reportApplied counts and logs the expiries that were applied since the last call.
func (e *expiryReporter) reportApplied() {
	e.mu.Lock()
	ids := e.appliedIDs
	e.appliedIDs = nil
	e.mu.Unlock()
	if len(ids) > 0 {
		e.recordLateness(ids, e.clock.Now())
		e.counters.Expired.Add(uint64(len(ids)))
		e.log.Info("sessions expired", "count", len(ids), "first", ids[0])
	}
}

// recordLateness counts the lateness of expiries by table time, which stands still while this process is paused.
func (e *expiryReporter) recordLateness(ids []jute.SessionID, now time.Time) {
	at := e.sessions.TableTime(now)
	for _, s := range e.sealedExpiries {
		if len(ids) > 0 && ids[0] == s.ID { // not so if its client came back meanwhile
			e.counters.ExpiryLateness.Add(at - s.Deadline)
			ids = ids[1:]
		}
	}
}
