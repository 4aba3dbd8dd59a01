// Package znode is the replicated state of an ensemble: the tree of znodes, the sessions with their
// ephemeral nodes, access control lists, and the progress of each member's writes. Every member
// applies the same log and gets the same state. The package also keeps the watches of this member's
// connections, which are not replicated.
//
// # Locks
//
// One lock guards everything: apply holds it to write, and readers share it. Except Restore and
// Diff, the methods of State do not take it. The caller holds it, so that it can read, set a watch
// and queue its reply as one step. Watches have a mutex of their own, taken inside the tree's lock,
// because readers set watches concurrently. The methods of Hooks and Watcher are called under the
// write lock; they must neither block nor take it.
//
// # Determinism
//
// Only the log decides. Nothing here reads a clock, draws random numbers, or ranges over a map
// where the order could show. Config.EnsembleText does affect the state until it has a list of servers, so
// it must be equal on all members until then. Every other setting that affects the state (Rules) is in the log.
//
// # Copies
//
// Nodes, sessions and indexes are copied on write. Snapshot takes O(1), and the copy can be written
// while the state goes on changing.
//
// # Digest
//
// The state keeps the sums of the hashes of all nodes and sessions. Code that changes a node
// subtracts its hash before (tree.edit does) and adds the new hash after. See DigestVersion.
//
// # Units
//
// Times are milliseconds since 1970 as leaders stamped them, index and term are raft's, and zxids
// have the term in their upper half.
package znode

