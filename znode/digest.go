package znode

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// DigestVersion is the version of the digest: which fields it covers and how it is computed.
// Digests of different versions cannot be compared. Count it up with every change that alters the
// digest of any state, such as a new field of a node.
//
// # Version 1
//
// Each node, session and end of a session has a hash: the 64-bit xxHash of its fields in the order of node.hash,
// Session.hash and End.hash. Each field is eight bytes, little-endian. Text and data, which have any length,
// are represented by their own xxHash; null data is 0.
//
// The tree keeps the sums of these hashes, modulo 2^64. A change subtracts the hash of a node as it
// is at that moment, and adds the hash of the new one. If memory was damaged, the sum still holds
// the hash of the undamaged node, so the damage shows from the node's next change on.
//
// The digest is the xxHash of these sums, the numbers of nodes, sessions and ends, and all other
// replicated state (content.digest). Derived state, such as the set of a node's children, is not
// part of it.
const DigestVersion = 1

const (
	// keptStateHashes is how many marks a member remembers. Two members can be compared while one lags
	// the other by no more than that many marks.
	keptStateHashes = 16
	// A mark is made at least every markEvery entries, and every markEveryMs of the log's time. A
	// quiet ensemble gets its marks with its first few writes, and a busy one does not make them
	// all the time.
	stateHashEvery   = 1024
	stateHashEveryMs = 1000
)

// StateHash is the digest of the state right after the entry at Index was applied.
type StateHash struct {
	Index, Digest uint64
}

// Digest returns a number that is the same for equal states and, except by accident, differs for
// different ones. The caller holds at least the read lock.
func (s *State) Digest() uint64 { return s.digest() }

// StateHashes returns the last marks, oldest first. It returns none from before a Restore. All members
// mark the same indexes. It takes no lock. The caller must not change the result.
func (s *State) StateHashes() []StateHash { return s.stateHashes.snapshot() }

// stateHashLog holds the last marks. One goroutine at a time may add to it and clear it. The zero value is empty.
type stateHashLog struct{ kept atomic.Pointer[[]StateHash] }

func (m *stateHashLog) snapshot() []StateHash {
	if p := m.kept.Load(); p != nil {
		return *p
	}
	return nil
}

func (m *stateHashLog) append(mark StateHash) {
	old := m.snapshot()
	old = old[max(0, len(old)+1-keptStateHashes):]
	kept := append(make([]StateHash, 0, len(old)+1), old...)
	kept = append(kept, mark)
	m.kept.Store(&kept)
}

func (m *stateHashLog) clear() { m.kept.Store(nil) }

// stateHashDue reports whether a mark is due after the entry just applied. Only the log decides that;
// before is the log's time before the entry.
func (c *replicatedState) stateHashDue(started bool, before int64) bool {
	return started || c.lastIndex%stateHashEvery == 0 || c.timeMs/stateHashEveryMs != before/stateHashEveryMs
}

func (c *replicatedState) digest() uint64 {
	var room [512]byte // enough for more than ten members
	p := room[:0]
	p = appendField(p, DigestVersion)
	p = appendField(p, c.lastIndex)
	p = appendField(p, uint64(c.zxid))
	p = appendField(p, uint64(c.timeMs))
	p = appendField(p, c.term.Term)
	p = appendField(p, c.term.Nonce)
	p = appendField(p, uint64(c.term.Leader))
	p = appendField(p, c.term.Index)
	p = appendBoolField(p, c.term.SkipACL)
	p = appendBoolField(p, c.term.TTLNodes)
	p = appendBoolField(p, c.term.EnforceQuota)
	p = appendBoolField(p, c.term.X509)
	p = appendBoolField(p, c.term.SASL)
	p = appendField(p, c.term.DataQuota)
	p = appendBoolField(p, c.term.Reconfig)
	p = c.serverList.appendTo(p)
	p = appendField(p, uint64(c.nodeCount))
	p = appendField(p, c.nodeHashSum)
	p = appendField(p, uint64(c.sessions.length))
	p = appendField(p, c.sessionHashSum)
	for id := range c.members {
		if m := &c.members[id]; *m != (member{}) {
			p = appendField(p, uint64(id))
			p = m.appendTo(p)
		}
	}
	for _, id := range c.unsweptIDs() {
		p = appendField(p, uint64(id))
	}
	p = appendField(p, uint64(c.sessionEnds.byNumber.length))
	p = appendField(p, c.sessionEnds.total)
	p = appendField(p, c.sessionEnds.hashSum)
	return xxhash.Sum64(p)
}

