package member

import (
	"iter"
	"math"
	"time"

	"rollcall/jute"
	"rollcall/znode"
)

// maxDeaths is how many ends of sessions a member remembers. An operator who asks within the hour
// finds it. They take at most two megabytes.
const maxDeaths = 10_000

// Death is the end of a session. All members that have applied it remember the same values.
type Death struct {
	Session    jute.SessionID
	At         time.Time // by the log's time
	Zxid       int64
	Expired    bool          // else its client closed it
	Heard      time.Time     // if it expired: when its leader had last heard from it, or had begun to lead
	Timeout    time.Duration // granted
	Leader     uint32        // member that led at that time
	Term       uint64        // raft's term at that time
	Member     uint32        // that the session was attached to; 0: none
	Address    string        // of the client
	Ephemerals int           // number of nodes that were removed with it
}

// death is what the tree and hooks know about it.
func death(s *znode.State, session znode.Session, end znode.Ending) Death {
	d := Death{
		Session: session.ID, At: time.UnixMilli(end.AtMs), Zxid: s.Zxid(), Expired: end.Expired, Timeout: session.Timeout,
		Leader: s.Term().Leader, Term: s.Term().Term, Member: session.Owner.Member, Address: session.Address, Ephemerals: end.Ephemerals,
	}
	if end.Expired {
		d.Heard = d.At.Add(-end.Silent)
	}
	return d
}

// deaths holds the last ends of sessions, in the order of the log. They are kept only in memory:
// after a start a member knows those in the part of the log that it applies again.
type deaths struct {
	ring []Death // number n is at n % maxDeaths
	n    uint64  // how many there have been
}

func (d *deaths) add(one Death) {
	if len(d.ring) < maxDeaths {
		d.ring = append(d.ring, one)
	} else {
		d.ring[d.n%maxDeaths] = one
	}
	d.n++
}

// before appends to part the deaths numbered below n, newest first, until part is full. It returns
// the number of the last one it appended.
func (d *deaths) before(part []Death, n uint64) ([]Death, uint64) {
	n = min(n, d.n)
	for n > d.n-uint64(len(d.ring)) && len(part) < cap(part) {
		n--
		part = append(part, d.ring[n%maxDeaths])
	}
	return part, n
}

// Deaths yields the last ends of sessions that this member has applied, newest first, at most
// maxDeaths. It holds the tree's lock for one part at a time.
func (m *Member) Deaths() iter.Seq[Death] {
	return func(yield func(Death) bool) {
		part := make([]Death, 0, listedPerLock)
		for n := uint64(math.MaxUint64); ; {
			m.state.RLock()
			part, n = m.deaths.before(part[:0], n)
			m.state.RUnlock()
			for _, one := range part {
				if !yield(one) {
					return
				}
			}
			if len(part) < cap(part) {
				return
			}
		}
	}
}
