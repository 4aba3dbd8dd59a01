package znode

import (
	"io"

	"rollcall/zk/jute"
)

// An image is a snapshot outside a State: its parts can be read and written one by one, in memory
// that does not grow with the nodes. ReadImage reads the bytes that Snapshot.WriteTo and ImageWriter
// write, and Restore reads those of both.

// Head is what an image says before its sessions and nodes.
type Head struct {
	Index   uint64 // the last entry applied
	Zxid    int64  // the last transaction that took one
	Now     int64  // the log's time, in ms since 1970
	Term    Term
	Members []Progress // by id
	Roster  Roster     // the list of servers, if there is one
	// How many items the image has of each kind.
	Sessions, Unswept, Ends, Nodes uint64
	EndsEver                       uint64 // how many ends were ever kept: the number of the newest one
}

// Progress is what a state knows of one member.
type Progress struct {
	ID           uint32 // 0 to 255; sessions may have 0 as their top byte, although no member has this id
	Boot, Cursor uint64 // see State.Boot
	Format       uint32 // highest Entry.format that it can apply; 0: it has never announced one
	Highest      jute.SessionID
}

// Node is a node of an image. At most one of Owner, Container and TTL is set.
type Node struct {
	Path                string
	Data                []byte // nil: null; always null for the config node until a client sets it
	ACL                 []jute.ACL
	Czxid, Mzxid, Pzxid int64
	Ctime, Mtime        int64 // ms since 1970
	Version, Aversion   int32
	Creates             int32 // how many children were ever created: the next sequential number
	Owner               jute.SessionID
	Container           bool
	TTL                 int64 // ms
}

// Visitor gets the parts of an image, in the order of its fields. A nil function skips its part. An
// error ends the reading, and ReadImage returns it. Data and lists that a function gets may be kept,
// but not changed: nodes with equal lists share one.
type Visitor struct {
	Head    func(Head) error // all of it but Unswept, Ends, EndsEver and Nodes, which come later
	Session func(Session) error
	Unswept func(jute.SessionID) error // an ended session with nodes left
	End     func(End) error
	Node    func(Node) error // parents before their children, siblings in order
}

// ReadImage reads a whole snapshot and calls v for each of its parts. It makes all of Restore's checks
// and returns the same errors. What v got before an error cannot be trusted. It keeps in memory what
// Verify does, and the lists of all nodes.
func ReadImage(r io.Reader, v Visitor) (h Head, digest uint64, err error) {
	f := filler{b: newBlockReader(r), dry: true, visit: v}
	if err := f.read(); err != nil {
		return Head{}, 0, err
	}
	return f.head, f.digest(), nil
}

// imageOf returns n, which the filler has just taken, as a Node. Nodes with equal lists share one.
func (f *filler) imageOf(n *node) Node {
	data, version := n.replicated()
	life := n.life()
	list, ok := f.lists[n.acl]
	if !ok {
		if f.lists == nil {
			f.lists = map[*acl][]jute.ACL{}
		}
		list = n.acl.list(true)
		f.lists[n.acl] = list
	}
	return Node{
		Path: n.path, Data: data, ACL: list,
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.lastChild(), Ctime: n.ctime, Mtime: n.mtime,
		Version: version, Aversion: n.aversion, Creates: n.numCreates(),
		Owner: life.owner, Container: life.container, TTL: life.ttl,
	}
}

// nodeOf returns the node that an image has as n, with the given access control list.
func nodeOf(n Node, list *acl) *node {
	to := &node{
		path: n.Path, data: pack(n.Data), czxid: n.Czxid, mzxid: n.Mzxid, ctime: n.Ctime, mtime: n.Mtime,
	}
	to.data.version = n.Version
	to.setFamily(n.Pzxid, n.Creates)
	to.setLife(n.life())
	to.setACL(list, n.Aversion)
	return to
}

func (n *Node) life() life { return life{owner: n.Owner, container: n.Container, ttl: n.TTL} }
