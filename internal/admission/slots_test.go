package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A slot that is given back goes to the one that has waited for longest, and to no other one.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		if !s.TryTake() || s.TryTake() || s.Taken() != 1 {
			t.Fatalf("%d of 1 slots taken", s.Taken())
		}
		over, cancel := context.WithCancel(t.Context())
		failed, taken := make(chan error, 1), make(chan int, 2)
		go func() { failed <- s.Take(over) }()
		synctest.Wait()
		for i := range 2 {
			go func() {
				if s.Take(t.Context()) == nil {
					taken <- i
				}
			}()
			synctest.Wait()
		}
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for i := range 2 {
			s.Release()
			if got := <-taken; got != i || s.TryTake() || s.Taken() != 1 {
				t.Errorf("slot %d went to %d; %d taken", i, got, s.Taken())
			}
		}
		s.Release()
		if s.Taken() != 0 || !s.TryTake() {
			t.Error("no slot is free at the end")
		}
	})
}
