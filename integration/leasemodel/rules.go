package leasemodel

// Rules turns rules of the protocol off. The zero value is the protocol.
type Rules struct {
	SkipsHolders       bool // a write is acknowledged although a holder of a lease does not hold it
	DropsEarly         bool // a leader goes without a holder before its lease has ended by every clock that is fast or slow enough
	LeadsAtOnce        bool // a new leader does not wait for the leases of earlier terms
	InheritsVotersOnly bool // a new leader waits for the leases of voters, not of observers
	UsesAtOnce         bool // a lease is used before the server has applied what the leader had when it granted it
	EarlierOutlive     bool // a lease beside a later one does not end
	KeepsLeases        bool // a lease outlives the restart of its holder
	GrantsUnconfirmed  bool // a leader grants without having heard from a majority since it had the request
	TakesLateGrants    bool // a holder that has given its lease back takes a grant that was on its way
	RemovesWithLease   bool // the entry that removes an observer is appended while the observer has a lease
	ReadsHalf          bool // a read does not wait until all held entries are applied
	ChecksAfter        bool // a read looks for a lease after it has read
	RequestsInAnyTerm  bool // a leader takes requests that were sent in another term
	GrantsEarly        bool // an observer gets a lease before the entry that adds it is applied
	EndsAtArrival      bool // a grant names the end of the log as of the arrival of its request
	TakesLateReturns   bool // a message that a lease was dropped counts for a lease that was requested after it was sent

	TellsCommitted     bool // a leader tells followers of committed entries that it has not released
	AppliesWhenDeposed bool // a deposed leader applies committed entries that it had not released

	WordSkipsHolders     bool // the leader's word covers entries that a holder of a lease does not hold
	WordSkipsLeadersDisk bool // the leader's word covers entries that its disk does not have
	WordSkipsDisk        bool // a follower applies entries by the leader's word that its own disk does not have
	WordOnOldEntries     bool // a follower applies entries by the leader's word without one of the leader's term

	DirectSkipsWord  bool // a follower applies what others have told it directly without the leader's word
	DirectSkipsNamed bool // and by the word without hearing from those whom it names
	DirectOfOldTerms bool // a direct message of an earlier term counts

	SyncsUnproven     bool // a leader replies to a sync although it may have been deposed
	SyncsWithoutWord  bool // the index for a sync does not cover the leader's words
	SyncsWithoutStart bool // the index for a sync does not cover the entries of earlier leaders

	GrantsBeforeStart bool // a leader grants before it has applied its TermStart
	WaitsByLatest     bool // a new leader looks only at the last TermStart of its log
	WaitsByApplied    bool // a new leader looks only at the last TermStart that it has applied
	EndsLeasesEarly   bool // a leader that grants no leases releases its TermStart before it has waited for the leases of earlier terms
}

// Model has the bounds of a search.
type Model struct {
	Rules

	Observer                                             bool // the observer is a member from the beginning
	Elections, Log, Requests, Restarts, Returns, Changes uint8
	Requesters                                           servers // those that send requests; none: all
	Stops                                                bool    // a server that has given its lease back requests no other one before a restart
	Words                                                bool    // the leader gives its word to followers
	Direct                                               bool    // with Words: and names those who have a lease and do not hold the entries yet. They tell the follower directly
	Modes                                                bool    // leaders that are elected grant leases or do not
	BeginsWithout                                        bool    // the first leader grants no leases
	Reads                                                bool    // reads take time. Otherwise each state is judged as if all servers with a lease read at once
}
