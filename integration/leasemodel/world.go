package leasemodel

import (
	"math/bits"
	"slices"
)

const (
	voters     = 3
	observer   = voters // its number; it is a member only while the configuration has it
	maxServers = voters + 1
	maxLog     = 5
)

// entry is an entry of a log: the term of its leader, and the change of the members, if it is one.
type entry uint8

const (
	termBits       = 0x0f
	addsObserver   = 0x10
	removesServer  = 0x20
	changesMembers = addsObserver | removesServer
	startsTerm     = 0x40 // it is a TermStart
	grantsLeases   = 0x80 // it is the TermStart of a leader that grants leases
)

func (e entry) term() uint8 { return uint8(e) & termBits }

// servers is a set of servers.
type servers uint8

func (s servers) contains(i int) bool { return s>>i&1 == 1 }
func (s servers) with(i int) servers  { return s | 1<<i }
func (s servers) without(i int) servers {
	return s &^ (1 << i)
}

// isMajority reports whether most voters are in the set.
func (s servers) isMajority() bool { return bits.OnesCount8(uint8(s)&(1<<voters-1)) > voters/2 }

// keptLeases is how many leases a server keeps beside its latest one. With more of them, searches need more than three requests.
const keptLeases = 2

// span is when the request for a lease was sent: the number of elections that had been won, plus 1. 0: there is none.
type span uint8

// lease is the right to read.
type lease struct {
	began span
	need  uint8 // it may be used once so many entries are applied
	term  uint8 // of the leader that granted it
}

// report is a server's message that it holds the entries of a leader's term up to one of that term.
type report struct{ term, index uint8 }

// leadership is what a leader knows. It is empty for other servers.
type leadership struct {
	leads   bool
	won     span                // as of the election, which counts itself
	waits   bool                // it has not yet waited for the leases of earlier terms
	roster  servers             // those that may have a lease
	granted servers             // members of the roster whose lease this leader has granted
	holds   [maxServers]uint8   // how many entries each server has in memory, as it has said in this term
	copies  [voters]uint8       // how many entries each voter has on its disk, as it has said in this term
	given   uint8               // the highest index that it has sent to a follower as its word; 0: it has released everything up to there
	seen    servers             // whose request it has, not granted yet
	heard   [maxServers]servers // by request: the voters that were heard since
	ends    [maxServers]uint8   // by request: the end of the log when it arrived. Only with EndsAtArrival
}

// server is a server: its disk, its process, and its lease.
type server struct {
	log     [maxLog]entry
	length  uint8
	durable uint8 // entries on the disk
	applied uint8
	term    uint8
	word    uint8              // it may apply so many entries of the leader of its term once its disk has them; 0: no more than it has applied
	wordOf  servers            // and once these have told it themselves that they hold them. Only with Direct
	mail    [maxServers]report // the last message of each server to this one that it holds entries. It may arrive at any time, or never
	leadership

	request     span  // of the request that is on its way, or with the leader
	requestTerm uint8 // the term in which it was sent; 0: it has been granted
	offer       lease // a grant that is on its way
	lease       lease
	earlier     [keptLeases]lease // leases beside it that have not ended either, the latest first
	stops       bool              // it sends no requests before it has restarted
	returns     bool              // its message that it has dropped its lease is on its way

	reads     bool // a read has begun
	readTook  bool
	readIndex uint8 // it waits for so many entries, or, with ChecksAfter, had applied so many
	readShown uint8 // what was shown when it began
}

// world is a state of the model.
type world struct {
	servers [maxServers]server
	shown   [maxLog]entry // the entries that a server has applied: it may have acknowledged them, and reads may have shown them
	applied uint8         // how many these are
	wins    span          // elections
	waited  span          // the length of a lease has passed since the election with this number
	spent   budget
	fault   fault
}

// fault is what must not happen. The empty one has not.
type fault uint8

