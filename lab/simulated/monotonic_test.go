package simulated

import (
	"testing"
	"testing/synctest"
	"time"
)

// A clock runs at its rate, and so do its timers. While its member is paused it continues, and the timers that run out
// fire when the pause ends.
func TestMonotonic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewMonotonic()
		begin, started := c.Now(), time.Now()
		c.SetRate(2)
		<-c.After(10 * time.Second)
		if shown, real := c.Now().Sub(begin), time.Since(started); shown != 10*time.Second || real != 5*time.Second {
			t.Errorf("a timer of 10 s at rate 2 ran out when the clock had counted %v, after %v", shown, real)
		}
		timer := c.After(2 * time.Second)
		c.Pause()
		time.Sleep(3 * time.Second)
		select {
		case <-timer:
			t.Error("a timer fired in a pause")
		default:
		}
		c.Resume()
		if at := (<-timer).Sub(begin); at != 16*time.Second {
			t.Errorf("after a pause a timer fired at %v, want 16 s", at)
		}
	})
}
