package server

import (
	"slices"
	"sync/atomic"
	"time"

	"rollcall/internal/metrics"
	"rollcall/server/stream"
	"rollcall/zk/jute"
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
	sessionClosed   = stream.Reasons + iota // its closeSession was answered
	commandAnswered                         // a four-letter command
	shutdown                                // this server stops
	tooManyOfAddr                           // Limits.MaxClientConns
	tooMany                                 // Limits.MaxConns
	throttled                               // Limits.Throttle
	handshakeLate                           // no session within Limits.Handshake: a silent client, or no leader
	tlsFailed                               // the handshake of TLS failed
	tlsCrowded                              // TLS.Handshakes: refused, or dropped for a newer client
	multiTooLong                            // a multi of more than Limits.MaxMultiOps operations
	tooManyEvents                           // the changes of one entry had too many watchers
	notAHandshake                           // the first frame is not a ConnectRequest
	clientAhead                             // the client has seen a zxid that is not applied here
	onlyReadOnly                            // this server is read-only, and the client does not take such a server, or comes back for a session
	leaderIsBack                            // the read-only mode has ended
	wrongPassword                           // found here, or when the attach was applied
	sessionUnknown                          // unknown or expired when the attach was applied
	attachLost                              // the session was attached elsewhere twice while this attach was on its way
	sessionMoved                            // attached by another connection, here or elsewhere
	sessionGone                             // expired, or closed by someone else
	authFailed                              // unknown scheme, failed login, or too many identities
	slowed                                  // a credential was not checked, because too many from this address were wrong
	unproved                                // answered -124: a request before an identity that Login.Schemes asks for
	unknownOp                               // answered -6
	restored                                // the state was replaced by a snapshot
	cutByMember                             // Server.Cut
	rebalanced                              // Server.CloseOldest
	internal                                // a result that must not be sent to a client
	numReasons
)

var reasonNames = [numReasons]string{
	byClient: "client", sessionClosed: "session_closed", commandAnswered: "word", shutdown: "shutdown",
	tooManyOfAddr: "max_client_cnxns", tooMany: "max_cnxns", throttled: "throttled", handshakeLate: "handshake_timeout",
	tlsFailed: "tls_failed", tlsCrowded: "max_tls_handshakes",
	badFrame: "bad_frame", multiTooLong: "multi_too_long", tooManyEvents: "too_many_events", notAHandshake: "bad_handshake", clientAhead: "client_ahead", onlyReadOnly: "read_only", leaderIsBack: "leader_back",
	wrongPassword: "wrong_password", sessionUnknown: "session_unknown", attachLost: "attach_lost",
	sessionMoved: "session_moved", sessionGone: "session_gone", notVouched: "not_vouched",
	authFailed: "auth_failed", slowed: "credentials_slowed", unproved: "not_authenticated", unknownOp: "unknown_op", slowReader: "slow_reader", idle: "idle",
	restored: "restored", cutByMember: "cut", rebalanced: "rebalanced", overBudget: "over_budget", internal: "internal",
}

// Stats are counted since New or ResetStats, except where they say otherwise. Connections, Sessions,
// Outstanding and Held are present values.
type Stats struct {
	Received    uint64 // packets: frames and four-letter commands
	Sent        uint64 // packets
	Connections int
	Sessions    int             // with a connection here, without those of the read-only mode
	ReadOnly    int             // sessions of the read-only mode
	Outstanding int             // requests that wait for the log
	Handshakes  uint64          // requests for a session
	Malformed   uint64          // requests that could not be read, answered with -5
	Failed      uint64          // requests answered with an error, including those of Malformed
	Latency     metrics.Summary // from reading a request to queueing its reply
	Reads       metrics.Summary // the same for requests that do not change the state, with pings and syncs
	Updates     metrics.Summary // the same for requests that change it
	Responses   metrics.Spread  // replies and events, in bytes
	BytesIn     uint64          // bytes of frames read
	ReplyBytes  uint64          // bytes of replies to requests, without the lengths of frames
	EventBytes  uint64          // bytes of events, without the lengths of frames
	Rejected    uint64          // connections refused because there were too many, or by Limits.Throttle
	DropChance  float64         // with which Limits.Throttle refuses a new session, at present
	Deficit     int64           // tokens that are missing in its bucket, at present
	Sessionless uint64          // connections ended because they had no session in time
	AuthFailed  uint64          // connections ended because an auth request failed
	Held        int64           // present bytes of waiting requests and of unread replies and events
	OverBudget  uint64          // connections ended because they held more than their share

	MemoryLimit int64 // bytes that this process may use before writes that add data are refused; 0: no limit
	MemoryUsed  int64 // bytes in use
	MemoryFull  bool  // writes that add data are refused

	// What follows is counted since New. ResetStats does not set it to zero.

	NoMemory uint64                     // writes refused because this process was short of memory
	Ended    map[string]uint64          // connections ended or refused, by reason; Rejected, Sessionless, AuthFailed and OverBudget are parts of it
	Requests map[string]metrics.Buckets // the latency of requests by their class, connects among them
	Events   map[string]uint64          // events queued, by type
}