const (
	staleRead  fault = iota + 1 // a read by a lease lacks an entry that was shown before it began
	staleSync                   // so does a read that has asked the leader
	forkedLogs                  // two servers have applied different entries at one index
)

func (f fault) String() string {
	return [...]string{"none", "a read by a lease is stale", "a read that asked the leader is stale", "two servers have applied different entries"}[f]
}

// budget counts what a search bounds.
type budget struct{ requests, restarts, returns, changes uint8 }

// common returns how many entries two logs have in common at their beginnings.
func common(a, b *server) uint8 {
	n := uint8(0)
	for n < min(a.length, b.length) && a.log[n] == b.log[n] {
		n++
	}
	return n
}

// hasObserver reports whether the observer is a member by the first n entries of the log.
func (s *server) hasObserver(n uint8) bool {
	for i := int(n) - 1; i >= 0; i-- {
		if e := s.log[i]; e&changesMembers != 0 {
			return e&addsObserver != 0
		}
	}
	return false
}

// members returns the members by the first n entries of the log.
func (s *server) members(n uint8) servers {
	all := servers(1<<voters - 1)
	if s.hasObserver(n) {
		all = all.with(observer)
	}
	return all
}

// mayRead reports whether the server has a lease that it may use.
func (s *server) mayRead(r *Rules) bool {
	isUsable := func(l lease) bool { return l.began != 0 && (s.applied >= l.need || r.UsesAtOnce) }
	return isUsable(s.lease) || slices.ContainsFunc(s.earlier[:], isUsable)
}

// hasLease reports whether the server has a lease that has not ended.
func (s *server) hasLease() bool { return s.lease != lease{} || s.earlier != [keptLeases]lease{} }

// take takes a lease beside those that the server has. An earlier one is forgotten once it lets the server read nothing that the latest
// one does not: none ends after the latest.
func (s *server) take(latest lease) {
	copy(s.earlier[1:], s.earlier[:])
	s.earlier[0], s.lease = s.lease, latest
}

// forgetEarlier forgets earlier leases once the latest one may be used.
func (s *server) forgetEarlier(r *Rules) {
	if s.lease.began != 0 && s.applied >= s.lease.need && !r.EarlierOutlive {
		s.earlier = [keptLeases]lease{}
	}
}

// endLease ends the server's lease, and a grant that is on its way to it with its request, if they are of this term or an earlier one.
func (s *server) endLease(r *Rules, term uint8) {
	s.dropLeases(r, func(l lease) bool { return l.term <= term })
	if s.offer.term <= term {
		s.offer = lease{}
		if s.requestTerm == 0 {
			s.request = 0 // it is as old as the grant
		}
	}
}

// dropLeases drops the leases that have ended.
func (s *server) dropLeases(r *Rules, hasEnded func(lease) bool) {
	if hasEnded(s.lease) {
		s.lease = lease{}
	}
	for k, l := range s.earlier {
		if hasEnded(l) && !r.EarlierOutlive {
			s.earlier[k] = lease{}
		}
	}
}

// stepDown ends the server's leadership.
func (s *server) stepDown() { s.leadership = leadership{} }

// termStart returns the index of the first entry of the leader's term: the entries below it are of earlier leaders.
func (s *server) termStart() uint8 {
	k := s.length
	for k > 1 && s.log[k-2].term() == s.term {
		k--
	}
	return k
}

// mayHaveLeases reports whether there may be leases of earlier leaders, by the TermStarts in the server's log.
func (s *server) mayHaveLeases(r *Rules) bool {
	applied, end := s.applied, s.length
	if r.WaitsByLatest {
		applied = s.length
	}
	if r.WaitsByApplied {
		end = applied
	}
	for _, e := range s.log[applied:end] {
		if e&grantsLeases != 0 {
			return true
		}
	}
	for k := applied; k > 0; k-- {
		if s.log[k-1]&startsTerm != 0 {
			return s.log[k-1]&grantsLeases != 0
		}
	}
	return false
}
