package leader

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"rollcall/internal/lockwatch"
)

const (
	// maxClockGap is the greatest difference of two members' clocks, and the greatest drift of a wall clock
	// from the monotonic one, at which nodes are removed by these clocks. Synchronised clocks agree within a
	// second.
	maxClockGap = time.Minute

	// trustAfter is the time for which a wall clock must run evenly after a jump before it is trusted again.
	// Until then an operator can set it back. A node that was made before the jump with a time to live of up
	// to an hour is therefore not removed too early.
	trustAfter = time.Hour
)

// Clock is a member's wall clock. It detects jumps by comparing the wall clock with the monotonic
// one. One Clock lives as long as its member, over all terms. It is safe for concurrent use.
type Clock struct {
	wallClock func() time.Time
	begun     time.Time // monotonic
	firstWall time.Time // of wallClock, at begun

	mu           sync.Mutex
	trustedGain  time.Duration // of the wall clock on the monotonic one
	trustedSince time.Duration // when trustedGain was set, since begun
	hasJumped    bool          // the gain is too far from trustedGain
	jumpGain     time.Duration // the gain after the last jump
	jumpSince    time.Duration // of jumpGain, since begun
}

// NewClock returns a Clock that reads wall and has not jumped.
func NewClock(wall func() time.Time) *Clock {
	return &Clock{wallClock: wall, begun: time.Now(), firstWall: wall().Round(0)}
}

// Now returns the time of the wall clock.
func (c *Clock) Now() time.Time {
	now, _ := c.readWithJump()
	return now
}

// Jump returns the jump of the wall clock, which is negative if the clock jumped back. It returns 0 if the clock
// has not jumped, has run evenly for trustAfter since, or was set right again.
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
	faultLogged bool // only for logFaults

	mu      sync.Mutex
	aheadBy map[uint32]time.Duration // difference to the leader's clock at the member's last reply, since it has had an open stream
}

func newClocks(cfg *Config, log *slog.Logger, membership *membership) *clocks {
	return &clocks{cfg: cfg, log: log, membership: membership, aheadBy: make(map[uint32]time.Duration)}
}

// recordClock records a member's clock, in ms since 1970, at now.
func (c *clocks) recordClock(member uint32, clockMs int64, now time.Time) {
	ahead := clampCentury(time.UnixMilli(clockMs).Sub(now.Round(0)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aheadBy[member] = ahead
}

func (c *clocks) forgetMember(member uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.aheadBy, member)
}

// compareClocks returns the number of voters whose clocks agree with the leader's, itself included, the
// differences of the other voters as text, and the greatest difference of any member.
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

// clockFault returns the fault of this member's clock for which no node may be removed, or "". A clock is at fault
// if it has jumped, or if it does not agree with a majority of the voters. clockFault also reports whether a
// majority is known to agree.
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

// logFaults logs when this member's clock becomes faulty, and when it is right again. One goroutine calls it.
func (c *clocks) logFaults() {
	why, _ := c.clockFault()
	switch held := why != ""; {
	case held && !c.faultLogged:
		c.log.Warn("this member's clock is not trusted: containers and nodes with a TTL are not removed until it is",
			"reason", why)
	case !held && c.faultLogged:
		c.log.Info("this member's clock is trusted again")
	}
	c.faultLogged = why != ""
}

// Locks returns the lock of the clock.
func (c *Clock) Locks() []lockwatch.Lock {
	return []lockwatch.Lock{{Name: "leader.Clock.mu", Locker: &c.mu}}
}
