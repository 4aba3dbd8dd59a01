package session

import (
	"encoding/binary"
	"time"

	"rollcall/zk/jute"
)

// renewals is the greatest number of times that a right is renewed in one timeout. Reading a clock that continues
// during a suspend costs a system call, so it is not read for every request. A right may end early by timeout/renewals.
const renewals = 100

// roundTrips are the requests of a link whose replies will renew the session's right.
type roundTrips struct {
	lastSent time.Duration // when something was sent, by the monotonic clock
	sampled  sample
	proof    proof
}

// roundTrip is a request whose reply is awaited. The zero value is none.
type roundTrip struct {
	xid  int32         // of the request; 0: there is none
	sent time.Duration // before its first byte was written, by Config.Clock
}

// finish reports whether the reply to xid ends the round trip, and returns when the request was sent.
func (t *roundTrip) finish(xid int32) (sent time.Duration, ok bool) {
	if t.xid == 0 || t.xid != xid {
		return 0, false
	}
	t.xid = 0
	return t.sent, true
}

// sample is the request of a link whose reply will renew the session's right. There is at most one at a time. The
// zero value has none. The Session's lock guards it.
type sample struct {
	roundTrip
	begun     time.Time     // when the last one began
	pings     int           // without a reply; they are answered in order, but not in the order of requests
	firstPing time.Duration // when the first of them was sent, by the monotonic clock; 0 from its reply on
}

// proof is the sync whose reply will prove that the session lives. There is at most one at a time. The zero value has
// none. The Session's lock guards it.
type proof struct {
	roundTrip
	lastSent time.Duration // when the last one was queued, by the monotonic clock
}

// begin is called when a request is queued.
func (p *proof) begin(xid int32, op jute.Op, c *Session) {
	if op == jute.OpSync && p.xid == 0 {
		p.xid, p.sent, p.lastSent = xid, c.cfg.Clock(), c.monotonicNow()
	}
}

// begin is called before a batch of frames is written. If no round trip is under way, and the last one did not begin
// just now, the batch's first frame begins one, unless it is no request that renews a session. A ping begins one
// only if no other ping is unanswered, because pings have no numbers.
func (t *sample) begin(batch []byte, clock Clock, timeout time.Duration) {
	if t.xid != 0 {
		return
	}
	xid := int32(binary.BigEndian.Uint32(batch[4:])) // after the length
	if xid < 0 && (xid != jute.XidPing || t.pings != 1) {
		return
	}
	now := time.Now()
	pause := now.Sub(t.begun)
	wallPause := now.Round(0).Sub(t.begun.Round(0)) // counts the time of a suspend too
	if max(pause, wallPause) >= timeout/renewals {
		t.xid, t.sent, t.begun = xid, clock(), now
	}
}

// addPing records that a ping is queued at now.
func (t *sample) addPing(now time.Duration) {
	if t.pings == 0 {
		t.firstPing = now
	}
	t.pings++
}

// endPing records the reply to a ping. It returns when the ping was sent, or 0 if others were unanswered at that time.
func (t *sample) endPing() (sent time.Duration) {
	t.pings = max(t.pings-1, 0)
	sent, t.firstPing = t.firstPing, 0
	return sent
}
