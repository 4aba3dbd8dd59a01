package server

import (
	"slices"
	"sync/atomic"
	"time"

	"rollcall/internal/metrics"
	"rollcall/server/stream"
	"rollcall/zk/jute"
)

// The reasons for the end or the rejection of a connection. Each connection has one.
const (
	byClient   = stream.ByClient   // the client or the network closed it
	badFrame   = stream.BadFrame   // a length out of bounds, no header, or an auth packet that cannot be read
	idle       = stream.Idle       // sent nothing for longer than its session's timeout
	slowReader = stream.SlowReader // left too much unread, or took nothing for too long
	notVouched = stream.NotVouched // the session's lease could not be renewed
	overBudget = stream.OverBudget // held more than its share when clients together held too much
)

const (
	sessionClosed      = stream.NumReasons + iota // its closeSession got its reply
	commandAnswered                               // a four-letter command
	shutdown                                      // this server stops
	tooManyConnsOfAddr                            // Limits.MaxClientConns
	tooManyConns                                  // Limits.MaxConns
	throttled                                     // Limits.Throttle
	staleRequest                                  // a request waited too long; RequestThrottle.LatencyCheck
	handshakeLate                                 // no session within Limits.Handshake: a silent client, or no leader
	tlsFailed                                     // the handshake of TLS failed
	tlsCrowded                                    // TLS.Handshakes: rejected, or dropped for a newer client
	tooManyEvents                                 // the changes of one entry had too many watchers
	historyOverrun                                // events that its watches have missed were dropped from the history before it took them
	notAHandshake                                 // the first frame is not a ConnectRequest
	clientAhead                                   // the client has seen a zxid that is not applied here
	// this server is read-only, and the client does not accept that, or resumes a session
	notForReadOnly
	readOnlyEnded  // the read-only mode has ended
	wrongPassword  // found here, or when the attach was applied
	sessionUnknown // unknown or expired when the attach was applied
	// the session was attached elsewhere twice while this attach was on its way
	attachLost
	sessionMoved // attached by another connection, here or elsewhere
	sessionEnded // expired, or closed by someone else
	authFailed   // unknown scheme, failed login, or too many identities
	// a credential was not checked, because too many from this address were wrong
	credentialsSlowed
	otherEnsemble    // named an ensemble that is not one of Login.EnsembleNames
	notAuthenticated // got -124: a request before an identity of Login.Schemes
	unknownOp        // got -6
	stateRestored    // the state was replaced by a snapshot
	droppedByMember  // Server.DropConnection
	rebalanced       // Server.CloseOldest
	internalError    // a result that must not be sent to a client
	numReasons
)

var reasonNames = [numReasons]string{
	byClient: "client", sessionClosed: "session_closed", commandAnswered: "word", shutdown: "shutdown",
	tooManyConnsOfAddr: "max_client_cnxns", tooManyConns: "max_cnxns", throttled: "throttled", staleRequest: "stale_request",
	handshakeLate: "handshake_timeout",
	tlsFailed:     "tls_failed", tlsCrowded: "max_tls_handshakes",
	badFrame: "bad_frame", tooManyEvents: "too_many_events", historyOverrun: "history_overrun",
	notAHandshake: "bad_handshake", clientAhead: "client_ahead", notForReadOnly: "read_only",
	readOnlyEnded: "leader_back",
	wrongPassword: "wrong_password", sessionUnknown: "session_unknown", attachLost: "attach_lost",
	sessionMoved: "session_moved", sessionEnded: "session_gone", notVouched: "not_vouched",
	authFailed: "auth_failed", credentialsSlowed: "credentials_slowed", otherEnsemble: "other_ensemble", notAuthenticated: "not_authenticated",
	unknownOp: "unknown_op", slowReader: "slow_reader", idle: "idle",
	stateRestored: "restored", droppedByMember: "cut", rebalanced: "rebalanced", overBudget: "over_budget",
	internalError: "internal",
}

// Stats are counted since New or ResetStats. Connections, Sessions, OutstandingRequests and HeldBytes are
// present values.
type Stats struct {
	Received            uint64 // packets: frames and four-letter commands
	Sent                uint64 // packets
	Connections         int
	Sessions            int             // with a connection here, without those of the read-only mode
	ReadOnlySessions    int             // sessions of the read-only mode
	OutstandingRequests int             // requests that wait for the log
	Handshakes          uint64          // requests for a session
	MalformedRequests   uint64          // that could not be decoded and got -5
	FailedRequests      uint64          // with an error, including MalformedRequests
	Latency             metrics.Summary // from reading a request to queueing its reply
	ReadLatency         metrics.Summary // the same for requests that do not change the state, with pings and syncs
	UpdateLatency       metrics.Summary // the same for requests that change it
	ResponseSizes       metrics.Spread  // replies and events, in bytes
	BytesIn             uint64          // bytes of frames read
	ReplyBytes          uint64          // bytes of replies to requests, without the lengths of frames
	EventBytes          uint64          // bytes of events, without the lengths of frames
	RejectedConns       uint64          // because there were too many, or by Limits.Throttle
	DropChance          float64         // of a new session, by Limits.Throttle, at present
	TokenDeficit        int64           // tokens missing in its bucket, at present
	EndedSessionless    uint64          // connections ended because they had no session in time
	AuthFailed          uint64          // connections ended because an auth request failed
	HeldBytes           int64           // present bytes of waiting requests and of unread replies and events
	OverBudget          uint64          // connections ended because they held more than their share

	MemoryLimit int64 // bytes in use above which writes that add data are rejected; 0: no limit
	MemoryUsed  int64 // bytes in use
	MemoryFull  bool  // writes that add data are rejected at present

	// The following are counted since New, and not reset.

	MemoryRejections uint64 // writes rejected for want of memory
	// connections ended or rejected; includes RejectedConns, EndedSessionless, AuthFailed and OverBudget
	EndedByReason  map[string]uint64
	RequestLatency map[string]metrics.Buckets // by class, including connects
	EventsByType   map[string]uint64          // events queued, by type
}

