package follower

import (
	"context"
	"time"
)

// lapsesPerTick is how often the leases of those who are heard and not acknowledged are
// looked at: a connection is closed so much of a tick late at most.
const lapsesPerTick = 8

// lapseLoop closes the connections of clients that were heard and are vouched for no
// more, because nobody acknowledges it. There may be nothing to send that would show it;
// but by the time the client asks again, its session may have expired, and now it has a
// tenth of its timeout to find a member that is heard. It costs nothing while
// acknowledgements come, and then as much as there are touches that wait for one.
func (f *Follower) lapseLoop(ctx context.Context) error {
	ticker := time.NewTicker(f.cfg.Tick / lapsesPerTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			f.lapse(now)
			f.strand(now)
		}
	}
}

func (f *Follower) lapse(now time.Time) {
	if f.touched.FlushedBefore(now.Add(-f.cfg.Tick)) {
		f.touched.Flush(now) // two pings are missing: touches count from here, whoever hears of them later
	}
	// What waits for longer than pings are apart, and a quarter, has missed one. Without a
	// stream nobody can acknowledge it.
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
		f.log.Warn("sessions heard and not acknowledged, their connections closed", "count", cut)
	}
}

// pinged reports whether a leader's stream of pings is open.
func (f *Follower) pinged() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stream != nil
}
