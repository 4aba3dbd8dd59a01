package znode

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// DigestVersion is the version of the digest: which fields it covers and how it is computed. Digests of
// different versions cannot be compared. Increment it with every change that alters the digest of any state,
// such as a new field of a node.
//
// # Version 2
//
// Each node, session and session end has a hash: the 64-bit xxHash of its fields, in the order of node.hash,
// Session.hash and SessionEnd.hash. Each field is eight bytes, little-endian. Text and data of any length are
// represented by their own xxHash; null data is 0.
//
// The tree keeps the sums of these hashes, modulo 2^64. A change subtracts the node's current hash and adds
// the new one. After damage to memory the sum still holds the hash of the undamaged node, so the damage shows
// with the node's next change.
//
// The digest is the xxHash of these sums, the numbers of nodes, sessions and ends, and all other replicated
// state (see Digest). Derived state, such as a node's children, is not part of it.
const DigestVersion = 2

const (
	// Two members can be compared while one lags by no more than keptStateHashes hashes.
	keptStateHashes = 16
	// The state is hashed every stateHashEvery entries and every stateHashEveryMs of the log's time. A quiet
	// ensemble gets its hashes with its first few writes, and a busy one is not slowed down.
	stateHashEvery   = 1024
	stateHashEveryMs = 1000
)

// StateHash is the state's digest after the entry at Index.
type StateHash struct {
	Index, Digest uint64
}

// StateHashes returns the last hashes, oldest first, and none from before a RestoreSnapshot. All members hash
// the state at the same indexes. It takes no lock. The caller must not change the result.
func (s *State) StateHashes() []StateHash { return s.stateHashes.snapshot() }

// stateHashLog holds the last hashes. One goroutine at a time may change it.
type stateHashLog struct{ kept atomic.Pointer[[]StateHash] }

func (m *stateHashLog) snapshot() []StateHash {
	if p := m.kept.Load(); p != nil {
		return *p
	}
	return nil
}

func (m *stateHashLog) append(hash StateHash) {
	old := m.snapshot()
	old = old[max(0, len(old)+1-keptStateHashes):]
	kept := append(make([]StateHash, 0, len(old)+1), old...)
	kept = append(kept, hash)
	m.kept.Store(&kept)
}

// appendIfDue appends the hash of state if one is due after its last entry; see stateHashDue.
func (m *stateHashLog) appendIfDue(state *replicatedState, started bool, before int64) {
	if state.stateHashDue(started, before) {
		m.append(StateHash{Index: state.lastIndex, Digest: state.digest()})
	}
}

func (m *stateHashLog) clear() { m.kept.Store(nil) }

// stateHashDue reports whether the state is hashed after this entry. Only the log decides that. before is the
// log's time before the entry.
func (c *replicatedState) stateHashDue(started bool, before int64) bool {
	return started || c.lastIndex%stateHashEvery == 0 || c.timeMs/stateHashEveryMs != before/stateHashEveryMs
}

// Digest returns the same number for equal states and, except by accident, different numbers for different
// ones. The caller holds at least the read lock.
func (s *State) Digest() uint64 { return s.replicated.digest() }

func (c *replicatedState) digest() uint64 {
	var room [512]byte // enough for more than ten members
	p := appendFields(room[:0],
		DigestVersion, c.lastIndex, uint64(c.zxid), uint64(c.timeMs), uint64(c.latestMs), c.term.Term,
		c.term.Nonce, uint64(c.term.Leader), c.term.Index, boolField(c.term.SkipACL), boolField(c.term.TTLNodes),
		boolField(c.term.EnforceQuota), boolField(c.term.X509), boolField(c.term.SASL), c.term.DataQuota,
		uint64(c.term.flags()),
	)
	if c.term.AnySASLUser != "" {
		p = appendFields(p, xxhash.Sum64String(c.term.AnySASLUser))
	}
	if c.term.ReadLeaseMs != 0 {
		p = appendFields(p, c.term.ReadLeaseMs)
	}
	p = c.serverList.appendTo(p)
	p = appendFields(p, uint64(c.tree.nodeCount), c.tree.nodeHashSum, uint64(c.sessions.length), c.sessionHashSum)
	for id := range c.members {
		if m := &c.members[id]; *m != (member{}) {
			p = appendFields(p, uint64(id))
			p = m.appendTo(p)
		}
	}
	for _, id := range c.unsweptIDs() {
		p = appendFields(p, uint64(id))
	}
	p = appendFields(p, uint64(c.sessionEnds.byNumber.length), c.sessionEnds.total, c.sessionEnds.hashSum)
	return xxhash.Sum64(p)
}

