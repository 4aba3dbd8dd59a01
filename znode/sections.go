package znode

import (
	"fmt"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"

	"rollcall/zk/jute"
)

// section is one of the lists in a snapshot. A snapshot has them in this order, each after its count.
type section uint8

const (
	sectionSessions section = iota
	sectionUnswept          // ended sessions with nodes left
	sectionEnds
	sectionNodes
)

// String returns what the list has.
func (p section) String() string {
	return [...]string{"sessions", "ended sessions with nodes left", "ends of sessions", "nodes"}[p]
}

// sections writes a snapshot: the head, then the lists, then the digest. It checks nothing. The caller
// adds as many items to each list as the head says, in the order of the lists.
type sections struct {
	*blockWriter
	head  *Head
	at    section
	lists map[*acl]uint32 // the numbers of the lists that were written
}

// newSections writes the head.
func newSections(w io.Writer, h *Head) *sections {
	p := &sections{blockWriter: newBlockWriter(w), head: h, lists: map[*acl]uint32{}}
	p.progress()
	p.members()
	p.roster()
	p.u64(h.Sessions)
	return p
}

// finish writes the digest and the end of the stream.
func (p *sections) finish(digest uint64) error {
	p.reach(sectionNodes)
	p.u64(digest)
	return p.close()
}

// reach ends the lists before to, and begins that one.
func (p *sections) reach(to section) {
	for p.at < to {
		p.at++
		switch p.at {
		case sectionUnswept:
			p.u64(p.head.Unswept)
		case sectionEnds:
			p.u64(p.head.EndsEver)
			p.u64(p.head.Ends)
		case sectionNodes:
			p.u64(p.head.Nodes)
		}
	}
}

// progress writes how far the state has followed the log.
func (p *sections) progress() {
	h := p.head
	p.u64(h.Index)
	p.u64(uint64(h.Zxid))
	p.u64(uint64(h.Now))
	p.u64(h.Term.Term)
	p.u64(h.Term.Nonce)
	p.u32(h.Term.Leader)
	p.u64(h.Term.Index)
	for _, rule := range []bool{h.Term.SkipACL, h.Term.TTLNodes, h.Term.EnforceQuota, h.Term.X509} {
		p.bool(rule)
	}
	p.bool(h.Term.SASL)
	p.u64(h.Term.DataQuota)
	p.bool(h.Term.Reconfig)
}

// members writes the members that have announced themselves or opened sessions.
func (p *sections) members() {
	p.u32(uint32(len(p.head.Members)))
	for _, m := range p.head.Members {
		p.u32(m.ID)
		p.u64(m.Boot)
		p.u64(m.Cursor)
		p.u32(m.Format)
		p.u64(uint64(m.Highest))
	}
}

// roster writes the list of servers, or version 0 if there is none.
func (p *sections) roster() {
	r := &p.head.Roster
	p.u64(uint64(r.Version))
	if r.Version != 0 {
		p.raw(r.Ensemble[:])
		p.text(r.Servers.Text())
	}
}

// session writes the next session, by id.
func (p *sections) session(s *Session) {
	p.u64(uint64(s.ID))
	p.u32(uint32(s.Timeout / time.Millisecond))
	p.raw(s.Password[:])
	p.u32(s.Owner.Member)
	p.u64(s.Owner.Conn)
	p.u64(s.Since)
	p.u64(uint64(s.CreatedMs))
	p.text(s.Address)
	p.text(s.Who.encoded())
}

// ended writes the next ended session with nodes left, by id.
func (p *sections) ended(id jute.SessionID) {
	p.reach(sectionUnswept)
	p.u64(uint64(id))
}

// end writes the next end of a session, oldest first.
func (p *sections) end(e *End) {
	p.reach(sectionEnds)
	p.u64(uint64(e.Session))
	p.text(e.Address)
	p.u32(e.Member)
	p.u32(e.Leader)
	p.u64(e.Term)
	p.u64(uint64(e.AtMs))
	p.u64(uint64(e.Zxid))
	p.u32(uint32(e.Reason))
	p.u64(uint64(e.Silent))
	p.u32(uint32(e.Timeout / time.Millisecond))
	p.u32(uint32(e.Ephemerals))
	p.text(e.By)
}

// node writes the next node: parents come before their children, and siblings are in order. A list is
// written at its first use, and numbered from 0 for later ones.
func (p *sections) node(n *node) {
	p.reach(sectionNodes)
	data, version := n.replicated()
	p.text(n.path)
	p.data(data)
	p.u64(uint64(n.czxid))
	p.u64(uint64(n.mzxid))
	p.u64(uint64(n.lastChild()))
	p.u64(uint64(n.ctime))
	p.u64(uint64(n.mtime))
	p.u32(uint32(version))
	p.u32(uint32(n.aversion))
	p.u32(uint32(n.numCreates()))
	p.life(n.life())
	number, known := p.lists[n.acl]
	if !known {
		number = uint32(len(p.lists))
		p.lists[n.acl] = number
	}
	p.u32(number)
	if !known {
		p.text(n.acl.text)
		if p.err == nil && xxhash.Sum64String(n.acl.text) != n.acl.hash {
			p.err = fmt.Errorf("%w: the list of %q is not what it was", ErrDamaged, n.path)
		}
	}
}

// These are the kinds of nodes in a snapshot.
const (
	kindPlain = iota
	kindEphemeral
	kindContainer
	kindTTL
)

// life writes the kind of a node, and its session or TTL if it has one.
func (p *sections) life(l life) {
	switch {
	case l.owner != 0:
		p.u32(kindEphemeral)
		p.u64(uint64(l.owner))
	case l.container:
		p.u32(kindContainer)
	case l.ttl != 0:
		p.u32(kindTTL)
		p.u64(uint64(l.ttl))
	default:
		p.u32(kindPlain)
	}
}
