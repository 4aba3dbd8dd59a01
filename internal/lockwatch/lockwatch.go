// Package lockwatch notices a lock that is held without end, by a loop that does not end or by a goroutine that waits under
// it. A disk or the state machine that hangs is noticed where it is called (quorum/disk); a lock has no such place.
//
// A Watch tries its locks, some times in its limit. It waits for a lock only if it was held at each try in half of the limit, in a
// goroutine of its own, of which each lock has at most one. So watching costs a few nanoseconds for each lock, and reading the result takes
// no lock that is watched.
package lockwatch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// triesPerLimit is the number of times that each lock is tried in the limit, and triesBeforeWait the number of tries in a row that
// find it held before the Watch waits for it.
const (
	triesPerLimit   = 8
	triesBeforeWait = triesPerLimit / 2
)

// Locker is a lock that can be tried: a *sync.Mutex, or what Reading returns.
type Locker interface {
	sync.Locker
	TryLock() bool
}

// Lock is a watched lock.
type Lock struct {
	Name string // package, type and field
	Locker
}

// Reading returns the side of l for readers. It is held up by a writer, and by a reader once a writer waits. Watching the other
// side would hold up readers.
func Reading(l *sync.RWMutex) Locker { return reading{l} }

type reading struct{ *sync.RWMutex }

func (r reading) Lock()         { r.RLock() }
func (r reading) Unlock()       { r.RUnlock() }
func (r reading) TryLock() bool { return r.TryRLock() }

// Watch watches locks. Make one with New. It is safe for concurrent use.
type Watch struct {
	limit time.Duration
	locks func() []Lock

	mu      sync.Mutex
	waiting map[Locker]wait // for a lock that was held at each try since then
}

type wait struct {
	name  string
	since time.Time
	tries int
}

// New returns a Watch. locks returns the locks that there are at the moment, without taking any. A lock may be held for limit.
func New(limit time.Duration, locks func() []Lock) *Watch {
	return &Watch{limit: limit, locks: locks, waiting: map[Locker]wait{}}
}

// Run tries the locks until ctx ends. A goroutine that waits for a lock then ends when it has the lock.
func (w *Watch) Run(ctx context.Context) error {
	ticker := time.NewTicker(w.limit / triesPerLimit)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			w.tryAll(now)
		}
	}
}

func (w *Watch) tryAll(now time.Time) {
	listed := w.locks()
	w.forgetUnlisted(listed)
	for _, l := range listed {
		if l.TryLock() {
			l.Unlock()
			w.removeWait(l)
			continue
		}
		if w.addTry(l, now) == triesBeforeWait {
			go func() { // see Run
				l.Lock()
				w.removeWait(l)
				l.Unlock()
			}()
		}
	}
}

// addTry records that a lock is held at a time, and returns the number of such tries in a row.
func (w *Watch) addTry(l Lock, now time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	held, ok := w.waiting[l.Locker]
	if !ok {
		held = wait{name: l.Name, since: now}
	}
	held.tries++
	w.waiting[l.Locker] = held
	return held.tries
}

// forgetUnlisted forgets locks that were held at the last tries and are in no list any more, because what they belong to has ended. Nobody
// waits for them, so nobody would notice that they are free.
func (w *Watch) forgetUnlisted(listed []Lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, held := range w.waiting {
		isListed := slices.ContainsFunc(listed, func(l Lock) bool { return l.Locker == at })
		if !isListed && held.tries < triesBeforeWait {
			delete(w.waiting, at)
		}
	}
}

func (w *Watch) removeWait(l Lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, l.Locker)
}

// Err returns an error that names the lock that is waited for longest if that has taken longer than the limit. Otherwise it
// returns nil.
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var oldest wait
	for _, one := range w.waiting {
		if oldest.name == "" || one.since.Before(oldest.since) {
			oldest = one
		}
	}
	if oldest.name == "" || time.Since(oldest.since) < w.limit {
		return nil
	}
	return fmt.Errorf("a part of this member hangs: the lock %s was not free for %v; restart the member, and report its goroutines",
		oldest.name, time.Since(oldest.since).Round(time.Millisecond))
}
