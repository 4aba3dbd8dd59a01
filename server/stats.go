package server

import (
	"sync/atomic"
	"time"

	"rollcall/jute"
)

// reason says why a connection ended, or was not taken. Each connection has one.
type reason uint8

const (
	byClient       reason = iota // it closed, or the network did
	sessionClosed                // its closeSession was answered
	wordAnswered                 // a four-letter word
	shutdown                     // this server stops
	tooManyOfAddr                // Limits.MaxClientConns
	tooMany                      // Limits.MaxConns
	handshakeLate                // no session within Limits.Handshake: a silent client, or no leader
	badFrame                     // a length out of bounds, no header, or an auth packet that cannot be read
	notAHandshake                // the first frame is no ConnectRequest
	clientAhead                  // has seen a zxid that is not applied here
	wrongPassword                // seen here, or by applying the attach
	sessionUnknown               // unknown or expired, by applying the attach
	attachLost                   // the session was attached elsewhere, twice while this attach was under way
	sessionMoved                 // attached by another connection, here or elsewhere
	sessionGone                  // expired, or closed by someone else
	notVouched                   // nobody confirms that the session lives
	authFailed                   // unknown scheme, or too many identities
	unknownOp                    // answered -6
	slowReader                   // left too much unread, or took nothing for too long
	idle                         // sent nothing for longer than its session's timeout
	restored                     // the state was replaced by a snapshot
	cutByMember                  // Server.Cut
	internal                     // a result that no client may see
	numReasons     int    = iota
)

var reasonNames = [numReasons]string{
	byClient: "client", sessionClosed: "session_closed", wordAnswered: "word", shutdown: "shutdown",
	tooManyOfAddr: "max_client_cnxns", tooMany: "max_cnxns", handshakeLate: "handshake_timeout",
	badFrame: "bad_frame", notAHandshake: "bad_handshake", clientAhead: "client_ahead",
	wrongPassword: "wrong_password", sessionUnknown: "session_unknown", attachLost: "attach_lost",
	sessionMoved: "session_moved", sessionGone: "session_gone", notVouched: "not_vouched",
	authFailed: "auth_failed", unknownOp: "unknown_op", slowReader: "slow_reader", idle: "idle",
	restored: "restored", cutByMember: "cut", internal: "internal",
}

func (r reason) String() string { return reasonNames[r] }

// Stats are counted since New or ResetStats, but for Connections and Outstanding, which are now's.
type Stats struct {
	Received    uint64 // packets: frames and four-letter words
	Sent        uint64 // packets
	Connections int
	Outstanding int               // requests that wait for the log
	Malformed   uint64            // requests whose record could not be read, answered -5
	Failed      uint64            // requests answered with an error, those included
	Latency     Latency           // from reading a request to queueing its reply
	Ended       map[string]uint64 // connections ended or refused, by reason
}

// Latency sums up durations. All are 0 if there were none.
type Latency struct {
	Count         uint64
	Min, Avg, Max time.Duration
}

// counters is what Stats is read from. Safe for concurrent use.
type counters struct {
	received, sent atomic.Uint64
	outstanding    atomic.Int64
	malformed      atomic.Uint64
	failed         atomic.Uint64
	ended          [numReasons]atomic.Uint64

	answered, total atomic.Uint64 // replies; sum of their latencies, ns
	least, most     atomic.Int64  // ns; least is stored plus 1, 0: none yet
}

// refuse counts a reply's error.
func (c *counters) refuse(code jute.Code) {
	if code == jute.OK {
		return
	}
	c.failed.Add(1)
	if code == jute.MarshallingError {
		c.malformed.Add(1)
	}
}

// answer counts a reply that took d.
func (c *counters) answer(d time.Duration) {
	ns := max(int64(d), 0)
	c.answered.Add(1)
	c.total.Add(uint64(ns))
	for most := c.most.Load(); ns > most && !c.most.CompareAndSwap(most, ns); most = c.most.Load() {
	}
	for least := c.least.Load(); (least == 0 || ns < least-1) && !c.least.CompareAndSwap(least, ns+1); least = c.least.Load() {
	}
}

// Stats returns the counters. It waits for nothing.
func (s *Server) Stats() Stats {
	c := &s.stats
	st := Stats{
		Received: c.received.Load(), Sent: c.sent.Load(), Outstanding: int(c.outstanding.Load()),
		Malformed: c.malformed.Load(), Failed: c.failed.Load(),
		Ended: make(map[string]uint64, numReasons),
	}
	for r := range c.ended {
		st.Ended[reason(r).String()] = c.ended[r].Load()
	}
	if n := c.answered.Load(); n > 0 {
		st.Latency = Latency{
			Count: n, Min: time.Duration(max(c.least.Load()-1, 0)), Max: time.Duration(c.most.Load()),
			Avg: time.Duration(c.total.Load() / n),
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Connections = len(s.conns)
	return st
}

// ResetStats sets the counters to zero.
func (s *Server) ResetStats() {
	c := &s.stats
	for _, n := range []*atomic.Uint64{&c.received, &c.sent, &c.malformed, &c.failed, &c.answered, &c.total} {
		n.Store(0)
	}
	c.least.Store(0)
	c.most.Store(0)
	for r := range c.ended {
		c.ended[r].Store(0)
	}
}