// counters are the sources of Stats. They are safe for concurrent use.
type counters struct {
	startedAt      time.Time // the start of the server
	received, sent atomic.Uint64
	outstanding    atomic.Int64
	readOnly       atomic.Int64 // sessions of the read-only mode
	handshakes     atomic.Uint64
	malformed      atomic.Uint64
	failed         atomic.Uint64
	endedByReason  [numReasons]atomic.Uint64
	endedAtReset   [numReasons]atomic.Uint64     // endedByReason at the last reset
	requestLatency [numClasses]metrics.Durations // by class
	eventsByType   [numEvents]atomic.Uint64
	replays        [numReplayResults]atomic.Uint64 // of events that watches have missed
	replayedEvents atomic.Uint64
	watchesRefused atomic.Uint64 // requests for a watch beyond a tenant's
	sessionsWaited atomic.Uint64 // handshakes that waited for a tenant's place

	responseSizes                   metrics.Sizes
	bytesIn, replyBytes, eventBytes atomic.Uint64
}

func (c *counters) countError(code jute.Code) {
	if code == jute.OK {
		return
	}
	c.failed.Add(1)
	if code == jute.MarshallingError {
		c.malformed.Add(1)
	}
}

func (c *counters) countReply(took time.Duration, of requestClass) {
	c.sent.Add(1)
	c.requestLatency[of].Add(took)
}

// latencyOf returns the latency of some classes together.
func (c *counters) latencyOf(classes ...requestClass) metrics.Summary {
	var all []*metrics.Durations
	for _, of := range classes {
		all = append(all, &c.requestLatency[of])
	}
	return metrics.SummaryOf(all...)
}

func (c *counters) countReplyBytes(size int) {
	c.responseSizes.Add(size)
	c.replyBytes.Add(uint64(size))
}

func (c *counters) countEvent(t jute.EventType, size int) {
	c.sent.Add(1)
	c.eventsByType[t].Add(1)
	c.responseSizes.Add(size)
	c.eventBytes.Add(uint64(size))
}

// Stats returns the counters. It never blocks.
func (s *Server) Stats() Stats {
	c := &s.stats
	st := Stats{
		Received: c.received.Load(), Sent: c.sent.Load(), OutstandingRequests: int(c.outstanding.Load()),
		ReadOnlySessions: int(c.readOnly.Load()),
		Handshakes:       c.handshakes.Load(), MalformedRequests: c.malformed.Load(), FailedRequests: c.failed.Load(),
		ReadLatency: c.latencyOf(readClasses...), UpdateLatency: c.latencyOf(updateClasses...),
		Latency: c.latencyOf(slices.Concat(readClasses, updateClasses)...), ResponseSizes: c.responseSizes.Spread(),
		BytesIn: c.bytesIn.Load(), ReplyBytes: c.replyBytes.Load(), EventBytes: c.eventBytes.Load(),
		RejectedConns:    c.endedSinceReset(tooManyConnsOfAddr) + c.endedSinceReset(tooManyConns) + c.endedSinceReset(tlsCrowded) + c.endedSinceReset(throttled),
		EndedSessionless: c.endedSinceReset(handshakeLate), AuthFailed: c.endedSinceReset(authFailed),
		HeldBytes: s.streamConfig.Budget.UsedBytes(), OverBudget: c.endedSinceReset(overBudget),
		EndedByReason: c.endedCounts(), RequestLatency: c.requestTimes(), EventsByType: c.eventCounts(),
	}
	st.MemoryLimit, st.MemoryUsed, st.MemoryRejections = s.cfg.Memory.Usage()
	st.MemoryFull = s.cfg.Memory.IsFull()
	st.DropChance, st.TokenDeficit = s.throttle.DropChanceAndMissing(time.Now())
	st.Connections, st.Sessions = s.conns.count()
	return st
}

func (c *counters) endedSinceReset(why stream.Reason) uint64 {
	return c.endedByReason[why].Load() - c.endedAtReset[why].Load()
}

// ResetStats sets the counters to zero, except those that Stats counts since New.
func (s *Server) ResetStats() {
	c := &s.stats
	for _, n := range []*atomic.Uint64{
		&c.received, &c.sent, &c.handshakes, &c.malformed, &c.failed, &c.bytesIn, &c.replyBytes, &c.eventBytes,
	} {
		n.Store(0)
	}
	for of := range c.requestLatency {
		c.requestLatency[of].ResetSummary()
	}
	c.responseSizes.Reset()
	for r := range c.endedByReason {
		c.endedAtReset[r].Store(c.endedByReason[r].Load())
	}
}
