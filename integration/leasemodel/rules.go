package leasemodel

// Rules turns rules of the protocol off. The zero value is the protocol.
type Rules struct {
	SkipsHolders       bool // a write is acknowledged although a holder of a lease does not hold it
	DropsEarly         bool // a leader goes without a holder before its lease has ended by every clock that is fast or slow enough
	LeadsAtOnce        bool // a new leader does not wait for the leases of earlier terms
	InheritsVotersOnly bool // a new leader waits for the leases of voters, not of observers
	UsesAtOnce         bool // a lease is used before the server has applied what the leader had when it granted it
	KeepsLeases        bool // a lease outlives the restart of its holder
	GrantsUnconfirmed  bool // a leader grants without having heard from a majority since it had the request
	TakesLateGrants    bool // a holder that has given its lease back takes a grant that was on its way
	RemovesWithLease   bool // the entry that removes an observer is appended while the observer has a lease
	ReadsHalf          bool // a read does not wait until all held entries are applied
	ChecksAfter        bool // a read looks for a lease after it has read
	RequestsInAnyTerm  bool // a leader takes requests that were sent in another term
	GrantsEarly        bool // an observer gets a lease before the entry that adds it is committed
}

// Model has the bounds of a search.
type Model struct {
	Rules

	Observer                                             bool // the observer is a member from the beginning
	Elections, Log, Requests, Restarts, Returns, Changes uint8
	Requesters                                           servers // those that send requests; none: all
	Reads                                                bool    // reads take time. Otherwise each state is judged as if all servers with a lease read at once
}
