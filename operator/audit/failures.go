package audit

import (
	"time"

	"rollcall/internal/admission"
	"rollcall/zk/jute"
)

const (
	// Authenticate is the operation of a client that proves an identity, or fails to.
	Authenticate = "authenticate"

	// failureBurst is the number of lines about failed authentications that an address may leave at once: enough to see
	// a mistyped password or a misconfigured client.
	failureBurst = 10
	// failureRefillTime is the time after which an address may leave one more. A line has some 300 bytes, or at most
	// 13 KB, so one address fills 0.4 MB in a day, or at most 19 MB.
	failureRefillTime = time.Minute
	// maxFailureBuckets limits the addresses with a bucket of their own. All others share one. Together they leave at
	// most five lines in a second, however many addresses an attacker has.
	maxFailureBuckets = 256
	// maxFailureText limits the bytes of the target and of the error in such a line. An attacker chooses the target, and
	// an unprintable byte takes six.
	maxFailureText = 512
	// maxFailingIds limits the identities of the client in such a line. Any password gives one.
	maxFailingIds = 4

	suppressedText = "more failures left no line"
)

// failureLimits bounds the lines of failed authentications, which an attacker could cause without end. Log.mu
// guards it.
type failureLimits struct {
	bucketByNetwork map[string]*failureBucket
	sharedBucket    failureBucket // for addresses without a bucket of their own
}

// failureBucket is the token bucket of one address.
type failureBucket struct {
	usedTokens  int
	refillStart time.Time // of the next token, if any is used
	suppressed  uint64    // failures without a line since the last line
}

// refillTokens returns the tokens that are due.
func (f *failureBucket) refillTokens(now time.Time) {
	if n := int(now.Sub(f.refillStart) / failureRefillTime); n > 0 {
		f.usedTokens = max(f.usedTokens-n, 0)
		f.refillStart = f.refillStart.Add(time.Duration(n) * failureRefillTime)
	}
}

// takeToken takes a token, and reports whether there was one.
func (f *failureBucket) takeToken(now time.Time) bool {
	f.refillTokens(now)
	switch f.usedTokens {
	case failureBurst:
		return false
	case 0:
		f.refillStart = now
	}
	f.usedTokens++
	return true
}

// ensureBucket returns the bucket of an address.
func (fs *failureLimits) ensureBucket(address string) *failureBucket {
	address = admission.IPv6NetworkOrHost(address)
	f := fs.bucketByNetwork[address]
	switch {
	case f != nil:
		return f
	case address == "" || len(fs.bucketByNetwork) == maxFailureBuckets:
		return &fs.sharedBucket
	case fs.bucketByNetwork == nil:
		fs.bucketByNetwork = map[string]*failureBucket{}
	}
	f = new(failureBucket)
	fs.bucketByNetwork[address] = f
	return f
}

// isAuthFailure reports whether the event is a failed authentication, which anyone can cause.
func (e *Event) isAuthFailure() bool {
	return e.Result == Failure && (e.Operation == Authenticate ||
		e.Operation == operations[operationIndex(jute.OpAttach)].name)
}

// queueFailure queues the line of a failure, unless its address has no token. The next line of the address counts the
// suppressed ones. In the shared bucket, one line stands for all suppressed failures. The caller holds the lock.
func (l *Log) queueFailure(e *Event) {
	now := time.Now()
	f := l.failureLimits.ensureBucket(e.clientHost())
	switch {
	case !f.takeToken(now):
		f.suppressed++
	case f.suppressed > 0 && f == &l.failureLimits.sharedBucket:
		f.suppressed++
		l.queueSuppressed(f, "", now)
	default:
		told := *e
		told.Dropped, f.suppressed = f.suppressed, 0
		told.Address, told.Ids = e.clientHost(), told.Ids[:min(len(told.Ids), maxFailingIds)]
		l.queueLine(&told)
	}
}

// queueSuppressed queues a line about suppressed failures. The caller holds the lock.
func (l *Log) queueSuppressed(f *failureBucket, address string, now time.Time) {
	l.queueLine(&Event{
		AtMs: now.UnixMilli(), Operation: Authenticate, Address: address, Result: Failure,
		Error: suppressedText, Dropped: f.suppressed,
	})
	f.suppressed = 0
}

// summarizeFailures queues a summary line for each address that has suppressed failures and a token again. It
// forgets an address once all of its tokens are back. If end is set, it queues the summaries of all addresses.
func (l *Log) summarizeFailures(end bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	look := func(f *failureBucket, host string) {
		if f.refillTokens(now); f.suppressed > 0 && (end || f.takeToken(now)) {
			l.queueSuppressed(f, host, now)
		}
	}
	for host, f := range l.failureLimits.bucketByNetwork {
		if look(f, host); f.usedTokens == 0 {
			delete(l.failureLimits.bucketByNetwork, host)
		}
	}
	look(&l.failureLimits.sharedBucket, "")
}
