package follower

import (
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
)

// maxAcks limits the acknowledgements that wait for apply. When there are more, the last two are
// merged.
const maxAcks = 64

// maxRefusals limits the refused sessions of an acknowledgement that comes in parts: those of leader.maxRefusedPerReply, at which a
// leader closes the stream itself.
const maxRefusals = 2 << 20

// ack is an acknowledgement. It counts once commit has been applied here, but its refusals take
// effect at once. A long list of refused sessions comes in several parts, and only the last part
// has a through.
type ack struct {
	nonce           uint64 // of the leader's term
	through         uint64
	commit          uint64
	refusedSessions []int64
	refusalsCut     bool // the connections of the refused sessions have been closed
}

// merge makes a and b one acknowledgement, which counts when both would. The list of refused
// sessions is a new one, because ackLoop may be reading the old one without a lock.
func (a *ack) merge(b ack) {
	a.through = max(a.through, b.through)
	a.commit = max(a.commit, b.commit)
	a.refusalsCut = false
	a.refusedSessions = slices.Concat(a.refusedSessions, b.refusedSessions)
	slices.Sort(a.refusedSessions)
	a.refusedSessions = slices.Compact(a.refusedSessions)
}

// ackQueue holds acknowledgements until their commit is applied here. Make one with newAckQueue. It is
// safe for concurrent use, and nothing blocks.
type ackQueue struct {
	boot uint64        // of this process
	work chan struct{} // one place: an acknowledgement may be due

	mu      sync.Mutex
	pending []ack // in order of arrival
}

func newAckQueue(boot uint64) ackQueue {
	return ackQueue{boot: boot, work: make(chan struct{}, 1)}
}

// queueAckFrom queues a ping's acknowledgement, unless it is for another boot. It returns an error if the parts of one
// acknowledgement have too many refused sessions.
func (q *ackQueue) queueAckFrom(ping *proto.Ping) error {
	if ping.Ack == nil || ping.Ack.Incarnation != q.boot {
		return nil
	}
	a := ack{nonce: ping.Nonce, through: ping.Ack.Through, commit: ping.Ack.Commit, refusedSessions: ping.Ack.Refused}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.pending); n > 0 && q.pending[n-1].nonce != a.nonce {
		q.pending = nil // these are of an earlier leader
	}
	if n := len(q.pending); n == maxAcks || n > 0 && q.pending[n-1].through == 0 {
		if len(q.pending[n-1].refusedSessions)+len(a.refusedSessions) > maxRefusals {
			return status.Errorf(codes.ResourceExhausted, "more than %d refused sessions wait in an acknowledgement", maxRefusals)
		}
		q.pending[n-1].merge(a)
	} else {
		q.pending = append(q.pending, a)
	}
	signal(q.work)
	return nil
}

// signalIfDue signals work if an acknowledgement is due at index.
func (q *ackQueue) signalIfDue(index uint64) {
	q.mu.Lock()
	due := len(q.pending) > 0 && q.pending[0].commit <= index
	q.mu.Unlock()
	if due {
		signal(q.work)
	}
}

// takeRefusals returns an acknowledgement of the term with this nonce whose refusals have not been taken
// yet. Refusals do not wait for the commit. They may rest on entries that this member has not applied yet:
// the session may have moved to another member, perhaps with a shorter timeout.
func (q *ackQueue) takeRefusals(nonce uint64) (ack, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.pending {
		a := &q.pending[i]
		if !a.refusalsCut && a.through != 0 && a.nonce == nonce && len(a.refusedSessions) > 0 {
			a.refusalsCut = true
			return *a, true
		}
	}
	return ack{}, false
}

// takeDue removes and returns the first acknowledgement if its commit is at or below applied.
func (q *ackQueue) takeDue(applied uint64) (ack, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 || q.pending[0].through == 0 || q.pending[0].commit > applied {
		return ack{}, false
	}
	a := q.pending[0]
	q.pending = q.pending[1:]
	return a, true
}
