package admission

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Throttle configures ZooKeeper's connection throttle, which bounds the sessions that are opened and resumed.
// There is a bucket of tokens, and each handshake takes some. A handshake that finds too few ends its
// connection. In addition, new sessions may be rejected by chance, so that a storm thins out before the
// bucket is empty. In every field except Tokens, 0 means the default.
type Throttle struct {
	Tokens    int           // capacity of the bucket; 0: no throttle
	FillTime  time.Duration // between two additions of tokens; default 1 ms
	FillCount int           // tokens added each time; default 1

	Freeze   time.Duration // least time between two changes of the chance; 0: no rejection by chance
	Increase float64       // added to the chance when there is no token for a new session; default 0.02
	Decrease float64       // taken from it when few tokens are missing; default 0.002
	Ratio    float64       // tokens that may be missing then, as a share of Tokens; default 0

	// Weighted has a new session take GlobalWeight tokens (default 3), and a resumed one RenewWeight (default
	// 2), instead of one each. Tokens and FillCount then count new sessions.
	Weighted                  bool
	GlobalWeight, RenewWeight int
}

// Defaults of Throttle, ZooKeeper's, also for the table of keys in package config.
const (
	DefaultFillTime     = time.Millisecond
	DefaultFillCount    = 1
	DefaultIncrease     = 0.02
	DefaultDecrease     = 0.002
	DefaultGlobalWeight = 3
	DefaultRenewWeight  = 2
)

// maxThrottleNumber keeps products of two numbers of a Throttle within 64 bits.
const maxThrottleNumber = 1<<31 - 1

// SetDefaultsAndCheck sets defaults and checks the fields.
func (t *Throttle) SetDefaultsAndCheck() error {
	setIfZero(&t.FillTime, DefaultFillTime)
	setIfZero(&t.FillCount, DefaultFillCount)
	setIfZero(&t.Increase, DefaultIncrease)
	setIfZero(&t.Decrease, DefaultDecrease)
	setIfZero(&t.GlobalWeight, DefaultGlobalWeight)
	setIfZero(&t.RenewWeight, DefaultRenewWeight)
	for _, n := range []int{t.Tokens, t.FillCount, t.GlobalWeight, t.RenewWeight} {
		if n < 0 || n > maxThrottleNumber {
			return errors.New("admission: a number of the connection throttle is negative or too large")
		}
	}
	for _, share := range []float64{t.Increase, t.Decrease, t.Ratio} {
		if !(share >= 0 && share <= 1) {
			return errors.New("admission: a share of the connection throttle is not within 0 and 1")
		}
	}
	if t.FillTime < 0 || t.Freeze < 0 {
		return errors.New("admission: a time of the connection throttle is negative")
	}
	return nil
}

func setIfZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// SessionThrottle applies a Throttle. Safe for concurrent use.
//
// A client that resumes its session goes first. It may overdraw the bucket by its capacity, and skips the
// early drop. A new session waits until the debt is paid, so a storm of new clients cannot keep those out
// that have something to lose. Only sessions that this member knows, resumed with the right password, go
// first, because a stranger may claim any other.
type SessionThrottle struct {
	cfg          Throttle
	capacity     int64
	startedAt    time.Time
	randomChance func() float64 // from 0 up to 1

	mu            sync.Mutex
	lastFill      time.Time
	tokenLimiter  *rate.Limiter // has whole numbers of tokens at advanceLastFill; negative: a debt
	dropChance    float64       // of a new session
	dropCheckedAt time.Time
}

// NewSessionThrottle returns a throttle whose bucket is full. cfg has its defaults.
func NewSessionThrottle(cfg Throttle, now time.Time) *SessionThrottle {
	weight := int64(1)
	if cfg.Weighted {
		weight = int64(cfg.GlobalWeight)
	}
	t := &SessionThrottle{
		cfg: cfg, capacity: weight * int64(cfg.Tokens), startedAt: now, lastFill: now,
		dropCheckedAt: now, randomChance: rand.Float64,
	}
	perSecond := float64(weight*int64(cfg.FillCount)) / cfg.FillTime.Seconds()
	t.tokenLimiter = rate.NewLimiter(rate.Limit(perSecond), int(t.capacity))
	return t
}

// SetRandomForTest replaces the source of random numbers from 0 up to 1. It is for tests, before the first call of
// Admit.
func (t *SessionThrottle) SetRandomForTest(chance func() float64) { t.randomChance = chance }

// SessionRequest is the kind of a handshake's request.
type SessionRequest int

const (
	NewSession     SessionRequest = iota
	KnownSession                  // a session that this member knows, with the right password
	ClaimedSession                // not known here
)

// Admit takes the tokens of a handshake, and returns false if the handshake is rejected.
func (t *SessionThrottle) Admit(request SessionRequest, now time.Time) bool {
	if t.capacity == 0 {
		return true
	}
	need, least := int64(1), int64(0)
	switch {
	case t.cfg.Weighted && request == NewSession:
		need = int64(t.cfg.GlobalWeight)
	case t.cfg.Weighted:
		need = int64(t.cfg.RenewWeight)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.tokensLeft(now)
	if request == KnownSession {
		least = -t.capacity
	} else if t.decideEarlyDrop(left, need, now) {
		return false
	}
	if left-need < least {
		return false
	}
	for at := t.advanceLastFill(now); need > 0; need -= t.capacity { // a limiter takes no more than its capacity at once
		t.tokenLimiter.ReserveN(at, int(min(need, t.capacity)))
	}
	return true
}

// advanceLastFill advances lastFill to the last time at which tokens were added, and returns it. It never
// decreases: handshakes may get the lock in another order than they read the clock, and a limiter that gets
// an earlier time adds the tokens since then again. The caller holds the lock.
func (t *SessionThrottle) advanceLastFill(now time.Time) time.Time {
	if at := t.startedAt.Add(now.Sub(t.startedAt) / t.cfg.FillTime * t.cfg.FillTime); at.After(t.lastFill) {
		t.lastFill = at
	}
	return t.lastFill
}

// tokensLeft returns the number of tokens. The limiter counts in floating point, but from whole numbers. The
// caller holds the lock.
func (t *SessionThrottle) tokensLeft(now time.Time) int64 {
	return int64(math.Round(t.tokenLimiter.TokensAt(t.advanceLastFill(now))))
}

// decideEarlyDrop updates the chance of rejecting new sessions, if that is due, and reports whether it rejects
// this one, which needs so many tokens. This is the BLUE algorithm of queue management. The caller holds the
// lock.
func (t *SessionThrottle) decideEarlyDrop(left, need int64, now time.Time) bool {
	if t.cfg.Freeze == 0 {
		return false
	}
	if now.Sub(t.dropCheckedAt) > t.cfg.Freeze {
		t.dropCheckedAt = now
		switch missing := t.capacity - left; {
		case left < need:
			t.dropChance = min(t.dropChance+t.cfg.Increase, 1)
		case missing <= int64(math.Round(t.cfg.Ratio*float64(t.capacity))):
			t.dropChance = max(t.dropChance-t.cfg.Decrease, 0)
		}
	}
	return t.randomChance() < t.dropChance
}

// DropChanceAndMissing returns the chance of rejecting a new session, and the number of missing tokens.
func (t *SessionThrottle) DropChanceAndMissing(now time.Time) (drop float64, missing int64) {
	if t.capacity == 0 {
		return 0, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropChance, t.capacity - t.tokensLeft(now)
}
