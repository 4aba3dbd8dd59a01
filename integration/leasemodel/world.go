package leasemodel

import "math/bits"

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

// span is when the request for a lease was sent: the number of elections that had been won, plus 1. 0: there is none.
type span uint8

// lease is the right to read.
type lease struct {
	began span
	need  uint8 // it may be used once so many entries are applied
}

// leadership is what a leader knows. It is empty for other servers.
type leadership struct {
	leads   bool
	won     span                // as of the election, which counts itself
	waits   bool                // it has not yet waited for the leases of earlier terms
	roster  servers             // those that may have a lease
	granted servers             // members of the roster whose lease this leader has granted
	lacking [maxLog]servers     // by entry: those that were in the roster when it was appended, and are not known to hold it
	copies  [voters]uint8       // how many entries each voter has on its disk, as it has said in this term
	seen    servers             // whose request it has, not granted yet
	heard   [maxServers]servers // by request: the voters that were heard since
}

// server is a server: its disk, its process, and its lease.
type server struct {
	log     [maxLog]entry
	length  uint8
	durable uint8 // entries on the disk
	commit  uint8 // entries that it knows to be committed, and has applied
	term    uint8
	leadership

	request     span // of the request that is on its way, or with the leader
	requestTerm uint8
	offer       lease // a grant that is on its way
	lease       lease

	reads     bool // a read has begun
	readTook  bool
	readIndex uint8 // it waits for so many entries, or, with ChecksAfter, had applied so many
	readAcked uint8 // what was acknowledged when it began
}

// world is a state of the model.
type world struct {
	servers [maxServers]server
	acked   uint8 // how many entries were acknowledged to clients
	wins    span  // elections
	waited  span  // the length of a lease has passed since the election with this number
	spent   budget
	stale   bool
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
	return s.lease.began != 0 && (s.commit >= s.lease.need || r.UsesAtOnce)
}

// endLease ends the server's lease, and a grant that is on its way to it.
func (s *server) endLease() { s.lease, s.offer = lease{}, lease{} }

// stepDown ends the server's leadership.
func (s *server) stepDown() { s.leadership = leadership{} }

// enterTerm brings the server to a term of another leader.
func (s *server) enterTerm(term uint8) {
	if term > s.term {
		s.term = term
		s.stepDown()
	}
}
