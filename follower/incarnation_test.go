package follower

import (
	"errors"
	"log/slog"
	"testing"
	"time"
)

// A process announces itself until its incarnation is current, and again whenever another incarnation or another list is
// current before. It ends when another incarnation replaces its own.
func TestIncarnation(t *testing.T) {
	i := newIncarnation(&Config{Self: self, Boot: ourBoot, State: &fakeState{}, WallClock: time.Now}, slog.New(slog.DiscardHandler))
	var sent announcement
	announces := func(what string, want bool) {
		t.Helper()
		if got := i.refreshAnnouncement(&sent); got != want {
			t.Errorf("announces itself %s: %t, want %t", what, got, want)
		}
	}
	announces("at first", true)
	announces("again", false)
	i.observeBoot(76)
	announces("after the boot before", true)
	i.endIfAddedAgain(2, true)
	announces("in another list", true)
	if _, ok := i.tryNewSessionID(); ok {
		t.Error("a session before the announcement")
	}
	if !i.observeBoot(ourBoot) || i.observeBoot(ourBoot) {
		t.Error("announced not exactly once")
	}
	announces("as the current boot", false)
	if _, ok := i.tryNewSessionID(); !ok {
		t.Error("no session after the announcement")
	}
	i.observeBoot(0)
	i.endIfAddedAgain(3, false)
	announces("when removed", false)
	select {
	case <-i.over:
		t.Fatal("over when it is removed")
	default:
	}
	i.endIfAddedAgain(4, true)
	if err := i.waitForEnd(t.Context()); !errors.Is(err, ErrAddedAgain) {
		t.Errorf("added again: %v", err)
	}
}
