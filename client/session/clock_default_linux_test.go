package session

import (
	"testing"
	"testing/synctest"
	"time"
)

// In a bubble, the clock of a Session without Config.Clock is the bubble's.
func TestDefaultClockInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := newSession(Config{Servers: []string{"a:1"}})
		if err != nil {
			t.Fatal(err)
		}
		begin := c.cfg.Clock()
		time.Sleep(8 * time.Hour)
		if passed := c.cfg.Clock() - begin; passed != 8*time.Hour || begin <= 0 {
			t.Errorf("after 8 h, the clock went on by %v from %v", passed, begin)
		}
		c.stop()
	})
}

// Outside of a bubble, the default clock shows the machine's time since boot. It lags by at most minSuspend.
func TestDefaultClockOfMachine(t *testing.T) {
	clock := newClock()
	for range 1000 {
		before := BootTime()
		now := clock()
		if after := BootTime(); now < before-minSuspend || now > after+minSuspend+time.Minute {
			t.Fatalf("the clock shows %v between %v and %v", now, before, after)
		}
	}
}