// counters are the sources of Stats. They are safe for concurrent use.
type counters struct {
	begun          time.Time // the start of the server
	received, sent atomic.Uint64
	outstanding    atomic.Int64
	readOnly       atomic.Int64 // sessions of the read-only mode
	handshakes     atomic.Uint64
	malformed      atomic.Uint64
	failed         atomic.Uint64
	ended          [numReasons]atomic.Uint64
	endedBefore    [numReasons]atomic.Uint64     // of these, how many before the last reset
	requests       [numClasses]metrics.Durations // the latency of each class
	events         [numEvents]atomic.Uint64

	responses                       metrics.Sizes
	bytesIn, replyBytes, eventBytes atomic.Uint64
}

// refuse counts a reply with an error.
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
func (c *counters) reply(took time.Duration, of class) {
	c.sent.Add(1)
	c.requests[of].Add(took)
}

// latency returns that of some classes together.
func (c *counters) latency(classes ...class) metrics.Summary {
	var all []*metrics.Durations
	for _, of := range classes {
		all = append(all, &c.requests[of])
	}
	return metrics.Together(all...)
}

// response counts the bytes of a reply.
func (c *counters) response(size int) {
	c.responses.Add(size)
	c.replyBytes.Add(uint64(size))
}

// event counts an event that was queued.
func (c *counters) event(t jute.EventType, size int) {
	c.sent.Add(1)
	c.events[t].Add(1)
	c.responses.Add(size)
	c.eventBytes.Add(uint64(size))
}

// Stats returns the counters. It never blocks.
func (s *Server) Stats() Stats {
	c := &s.stats
	st := Stats{
		Received: c.received.Load(), Sent: c.sent.Load(), Outstanding: int(c.outstanding.Load()), ReadOnly: int(c.readOnly.Load()),
		Handshakes: c.handshakes.Load(), Malformed: c.malformed.Load(), Failed: c.failed.Load(),
		Reads: c.latency(readingClasses...), Updates: c.latency(changingClasses...), Latency: c.latency(slices.Concat(readingClasses, changingClasses)...), Responses: c.responses.Spread(),
		BytesIn: c.bytesIn.Load(), ReplyBytes: c.replyBytes.Load(), EventBytes: c.eventBytes.Load(),
		Rejected:    c.endedFor(tooManyOfAddr) + c.endedFor(tooMany) + c.endedFor(tlsCrowded) + c.endedFor(throttled),
		Sessionless: c.endedFor(handshakeLate), AuthFailed: c.endedFor(authFailed),
		Held: s.streams.Budget.Used(), OverBudget: c.endedFor(overBudget),
		Ended: c.endedCounts(), Requests: c.requestTimes(), Events: c.eventCounts(),
	}
	st.MemoryLimit, st.MemoryUsed, st.NoMemory = s.cfg.Memory.Figures()
	st.MemoryFull = s.cfg.Memory.Full()
	st.DropChance, st.Deficit = s.throttle.State(time.Now())
	st.Connections, st.Sessions = s.conns.count()
	return st
}

// endedFor returns the number of connections that have ended for a reason since the last reset.
func (c *counters) endedFor(why stream.Reason) uint64 {
	return c.ended[why].Load() - c.endedBefore[why].Load()
}

// ResetStats sets the counters to zero, except those that Stats says are counted since New.
func (s *Server) ResetStats() {
	c := &s.stats
	for _, n := range []*atomic.Uint64{
		&c.received, &c.sent, &c.handshakes, &c.malformed, &c.failed, &c.bytesIn, &c.replyBytes, &c.eventBytes,
	} {
		n.Store(0)
	}
	for of := range c.requests {
		c.requests[of].Reset()
	}
	c.responses.Reset()
	for r := range c.ended {
		c.endedBefore[r].Store(c.ended[r].Load())
	}
}
