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
	// marksKept is how many marks a member remembers. Two members can be compared while one lags
	// the other by no more than that many marks.
	marksKept = 16
	// A mark is made at least every markEvery entries, and every markEveryMs of the log's time. A
	// quiet ensemble gets its marks with its first few writes, and a busy one does not make them
	// all the time.
	markEvery   = 1024
	markEveryMs = 1000
)

// Mark is the digest of the state right after the entry at Index was applied.
type Mark struct {
	Index, Digest uint64
}

// Digest returns a number that is the same for equal states and, except by accident, differs for
// different ones. The caller holds at least the read lock.
func (s *State) Digest() uint64 { return s.digest() }

// Marks returns the last marks, oldest first. It returns none from before a Restore. All members
// mark the same indexes. It takes no lock. The caller must not change the result.
func (s *State) Marks() []Mark { return s.marks.all() }

// marks holds the last marks. One goroutine at a time may add to it and clear it. The zero value is empty.
type marks struct{ last atomic.Pointer[[]Mark] }

func (m *marks) all() []Mark {
	if p := m.last.Load(); p != nil {
		return *p
	}
	return nil
}

func (m *marks) add(mark Mark) {
	old := m.all()
	old = old[max(0, len(old)+1-marksKept):]
	kept := append(make([]Mark, 0, len(old)+1), old...)
	kept = append(kept, mark)
	m.last.Store(&kept)
}

func (m *marks) clear() { m.last.Store(nil) }

// markDue reports whether a mark is due after the entry just applied. Only the log decides that;
// before is the log's time before the entry.
func (c *content) markDue(started bool, before int64) bool {
	return started || c.index%markEvery == 0 || c.now/markEveryMs != before/markEveryMs
}

func (c *content) digest() uint64 {
	var room [512]byte // enough for more than ten members
	p := room[:0]
	p = add(p, DigestVersion)
	p = add(p, c.index)
	p = add(p, uint64(c.zxid))
	p = add(p, uint64(c.now))
	p = add(p, c.term.Term)
	p = add(p, c.term.Nonce)
	p = add(p, uint64(c.term.Leader))
	p = add(p, c.term.Index)
	p = addBool(p, c.term.SkipACL)
	p = addBool(p, c.term.TTLNodes)
	p = addBool(p, c.term.EnforceQuota)
	p = addBool(p, c.term.X509)
	p = addBool(p, c.term.SASL)
	p = add(p, c.term.DataQuota)
	p = addBool(p, c.term.Reconfig)
	p = c.roster.append(p)
	p = add(p, uint64(c.nodes))
	p = add(p, c.nodeSum)
	p = add(p, uint64(c.sessions.n))
	p = add(p, c.sessionSum)
	for id := range c.members {
		if m := &c.members[id]; *m != (member{}) {
			p = add(p, uint64(id))
			p = m.append(p)
		}
	}
	for _, id := range c.unsweptIDs() {
		p = add(p, uint64(id))
	}
	p = add(p, uint64(c.ends.kept.n))
	p = add(p, c.ends.count)
	p = add(p, c.ends.sum)
	return xxhash.Sum64(p)
}

func (r *Roster) append(p []byte) []byte {
	p = append(p, r.Ensemble[:]...)
	p = add(p, uint64(r.Version))
	return add(p, xxhash.Sum64String(r.Servers.Text()))
}

func (m *member) append(p []byte) []byte {
	p = add(p, m.boot)
	p = add(p, m.cursor)
	p = add(p, uint64(m.format))
	return add(p, m.highest)
}

// hash covers every field of n except what is derived or differs between members.
func (n *node) hash() uint64 {
	data, version := n.replicated()
	return n.hashWith(hashData(data), version)
}

// hashWith does what hash does, for a caller that has the hash of the data.
func (n *node) hashWith(data uint64, version int32) uint64 {
	life := n.life()
	var room [128]byte
	p := room[:0]
	p = add(p, xxhash.Sum64String(n.path))
	p = add(p, data)
	p = add(p, uint64(n.czxid))
	p = add(p, uint64(n.mzxid))
	p = add(p, uint64(n.lastChild()))
	p = add(p, uint64(n.ctime))
	p = add(p, uint64(n.mtime))
	p = add(p, uint64(life.owner))
	p = add(p, uint64(life.ttl))
	p = addBool(p, life.container)
	p = add(p, n.acl.hash)
	p = add(p, uint64(uint32(version)))
	p = add(p, uint64(uint32(n.aversion)))
	p = add(p, uint64(uint32(n.numCreates())))
	return xxhash.Sum64(p)
}

// hash covers every field of s.
func (s *Session) hash() uint64 {
	var room [128]byte
	p := room[:0]
	p = add(p, uint64(s.ID))
	p = add(p, uint64(s.Timeout))
	p = append(p, s.Password[:]...)
	p = add(p, uint64(s.Owner.Member))
	p = add(p, s.Owner.Conn)
	p = add(p, s.Since)
	p = add(p, uint64(s.CreatedMs))
	p = add(p, xxhash.Sum64String(s.Address))
	p = add(p, xxhash.Sum64String(s.Who.encoded()))
	return xxhash.Sum64(p)
}

func add(p []byte, field uint64) []byte { return binary.LittleEndian.AppendUint64(p, field) }

func addBool(p []byte, field bool) []byte {
	if field {
		return add(p, 1)
	}
	return add(p, 0)
}

func hashData(p []byte) uint64 {
	if p == nil {
		return 0
	}
	return xxhash.Sum64(p)
}

// count adds n, which has been changed, to the digest.
func (t *tree) count(n *node) { t.nodeSum += t.hash(n) }

// uncount subtracts n, which is about to be changed, from the digest.
func (t *tree) uncount(n *node) { t.nodeSum -= t.hash(n) }

// putSession sets a session's record.
func (c *content) putSession(gen uint64, s *Session) {
	c.uncountSession(sessionKey(s.ID))
	c.sessions.put(gen, sessionKey(s.ID), s)
	c.sessionSum += s.hash()
}

// dropSession removes a session's record.
func (c *content) dropSession(gen uint64, id sessionKey) {
	c.uncountSession(id)
	c.sessions.drop(gen, id)
}

func (c *content) uncountSession(id sessionKey) {
	if old, ok := c.sessions.get(id); ok {
		c.sessionSum -= old.hash()
	}
}

// recounted holds the sums, computed again from all nodes, sessions and ends.
type recounted struct{ nodes, sessions, ends uint64 }

// check compares the recomputed sums with those kept up with every change. It returns ErrDamaged if
// they differ.
func (r recounted) check(c *content) error {
	if kept := (recounted{c.nodeSum, c.sessionSum, c.ends.sum}); r != kept {
		return fmt.Errorf("%w: nodes %016x, sessions %016x and ends %016x, where %016x, %016x and %016x were left",
			ErrDamaged, r.nodes, r.sessions, r.ends, kept.nodes, kept.sessions, kept.ends)
	}
	return nil
}
