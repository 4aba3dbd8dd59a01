package audit

import (
	"time"

	"rollcall/internal/admission"
	"rollcall/zk/jute"
)

const (
	// Authenticate is the operation of a client that proves an identity, or fails to.
	Authenticate = "authenticate"

	// failureBurst is how many lines of failed authentications an address may leave at once: as many as a
	// person who mistypes a password, or a client with a wrong one, needs to be seen.
	failureBurst = 10
	// failurePause is the time after which it may leave one more. A line has some 300 bytes, or 13 KB if a stranger
	// makes it as long as possible, so one address fills 0.4 MB in a day, or 19 MB.
	failurePause = time.Minute
	// maxFailing is how many addresses have such a measure of their own. All others share one. Together they
	// leave at most five lines in a second, however many addresses a stranger has.
	maxFailing = 256
	// maxFailureText is how many bytes the target and the error of such a line have at most: more than those of any
	// honest client. A stranger chooses the target, and a byte that is not printed takes six.
	maxFailureText = 512
	// maxFailingIds is how many identities of the client such a line has at most. Any password gives one.
	maxFailingIds = 4

	suppressed = "more failures left no line"
)

// failures bounds the lines of failed authentications, which a stranger may cause for ever. Log.mu guards it.
type failures struct {
	addresses map[string]*failing
	others    failing // for addresses that have no place
}

// failing is the token bucket of one address.
type failing struct {
	used   int       // tokens that are missing
	since  time.Time // when the next one began to come back, if any is missing
	untold uint64    // failures without a line since the last one
}

// refill gives back the tokens that have come back by now.
func (f *failing) refill(now time.Time) {
	if n := int(now.Sub(f.since) / failurePause); n > 0 {
		f.used = max(f.used-n, 0)
		f.since = f.since.Add(time.Duration(n) * failurePause)
	}
}

// take takes a token, and reports whether there was one.
func (f *failing) take(now time.Time) bool {
	f.refill(now)
	switch f.used {
	case failureBurst:
		return false
	case 0:
		f.since = now
	}
	f.used++
	return true
}

// of returns the bucket of an address.
func (fs *failures) of(address string) *failing {
	address = admission.NetworkOf(address)
	f := fs.addresses[address]
	switch {
	case f != nil:
		return f
	case address == "" || len(fs.addresses) == maxFailing:
		return &fs.others
	case fs.addresses == nil:
		fs.addresses = map[string]*failing{}
	}
	f = new(failing)
	fs.addresses[address] = f
	return f
}

// proving reports whether the event is a failure to prove who one is, which takes no permission to cause.
func (e *Event) proving() bool {
	return e.Result == Failure && (e.Operation == Authenticate || e.Operation == operations[operationAt(jute.OpAttach)].name)
}

// bounded queues the line of a failure, unless its address has left too many. The first line after such ones says
// how many they were. If others share the bucket, a line about all of them stands for it. The caller holds the lock.
func (l *Log) bounded(e *Event) {
	now := time.Now()
	f := l.failures.of(e.host())
	switch {
	case !f.take(now):
		f.untold++
	case f.untold > 0 && f == &l.failures.others:
		f.untold++
		l.tellSuppressed(f, "", now)
	default:
		told := *e
		told.Dropped, f.untold = f.untold, 0
		told.Address, told.Ids = e.host(), told.Ids[:min(len(told.Ids), maxFailingIds)]
		l.put(&told)
	}
}

// tellSuppressed queues a line about failures without one. The caller holds the lock.
func (l *Log) tellSuppressed(f *failing, address string, now time.Time) {
	l.put(&Event{AtMs: now.UnixMilli(), Operation: Authenticate, Address: address, Result: Failure, Error: suppressed, Dropped: f.untold})
	f.untold = 0
}

// sweep queues a summary line for each address that has suppressed failures and a token again. It forgets an
// address once all of its tokens are back. If end is set, it queues the summaries of all addresses.
func (l *Log) sweep(end bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	look := func(f *failing, host string) {
		if f.refill(now); f.untold > 0 && (end || f.take(now)) {
			l.tellSuppressed(f, host, now)
		}
	}
	for host, f := range l.failures.addresses {
		if look(f, host); f.used == 0 {
			delete(l.failures.addresses, host)
		}
	}
	look(&l.failures.others, "")
}
