package server

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"rollcall/jute"
)

// Throttle bounds how many sessions are opened and resumed, by ZooKeeper's connection throttle. There
// is a bucket of tokens, and each handshake takes some. A handshake that finds too few ends its
// connection. In addition, new sessions may be refused by chance, so that a storm thins out before the
// bucket is empty. In every field except Tokens, 0 means the default.
type Throttle struct {
	Tokens    int           // capacity of the bucket; 0: there is no throttle
	FillTime  time.Duration // how often tokens are added; default 1 ms
	FillCount int           // how many are added each time; default 1

	Freeze   time.Duration // least time between two changes of the chance; 0: nothing is refused by chance
	Increase float64       // added to the chance when there is no token for a new session; default 0.02
	Decrease float64       // taken from it when few tokens are missing; default 0.002
	Ratio    float64       // how many may be missing then, as a share of Tokens; default 0

	// Weighted has a new session take GlobalWeight tokens (default 3), and a resumed one RenewWeight
	// (default 2), instead of one each. Tokens and FillCount then count new sessions.
	Weighted                  bool
	GlobalWeight, RenewWeight int
}

// Defaults of Throttle, ZooKeeper's. The table of keys in package config takes them from here.
const (
	DefaultFillTime     = time.Millisecond
	DefaultFillCount    = 1
	DefaultIncrease     = 0.02
	DefaultDecrease     = 0.002
	DefaultGlobalWeight = 3
	DefaultRenewWeight  = 2
)

// maxThrottle keeps products of two numbers of a Throttle within 64 bits.
const maxThrottle = 1<<31 - 1

// complete fills defaults in and checks the fields.
func (t *Throttle) complete() error {
	fill(&t.FillTime, DefaultFillTime)
	fill(&t.FillCount, DefaultFillCount)
	fill(&t.Increase, DefaultIncrease)
	fill(&t.Decrease, DefaultDecrease)
	fill(&t.GlobalWeight, DefaultGlobalWeight)
	fill(&t.RenewWeight, DefaultRenewWeight)
	for _, n := range []int{t.Tokens, t.FillCount, t.GlobalWeight, t.RenewWeight} {
		if n < 0 || n > maxThrottle {
			return errors.New("server: a number of the connection throttle is negative or too large")
		}
	}
	for _, share := range []float64{t.Increase, t.Decrease, t.Ratio} {
		if !(share >= 0 && share <= 1) {
			return errors.New("server: a share of the connection throttle is not within 0 and 1")
		}
	}
	if t.FillTime < 0 || t.Freeze < 0 {
		return errors.New("server: a time of the connection throttle is negative")
	}
	return nil
}

// fill sets a field that is zero to its default.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// bucket is the tokens of a Throttle. Its lock is taken with no other one.
//
// A client that comes back for its session goes first. It may take tokens on credit, as many as the
// bucket holds, and is not refused by chance. A new session waits until the debt is paid. So a storm of
// new clients cannot keep those out that have something to lose. Only sessions that this member knows,
// resumed with the right password, go first, because a stranger may claim any other.
type bucket struct {
	cfg      Throttle
	capacity int64
	perFill  int64
	chance   func() float64 // a random number from 0 up to 1

	mu     sync.Mutex
	tokens int64     // negative: there is a debt
	filled time.Time // when tokens were added last
	drop   float64   // with which chance a new session is refused
	frozen time.Time // when drop was looked at last
}

// newBucket returns a full bucket. cfg is complete.
func newBucket(cfg Throttle, now time.Time) *bucket {
	weight := int64(1)
	if cfg.Weighted {
		weight = int64(cfg.GlobalWeight)
	}
	b := &bucket{
		cfg: cfg, capacity: weight * int64(cfg.Tokens), perFill: weight * int64(cfg.FillCount), chance: rand.Float64,
		filled: now, frozen: now,
	}
	b.tokens = b.capacity
	return b
}

// claim is what a handshake asks for.
type claim int

const (
	opens   claim = iota // a new session
	resumes              // a session that this member knows
	claims               // a session that it does not know
)

// claimOf returns what a handshake asks for. known says that this member knows the session, and that the
// password is right.
func claimOf(session jute.SessionID, known bool) claim {
	switch {
	case session == 0:
		return opens
	case known:
		return resumes
	}
	return claims
}

// take takes the tokens of a handshake, and returns false if the handshake is refused.
func (b *bucket) take(of claim, now time.Time) bool {
	if b.capacity == 0 {
		return true
	}
	need, least := int64(1), int64(0)
	switch {
	case b.cfg.Weighted && of == opens:
		need = int64(b.cfg.GlobalWeight)
	case b.cfg.Weighted:
		need = int64(b.cfg.RenewWeight)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	if of == resumes {
		least = -b.capacity
	} else if b.dropsByChance(need, now) {
		return false
	}
	if b.tokens-need < least {
		return false
	}
	b.tokens -= need
	return true
}

// refill adds the tokens of the time that has passed. The caller holds the lock.
func (b *bucket) refill(now time.Time) {
	times := int64(now.Sub(b.filled) / b.cfg.FillTime)
	if times <= 0 {
		return
	}
	b.filled = b.filled.Add(time.Duration(times) * b.cfg.FillTime)
	missing := b.capacity - b.tokens
	if times > missing/b.perFill {
		b.tokens = b.capacity
		return
	}
	b.tokens += times * b.perFill
}

// dropsByChance changes the chance with which new sessions are refused, if it is time for that, and
// returns whether it refuses this one, which needs so many tokens. This is the BLUE algorithm of queue
// management. The caller holds the lock.
func (b *bucket) dropsByChance(need int64, now time.Time) bool {
	if b.cfg.Freeze == 0 {
		return false
	}
	if now.Sub(b.frozen) > b.cfg.Freeze {
		b.frozen = now
		switch missing := b.capacity - b.tokens; {
		case b.tokens < need:
			b.drop = min(b.drop+b.cfg.Increase, 1)
		case missing <= int64(math.Round(b.cfg.Ratio*float64(b.capacity))):
			b.drop = max(b.drop-b.cfg.Decrease, 0)
		}
	}
	return b.chance() < b.drop
}

// state returns the chance with which a new session is refused, and how many tokens are missing.
func (b *bucket) state(now time.Time) (drop float64, missing int64) {
	if b.capacity == 0 {
		return 0, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	return b.drop, b.capacity - b.tokens
}
