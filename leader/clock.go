package leader

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxApart is how far the clocks of two members may be apart, and a wall clock from the
	// monotonic one, before nothing is removed by them. Clocks that are kept right at all
	// are within a second.
	maxApart = time.Minute

	// trustAfter is how long a wall clock must go on evenly after a jump before it is gone
	// by. An operator has that long to set it back; and a node that was made before the jump
	// with a time to live of up to an hour is not removed too early.
	trustAfter = time.Hour
)

// Clock is a member's wall clock. It notes when that jumps: when it parts from the monotonic
// clock. One Clock lives as long as its member, over all terms. Safe for concurrent use.
type Clock struct {
	wall  func() time.Time
	begun time.Time // monotonic
	first time.Time // what wall showed then

	mu      sync.Mutex
	base    time.Duration // what the wall clock had gained on the monotonic one while it was trusted
	basedAt time.Duration // since begun
	jumped  bool          // the gain is another since
	gain    time.Duration // after the last jump
	since   time.Duration // when that was first seen
}

// NewClock returns a Clock that goes by wall and has not jumped.
func NewClock(wall func() time.Time) *Clock {
	return &Clock{wall: wall, begun: time.Now(), first: wall().Round(0)}
}

// Now returns what the wall clock shows.
func (c *Clock) Now() time.Time {
	now, _ := c.look()
	return now
}

// Jump returns by how much the wall clock has jumped, forward or back, and has not gone on
// evenly for trustAfter since; 0 if it has not. A clock that is set back to what it was has
// not jumped.
func (c *Clock) Jump() time.Duration {
	_, by := c.look()
	return by
}

func (c *Clock) look() (now time.Time, jump time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = c.wall()
	at := time.Since(c.begun)
	gain := bounded(now.Round(0).Sub(c.first)) - at
	switch {
	case !apart(gain, c.base):
		c.jumped = false
		if at-c.basedAt >= trustAfter { // small corrections may add up over the days
			c.base, c.basedAt = gain, at
		}
	case !c.jumped || apart(gain, c.gain):
		c.jumped, c.gain, c.since = true, gain, at
	case at-c.since >= trustAfter:
		c.jumped, c.base, c.basedAt = false, gain, at
	}
	if !c.jumped {
		return now, 0
	}
	return now, gain - c.base
}

// apart reports whether two times, or what two clocks have gained, are too far from each
// other.
func apart(a, b time.Duration) bool { return (a - b).Abs() > maxApart }

// bounded keeps what clocks say within what can be added up.
func bounded(d time.Duration) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	return max(-century, min(d, century))
}

// clocks are those of the members, as the leader sees them.
type clocks struct {
	mu    sync.Mutex
	ahead map[uint32]time.Duration // of the leader's clock, when the member last answered on the stream that is open
}

func (c *clocks) init(members int) { c.ahead = make(map[uint32]time.Duration, members) }

// tell notes a member's clock, in ms since 1970, at now. A member of a version that does
// not tell it, 0, is taken for right.
func (c *clocks) tell(member uint32, clockMs int64, now time.Time) {
	ahead := time.Duration(0)
	if clockMs != 0 {
		ahead = bounded(time.UnixMilli(clockMs).Sub(now.Round(0)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead[member] = ahead
}

// forget drops a member's clock.
func (c *clocks) forget(member uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ahead, member)
}

// compare returns how many members' clocks agree with the leader's, its own among them,
// how the others differ, and the greatest difference.
func (c *clocks) compare() (agree int, differ []string, most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, ahead := range c.ahead {
		most = max(most, ahead.Abs())
		switch by := ahead.Abs().Round(time.Second); {
		case !apart(ahead, 0):
			agree++
		case ahead > 0:
			differ = append(differ, fmt.Sprintf("member %d is ahead of it by %v", id, by))
		default:
			differ = append(differ, fmt.Sprintf("member %d is behind it by %v", id, by))
		}
	}
	slices.Sort(differ)
	return agree, differ, most
}

// clockFault returns why nothing is to be removed by this member's clock, or "" if there is no
// reason: it has jumped, or it is not that of a majority of the members. It also reports
// whether a majority is known to agree.
func (l *Leader) clockFault() (why string, agreed bool) {
	if by := l.cfg.Clock.Jump(); by != 0 {
		return fmt.Sprintf("it has jumped by %v", by.Round(time.Second)), false
	}
	agree, differ, _ := l.clocks.compare()
	if agree > len(l.links)/2 {
		return "", true
	}
	return strings.Join(differ, ", "), false
}

// watchClock logs when this member's clock comes to be at fault, and when it is right again.
// One goroutine calls it.
func (l *Leader) watchClock() {
	why, _ := l.clockFault()
	switch held := why != ""; {
	case held && !l.clockHeld:
		l.log.Warn("this member's clock is not trusted: containers and nodes with a TTL are not removed until it is", "why", why)
	case !held && l.clockHeld:
		l.log.Info("this member's clock is trusted again")
	}
	l.clockHeld = why != ""
}
