package fence_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/fence"
)

func nothing() error { return nil }

// wantStale fails the test unless err says that token was rejected because of greatest.
func wantStale(t *testing.T, err error, token, greatest client.Token) {
	t.Helper()
	stale, ok := errors.AsType[*fence.StaleError](err)
	if !ok || *stale != (fence.StaleError{Token: token, Greatest: greatest}) || !errors.Is(err, fence.ErrStale) {
		t.Errorf("the error is %v, want a rejection of %d because of %d", err, token, greatest)
	}
}

func TestGuardRejectsSmallerTokens(t *testing.T) {
	var g fence.Guard
	ctx := t.Context()
	for _, token := range []client.Token{5, 5, 8} {
		if err := g.Do(ctx, token, nothing); err != nil {
			t.Errorf("token %d: %v", token, err)
		}
	}
	never := func() error { t.Error("the act of a rejected token was called"); return nil }
	wantStale(t, g.Do(ctx, 7, never), 7, 8)
	wantStale(t, g.Check(5), 5, 8)
	for _, token := range []client.Token{0, -1} {
		if err := g.Do(ctx, token, never); !errors.Is(err, fence.ErrInvalidToken) {
			t.Errorf("token %d: %v", token, err)
		}
	}
	if err := g.Check(9); err != nil || g.Greatest() != 9 {
		t.Errorf("%v, the greatest is %d", err, g.Greatest())
	}
	failed := errors.New("failed")
	if err := g.Do(ctx, 9, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the error of the act is %v", err)
	}
}

// Acts of one token run at the same time. A greater token waits for them, and in the meantime smaller ones are
// rejected.
func TestGuardWaitsForOlderActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Guard
		ctx := t.Context()
		finish := make(chan struct{})
		results := make(chan error, 4)
		for range 2 {
			go func() { results <- g.Do(ctx, 1, func() error { <-finish; return nil }) }()
		}
		synctest.Wait()
		var ran []client.Token
		for _, token := range []client.Token{2, 3} {
			go func() { results <- g.Do(ctx, token, func() error { ran = append(ran, token); return nil }) }()
			synctest.Wait()
		}
		gaveUp, cancel := context.WithCancel(ctx)
		cancel()
		if err := g.Do(gaveUp, 4, nothing); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that gave up got %v", err)
		}
		wantStale(t, g.Do(ctx, 1, nothing), 1, 4)
		if len(ran) > 0 || len(results) > 0 {
			t.Fatalf("%v ran beside an older act", ran)
		}
		finish <- struct{}{}
		synctest.Wait()
		if len(ran) > 0 || len(results) != 1 {
			t.Fatalf("%v ran beside the other older act", ran)
		}
		close(finish)
		synctest.Wait()
		stale := 0
		for range 4 {
			if err := <-results; errors.Is(err, fence.ErrStale) {
				stale++
			} else if err != nil {
				t.Error(err)
			}
		}
		if stale != 2 || len(ran) != 0 { // 4 has been seen, although its caller gave up
			t.Errorf("%d were rejected, and %v ran", stale, ran)
		}
		if err := g.Do(ctx, 4, nothing); err != nil {
			t.Error(err)
		}
	})
}

// An act that panics counts as returned.
func TestGuardActPanics(t *testing.T) {
	var g fence.Guard
	func() {
		defer func() { _ = recover() }()
		_ = g.Do(t.Context(), 1, func() error { panic("act") })
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Do(ctx, 2, nothing); err != nil {
		t.Error(err)
	}
}
