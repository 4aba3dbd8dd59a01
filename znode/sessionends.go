package znode

import (
	"cmp"
	"time"

	"github.com/cespare/xxhash/v2"

	"rollcall/zk/jute"
)

const (
	// maxSessionEnds limits the kept ends of sessions: enough to find one that an operator looks for within the
	// hour. They take at most 8 MiB of memory, and about 2 MiB if no address or name is unusually long.
	maxSessionEnds = 10_000

	// MaxRequesterBytes is the longest SessionEnd.RequestedBy, in bytes. It is as long as the longest address.
	MaxRequesterBytes = 255
)

// EndReason is the reason for a session's end.
type EndReason uint8

const (
	ReasonClosed  EndReason = iota + 1 // its client closed it
	ReasonExpired                      // the leader did not hear from it for its timeout
	ReasonKilled                       // an operator ended it
)

// String returns the reason's name for operators.
func (r EndReason) String() string {
	switch r {
	case ReasonClosed:
		return "closed"
	case ReasonExpired:
		return "expired"
	case ReasonKilled:
		return "killed"
	}
	return "unknown"
}

// SessionEnd is the record of a session's end.
type SessionEnd struct {
	Number         uint64 // from 1
	Session        jute.SessionID
	Address        string // of the client that connected last
	Member         uint32 // of the session's last connection
	Leader         uint32 // the leading member
	Term           uint64 // raft's
	AtMs           int64  // the log's time, since 1970
	Zxid           int64  // of the transaction that ended the session
	Reason         EndReason
	SilentFor      time.Duration // time since the leader last heard from the session; 0 if its client closed it
	Timeout        time.Duration // granted by the last connect
	EphemeralCount int           // of the session, when it ended
	RequestedBy    string        // the operator, if Reason is ReasonKilled
}

// EndedAt returns the log's time of the end.
func (e *SessionEnd) EndedAt() time.Time { return time.UnixMilli(e.AtMs) }

// maxSilentMs is the longest silence that is reported, in milliseconds. It fits a time.Duration.
const maxSilentMs = 365 * 24 * 3600 * 1000

func cappedSilence(ms uint64) time.Duration {
	return time.Duration(min(ms, maxSilentMs)) * time.Millisecond
}

// sessionEnds holds the last ends of sessions, with consecutive numbers.
type sessionEnds struct {
	byNumber sortedMap[endNumber, *SessionEnd]
	total    uint64 // ends ever kept, and so the newest one's number
	hashSum  uint64 // of the hashes in byNumber; see DigestVersion
}

// endNumber orders the ends as the log does.
type endNumber uint64

func (n endNumber) compare(m endNumber) int { return cmp.Compare(n, m) }

// addNext keeps end with the next number, which it returns, and drops the oldest ends above most.
func (k *sessionEnds) addNext(gen uint64, end SessionEnd, most int) (number uint64) {
	k.total++
	end.Number = k.total
	k.put(gen, &end)
	for k.byNumber.length > most {
		oldest := endNumber(k.total - uint64(k.byNumber.length) + 1)
		if old, ok := k.byNumber.get(oldest); ok {
			k.hashSum -= old.hash()
		}
		k.byNumber.delete(gen, oldest)
	}
	return end.Number
}

func (k *sessionEnds) put(gen uint64, end *SessionEnd) {
	k.byNumber.put(gen, endNumber(end.Number), end)
	k.hashSum += end.hash()
}

// hash covers every field.
func (e *SessionEnd) hash() uint64 {
	var room [128]byte
	p := appendFields(room[:0],
		e.Number, uint64(e.Session), xxhash.Sum64String(e.Address), uint64(e.Member), uint64(e.Leader),
		e.Term, uint64(e.AtMs), uint64(e.Zxid), uint64(e.Reason), uint64(e.SilentFor), uint64(e.Timeout),
		uint64(e.EphemeralCount), xxhash.Sum64String(e.RequestedBy),
	)
	return xxhash.Sum64(p)
}

// isValid reports whether a state can have the end.
func (e *SessionEnd) isValid() bool {
	switch {
	case e.Session == 0 || len(e.Address) > maxAddressBytes || len(e.RequestedBy) > MaxRequesterBytes:
		return false
	case e.Reason < ReasonClosed || e.Reason > ReasonKilled:
		return false
	case e.SilentFor < 0 || e.SilentFor > maxSilentMs*time.Millisecond:
		return false
	}
	return (e.Reason == ReasonKilled || e.RequestedBy == "") && (e.Reason != ReasonClosed || e.SilentFor == 0)
}
