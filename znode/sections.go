package znode

import (
	"fmt"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"

	"rollcall/zk/jute"
)

// section is one of the lists in a snapshot, in their order. Each has its count in front.
type section uint8

const (
	sectionSessions section = iota
	sectionUnswept
	sectionEnds
	sectionNodes
	sectionChanges
)

// String describes the items of the section.
func (p section) String() string {
	return [...]string{"sessions", "ended sessions with nodes left", "ends of sessions", "nodes", "changes"}[p]
}

// sectionWriter writes a snapshot: the head, the sections and the digest. It checks nothing. The caller adds
// the items of each section, as many as the head says, sorted by id or number. Of nodes, parents come first,
// and siblings are sorted. The section of changes is there only if the head says so.
type sectionWriter struct {
	*blockWriter
	head        *ImageHead
	current     section
	listNumbers map[*acl]uint32 // of the written access control lists
}

// newSectionWriter writes the head.
func newSectionWriter(w io.Writer, h *ImageHead) *sectionWriter {
	p := &sectionWriter{blockWriter: newBlockWriter(w), head: h, listNumbers: map[*acl]uint32{}}
	p.writeHeadFields()
	p.writeMembers()
	p.writeServerList()
	p.putUint64(h.SessionCount)
	return p
}

// writeSnapshotEnd writes the digest and the end of the stream.
func (p *sectionWriter) writeSnapshotEnd(digest uint64) error {
	p.advanceTo(sectionNodes)
	p.putUint64(digest)
	return p.writeStreamEnd()
}

// advanceTo ends the sections before to, and begins that one.
func (p *sectionWriter) advanceTo(to section) {
	for p.current < to {
		p.current++
		switch p.current {
		case sectionUnswept:
			p.putUint64(p.head.UnsweptCount)
		case sectionEnds:
			p.putUint64(p.head.EndsTotal)
			p.putUint64(p.head.EndCount)
		case sectionNodes:
			p.putUint64(p.head.NodeCount)
		}
	}
}

func (p *sectionWriter) writeHeadFields() {
	h := p.head
	p.putUint64(h.Index)
	p.putUint64(uint64(h.Zxid))
	p.putUint64(uint64(h.TimeMs))
	p.putUint64(uint64(h.LatestMs))
	p.putUint64(h.Term.Term)
	p.putUint64(h.Term.Nonce)
	p.putUint32(h.Term.Leader)
	p.putUint64(h.Term.Index)
	for _, rule := range []bool{h.Term.SkipACL, h.Term.TTLNodes, h.Term.EnforceQuota, h.Term.X509} {
		p.putBool(rule)
	}
	p.putBool(h.Term.SASL)
	p.putUint64(h.Term.DataQuota)
	flags := h.Term.flags()
	if h.hasHistory {
		flags |= flagHistory
	}
	if h.hasACLsChanged {
		flags |= flagACLsChanged
	}
	p.putBytes([]byte{flags})
	if h.Term.AnySASLUser != "" {
		p.putText(h.Term.AnySASLUser)
	}
	if h.Term.ReadLeaseMs != 0 {
		p.putUint64(h.Term.ReadLeaseMs)
	}
}

// writeMembers writes the members that have announced themselves or opened sessions.
func (p *sectionWriter) writeMembers() {
	p.putUint32(uint32(len(p.head.Members)))
	for _, m := range p.head.Members {
		p.putUint32(m.ID)
		p.putUint64(m.Incarnation)
		p.putUint64(m.LastSeq)
		p.putUint32(m.Format)
		p.putUint64(uint64(m.HighestSession))
	}
}

// writeServerList writes version 0 if there is no list.
func (p *sectionWriter) writeServerList() {
	r := &p.head.ServerList
	p.putUint64(uint64(r.Version))
	if r.Version != 0 {
		p.putBytes(r.EnsembleID[:])
		p.putText(r.Servers.CanonicalText())
	}
}

