// Package znode is the replicated state of an ensemble: the tree of znodes, the sessions with their ephemeral
// nodes, access control lists, and the progress of each member's writes. Every member applies the same log
// and gets the same state. The package also keeps the watches of this member's connections, which are not
// replicated, and the latest changes, from which a connection gets the events that its watches have missed (Replay).
//
// # Locks
//
// One lock guards everything: apply holds it to write, and readers share it. Except RestoreSnapshot and Diff,
// the methods of State do not take it. The caller holds it, so that it can read, set a watch and queue its
// reply as one step. Watches have their own mutex, taken inside the tree's lock, because readers set watches
// concurrently. The methods of Hooks and Watcher are called under the write lock. They must neither block nor
// take it.
//
// # Determinism
//
// Only the log decides. Nothing here reads a clock, draws random numbers, or ranges over a map where the
// order could show. Config.EnsembleText affects the state until it has a list of servers, so it must be equal
// on all members until then. Every other setting that affects the state (Rules) is in the log.
//
// # Copies
//
// Nodes, sessions and indexes are copied on write. Snapshot takes O(1), and the copy can be written while the
// state changes.
//
// # Digest
//
// The state keeps the sums of the hashes of all nodes and sessions. A change of a node subtracts its hash
// before (tree.beginEdit does) and adds the new hash after (addHash). See DigestVersion.
//
// # Units
//
// Times are milliseconds since 1970 as leaders stamped them, index and term are raft's, and zxids have the
// term in their upper half.
package znode

