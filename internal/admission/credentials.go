package admission

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"rollcall/internal/lockwatch"
	"rollcall/internal/metrics"
)

const (
	// freeFailures is the number of failures after which an address is slowed: more than a person who
	// mistypes a password needs, and too few to guess anything.
	freeFailures = 10
	// attemptInterval is the time between two attempts of a slowed address, and the time in which it regains
	// one free failure. That is at most 86,400 guesses in a day. Without it, one connection made thousands in
	// a second.
	attemptInterval = time.Second
	// MaxAttemptWait is the longest wait of an attempt. An attempt that would have to wait longer is rejected
	// at once, so at most three attempts of an address wait.
	MaxAttemptWait = 3 * attemptInterval
	// maxWaitingAttempts limits the waiting attempts of all addresses. Each of them occupies a goroutine of
	// its connection. Further ones are rejected at once.
	maxWaitingAttempts = 64
	// maxAddresses is the number of addresses that are remembered, in about 1 MB.
	maxAddresses = 4096
	// networkBits is the prefix of an IPv6 address that counts as one address, because a user who has one of
	// its addresses usually has all of them.
	networkBits = 64

	// addressLineInterval is the least time between two log lines about one address.
	addressLineInterval = time.Minute
	// lineBurst is the number of lines about all addresses at once, and lineInterval the time after which
	// there may be one more. A stranger with many addresses leaves 28,800 lines in a day.
	lineBurst    = 20
	lineInterval = 3 * time.Second
)

// ErrSlowed is the error of an attempt that was rejected without a check.
var ErrSlowed = errors.New("too many failed credentials from this address; try again in some seconds")

// CredentialLimiter counts failed credentials, and slows the addresses that they come from. An address may
// fail freeFailures times at once; after that, attemptInterval passes between two of its attempts. The
// limiter is bounded: if it is full, it drops the address whose last failure is the longest ago.
//
// A slowed attempt is not checked before its turn, so a right credential from a slowed address waits as long
// as a wrong one. Otherwise the time to the reply would tell them apart, and a guesser would not wait.
// Attempts from all other addresses are checked at once.
//
// Make one with NewCredentialLimiter. It is safe for concurrent use. A nil *CredentialLimiter slows and
// counts nothing.
type CredentialLimiter struct {
	log                    *slog.Logger
	failedByKind           [numCredentials]atomic.Uint64
	numWaited, numRejected atomic.Uint64

	mu            sync.Mutex
	addresses     map[string]*list.Element
	byLastFailure *list.List // of *addressRecord, the one with the latest failure first
	numWaiting    int        // attempts
	lineLimiter   *rate.Limiter
	skippedLines  int // due and not written
}

// addressRecord has the failures of an address.
type addressRecord struct {
	name             string
	failureTokens    *rate.Limiter // one for each free failure
	lastLogged       time.Time
	unloggedFailures int // since lastLogged
}

// NewCredentialLimiter returns an empty CredentialLimiter. By default, it logs nothing.
func NewCredentialLimiter(logger *slog.Logger) *CredentialLimiter {
	return &CredentialLimiter{
		log: cmp.Or(logger, slog.New(slog.DiscardHandler)), addresses: map[string]*list.Element{}, byLastFailure: list.New(),
		lineLimiter: rate.NewLimiter(rate.Every(lineInterval), lineBurst),
	}
}

// Attempt is a credential that is about to be checked.
type Attempt struct {
	limiter  *CredentialLimiter
	host     string
	record   *addressRecord // nil: no recent failure
	slowed   bool
	tookTurn bool
}