func (p *sectionWriter) writeSession(s *Session) {
	p.putUint64(uint64(s.ID))
	p.putUint32(uint32(s.Timeout / time.Millisecond))
	p.putBytes(s.Password[:])
	p.putUint32(s.Owner.Member)
	p.putUint64(s.Owner.Conn)
	p.putUint64(s.OwnerIndex)
	p.putUint64(uint64(s.CreatedMs))
	p.putText(s.Address)
	p.putText(s.Identities.encodedText())
}

func (p *sectionWriter) writeUnswept(id jute.SessionID) {
	p.advanceTo(sectionUnswept)
	p.putUint64(uint64(id))
}

func (p *sectionWriter) writeSessionEnd(e *SessionEnd) {
	p.advanceTo(sectionEnds)
	p.putUint64(uint64(e.Session))
	p.putText(e.Address)
	p.putUint32(e.Member)
	p.putUint32(e.Leader)
	p.putUint64(e.Term)
	p.putUint64(uint64(e.AtMs))
	p.putUint64(uint64(e.Zxid))
	p.putUint32(uint32(e.Reason))
	p.putUint64(uint64(e.SilentFor))
	p.putUint32(uint32(e.Timeout / time.Millisecond))
	p.putUint32(uint32(e.EphemeralCount))
	p.putText(e.RequestedBy)
}

// writeNode writes the node's access control list at its first use, and its number, from 0, later.
func (p *sectionWriter) writeNode(n *node) {
	p.advanceTo(sectionNodes)
	data, version := n.replicatedData()
	p.putText(n.path)
	p.putNullable(data)
	p.putUint64(uint64(n.czxid))
	p.putUint64(uint64(n.mzxid))
	p.putUint64(uint64(n.lastChildZxid()))
	p.putUint64(uint64(n.ctime))
	p.putUint64(uint64(n.mtime))
	p.putUint32(uint32(version))
	p.putUint32(uint32(n.aversion))
	p.writeCreateCount(n.numCreated())
	p.writeLifetime(n.lifetime())
	p.writeList(n.acl, n.path)
}

// writeList writes the list of the node at path.
func (p *sectionWriter) writeList(a *acl, path string) {
	number, known := p.listNumbers[a]
	if !known {
		number = uint32(len(p.listNumbers))
		p.listNumbers[a] = number
	}
	p.putUint32(number)
	if !known {
		p.putText(a.text)
		if p.err == nil && xxhash.Sum64String(a.text) != a.hash {
			p.err = fmt.Errorf("%w: the list of %q is not what it was", ErrDamaged, path)
		}
	}
}

// writeChanges writes the zxid of the last change of an ACL, the one after which every change is in the history, the number of
// changes, and the changes.
func (p *sectionWriter) writeChanges(h *changeHistory) {
	p.advanceTo(sectionChanges)
	p.putUint64(uint64(h.aclsChanged))
	p.putUint64(uint64(h.since))
	p.putUint64(h.count())
	for c := range h.all() {
		p.putBytes([]byte{byte(c.event)})
		p.putUint64(uint64(c.zxid))
		p.putText(c.path)
		p.writeList(c.acl, c.path)
		if c.parentACL != nil {
			p.writeList(c.parentACL, c.path)
		}
	}
}

// longCount in the upper half of a count says that the lower half follows. A count up to MaxCreated has no upper half.
const longCount = 1 << 31

func (p *sectionWriter) writeCreateCount(n int64) {
	if n > MaxCreated {
		p.putUint32(longCount | uint32(n>>32))
	}
	p.putUint32(uint32(n))
}

func (p *sectionWriter) writeLifetime(l lifetime) {
	kind, ownerOrTTL := l.encoded()
	p.putUint32(uint32(kind))
	if kind == kindEphemeral || kind == kindTTL {
		p.putUint64(uint64(ownerOrTTL))
	}
}
