// Package znode is the replicated state of an ensemble: the tree of znodes, the
// sessions and which ephemerals they own, who may do what, and how far each member's
// writes have come. Every member applies the same log to it and gets the same state.
// Beside it, and not replicated, are the watches of this member's connections.
//
// # Who owns what
//
// One lock guards all: apply holds it to write, readers share it. State does not take it
// by itself, but for Restore and Diff: a caller that reads, sets a watch and queues its
// reply does so as one step. Watches have a mutex of their own, taken inside the tree's
// lock: readers register at the same time. Observer and Watcher are called under the
// write lock; they must neither block nor take it.
//
// # What decides
//
// The log entry alone. Nothing here reads a clock, draws lots, or ranges over a map
// where the order could show. Config.EnsembleText does decide: it must be
// equal on all members. What else of a configuration decides (Rules) is in the log.
//
// # Copies
//
// Nodes, sessions and indexes are copied on write: Snapshot is O(1), and is written while
// the state goes on changing.
//
// # Digest
//
// The hashes of all nodes and sessions are summed up as they change: who changes one takes
// it out of the sum before (tree.edit does) and puts it in after. See DigestVersion.
//
// # Units
//
// Times are milliseconds since 1970 as leaders stamped them, index and term are raft's,
// zxids have the term in their upper half.
package znode

import (
	"iter"
	"sync"
	"sync/atomic"

	"rollcall/jute"
	"rollcall/proto"
)

// FormatLevel is the highest Entry.format that this version can apply. An entry of an older
// format is applied by the rules of that format, so that an old log gives the same state:
//
//   - 1: every session ends at once, however many nodes go with it; see endAtOnce.
//   - 2: the time of the log never goes back; see State.stamp. The nodes of a session that
//     ends go in steps if they are many, however many sessions end in one entry; see
//     entryRemovals.
const FormatLevel = 3

// Config is what a State is made with. The zero value is a standalone server's that
// nobody observes.
type Config struct {
	Self         uint32   // this member: Observer hears of its transactions; 0: of none
	Observer     Observer // may be nil
	EnsembleText []byte   // what /zookeeper/config says; nil: standalone
}

// State is the state of one member. Make one with New. See the package comment for who
// must hold its lock when.
type State struct {
	mu  sync.RWMutex
	cfg Config
	obs Observer

	gen     atomic.Uint64 // of pages; counted up by whoever has made a copy
	content               // what is replicated
	marks   atomic.Pointer[[]Mark]
	acls    acls
	watches watches

	atOnce   int      // endAtOnce
	perEntry int      // entryRemovals
	removals int      // how many the running entry has left of perEntry
	format   uint32   // of the running entry
	changes  []change // of the running transaction: what watchers will hear
	overused []Quota  // by the running transaction
	result   Result   // of the running transaction
	ops      []jute.MultiOp
	results  []OpResult
	undo     []undo             // of the running multi
	undoable bool               // its operation may have to be taken back
	before   *tree              // at the beginning of the running multi, if quotas are enforced
	create   jute.CreateRequest // kept for the memory of its vector, as are ops and results
	path     []byte             // of a sequential node
}

// content is all that the log decides. Copying it copies everything, once the
// generation is counted up.
type content struct {
	tree
	sessions   sorted[sessionKey, *Session]
	sessionSum uint64                       // of the hashes of all sessions; see DigestVersion
	unswept    sorted[sessionKey, struct{}] // ended sessions that have left nodes; see sweep
	members    [maxMember + 1]member        // by id; 0 is nobody's
	index      uint64                       // of the last entry applied
	zxid       int64                        // of the last transaction that took one
	now        int64                        // the time of the log; see stamp
	term       Term
}

// maxMember is the greatest member id: it must fit a session id's top byte.
const maxMember = 255

// member is how far a member has come.
type member struct {
	boot    uint64 // current run of its process; 0: never announced
	cursor  uint64 // seq of its last transaction that was in turn
	format  uint32 // highest format it can apply
	highest uint64 // greatest session id with its top byte; 0: none
}

// Term is a leader's term, opened by its TermStart.
type Term struct {
	Term   uint64 // raft's, of the TermStart's entry
	Nonce  uint64
	Leader uint32
	Index  uint64 // of the TermStart
	Rules
}

// Rules are what the configuration of a term's leader says about all that is done in it:
// a member that is configured otherwise, or applies the log again after a restart with
// another configuration, gets the same state.
type Rules struct {
	SkipACL      bool // everybody may do everything
	TTLNodes     bool // nodes with a time to live can be created
	EnforceQuota bool // hard limits of quotas hold
	X509         bool // requests may name subjects of certificates in ACLs
}

// Result is what became of a transaction. It is good during the call that hands it over;
// Path and Multi may be kept.
type Result struct {
	Code    jute.Code // of the reply's header: OK for a multi that failed, see Multi
	Zxid    int64     // its own, or the last one if it took none
	Path    string    // of a create
	Stat    jute.Stat // of create, setData, setACL
	Multi   []OpResult
	Session Session // of createSession and attach; also the present record if Code is SessionMoved
	Later   bool    // of closeSession: nodes are left, and Observer.Swept tells when they are gone
}

// OpResult is the result of one operation of a multi.
type OpResult struct {
	Op   jute.Op   // type of the result: OpError if the multi failed
	Code jute.Code // OK, the error, or RuntimeInconsistency behind it
	Path string    // of a create
	Stat jute.Stat // of create2 and setData
}

