package wire

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// keptLeads is the number of terms of which LeadTimes knows something. A member asks about the last leader that has pinged it when another
// one does, and few members lead in between without a ping.
const keptLeads = 4

// LeadTimes has for each of the latest terms a time at which its leader led. However late a message is sent or read, because the network or
// a process has paused, that time is no later than the leader led. The zero value is ready to use. It is safe for concurrent use.
//
// A leader that has sent a heartbeat led when this member replied to its request before: it has received that reply (see Acknowledged).
// This member itself led when it sent a heartbeat to which a majority of the voters, with itself, has replied in the same term: none of
// them had elected another one by then.
type LeadTimes struct {
	mu     sync.Mutex
	latest []lead // at most keptLeads, of different terms, the newest first
}

type lead struct {
	term     uint64
	followed time.Time                   // zero: this member has not followed the leader
	replied  map[raft.ServerID]time.Time // when the heartbeat was sent to which a server has replied last; nil: this member has not led
}

// ofTerm returns the entry of a term, or nil if that is too old. l.mu must be held.
func (l *LeadTimes) ofTerm(term uint64) *lead {
	i, known := slices.BinarySearchFunc(l.latest, term, func(have lead, term uint64) int {
		switch {
		case have.term > term:
			return -1
		case have.term < term:
			return 1
		}
		return 0
	})
	if !known {
		if i == keptLeads {
			return nil
		}
		l.latest = slices.Insert(l.latest[:min(len(l.latest), keptLeads-1)], i, lead{term: term})
	}
	return &l.latest[i]
}

// noteHeartbeat records that raft has accepted a heartbeat of a term's leader, before which this member had sent a reply on the same
// connection at a time.
func (l *LeadTimes) noteHeartbeat(term uint64, sentAt time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.ofTerm(term); of != nil && sentAt.After(of.followed) {
		of.followed = sentAt
	}
}

// noteReply records that a server has replied in the same term to a heartbeat that this leader had sent at a time.
func (l *LeadTimes) noteReply(from raft.ServerID, term uint64, sentAt time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.ofTerm(term)
	if of == nil {
		return
	}
	if of.replied == nil {
		of.replied = map[raft.ServerID]time.Time{}
	}
	if sentAt.After(of.replied[from]) {
		of.replied[from] = sentAt
	}
}

// Last returns the last time at which the leader of a term is known to have led, or the zero time. voters are those of the latest
// configuration, and self is this server.
func (l *LeadTimes) Last(term uint64, voters []raft.ServerID, self raft.ServerID) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.latest, func(have lead) bool { return have.term == term })
	if i < 0 {
		return time.Time{}
	}
	of := l.latest[i]
	if of.replied == nil {
		return of.followed
	}
	var times []time.Time // of the other voters
	needed := len(voters)/2 + 1
	for _, id := range voters {
		if id == self {
			needed--
		} else if at, ok := of.replied[id]; ok {
			times = append(times, at)
		}
	}
	if needed == 0 || len(times) < needed {
		return time.Time{} // the only voter is not replaced
	}
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	return times[needed-1]
}
