package stream

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// A lifetime ends for those who have asked for its channel, and for those who ask later.
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

// Those who ask while it ends are told, too.
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