import (
	"sync"
	"sync/atomic"

	"rollcall/internal/lockwatch"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// FormatLevel is the highest Entry.format that this version can apply. ApplyEntry rejects higher ones. A
// change of what an entry does to the state raises it, from 0.1.0 on. Entries of earlier formats are then applied by the
// rules of their own format, so that an old log gives the same state.
const FormatLevel = 1

// Config is the configuration of a State. The zero value is that of a standalone server without hooks.
type Config struct {
	Self         uint32         // this member's id, for Hooks.TxnApplied and TxnDropped; 0 if none
	Hooks        Hooks          // may be nil
	EnsembleText []byte         // the data of /zookeeper/config until the state has a list of servers; nil if standalone
	Observer     ChangeObserver // may be nil; then changes cost nothing more
	// ChangeHistory limits the memory of the latest changes that are kept for Replay, in bytes; 0: none are kept.
	// Otherwise it is at least MinChangeHistory.
	ChangeHistory int64
}

// State is the state of one member. Make one with New. See the package comment for the locks.
type State struct {
	mu    sync.RWMutex
	cfg   Config
	hooks Hooks

	gen         atomic.Uint64 // incremented after each copy; see sortedMap
	replicated  replicatedState
	stateHashes stateHashLog
	acls        aclTable
	watches     Watches
	removals    removalHistory

	runningTxn transaction
}

// replicatedState is all replicated state. A plain copy is a deep one, provided that the generation is incremented.
type replicatedState struct {
	tree            tree
	sessions        sortedMap[sessionKey, *Session]
	sessionHashSum  uint64                          // of the hashes of all sessions; see DigestVersion
	unsweptSessions sortedMap[sessionKey, struct{}] // ended sessions with nodes left; see sweepNodes
	sessionEnds     sessionEnds                     // see endSession
	members         memberTable
	lastIndex       uint64 // of the last entry applied
	zxid            int64  // of the last transaction that took one
	timeMs          int64  // the stamp of the last entry; it decreases if a clock is set back
	latestMs        int64  // the greatest stamp of all entries so far, of ignored ones too; it never decreases
	term            Term
	serverList      ServerList
}

// Term is a leader's term, opened by its TermStart.
type Term struct {
	Term   uint64 // raft's term of the TermStart
	Nonce  uint64
	Leader uint32
	Index  uint64 // raft's index of the TermStart
	Rules
}

// Rules are the settings of a term's leader that affect the state. They hold for the whole term, also on
// members with other settings, and on a member that applies the log again with new settings.
type Rules struct {
	SkipACL      bool
	TTLNodes     bool   // allow nodes with a time to live
	EnforceQuota bool   // enforce the hard limits of quotas
	X509         bool   // ACLs may name the subjects of certificates
	SASL         bool   // ACLs may name the users of SASL
	DataQuota    uint64 // limit for the bytes of all paths and data; 0 if there is none
	Reconfig     bool   // clients may change the list of servers
	LongNames    bool   // the numbers of sequential names may pass MaxCreated; see nextNumber
	AnySASLUser  string // ACL entries of this user of SASL count for all users of SASL, if SASL is set; "": of no user
	ReadLeaseMs  uint64 // the longest lease for reads that the leader grants; 0: it grants none
}

// The bits of Rules.flags.
const (
	flagReconfig    = 1
	flagLongNames   = 2
	flagAnySASLUser = 4 // AnySASLUser is set
	flagReadLease   = 8 // ReadLeaseMs is set
)

// These are bits of a snapshot in the byte of Rules.flags.
const (
	flagHistory     = 1 << 7 // it has a history of changes
	flagACLsChanged = 1 << 6 // its history has the zxid of the last change of an ACL; earlier builds wrote none
)

// flags returns the rules that share a byte of snapshots and a field of the digest.
func (r *Rules) flags() byte {
	var flags byte
	if r.Reconfig {
		flags |= flagReconfig
	}
	if r.LongNames {
		flags |= flagLongNames
	}
	if r.AnySASLUser != "" {
		flags |= flagAnySASLUser
	}
	if r.ReadLeaseMs != 0 {
		flags |= flagReadLease
	}
	return flags
}

// setFlags is the reverse of flags, except for flagAnySASLUser and flagReadLease. It reports whether all flags are known.
func (r *Rules) setFlags(flags byte) bool {
	r.Reconfig, r.LongNames = flags&flagReconfig != 0, flags&flagLongNames != 0
	return flags&^(flagReconfig|flagLongNames|flagAnySASLUser|flagReadLease) == 0
}

// Result is the result of a transaction. It is valid during the call that passes it. Path, Data and Multi may
// be kept, but not changed.
type Result struct {
	Code         jute.Code // for the reply's header: OK even for a failed multi, see Multi
	Zxid         int64     // the transaction's own, or the last one if it took none
	Path         string    // the created node's
	Stat         jute.Stat // after create, setData, setACL, reconfig
	ConfigText   []byte    // the new text of /zookeeper/config, after a change of the list of servers
	RejectReason string    // of a reconfig, if Code is not enough
	Multi        []OpResult
	Session      Session // after createSession and attach, or if Code is SessionMoved
	NodesLeft    bool    // after closeSession: Hooks.SessionSwept is called when the nodes are gone
}

// OpResult is the result of one operation of a multi.
type OpResult struct {
	Op   jute.Op   // type of the result: OpError if the multi failed
	Code jute.Code // OK, the error, or RuntimeInconsistency for operations after the failed one
	Path string    // the created node's
	Stat jute.Stat // after create2 and setData
}

// Waiter waits for the result of a transaction or of a sync of this member.
type Waiter interface {
	// ReceiveResult is called when the transaction has been applied, under the tree's write lock, after its events.
	// For a sync it is called under the read lock, with a zero Result, when all that was committed before has been
	// applied. r is valid during the call, which must not block.
	ReceiveResult(r *Result)
}

// Hooks report the changes of ApplyEntry, in log order, under the write lock. They must not block, change
// their arguments, or take the tree's lock.
type Hooks interface {
	// TermStarted is called after a TermStart. why is the cause that its leader gives.
	TermStarted(t Term, why LeaderCause)
	// MemberAnnounced is called when boot becomes a member's current run, with its cursor at 0.
	MemberAnnounced(member uint32, boot, replaced uint64)
	// SessionOpened is called when a session has been created.
	SessionOpened(s Session)
	// SessionAttached is called when another connection has replaced old as a session's owner.
	SessionAttached(s Session, old SessionOwner)
	// SessionClosed is called when a session has ended, after the events of its ephemeral nodes' deletion.
	// These nodes are gone, unless they are left to be swept.
	SessionClosed(s Session, end SessionEnd)
	// SessionSwept is called when some of the nodes that an ended session left are gone, after their events.
	// If last is set, none is left.
	SessionSwept(id jute.SessionID, last bool)
	// NodesRemoved is called when nodes were removed without a client's delete. of has the fields that the
	// removals share. paths is valid during the call.
	NodesRemoved(of Removal, paths []string)
	// ServerListChanged is called when the list of servers was replaced, and after SnapshotRestored if there
	// is a list. The progress of members outside the list is gone.
	ServerListChanged(r ServerList)
	// TxnApplied is called when a transaction of this member has run, after its events. It is called for
	// empty transactions too.
	TxnApplied(txn *proto.Txn, r *Result)
	// TxnDropped is called for a transaction of this member that was not next: it is a duplicate, follows a
	// gap, or is of an old boot. It is also called for this member's announcement if that changed nothing.
	TxnDropped(txn *proto.Txn)
	// QuotaExceeded is called before TxnApplied when an accepted write has left a quota exceeded.
	QuotaExceeded(q ExceededQuota)
	// EntryFinished is called when an entry has been applied or ignored.
	EntryFinished(index uint64)
	// SnapshotRestored is called when a snapshot has replaced the whole state.
	SnapshotRestored()
}

// New returns the state of an ensemble whose log is empty.
func New(cfg Config) *State {
	s := &State{cfg: cfg, hooks: cfg.Hooks}
	if s.hooks == nil {
		s.hooks = noHooks{}
	}
	state, tree := &s.replicated, &s.replicated.tree
	s.runningTxn = transaction{
		state: state, editor: treeEditor{tree: tree, gen: &s.gen}, gen: &s.gen,
		acls: &s.acls, watches: &s.watches, removals: &s.removals, hooks: s.hooks,
		changes: changeLog{observer: cfg.Observer},
		budget:  removalBudget{entryLimit: maxEntryRemovals}, sessionEndLimit: maxSessionEnds,
	}
	s.runningTxn.quotas.editor = &s.runningTxn.editor
	s.gen.Store(1)
	s.watches.history.limit = cfg.ChangeHistory
	*tree = newTree(s.gen.Load(), &s.acls)
	tree.setConfigTextIfUnset(s.gen.Load(), cfg.EnsembleText)
	return s
}

// Lock takes the tree's lock for writing, as ApplyEntry requires.
func (s *State) Lock() { s.mu.Lock() }

// Unlock releases the write lock.
func (s *State) Unlock() { s.mu.Unlock() }

// RLock takes the tree's lock for reading.
func (s *State) RLock() { s.mu.RLock() }

// RUnlock releases the read lock.
func (s *State) RUnlock() { s.mu.RUnlock() }

// The rest of this file needs at least the read lock, except on a TreeView of a copy.

// Index returns the index of the last entry applied.
func (s *State) Index() uint64 { return s.replicated.lastIndex }

// Zxid returns the zxid of the last transaction that took one.
func (s *State) Zxid() int64 { return s.replicated.zxid }

// TimeMs returns the log's time, since 1970.
func (s *State) TimeMs() int64 { return s.replicated.timeMs }

// Term returns the term of the last TermStart applied, or zero if there was none.
func (s *State) Term() Term { return s.replicated.term }

// MemberIncarnation returns a member's current boot, 0 if it never announced one, and the seq of its last accepted
// transaction.
func (s *State) MemberIncarnation(member uint32) (boot, cursor uint64) {
	if member > maxMember {
		return 0, 0
	}
	m := &s.replicated.members[member]
	return m.incarnation, m.lastSeq
}

// MinFormat returns the lowest format that members have announced, or 0 if none has.
func (s *State) MinFormat() uint32 {
	lowest := uint32(0)
	for i := range s.replicated.members {
		if m := &s.replicated.members[i]; m.incarnation != 0 && (lowest == 0 || m.format < lowest) {
			lowest = m.format
		}
	}
	return lowest
}

// HighestSession returns the greatest id ever opened with member as its top byte, or 0.
func (s *State) HighestSession(member uint32) jute.SessionID {
	if member > maxMember {
		return 0
	}
	return jute.SessionID(s.replicated.members[member].highestSession)
}

// Session returns a session's record, or false if there is no such session.
func (s *State) Session(id jute.SessionID) (Session, bool) { return s.replicated.session(id) }

func (c *replicatedState) session(id jute.SessionID) (Session, bool) {
	if r, ok := c.sessions.get(sessionKey(id)); ok {
		return *r, true
	}
	return Session{}, false
}

// SessionCount returns the number of sessions.
func (s *State) SessionCount() int { return s.replicated.sessions.length }

// NodeCount returns the number of nodes, including the built-in ones.
func (c TreeView) NodeCount() int { return c.tree.nodeCount }

// EphemeralCount returns the number of ephemeral nodes.
func (c TreeView) EphemeralCount() int { return c.tree.ephemerals.length }

// DataSize returns the total bytes of all paths and data.
func (c TreeView) DataSize() int64 { return c.tree.dataSize }

// ACLBytes returns the length of a node's encoded access control list, or 0 if there is no such node.
func (c TreeView) ACLBytes(path []byte) int {
	if n := c.tree.nodeAt(borrowString(path)); n != nil {
		return len(n.acl.text)
	}
	return 0
}

type noHooks struct{}

func (noHooks) TermStarted(Term, LeaderCause)          {}
func (noHooks) MemberAnnounced(uint32, uint64, uint64) {}
func (noHooks) SessionOpened(Session)                  {}
func (noHooks) SessionAttached(Session, SessionOwner)  {}
func (noHooks) SessionClosed(Session, SessionEnd)      {}
func (noHooks) SessionSwept(jute.SessionID, bool)      {}
func (noHooks) NodesRemoved(Removal, []string)         {}
func (noHooks) ServerListChanged(ServerList)           {}
func (noHooks) TxnApplied(*proto.Txn, *Result)         {}
func (noHooks) TxnDropped(*proto.Txn)                  {}
func (noHooks) QuotaExceeded(ExceededQuota)            {}
func (noHooks) EntryFinished(uint64)                   {}
func (noHooks) SnapshotRestored()                      {}

// Locks returns the tree's lock, for readers, and that of the watches.
func (s *State) Locks() []lockwatch.Lock {
	return []lockwatch.Lock{
		{Name: "znode.State.mu", Locker: lockwatch.Reading(&s.mu)}, {Name: "znode.Watches.mu", Locker: &s.watches.mu},
	}
}