// Waiter is who waits for a transaction of this member.
type Waiter interface {
	// Applied hears the result under the tree's write lock, after the transaction's events.
	// r is good during the call. It must not block.
	Applied(r *Result)
}

// Observer hears what apply changed, under the write lock, in log order. It must not
// block, change what it is given, or take the tree's lock.
type Observer interface {
	// TermStarted: a TermStart has been applied.
	TermStarted(t Term)
	// Announced: a member's current boot is now boot, and its cursor 0.
	Announced(member uint32, boot, replaced uint64)
	// Opened: a session has been created.
	Opened(s Session)
	// Attached: another connection owns a session; old is the owner before.
	Attached(s Session, old Owner)
	// Closed: a session is gone, and its ephemerals unless end.Later, after the events of that.
	Closed(s Session, end Ending)
	// Swept: some nodes that an ended session had left are gone, after the events of that;
	// last: now there are none.
	Swept(id jute.SessionID, last bool)
	// Applied: a transaction of this member was in turn and has run, an empty one too;
	// after the events it caused.
	Applied(txn *proto.Txn, r *Result)
	// Dropped: a transaction of this member was not in turn (seen before, behind a gap, of
	// an old boot), or an announcement of it changed nothing.
	Dropped(txn *proto.Txn)
	// Overused: a write that was not refused has left a quota overused; before Applied.
	Overused(q Quota)
	// EntryEnd: all of an entry has been applied, or ignored.
	EntryEnd(index uint64)
	// Restored: the whole state was replaced by a snapshot's.
	Restored()
}

// New returns the state of an ensemble whose log is empty.
func New(cfg Config) *State {
	s := &State{cfg: cfg, obs: cfg.Observer, atOnce: endAtOnce, perEntry: entryRemovals}
	if s.obs == nil {
		s.obs = nobody{}
	}
	s.gen.Store(1)
	s.tree = newTree(s.gen.Load(), &s.acls)
	s.placeConfig(s.gen.Load(), cfg.EnsembleText)
	return s
}

// Lock takes the tree's lock to apply.
func (s *State) Lock() { s.mu.Lock() }

// Unlock gives it back.
func (s *State) Unlock() { s.mu.Unlock() }

// RLock takes the tree's lock to read; apply stands still.
func (s *State) RLock() { s.mu.RLock() }

// RUnlock gives it back.
func (s *State) RUnlock() { s.mu.RUnlock() }

// The rest of this file needs the lock, at least to read.

// Index returns the index of the last entry applied.
func (s *State) Index() uint64 { return s.index }

// Zxid returns the zxid of the last transaction that took one.
func (s *State) Zxid() int64 { return s.zxid }

// Term returns the term of the last TermStart applied, zero if none was.
func (s *State) Term() Term { return s.term }

// Boot returns a member's current boot, 0 if it never announced one, and the seq of its
// last transaction that was in turn.
func (s *State) Boot(member uint32) (boot, cursor uint64) {
	if member > maxMember {
		return 0, 0
	}
	m := &s.members[member]
	return m.boot, m.cursor
}

// MinFormat returns the lowest format of those that members announced, 0 if none did.
func (c *content) MinFormat() uint32 {
	lowest := uint32(0)
	for i := range c.members {
		if m := &c.members[i]; m.boot != 0 && (lowest == 0 || m.format < lowest) {
			lowest = m.format
		}
	}
	return lowest
}

// HighestSession returns the greatest id ever opened that has member as its top byte,
// 0 if there was none.
func (s *State) HighestSession(member uint32) jute.SessionID {
	if member > maxMember {
		return 0
	}
	return jute.SessionID(s.members[member].highest)
}

// Session returns a session's record.
func (s *State) Session(id jute.SessionID) (Session, bool) {
	if r, ok := s.sessions.get(sessionKey(id)); ok {
		return *r, true
	}
	return Session{}, false
}

// Sessions yields all sessions, ordered by id.
func (s *State) Sessions() iter.Seq[Session] {
	return func(yield func(Session) bool) {
		for _, r := range s.sessions.all() {
			if !yield(*r) {
				return
			}
		}
	}
}

// SessionCount returns how many sessions there are.
func (s *State) SessionCount() int { return s.sessions.n }

// NodeCount returns how many nodes there are, the root and other built-in ones too.
func (s *State) NodeCount() int { return s.nodes }

// EphemeralCount returns how many of the nodes are ephemeral.
func (s *State) EphemeralCount() int { return s.ephemerals.n }

// DataSize returns the bytes of all paths and data.
func (s *State) DataSize() int64 { return s.dataSize }

// nobody is the Observer of a State that has none.
type nobody struct{}

func (nobody) TermStarted(Term)                 {}
func (nobody) Announced(uint32, uint64, uint64) {}
func (nobody) Opened(Session)                   {}
func (nobody) Attached(Session, Owner)          {}
func (nobody) Closed(Session, Ending)           {}
func (nobody) Swept(jute.SessionID, bool)       {}
func (nobody) Applied(*proto.Txn, *Result)      {}
func (nobody) Dropped(*proto.Txn)               {}
func (nobody) Overused(Quota)                   {}
func (nobody) EntryEnd(uint64)                  {}
func (nobody) Restored()                        {}