func (r *ServerList) appendTo(p []byte) []byte {
	p = append(p, r.EnsembleID[:]...)
	p = appendField(p, uint64(r.Version))
	return appendField(p, xxhash.Sum64String(r.Servers.CanonicalText()))
}

func (m *member) appendTo(p []byte) []byte {
	p = appendField(p, m.boot)
	p = appendField(p, m.cursor)
	p = appendField(p, uint64(m.format))
	return appendField(p, m.highestSession)
}

// hash covers every field of n except what is derived or differs between members.
func (n *node) hash() uint64 {
	data, version := n.replicatedData()
	return n.hashWithData(hashData(data), version)
}

// hashWithData does what hash does, for a caller that has the hash of the data.
func (n *node) hashWithData(data uint64, version int32) uint64 {
	life := n.lifetime()
	var room [128]byte
	p := room[:0]
	p = appendField(p, xxhash.Sum64String(n.path))
	p = appendField(p, data)
	p = appendField(p, uint64(n.czxid))
	p = appendField(p, uint64(n.mzxid))
	p = appendField(p, uint64(n.lastChildZxid()))
	p = appendField(p, uint64(n.ctime))
	p = appendField(p, uint64(n.mtime))
	p = appendField(p, uint64(life.owner))
	p = appendField(p, uint64(life.ttlMs))
	p = appendBoolField(p, life.isContainer)
	p = appendField(p, n.acl.hash)
	p = appendField(p, uint64(uint32(version)))
	p = appendField(p, uint64(uint32(n.aversion)))
	p = appendField(p, uint64(uint32(n.numCreated())))
	return xxhash.Sum64(p)
}

// hash covers every field of s.
func (s *Session) hash() uint64 {
	var room [128]byte
	p := room[:0]
	p = appendField(p, uint64(s.ID))
	p = appendField(p, uint64(s.Timeout))
	p = append(p, s.Password[:]...)
	p = appendField(p, uint64(s.Owner.Member))
	p = appendField(p, s.Owner.Conn)
	p = appendField(p, s.OwnerIndex)
	p = appendField(p, uint64(s.CreatedMs))
	p = appendField(p, xxhash.Sum64String(s.Address))
	p = appendField(p, xxhash.Sum64String(s.Identities.encodedText()))
	return xxhash.Sum64(p)
}

func appendField(p []byte, field uint64) []byte { return binary.LittleEndian.AppendUint64(p, field) }

func appendBoolField(p []byte, field bool) []byte {
	if field {
		return appendField(p, 1)
	}
	return appendField(p, 0)
}

func hashData(p []byte) uint64 {
	if p == nil {
		return 0
	}
	return xxhash.Sum64(p)
}

// addHash adds n, which has been changed, to the digest.
func (t *tree) addHash(n *node) { t.nodeHashSum += t.hashNode(n) }

// subtractHash subtracts n, which is about to be changed, from the digest.
func (t *tree) subtractHash(n *node) { t.nodeHashSum -= t.hashNode(n) }

// putSession sets a session's record.
func (c *replicatedState) putSession(gen uint64, s *Session) {
	c.subtractSessionHash(sessionKey(s.ID))
	c.sessions.put(gen, sessionKey(s.ID), s)
	c.sessionHashSum += s.hash()
}

// deleteSession removes a session's record.
func (c *replicatedState) deleteSession(gen uint64, id sessionKey) {
	c.subtractSessionHash(id)
	c.sessions.delete(gen, id)
}

func (c *replicatedState) subtractSessionHash(id sessionKey) {
	if old, ok := c.sessions.get(id); ok {
		c.sessionHashSum -= old.hash()
	}
}

// recomputedSums holds the sums, computed again from all nodes, sessions and ends.
type recomputedSums struct{ nodes, sessions, ends uint64 }

// compareWith compares the recomputed sums with those kept up with every change. It returns ErrDamaged if
// they differ.
func (r recomputedSums) compareWith(c *replicatedState) error {
	if kept := (recomputedSums{c.nodeHashSum, c.sessionHashSum, c.sessionEnds.hashSum}); r != kept {
		return fmt.Errorf("%w: nodes %016x, sessions %016x and ends %016x, where %016x, %016x and %016x were left",
			ErrDamaged, r.nodes, r.sessions, r.ends, kept.nodes, kept.sessions, kept.ends)
	}
	return nil
}
