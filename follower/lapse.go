package follower

import (
	"context"
	"time"
)

// lapsesPerTick is how often in a tick the leases of sessions with unacknowledged touches are
// checked. A connection is closed at most one such interval late.
const lapsesPerTick = 8

// lapseLoop closes the connections of clients that were heard from, but have no valid lease any
// more because nothing was acknowledged. There may be nothing to send to such a client, so no reply
// would find this out. The client still has a tenth of its timeout to find another member. When it
// sends something later, its session may have expired. The loop costs nothing while
// acknowledgements come. Otherwise it costs time for each touch that waits for one.
func (f *Follower) lapseLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-f.cfg.Monotonic.After(f.cfg.Tick / lapsesPerTick):
			f.cutLapsed(now)
			f.cutUnlinked(now)
		}
	}
}

func (f *Follower) cutLapsed(now time.Time) {
	if f.touched.FlushedBefore(now.Add(-f.cfg.Tick)) {
		f.touched.Flush(now) // two pings are missing: flush, so that touches count from now, whichever leader learns of them later
	}
	// A touch that waits for longer than one and a half ping intervals has missed a ping. Without a
	// stream it cannot be acknowledged at all.
	since := now.Add(-f.cfg.Tick * 3 / 4)
	if !f.pinged() {
		since = now
	}
	cut := 0
	for id := range f.touched.Waiting(since) {
		if conn, ended := f.leases.lapse(id, now); ended {
			f.cfg.Clients.Cut(id, conn, ErrNotVouched)
			cut++
		}
	}
	if cut > 0 {
		f.count.lapsed.Add(uint64(cut))
		f.log.Warn("sessions heard and not acknowledged, their connections closed", "count", cut)
	}
}

// pinged reports whether a leader's stream of pings is open.
func (f *Follower) pinged() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stream != nil
}