import (
	"sync"
	"sync/atomic"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// FormatLevel is the highest Entry.format that this version can apply. Apply rejects an entry of a later
// one. A change of what an entry does to the state raises it. Entries of the formats before are then applied by the
// rules of their own format, so that an old log gives the same state.
const FormatLevel = 1

// Config is what a State is made with. The zero value is that of a standalone server without hooks.
type Config struct {
	Self         uint32 // this member's id, for Hooks.Applied and Dropped; 0: none
	Hooks        Hooks  // may be nil
	EnsembleText []byte // the data of /zookeeper/config until the state has a list of servers; nil: standalone
}

// State is the state of one member. Make one with New. The package comment says which methods need
// which lock.
type State struct {
	mu    sync.RWMutex
	cfg   Config
	hooks Hooks

	gen             atomic.Uint64 // generation of the sorted maps' pages; counted up after each copy
	replicatedState               // the replicated state
	stateHashes     stateHashLog
	acls            aclTable
	watches         Watches
	removals        removalHistory // the last ones

	runningTxn transaction
}

// replicatedState is all state that the log decides. A copy of it copies everything, provided the
// generation is counted up.
type replicatedState struct {
	tree
	sessions        sortedMap[sessionKey, *Session]
	sessionHashSum  uint64                          // sum of the hashes of all sessions; see DigestVersion
	unsweptSessions sortedMap[sessionKey, struct{}] // ended sessions with nodes left; see sweep
	sessionEnds     sessionEnds                     // the last ones; see endSession
	members         memberTable
	lastIndex       uint64 // the last entry applied
	zxid            int64  // the last transaction that took a zxid
	timeMs          int64  // the stamp of the last entry, which is the log's time. It goes back if a clock is set back
	term            Term
	serverList      ServerList
}

// Term is a leader's term, opened by its TermStart.
type Term struct {
	Term   uint64 // raft's term of the TermStart's entry
	Nonce  uint64
	Leader uint32
	Index  uint64 // raft's index of the TermStart
	Rules
}

// Rules are the settings of a term's leader that affect the state. They hold for the whole term, so
// all members get the same state. That includes a member that has other settings, and one that
// applies the log again after a restart with new settings.
type Rules struct {
	SkipACL      bool   // do not check ACLs
	TTLNodes     bool   // allow nodes with a time to live
	EnforceQuota bool   // enforce the hard limits of quotas
	X509         bool   // ACLs may name the subjects of certificates
	SASL         bool   // ACLs may name the users of SASL
	DataQuota    uint64 // bytes of all paths and data past which writes that add to them are refused; 0: no limit
	Reconfig     bool   // clients may change the list of servers
}

// Result is the result of a transaction. It is valid during the call that passes it; Path, Data and
// Multi may be kept, but not changed.
type Result struct {
	Code         jute.Code // for the reply's header: OK even for a failed multi, see Multi
	Zxid         int64     // the transaction's own, or the last one if it took none
	Path         string    // what a create created
	Stat         jute.Stat // after create, setData, setACL, reconfig
	Data         []byte    // after a change of the list of servers: the new text of /zookeeper/config
	RejectReason string    // why a reconfig was refused, in words, if Code does not say all
	Multi        []OpResult
	Session      Session // after createSession and attach; also the present record if Code is SessionMoved
	NodesLeft    bool    // after closeSession: nodes are left; Hooks.Swept is called when they are gone
}

// OpResult is the result of one operation of a multi.
type OpResult struct {
	Op   jute.Op   // type of the result: OpError if the multi failed
	Code jute.Code // OK, the error, or RuntimeInconsistency for operations after the failed one
	Path string    // what a create created
	Stat jute.Stat // after create2 and setData
}

// Waiter waits for the result of a transaction of this member.
type Waiter interface {
	// TxnApplied is called with the result under the tree's write lock, after the transaction's
	// events. r is valid during the call. Applied must not block.
	TxnApplied(r *Result)
}

// Hooks are how apply reports its changes, in log order, under the write lock. They must not block,
// change their arguments, or take the tree's lock.
type Hooks interface {
	// TermStarted is called after a TermStart.
	TermStarted(t Term)
	// MemberAnnounced is called when a member's current boot has become boot, and its cursor 0.
	MemberAnnounced(member uint32, boot, replaced uint64)
	// SessionOpened is called when a session has been created.
	SessionOpened(s Session)
	// SessionAttached is called when another connection has become a session's owner; old is the owner
	// before.
	SessionAttached(s Session, old SessionOwner)
	// SessionClosed is called when a session has ended. Its ephemeral nodes are gone too, unless they are
	// left to be swept. The events of their deletion come before the call.
	SessionClosed(s Session, end SessionEnd)
	// SessionSwept is called when some of the nodes that an ended session had left are gone, after the
	// events of that. If last is set, none is left.
	SessionSwept(id jute.SessionID, last bool)
	// NodesRemoved is called when nodes were removed that no client has deleted: their session has ended, or their
	// time is over. of says what the removals have in common. paths is valid during the call.
	NodesRemoved(of Removal, paths []string)
	// ServerListChanged is called when the list of servers is another one, and after Restored if there is a list. The
	// progress of members that are not in the list is gone.
	ServerListChanged(r ServerList)
	// TxnApplied is called when a transaction of this member was in turn and has run, after the events
	// that it caused. It is called for empty transactions too.
	TxnApplied(txn *proto.Txn, r *Result)
	// TxnDropped is called for a transaction of this member that was not in turn: it was seen before,
	// it follows a gap, or it is of an old boot. It is also called for this member's announcement
	// if that changed nothing.
	TxnDropped(txn *proto.Txn)
	// QuotaExceeded is called before Applied when a write that was not refused has left a quota
	// exceeded.
	QuotaExceeded(q ExceededQuota)
	// EntryFinished is called when all of an entry has been applied or ignored.
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
	s.runningTxn = transaction{
		state: &s.replicatedState, editor: treeEditor{tree: &s.tree, gen: &s.gen}, gen: &s.gen, acls: &s.acls, watches: &s.watches, removals: &s.removals, hooks: s.hooks,
		budget: removalBudget{entryLimit: maxEntryRemovals}, endLimit: maxEnds,
	}
	s.runningTxn.quotas.editor = &s.runningTxn.editor
	s.gen.Store(1)
	s.tree = newTree(s.gen.Load(), &s.acls)
	s.setConfigText(s.gen.Load(), cfg.EnsembleText)
	return s
}

// Lock takes the tree's lock for writing, as apply does.
func (s *State) Lock() { s.mu.Lock() }

// Unlock releases the write lock.
func (s *State) Unlock() { s.mu.Unlock() }

// RLock takes the tree's lock for reading. Apply waits meanwhile.
func (s *State) RLock() { s.mu.RLock() }

// RUnlock releases the read lock.
func (s *State) RUnlock() { s.mu.RUnlock() }

// The rest of this file needs at least the read lock.

// Index returns the index of the last entry applied.
func (s *State) Index() uint64 { return s.lastIndex }

// Zxid returns the zxid of the last transaction that took one.
func (s *State) Zxid() int64 { return s.zxid }

// TimeMs returns the log's time, in ms since 1970.
func (s *State) TimeMs() int64 { return s.timeMs }

// Term returns the term of the last TermStart applied, or zero if there was none.
func (s *State) Term() Term { return s.term }

// MemberBoot returns a member's current boot, 0 if it never announced one, and the seq of its last
// transaction that was in turn.
func (s *State) MemberBoot(member uint32) (boot, cursor uint64) {
	if member > maxMember {
		return 0, 0
	}
	m := &s.members[member]
	return m.boot, m.cursor
}

// MinFormat returns the lowest format that members have announced, or 0 if none has.
func (c *replicatedState) MinFormat() uint32 {
	lowest := uint32(0)
	for i := range c.members {
		if m := &c.members[i]; m.boot != 0 && (lowest == 0 || m.format < lowest) {
			lowest = m.format
		}
	}
	return lowest
}

// OlderThan returns a member that has announced a format below format, and false if there is none.
func (s *State) OlderThan(format uint32) (member uint32, ok bool) {
	for id := range s.members {
		if m := &s.members[id]; m.boot != 0 && m.format < format {
			return uint32(id), true
		}
	}
	return 0, false
}

// HighestSession returns the greatest id ever opened that has member as its top byte, or 0 if there
// was none.
func (s *State) HighestSession(member uint32) jute.SessionID {
	if member > maxMember {
		return 0
	}
	return jute.SessionID(s.members[member].highestSession)
}

// Session returns a session's record, and false if there is no such session.
func (s *State) Session(id jute.SessionID) (Session, bool) {
	return s.session(id)
}

func (c *replicatedState) session(id jute.SessionID) (Session, bool) {
	if r, ok := c.sessions.get(sessionKey(id)); ok {
		return *r, true
	}
	return Session{}, false
}

// SessionCount returns how many sessions there are.
func (s *State) SessionCount() int { return s.sessions.length }

// NodeCount returns how many nodes there are, including the root and the other built-in ones.
func (s *State) NodeCount() int { return s.nodeCount }

// EphemeralCount returns how many of the nodes are ephemeral.
func (s *State) EphemeralCount() int { return s.ephemerals.length }

// DataSize returns the total bytes of all paths and data.
func (s *State) DataSize() int64 { return s.dataSize }

// ACLBytes returns the length of the encoded access control list of a node, or 0 if there is no such node.
func (c TreeView) ACLBytes(path []byte) int {
	if n := c.tree.nodeAt(borrowString(path)); n != nil {
		return len(n.acl.text)
	}
	return 0
}

// noHooks is the Hooks of a State that was given none.
type noHooks struct{}

func (noHooks) TermStarted(Term)                       {}
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
