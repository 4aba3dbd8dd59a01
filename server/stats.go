package server

import (
	"sync/atomic"
	"time"

	"rollcall/jute"
	"rollcall/server/stream"
	"rollcall/tally"
)

// The reasons why a connection ended, or was refused. Each connection has one.
const (
	byClient   = stream.ByClient   // the client or the network closed it
	badFrame   = stream.BadFrame   // a length out of bounds, no header, or an auth packet that cannot be read
	idle       = stream.Idle       // sent nothing for longer than its session's timeout
	slowReader = stream.SlowReader // left too much unread, or took nothing for too long
	notVouched = stream.NotVouched // the session's lease could not be renewed
	overBudget = stream.OverBudget // held more than its share when clients together held too much
)

const (
	sessionClosed  = stream.Reasons + iota // its closeSession was answered
	wordAnswered                           // a four-letter word
	shutdown                               // this server stops
	tooManyOfAddr                          // Limits.MaxClientConns
	tooMany                                // Limits.MaxConns
	handshakeLate                          // no session within Limits.Handshake: a silent client, or no leader
	multiTooLong                           // a multi of more than Limits.MaxMultiOps operations
	notAHandshake                          // the first frame is not a ConnectRequest
	clientAhead                            // the client has seen a zxid that is not applied here
	wrongPassword                          // found here, or when the attach was applied
	sessionUnknown                         // unknown or expired when the attach was applied
	attachLost                             // the session was attached elsewhere twice while this attach was on its way
	sessionMoved                           // attached by another connection, here or elsewhere
	sessionGone                            // expired, or closed by someone else
	authFailed                             // unknown scheme, or too many identities
	unknownOp                              // answered -6
	restored                               // the state was replaced by a snapshot
	cutByMember                            // Server.Cut
	internal                               // a result that must not be sent to a client
	numReasons
)

var reasonNames = [numReasons]string{
	byClient: "client", sessionClosed: "session_closed", wordAnswered: "word", shutdown: "shutdown",
	tooManyOfAddr: "max_client_cnxns", tooMany: "max_cnxns", handshakeLate: "handshake_timeout",
	badFrame: "bad_frame", multiTooLong: "multi_too_long", notAHandshake: "bad_handshake", clientAhead: "client_ahead",
	wrongPassword: "wrong_password", sessionUnknown: "session_unknown", attachLost: "attach_lost",
	sessionMoved: "session_moved", sessionGone: "session_gone", notVouched: "not_vouched",
	authFailed: "auth_failed", unknownOp: "unknown_op", slowReader: "slow_reader", idle: "idle",
	restored: "restored", cutByMember: "cut", overBudget: "over_budget", internal: "internal",
}

// Stats are counted since New or ResetStats, except Connections, Sessions, Outstanding and Held, which
// are present values.
type Stats struct {
	Received    uint64 // packets: frames and four-letter words
	Sent        uint64 // packets
	Connections int
	Sessions    int               // with a connection here
	Outstanding int               // requests that wait for the log
	Handshakes  uint64            // requests for a session
	Malformed   uint64            // requests that could not be read, answered with -5
	Failed      uint64            // requests answered with an error, including those of Malformed
	Latency     tally.Summary     // from reading a request to queueing its reply; without percentiles
	Reads       tally.Summary     // the same for requests that do not change the state, with pings and syncs
	Updates     tally.Summary     // the same for requests that change it
	Responses   tally.Spread      // replies and events, in bytes
	BytesIn     uint64            // bytes of frames read
	ReplyBytes  uint64            // bytes of replies to requests, without the lengths of frames
	EventBytes  uint64            // bytes of events, without the lengths of frames
	Rejected    uint64            // connections refused because there were too many
	Sessionless uint64            // connections ended because they had no session in time
	AuthFailed  uint64            // connections ended because an auth request failed
	Held        int64             // present bytes of waiting requests and of unread replies and events
	OverBudget  uint64            // connections ended because they held more than their share
	Ended       map[string]uint64 // connections ended or refused, by reason; Rejected, Sessionless, AuthFailed and OverBudget are parts of it
}

// counters are the sources of Stats. They are safe for concurrent use.
type counters struct {
	received, sent atomic.Uint64
	outstanding    atomic.Int64
	handshakes     atomic.Uint64
	malformed      atomic.Uint64
	failed         atomic.Uint64
	ended          [numReasons]atomic.Uint64

	reads, updates                  tally.Durations
	responses                       tally.Sizes
	bytesIn, replyBytes, eventBytes atomic.Uint64
}

// refuse counts an error that a reply has.
func (c *counters) refuse(code jute.Code) {
	if code == jute.OK {
		return
	}
	c.failed.Add(1)
	if code == jute.MarshallingError {
		c.malformed.Add(1)
	}
}

// reply counts a reply that was queued.
func (c *counters) reply(took time.Duration, update bool) {
	c.sent.Add(1)
	if update {
		c.updates.Add(took)
	} else {
		c.reads.Add(took)
	}
}

// response counts the bytes of a reply.
func (c *counters) response(size int) {
	c.responses.Add(size)
	c.replyBytes.Add(uint64(size))
}

// event counts an event that was queued.
func (c *counters) event(size int) {
	c.sent.Add(1)
	c.responses.Add(size)
	c.eventBytes.Add(uint64(size))
}

// Stats returns the counters. It never blocks.
func (s *Server) Stats() Stats {
	c := &s.stats
	st := Stats{
		Received: c.received.Load(), Sent: c.sent.Load(), Outstanding: int(c.outstanding.Load()),
		Handshakes: c.handshakes.Load(), Malformed: c.malformed.Load(), Failed: c.failed.Load(),
		Reads: c.reads.Summary(), Updates: c.updates.Summary(), Responses: c.responses.Spread(),
		BytesIn: c.bytesIn.Load(), ReplyBytes: c.replyBytes.Load(), EventBytes: c.eventBytes.Load(),
		Rejected:    c.ended[tooManyOfAddr].Load() + c.ended[tooMany].Load(),
		Sessionless: c.ended[handshakeLate].Load(), AuthFailed: c.ended[authFailed].Load(),
		Held: s.streams.Budget.Used(), OverBudget: c.ended[overBudget].Load(),
		Ended: make(map[string]uint64, numReasons),
	}
	st.Latency = st.Reads.With(st.Updates)
	for r := range c.ended {
		st.Ended[reasonNames[r]] = c.ended[r].Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Connections, st.Sessions = s.conns.n, len(s.sessions)
	return st
}

// ResetStats sets the counters to zero.
func (s *Server) ResetStats() {
	c := &s.stats
	for _, n := range []*atomic.Uint64{
		&c.received, &c.sent, &c.handshakes, &c.malformed, &c.failed, &c.bytesIn, &c.replyBytes, &c.eventBytes,
	} {
		n.Store(0)
	}
	for _, d := range []*tally.Durations{&c.reads, &c.updates} {
		d.Reset()
	}
	c.responses.Reset()
	for r := range c.ended {
		c.ended[r].Store(0)
	}
}
