package kerberos

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxRemembered limits the authenticators of one generation, so the cache has at most twice as many, in about 16 MB. Only clients with
// a valid ticket add one: with a clock skew of 5 minutes that is 437 logins a second, for 10 minutes.
const maxRemembered = 1 << 18

// replayCache remembers authenticators as long as they are accepted: those whose time is within the skew around now. An authenticator
// that is accepted at all may be accepted for at most twice the skew, so each generation lasts that long, and two are kept. It is safe
// for concurrent use.
type replayCache struct {
	lifetime time.Duration

	mu        sync.Mutex
	began     time.Time // of the younger generation
	now, last map[authenticatorSum]struct{}
}

type authenticatorSum [16]byte

func newReplayCache(skew time.Duration) *replayCache {
	return &replayCache{lifetime: 2 * skew, now: map[authenticatorSum]struct{}{}}
}

// add remembers an encrypted authenticator. It returns an error if the cache has it, or has no room.
func (c *replayCache) add(encrypted []byte, now time.Time) error {
	whole := sha256.Sum256(encrypted)
	sum := authenticatorSum(whole[:len(authenticatorSum{})])
	c.mu.Lock()
	defer c.mu.Unlock()
	switch age := now.Sub(c.began); {
	case age >= 2*c.lifetime:
		c.began, c.last, c.now = now, nil, map[authenticatorSum]struct{}{}
	case age >= c.lifetime:
		c.began, c.last, c.now = now, c.now, map[authenticatorSum]struct{}{}
	}
	_, inNow := c.now[sum]
	_, inLast := c.last[sum]
	switch {
	case inNow || inLast:
		return faultf(Replayed, "the token was used before: it was copied from the network, or the client sent it twice")
	case len(c.now) >= maxRemembered:
		return faultf(TooManyLogins, "%d clients have logged in within %v, and no more tokens can be remembered; try again later",
			maxRemembered, c.lifetime)
	}
	c.now[sum] = struct{}{}
	return nil
}
