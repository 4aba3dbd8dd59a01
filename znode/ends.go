package znode

import (
	"cmp"
	"time"

	"github.com/cespare/xxhash/v2"

	"rollcall/zk/jute"
)

const (
	// maxEnds is how many ends of sessions the state keeps: enough to find one that an operator
	// asks about within the hour. Together they take at most 8 MiB of memory, and about 2 MiB if no
	// address or name is unusually long.
	maxEnds = 10_000

	// MaxRequesterBytes is the longest name of who asked for the end of a session, in bytes: as long as the
	// longest address.
	MaxRequesterBytes = 255

	// KillFormat is the first Entry.format in which an operator can end a session.
	KillFormat = 1
)

// EndReason says why a session ended.
type EndReason uint8

// These are the reasons.
const (
	ReasonClosed  EndReason = iota + 1 // its client closed it
	ReasonExpired                      // the leader had not heard from it for its timeout
	ReasonKilled                       // an operator ended it
)

// String returns the reason's name, as operators see it.
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

// SessionEnd says how a session ended.
type SessionEnd struct {
	Number         uint64 // counts the ends, from 1
	Session        jute.SessionID
	Address        string // of the client that connected last
	Member         uint32 // that the session was attached to
	Leader         uint32 // the member that led
	Term           uint64 // raft's, in which it led
	AtMs           int64  // by the log's time, in ms since 1970
	Zxid           int64  // of the transaction that ended the session
	Reason         EndReason
	SilentFor      time.Duration // how long the leader had not heard from the session; 0 if its client closed it
	Timeout        time.Duration // granted by the last connect
	EphemeralCount int           // how many ephemeral nodes the session had
	RequestedBy    string        // who asked for it, if an operator did
}

// EndedAt returns when the session ended, by the log's time.
func (e *SessionEnd) EndedAt() time.Time { return time.UnixMilli(e.AtMs) }

// maxSilentMs is the longest silence that is reported, in milliseconds. A year says as much as any
// longer time, and fits a time.Duration.
const maxSilentMs = 365 * 24 * 3600 * 1000

// silenceOf returns the silence that a transaction reports.
func silenceOf(ms uint64) time.Duration {
	return time.Duration(min(ms, maxSilentMs)) * time.Millisecond
}

// sessionEnds holds the last ends of sessions. Their numbers follow one another without a gap.
type sessionEnds struct {
	byNumber sortedMap[endNumber, *SessionEnd]
	total    uint64 // how many were ever kept, and so the newest one's number
	hashSum  uint64 // of the hashes of those in kept; see DigestVersion
}

// endNumber orders the ends as the log does.
type endNumber uint64

func (n endNumber) compare(m endNumber) int { return cmp.Compare(n, m) }

// addNext adds end with the next number, which it returns. It drops the oldest ones if there are more
// than most.
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

// hash covers every field of e.
func (e *SessionEnd) hash() uint64 {
	var room [128]byte
	p := room[:0]
	p = appendField(p, e.Number)
	p = appendField(p, uint64(e.Session))
	p = appendField(p, xxhash.Sum64String(e.Address))
	p = appendField(p, uint64(e.Member))
	p = appendField(p, uint64(e.Leader))
	p = appendField(p, e.Term)
	p = appendField(p, uint64(e.AtMs))
	p = appendField(p, uint64(e.Zxid))
	p = appendField(p, uint64(e.Reason))
	p = appendField(p, uint64(e.SilentFor))
	p = appendField(p, uint64(e.Timeout))
	p = appendField(p, uint64(e.EphemeralCount))
	p = appendField(p, xxhash.Sum64String(e.RequestedBy))
	return xxhash.Sum64(p)
}

// isValid reports whether e can be in a state.
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
