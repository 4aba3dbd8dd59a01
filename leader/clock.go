package leader

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxClockGap is how far the clocks of two members may differ, or a wall clock may drift from the
	// monotonic one. Above it, nothing is removed by these clocks. Clocks that are synchronised at
	// all agree within a second.
	maxClockGap = time.Minute

	// trustAfter is how long a wall clock must run evenly after a jump before it is trusted again.
	// An operator has that long to set it back. A node that was made before the jump with a time to
	// live of up to an hour is therefore not removed too early.
	trustAfter = time.Hour
)

// Clock is a member's wall clock. It detects jumps by comparing the wall clock with the monotonic
// one. One Clock lives as long as its member, over all terms. It is safe for concurrent use.
type Clock struct {
	wallClock func() time.Time
	begun     time.Time // monotonic
	firstWall time.Time // what wall returned at begun

	mu           sync.Mutex
	trustedGain  time.Duration // what the wall clock had gained on the monotonic one while it was trusted
	trustedSince time.Duration // when base was set, since begun
	hasJumped    bool          // the gain has differed from base since
	jumpGain     time.Duration // the gain after the last jump
	jumpSince    time.Duration // when that gain was first seen
}

// NewClock returns a Clock that reads wall and has not jumped.
func NewClock(wall func() time.Time) *Clock {
	return &Clock{wallClock: wall, begun: time.Now(), firstWall: wall().Round(0)}
}

// Now returns what the wall clock shows.
func (c *Clock) Now() time.Time {
	now, _ := c.readWithJump()
	return now
}

// Jump returns by how much the wall clock has jumped, forward or back. It returns 0 if the clock
// has not jumped, or has run evenly for trustAfter since. A clock that is set back to what it was
// has not jumped.
func (c *Clock) Jump() time.Duration {
	_, by := c.readWithJump()
	return by
}

func (c *Clock) readWithJump() (now time.Time, jump time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = c.wallClock()
	at := time.Since(c.begun)
	gain := clampCentury(now.Round(0).Sub(c.firstWall)) - at
	switch {
	case !tooFarApart(gain, c.trustedGain):
		c.hasJumped = false
		if at-c.trustedSince >= trustAfter { // small corrections may add up over days
			c.trustedGain, c.trustedSince = gain, at
		}
	case !c.hasJumped || tooFarApart(gain, c.jumpGain):
		c.hasJumped, c.jumpGain, c.jumpSince = true, gain, at
	case at-c.jumpSince >= trustAfter:
		c.hasJumped, c.trustedGain, c.trustedSince = false, gain, at
	}
	if !c.hasJumped {
		return now, 0
	}
	return now, gain - c.trustedGain
}

// tooFarApart reports whether two times, or what two clocks have gained, differ by too much.
func tooFarApart(a, b time.Duration) bool { return (a - b).Abs() > maxClockGap }

// clampCentury limits a clock's value to a range in which sums do not overflow.
func clampCentury(d time.Duration) time.Duration {
	const century = 100 * 365 * 24 * time.Hour
	return max(-century, min(d, century))
}

// clocks compares the members' clocks with the leader's. It is safe for concurrent use.
type clocks struct {
	cfg         *Config
	log         *slog.Logger
	membership  *membership
	faultLogged bool // a fault of the clock has been logged; only for watch

	mu      sync.Mutex
	aheadBy map[uint32]time.Duration // by how much the member's clock was ahead of the leader's at its last answer on the open stream
}

func newClocks(cfg *Config, log *slog.Logger, membership *membership) *clocks {
	return &clocks{cfg: cfg, log: log, membership: membership, aheadBy: make(map[uint32]time.Duration)}
}

// recordClock notes a member's clock, in ms since 1970, at now.
func (c *clocks) recordClock(member uint32, clockMs int64, now time.Time) {
	ahead := clampCentury(time.UnixMilli(clockMs).Sub(now.Round(0)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aheadBy[member] = ahead
}

// forgetMember drops a member's clock.
func (c *clocks) forgetMember(member uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.aheadBy, member)
}

// compareClocks returns how many voters' clocks agree with the leader's (its own included), how those of the
// other voters differ, and the greatest difference of any member.
func (c *clocks) compareClocks(voters []uint32) (agree int, differ []string, most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, ahead := range c.aheadBy {
		most = max(most, ahead.Abs())
		switch by := ahead.Abs().Round(time.Second); {
		case !slices.Contains(voters, id):
		case !tooFarApart(ahead, 0):
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

// clockFault returns why nothing may be removed by this member's clock, or "" if there is no
// reason. A clock is at fault if it has jumped, or if it does not agree with a majority of the
// voters. fault also reports whether a majority is known to agree.
func (c *clocks) clockFault() (why string, agreed bool) {
	if by := c.cfg.WallClock.Jump(); by != 0 {
		return fmt.Sprintf("it has jumped by %v", by.Round(time.Second)), false
	}
	voters := c.membership.voterIDs()
	agree, differ, _ := c.compareClocks(voters)
	if agree > len(voters)/2 {
		return "", true
	}
	return strings.Join(differ, ", "), false
}

// logFaults logs when this member's clock becomes faulty, and when it is right again. One
// goroutine calls it.
func (c *clocks) logFaults() {
	why, _ := c.clockFault()
	switch held := why != ""; {
	case held && !c.faultLogged:
		c.log.Warn("this member's clock is not trusted: containers and nodes with a TTL are not removed until it is", "reason", why)
	case !held && c.faultLogged:
		c.log.Info("this member's clock is trusted again")
	}
	c.faultLogged = why != ""
}
