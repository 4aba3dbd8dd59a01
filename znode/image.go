package znode

import (
	"io"

	"rollcall/zk/jute"
)

// An image is a snapshot outside a State: its parts can be read and written one by one, in memory
// that does not grow with the nodes. ReadImage reads the bytes that Snapshot.WriteTo and ImageWriter
// write, and Restore reads those of both.

// ImageHead is what an image says before its sessions and nodes.
type ImageHead struct {
	Index      uint64 // the last entry applied
	Zxid       int64  // the last transaction that took one
	TimeMs     int64  // the log's time, in ms since 1970
	Term       Term
	Members    []MemberProgress // by id
	ServerList ServerList       // the list of servers, if there is one
	// How many items the image has of each kind.
	SessionCount, UnsweptCount, EndCount, NodeCount uint64
	EndsTotal                                       uint64 // how many ends were ever kept: the number of the newest one
}

// MemberProgress is what a state knows of one member.
type MemberProgress struct {
	ID             uint32 // 0 to 255; sessions may have 0 as their top byte, although no member has this id
	Boot, Cursor   uint64 // see State.Boot
	Format         uint32 // highest Entry.format that it can apply; 0: it has never announced one
	HighestSession jute.SessionID
}

// ImageNode is a node of an image. At most one of Owner, Container and TTL is set.
type ImageNode struct {
	Path                string
	Data                []byte // nil: null; always null for the config node until a client sets it
	ACL                 []jute.ACL
	Czxid, Mzxid, Pzxid int64
	Ctime, Mtime        int64 // ms since 1970
	Version, Aversion   int32
	CreateCount         int32 // how many children were ever created: the next sequential number
	OwnerSession        jute.SessionID
	Container           bool
	TTLMs               int64 // ms
}

// ImageVisitor gets the parts of an image, in the order of its fields. A nil function skips its part. An
// error ends the reading, and ReadImage returns it. Data and lists that a function gets may be kept,
// but not changed: nodes with equal lists share one.
type ImageVisitor struct {
	Head    func(ImageHead) error // all of it but Unswept, Ends, EndsEver and Nodes, which come later
	Session func(Session) error
	Unswept func(jute.SessionID) error // an ended session with nodes left
	End     func(SessionEnd) error
	Node    func(ImageNode) error // parents before their children, siblings in order
}

// ReadImage reads a whole snapshot and calls v for each of its parts. It makes all of Restore's checks
// and returns the same errors. What v got before an error cannot be trusted. It keeps in memory what
// Verify does, and the lists of all nodes.
func ReadImage(r io.Reader, v ImageVisitor) (h ImageHead, digest uint64, err error) {
	f := snapshotBuilder{blocks: newBlockReader(r), countOnly: true, visitor: v}
	if err := f.readSnapshot(); err != nil {
		return ImageHead{}, 0, err
	}
	return f.head, f.digest(), nil
}

// imageNode returns n, which the filler has just taken, as a Node. Nodes with equal lists share one.
func (f *snapshotBuilder) imageNode(n *node) ImageNode {
	data, version := n.replicatedData()
	life := n.lifetime()
	list, ok := f.listsSeen[n.acl]
	if !ok {
		if f.listsSeen == nil {
			f.listsSeen = map[*acl][]jute.ACL{}
		}
		list = n.acl.visibleEntries(true)
		f.listsSeen[n.acl] = list
	}
	return ImageNode{
		Path: n.path, Data: data, ACL: list,
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.lastChildZxid(), Ctime: n.ctime, Mtime: n.mtime,
		Version: version, Aversion: n.aversion, CreateCount: n.numCreated(),
		OwnerSession: life.owner, Container: life.isContainer, TTLMs: life.ttlMs,
	}
}

// nodeFromImage returns the node that an image has as n, with the given access control list.
func nodeFromImage(n ImageNode, list *acl) *node {
	to := &node{
		path: n.Path, data: packData(n.Data), czxid: n.Czxid, mzxid: n.Mzxid, ctime: n.Ctime, mtime: n.Mtime,
	}
	to.data.version = n.Version
	to.setChildHistory(n.Pzxid, n.CreateCount)
	to.setLifetime(n.lifetime())
	to.setACL(list, n.Aversion)
	return to
}

func (n *ImageNode) lifetime() lifetime {
	return lifetime{owner: n.OwnerSession, isContainer: n.Container, ttlMs: n.TTLMs}
}
