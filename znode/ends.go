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

	// MaxBy is the longest name of who asked for the end of a session, in bytes: as long as the
	// longest address.
	MaxBy = 255

	// KillFormat is the first Entry.format in which an operator can end a session.
	KillFormat = 1
)

// Reason says why a session ended.
type Reason uint8

// These are the reasons.
const (
	Closed  Reason = iota + 1 // its client closed it
	Expired                   // the leader had not heard from it for its timeout
	Killed                    // an operator ended it
)

// String returns the reason's name, as operators see it.
func (r Reason) String() string {
	switch r {
	case Closed:
		return "closed"
	case Expired:
		return "expired"
	case Killed:
		return "killed"
	}
	return "unknown"
}

// End says how a session ended.
type End struct {
	Number     uint64 // counts the ends, from 1
	Session    jute.SessionID
	Address    string // of the client that connected last
	Member     uint32 // that the session was attached to
	Leader     uint32 // the member that led
	Term       uint64 // raft's, in which it led
	AtMs       int64  // by the log's time, in ms since 1970
	Zxid       int64  // of the transaction that ended the session
	Reason     Reason
	Silent     time.Duration // how long the leader had not heard from the session; 0 if its client closed it
	Timeout    time.Duration // granted by the last connect
	Ephemerals int           // how many ephemeral nodes the session had
	By         string        // who asked for it, if an operator did
}

// At returns when the session ended, by the log's time.
func (e *End) At() time.Time { return time.UnixMilli(e.AtMs) }

// maxSilentMs is the longest silence that is reported, in milliseconds. A year says as much as any
// longer time, and fits a time.Duration.
const maxSilentMs = 365 * 24 * 3600 * 1000

// silence returns the silence that a transaction reports.
func silence(ms uint64) time.Duration { return time.Duration(min(ms, maxSilentMs)) * time.Millisecond }

// ends holds the last ends of sessions. Their numbers follow one another without a gap.
type ends struct {
	kept  sorted[endNumber, *End]
	count uint64 // how many were ever kept, and so the newest one's number
	sum   uint64 // of the hashes of those in kept; see DigestVersion
}

// endNumber orders the ends as the log does.
type endNumber uint64

func (n endNumber) compare(m endNumber) int { return cmp.Compare(n, m) }

// keep adds end with the next number, which it returns. It drops the oldest ones if there are more
// than most.
func (k *ends) keep(gen uint64, end End, most int) (number uint64) {
	k.count++
	end.Number = k.count
	k.put(gen, &end)
	for k.kept.n > most {
		oldest := endNumber(k.count - uint64(k.kept.n) + 1)
		if old, ok := k.kept.get(oldest); ok {
			k.sum -= old.hash()
		}
		k.kept.drop(gen, oldest)
	}
	return end.Number
}

func (k *ends) put(gen uint64, end *End) {
	k.kept.put(gen, endNumber(end.Number), end)
	k.sum += end.hash()
}

// hash covers every field of e.
func (e *End) hash() uint64 {
	var room [128]byte
	p := room[:0]
	p = add(p, e.Number)
	p = add(p, uint64(e.Session))
	p = add(p, xxhash.Sum64String(e.Address))
	p = add(p, uint64(e.Member))
	p = add(p, uint64(e.Leader))
	p = add(p, e.Term)
	p = add(p, uint64(e.AtMs))
	p = add(p, uint64(e.Zxid))
	p = add(p, uint64(e.Reason))
	p = add(p, uint64(e.Silent))
	p = add(p, uint64(e.Timeout))
	p = add(p, uint64(e.Ephemerals))
	p = add(p, xxhash.Sum64String(e.By))
	return xxhash.Sum64(p)
}

// sound reports whether e can be in a state.
func (e *End) sound() bool {
	switch {
	case e.Session == 0 || len(e.Address) > maxAddress || len(e.By) > MaxBy:
		return false
	case e.Reason < Closed || e.Reason > Killed:
		return false
	case e.Silent < 0 || e.Silent > maxSilentMs*time.Millisecond:
		return false
	}
	return (e.Reason == Killed || e.By == "") && (e.Reason != Closed || e.Silent == 0)
}