func (r *ServerList) appendTo(p []byte) []byte {
	p = append(p, r.EnsembleID[:]...)
	return appendFields(p, uint64(r.Version), xxhash.Sum64String(r.Servers.CanonicalText()))
}

func (m *member) appendTo(p []byte) []byte {
	return appendFields(p, m.incarnation, m.lastSeq, uint64(m.format), m.highestSession)
}

// hash covers every field except derived ones and those that differ between members.
func (n *node) hash() uint64 {
	data, version := n.replicatedData()
	return n.hashWithData(hashData(data), version)
}

func (n *node) hashWithData(data uint64, version int32) uint64 {
	life := n.lifetime()
	var room [128]byte
	p := appendFields(room[:0],
		xxhash.Sum64String(n.path), data, uint64(n.czxid), uint64(n.mzxid), uint64(n.lastChildZxid()),
		uint64(n.ctime), uint64(n.mtime), uint64(life.owner), uint64(life.ttlMs), boolField(life.isContainer),
		n.acl.hash, uint64(uint32(version)), uint64(uint32(n.aversion)), uint64(n.numCreated()),
	)
	return xxhash.Sum64(p)
}

func (s *Session) hash() uint64 {
	var room [128]byte
	p := appendFields(room[:0], uint64(s.ID), uint64(s.Timeout))
	p = append(p, s.Password[:]...)
	p = appendFields(p,
		uint64(s.Owner.Member), s.Owner.Conn, s.OwnerIndex, uint64(s.CreatedMs), xxhash.Sum64String(s.Address),
		xxhash.Sum64String(s.Identities.encodedText()),
	)
	return xxhash.Sum64(p)
}

func appendFields(p []byte, fields ...uint64) []byte {
	for _, field := range fields {
		p = binary.LittleEndian.AppendUint64(p, field)
	}
	return p
}

func boolField(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func hashData(p []byte) uint64 {
	if p == nil {
		return 0
	}
	return xxhash.Sum64(p)
}

// addHash adds n to the digest after a change.
func (t *tree) addHash(n *node) { t.nodeHashSum += t.hashWithinBudget(n) }

// subtractHash removes n from the digest before a change.
func (t *tree) subtractHash(n *node) { t.nodeHashSum -= t.hashWithinBudget(n) }

func (c *replicatedState) putSession(gen uint64, s *Session) {
	c.subtractSessionHash(sessionKey(s.ID))
	c.sessions.put(gen, sessionKey(s.ID), s)
	c.sessionHashSum += s.hash()
}

func (c *replicatedState) deleteSession(gen uint64, id sessionKey) {
	c.subtractSessionHash(id)
	c.sessions.delete(gen, id)
}

func (c *replicatedState) subtractSessionHash(id sessionKey) {
	if old, ok := c.sessions.get(id); ok {
		c.sessionHashSum -= old.hash()
	}
}

// recomputedSums holds the sums computed again from all nodes, sessions and ends.
type recomputedSums struct{ nodes, sessions, ends uint64 }

// checkAgainst returns ErrDamaged if the sums differ from those that c has updated with every change.
func (r recomputedSums) checkAgainst(c *replicatedState) error {
	if kept := (recomputedSums{c.tree.nodeHashSum, c.sessionHashSum, c.sessionEnds.hashSum}); r != kept {
		return fmt.Errorf("%w: nodes %016x, sessions %016x and ends %016x, where %016x, %016x and %016x were left",
			ErrDamaged, r.nodes, r.sessions, r.ends, kept.nodes, kept.sessions, kept.ends)
	}
	return nil
}
