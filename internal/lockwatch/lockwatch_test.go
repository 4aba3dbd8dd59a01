package lockwatch

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// A lock that is held for longer than the limit is named until it is free, also a lock for readers that a writer holds.
func TestHeldLock(t *testing.T) {
	const limit = 40 * time.Millisecond
	var one sync.Mutex
	var other sync.RWMutex
	w := New(limit, func() []Lock { return []Lock{{"one", &one}, {"other", Reading(&other)}} })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	defer running.Wait()
	defer cancel()
	await := func(want string) {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			err := w.Err()
			if want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), "the lock "+want+" ") {
				return
			}
			if time.Since(begun) > 30*time.Second {
				t.Fatalf("%v, want %q", err, want)
			}
		}
	}
	await("")
	for _, l := range []struct {
		name string
		sync.Locker
	}{{"one", &one}, {"other", &other}} {
		l.Lock()
		await(l.name)
		l.Unlock()
		await("")
	}
	other.RLock() // a reader holds up no reader
	defer other.RUnlock()
	time.Sleep(2 * limit)
	if err := w.Err(); err != nil {
		t.Error(err)
	}
}

// A lock that is held at a few tries, and then belongs to nothing any more, is forgotten.
func TestLockIsListedNoMore(t *testing.T) {
	const limit = time.Millisecond
	var one sync.Mutex
	one.Lock()
	listed := []Lock{{"one", &one}}
	w := New(limit, func() []Lock { return listed })
	began := time.Now().Add(-time.Hour)
	for range triesBeforeWait - 1 {
		w.tryAll(began)
	}
	if w.Err() == nil {
		t.Fatal("a lock that was held for an hour is not named")
	}
	listed = nil
	w.tryAll(began)
	if err := w.Err(); err != nil {
		t.Error(err)
	}
}
