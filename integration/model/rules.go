package model

import "hash/maphash"

// Rules turns rules of the protocol off. The zero value is the protocol.
type Rules struct {
	KeepsIdentity       bool // an emptied disk is the same server as before, and comes in by the word of others, see Word
	ElectsItself        bool // with KeepsIdentity: such a disk stands if its log's last configuration has no other voter
	NeverVotes          bool // with KeepsIdentity: such a disk has no vote any more
	Word                Word // with KeepsIdentity: which others must have answered it
	ShowsUndurable      bool // the leader shows a commit that counts its own copy before that is on its disk
	AcksUndurable       bool // a follower acknowledges entries before they are on its disk
	CommitsHeld         bool // a follower commits by the leader's word before the entries are on its own disk
	CountsFormerTerms   bool // a leader counts what was acknowledged to it when it led before
	CountsRemoved       bool // a leader counts the disk of a voter that its latest configuration has removed
	QueuesFirst         bool // the first entry of a term is written beside replication, as later ones are
	QueuesConfiguration bool // configurations are written beside replication, as writes are
	ChangesEarly        bool // a leader changes the configuration before an entry of its own term is committed
	ChecksCandidate     bool // a voter refuses candidates that do not vote in its own configuration
	SendsAhead          bool // disks without a vote are sent entries that are not committed
	WithholdsVoteless   bool // a voter is sent a configuration in which it had no vote only when the leader knows that it is committed
	RemovesItself       bool // a leader proposes a configuration in which it does not vote
	BeginsByMajority    bool // an ensemble begins although not all members of its list have said that they have no data
	TakesEntries        bool // the last disk takes entries meant for the disk before it, and its answers count as that one's
	TakesVotes          bool // the last disk takes requests for the vote of the disk before it, and answers for that one
	ForgetsVotes        bool // a restart forgets the vote
	ReplacesByOlder     bool // a snapshot replaces a log that has all of it and more
	SaysUndurable       bool // a disk commits by its own copy and the leader's, although that is not on the leader's disk yet
	SaysOlder           bool // and this although the entry is of an earlier term
	SaysAmongMany       bool // and this with more than three voters, without direct messages of others
	SaysToOthers        bool // and this without a vote
	SaysLeaving         bool // and this although the leader has no vote
	DirectUndurable     bool // a disk counts what others hold, as they tell it directly, although that is not on their disks yet
	DirectOfFormerTerms bool // and what they have told it in an earlier term
	DirectOfOthers      bool // and the copies of servers without a vote
}

// Word is the rule by which an emptied disk came in when it kept the identity of the lost one.
type Word uint8

const (
	// WordOfAll needs all other voters of the latest configuration that is reported, and all of the one before.
	WordOfAll Word = iota
	// WordOfFormer needs a majority of the latest configuration. Of two voters, it needs the other one and all former
	// voters of the configuration before. Then the other one may have the vote of the emptied disk at once.
	WordOfFormer
	// WordOfRecord does the same, but the record of the configuration before may be one change too old.
	WordOfRecord
	// WordOfLatest does the same without those that voted before.
	WordOfLatest
)

// Model has the bounds of a search.
type Model struct {
	Rules

	Disks   int   // of all servers, also those that come in later
	Voters  int   // in the first configuration. If it is 0, the ensemble has yet to begin
	List    int   // members of the list of servers, if Voters is 0
	Chain   bool  // the ensemble began with one voter and grew: the first log has a configuration for each step up to Voters
	Terms   uint8 // the last term. The first one is 1, and the first election is in term 2
	Log     uint8 // entries of the longest log
	Writes  uint8 // of a leader in one term
	Changes uint8 // of the configuration in one log, without those of the first log
	Wipes   uint8 // lost disks
	Late    bool  // entries of a leader may arrive after its process has ended
	Live    bool  // check in each state that disks elect a leader if they are enough, see isEnough
	Fewer   bool  // with Live: a majority of the committed configuration counts as enough
	Plain   bool  // do not use symmetry: states that differ only in the names of disks are different ones

	logs      *logStore
	renamings map[uint32]*renaming
	lives     map[string]bool // the states that findStuckMajority has checked, reduced to what it depends on
	seed      maphash.Seed
}

func (m *Model) symmetric() bool { return !m.Plain && !m.TakesEntries && !m.TakesVotes }

// firstState returns the state in which the search begins: the voters have stored their configuration, and nothing else was.
func (m *Model) firstState() (s modelState) {
	m.logs, m.renamings, m.lives, m.seed = newLogStore(), map[uint32]*renaming{}, map[string]bool{}, maphash.MakeSeed()
	if m.Voters == 0 {
		return s
	}
	var log logID
	all := diskSet(1)<<m.Voters - 1
	if m.Chain {
		for voters := diskSet(1); voters != all; voters = voters<<1 | 1 {
			log = m.logs.appendEntry(log, newEntry(1, voters))
		}
	}
	log = m.logs.appendEntry(log, newEntry(1, all))
	for i := range m.Voters {
		s.disks[i] = diskState{log: log, term: 1}
	}
	s.shown = log
	for i := range m.logs.all[log].length {
		s.shownTerms |= 1 << (3 * i)
	}
	return s
}