// NewAttempt returns an attempt of an address, which has no port. If it is slowed, the caller must call
// AwaitTurn before it checks the credential.
func (t *CredentialLimiter) NewAttempt(host string) Attempt {
	if t == nil {
		return Attempt{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := Attempt{limiter: t, host: host}
	if e := t.addresses[addressKey(host)]; e != nil {
		a.record = e.Value.(*addressRecord)
		a.slowed = a.record.failureTokens.Tokens() < 1
	}
	return a
}

// IsSlowed reports whether the attempt must wait.
func (a *Attempt) IsSlowed() bool { return a.slowed }

// AwaitTurn waits for the turn of a slowed attempt, for at most longest or MaxAttemptWait. It returns
// ErrSlowed at once if that is too short, and the error of ctx if it ends.
func (a *Attempt) AwaitTurn(ctx context.Context, longest time.Duration) error {
	if !a.slowed {
		return nil
	}
	t := a.limiter
	wait, ok := t.reserveTurn(a.record, min(longest, MaxAttemptWait))
	if !ok {
		t.numRejected.Add(1)
		return ErrSlowed
	}
	defer t.decrementWaiting()
	a.tookTurn = true
	turn := time.NewTimer(wait)
	defer turn.Stop()
	select {
	case <-turn.C:
		t.numWaited.Add(1)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reserveTurn takes the next turn of an address, and returns the time until then. If that is longer than
// longest, or too many attempts wait, it takes no turn and returns false.
func (t *CredentialLimiter) reserveTurn(a *addressRecord, longest time.Duration) (wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.numWaiting >= maxWaitingAttempts {
		return 0, false
	}
	turn := a.failureTokens.Reserve()
	if wait = turn.Delay(); wait > longest {
		turn.Cancel()
		return 0, false
	}
	t.numWaiting++
	return wait, true
}

func (t *CredentialLimiter) decrementWaiting() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.numWaiting--
}

// RecordFailure records that the credential was wrong.
func (a *Attempt) RecordFailure(kind Credential) {
	if a.limiter != nil {
		a.limiter.countAndLogFailure(a.host, kind, !a.tookTurn)
	}
}

// RecordWithoutSlowing counts and logs a failure without slowing the address.
func (t *CredentialLimiter) RecordWithoutSlowing(host string, kind Credential) {
	if t != nil {
		t.countAndLogFailure(host, kind, false)
	}
}

// countAndLogFailure counts a failure, and logs it if a line is due. If takes is set, it uses up a free failure.
func (t *CredentialLimiter) countAndLogFailure(host string, kind Credential, takes bool) {
	t.failedByKind[kind].Add(1)
	t.mu.Lock()
	a := t.findOrAddAddress(addressKey(host))
	if takes {
		a.failureTokens.Allow() // if several fail at the same time, one of them may find none
	}
	a.unloggedFailures++
	failures, slowed, due := a.unloggedFailures, a.failureTokens.Tokens() < 1, t.allowLogLine(a)
	skipped := t.skippedLines
	if due {
		a.unloggedFailures, t.skippedLines = 0, 0
	}
	t.mu.Unlock()
	if due {
		t.log.Warn("credentials failed", "address", host, "kind", kind.String(), "failures", failures, "slowed", slowed,
			"unlogged", skipped)
	}
}

// findOrAddAddress returns an address as the one with the latest failure, and adds it if it is missing. The caller
// holds the lock.
func (t *CredentialLimiter) findOrAddAddress(name string) *addressRecord {
	if e := t.addresses[name]; e != nil {
		t.byLastFailure.MoveToFront(e)
		return e.Value.(*addressRecord)
	}
	if len(t.addresses) >= maxAddresses {
		oldest := t.byLastFailure.Back()
		delete(t.addresses, t.byLastFailure.Remove(oldest).(*addressRecord).name)
	}
	a := &addressRecord{name: name, failureTokens: rate.NewLimiter(rate.Every(attemptInterval), freeFailures)}
	t.addresses[name] = t.byLastFailure.PushFront(a)
	return a
}

// allowLogLine reports whether a failure of a is logged now. If so, it uses up the line. A line that only the
// limit of all addresses prevents is counted as skipped. The caller holds the lock.
func (t *CredentialLimiter) allowLogLine(a *addressRecord) bool {
	now := time.Now()
	if !a.lastLogged.IsZero() && now.Sub(a.lastLogged) < addressLineInterval {
		return false
	}
	a.lastLogged = now
	if !t.lineLimiter.Allow() {
		t.skippedLines++
		return false
	}
	return true
}

// FailureCounts returns the number of failures by kind.
func (t *CredentialLimiter) FailureCounts() map[string]uint64 {
	counts := make(map[string]uint64, numCredentials)
	for k := range numCredentials {
		counts[k.String()] = 0
		if t != nil {
			counts[k.String()] = t.failedByKind[k].Load()
		}
	}
	return counts
}

// SlowedCounts returns the numbers of attempts that waited for their turn and that were rejected.
func (t *CredentialLimiter) SlowedCounts() (waited, rejected uint64) {
	if t == nil {
		return 0, 0
	}
	return t.numWaited.Load(), t.numRejected.Load()
}

// addressKey returns the name under which an address is counted. All loopback addresses have one, because
// every user of this machine has all of them.
func addressKey(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() {
		return "loopback"
	}
	return IPv6NetworkOrHost(host)
}

// IPv6NetworkOrHost returns the network of an IPv6 address, and every other address as it is.
func IPv6NetworkOrHost(host string) string {
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Unmap().Is4() {
		return host
	}
	network, _ := ip.WithZone("").Prefix(networkBits) // an IPv6 address has as many bits
	return network.String()
}

// NativeMetrics returns the metrics of the limiter that only Prometheus gets.
func (t *CredentialLimiter) NativeMetrics() []metrics.Native {
	return []metrics.Native{
		metrics.CounterBy("rollcall_credentials_failed_total", "kind",
			"wrong credentials of administrators and clients, and missing or wrong certificates of clients",
			t.FailureCounts),
		metrics.CounterBy("rollcall_credentials_slowed_total", "outcome",
			"credentials that waited or were rejected, because too many from their address were wrong",
			func() map[string]uint64 {
				waited, rejected := t.SlowedCounts()
				return map[string]uint64{"waited": waited, "rejected": rejected}
			}),
	}
}

// Locks returns the lock of the limiter.
func (t *CredentialLimiter) Locks() []lockwatch.Lock {
	return []lockwatch.Lock{{Name: "admission.CredentialLimiter.mu", Locker: &t.mu}}
}
