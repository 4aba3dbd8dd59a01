package kerberos

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// maxRemembered limits the authenticators of one generation, so the cache has at most twice as many, in at most some 40 MB with those who
	// sent them. Only clients with a valid ticket add one: with a clock skew of 5 minutes that is 437 logins a second, for 10 minutes.
	maxRemembered = 1 << 18
	// maxOfPrincipal is the share of one principal, an eighth. Thousands of clients may have the same one, and all of them may
	// connect again a few times within a generation.
	maxOfPrincipal = maxRemembered / 8
)

// replayCache remembers the authenticators of requests that demand no proof of the service, as long as they are accepted: those whose
// time is within the skew around now. An authenticator that is accepted at all may be accepted for at most twice the skew, so each generation
// lasts that long, and two are kept. It is safe for concurrent use.
//
// Requests that demand a proof are not remembered. The proof has a new subkey, which only the ticket's owner can decrypt, and the
// login needs a token made with it. So who sends such a request again cannot end the login.
type replayCache struct {
	lifetime time.Duration

	mu        sync.Mutex
	began     time.Time // of the younger generation
	now, last generation
}

// generation has the authenticators that came in one lifetime, and the number of them by principal.
type generation struct {
	seen map[shortSum]struct{}
	of   map[shortSum]int
}

// shortSum is a part of a SHA-256 sum, which identifies an authenticator or a principal.
type shortSum [16]byte

func sumOf(data []byte) shortSum {
	whole := sha256.Sum256(data)
	return shortSum(whole[:len(shortSum{})])
}

func newGeneration() generation {
	return generation{map[shortSum]struct{}{}, map[shortSum]int{}}
}

func newReplayCache(skew time.Duration) *replayCache {
	return &replayCache{lifetime: 2 * skew, now: newGeneration()}
}

// add remembers an encrypted authenticator of a principal. It returns an error if the cache has it, or has no room for it.
func (c *replayCache) add(principal string, encrypted []byte, now time.Time) error {
	sum, by := sumOf(encrypted), sumOf([]byte(principal))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch age := now.Sub(c.began); {
	case age >= 2*c.lifetime:
		c.began, c.last, c.now = now, generation{}, newGeneration()
	case age >= c.lifetime:
		c.began, c.last, c.now = now, c.now, newGeneration()
	}
	_, inNow := c.now.seen[sum]
	_, inLast := c.last.seen[sum]
	switch {
	case inNow || inLast:
		return faultf(Replayed, "the token was used before: it was copied from the network, or the client sent it twice")
	case c.now.of[by] >= maxOfPrincipal:
		return faultf(TooManyLogins, "%s has logged in %d times within %v without a proof of the server, and no more of its tokens can be remembered; "+
			"try again later, or have its clients demand a proof", quoteShort(principal), maxOfPrincipal, c.lifetime)
	case len(c.now.seen) >= maxRemembered:
		return faultf(TooManyLogins, "%d clients have logged in within %v without a proof of the server, and no more tokens can be remembered; "+
			"try again later, or have clients demand a proof", maxRemembered, c.lifetime)
	}
	c.now.seen[sum] = struct{}{}
	c.now.of[by]++
	return nil
}
