package stream

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// A lifetime ends for callers that already have its channel, and for callers that get it later.
func TestLifetime(t *testing.T) {
	for _, askedBefore := range []bool{true, false} {
		var l lifetime
		if l.Err() != nil {
			t.Errorf("asked before %t: error %v before the end", askedBefore, l.Err())
		}
		var early <-chan struct{}
		if askedBefore {
			early = l.Done()
			select {
			case <-early:
				t.Error("over before the end")
			default:
			}
		}
		if l.Err() != nil {
			t.Errorf("asked before %t: error %v before the end", askedBefore, l.Err())
		}
		l.end()
		if askedBefore {
			<-early
		}
		<-l.Done()
		if !errors.Is(l.Err(), context.Canceled) {
			t.Errorf("asked before %t: error %v after the end", askedBefore, l.Err())
		}
	}
}

// Callers that get the channel while it ends are notified, too.
func TestLifetimeEndsMeanwhile(t *testing.T) {
	for range 100 {
		var l lifetime
		var asking sync.WaitGroup
		for range 4 {
			asking.Go(func() { <-l.Done() })
		}
		l.end()
		asking.Wait()
	}
}
