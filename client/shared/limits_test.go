package shared

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
)

// The first attempts follow each other at once, and the later ones after a pause, which ends with the context.
func TestPauseAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		for attempts := range attemptsAtOnce {
			if err := pauseAfter(t.Context(), attempts); err != nil || time.Since(begin) != 0 {
				t.Errorf("after %d attempts: %v, %v", attempts, time.Since(begin), err)
			}
		}
		longest := time.Duration(0)
		for range 50 {
			before := time.Now()
			if err := pauseAfter(t.Context(), attemptsAtOnce); err != nil {
				t.Error(err)
			}
			longest = max(longest, time.Since(before))
		}
		if longest == 0 || longest > maxPause {
			t.Errorf("the longest pause is %v, want up to %v", longest, maxPause)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		if err := pauseAfter(ctx, attemptsAtOnce); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the context: %v", err)
		}
	})
}

// An initial number without a place in the encoding fails each method, before any request.
func TestInitialNumber(t *testing.T) {
	k := NewCounter(new(client.Client), "/n", CounterConfig{Initial: 1 << 31})
	_, getErr := k.Get(t.Context())
	_, addErr := k.Add(t.Context(), 1)
	_, compareErr := k.CompareAndSet(t.Context(), 0, 1)
	for name, err := range map[string]error{"get": getErr, "set": k.Set(t.Context(), 1), "add": addErr, "compare": compareErr} {
		if !errors.Is(err, ErrOverflow) {
			t.Errorf("%s: %v", name, err)
		}
	}
	n := 0
	for _, err := range k.Watch(t.Context()) {
		if n++; !errors.Is(err, ErrOverflow) {
			t.Errorf("watch: %v", err)
		}
	}
	if n != 1 {
		t.Errorf("watch: %d pairs", n)
	}
}
