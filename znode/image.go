package znode

import (
	"io"

	"rollcall/zk/jute"
)

// An image is a snapshot outside a State. Its parts are read and written one by one, in memory that does not
// grow with the nodes. ReadImage and RestoreSnapshot read the bytes of both Snapshot.WriteTo and ImageWriter.

// ImageHead precedes the sessions and nodes of an image.
type ImageHead struct {
	Index      uint64 // of the last entry applied
	Zxid       int64  // of the last transaction that took one
	TimeMs     int64  // the log's time, since 1970
	LatestMs   int64  // the greatest stamp of all entries so far, of ignored ones too; at least TimeMs
	Term       Term
	Members    []MemberProgress // by id
	ServerList ServerList       // the zero value if there is none
	// The number of items of each kind.
	SessionCount, UnsweptCount, EndCount, NodeCount uint64
	EndsTotal                                       uint64 // the number of ends ever kept, and so of the newest one

	hasHistory     bool // a snapshot with a history of changes; no image that is written has one
	hasACLsChanged bool // the history has changeHistory.aclsChanged
}

// MemberProgress is the state's record of one member.
type MemberProgress struct {
	ID                   uint32 // 0 to 255; sessions may have 0 as their top byte, although no member has this id
	Incarnation, LastSeq uint64 // see State.MemberIncarnation
	Format               uint32 // highest Entry.format that it can apply; 0 if it never announced one
	HighestSession       jute.SessionID
}

// ImageNode is a node of an image. At most one of OwnerSession, Container and TTLMs is set.
type ImageNode struct {
	Path                string
	Data                []byte // nil if null, as for the config node until a client sets it
	ACL                 []jute.ACL
	Czxid, Mzxid, Pzxid int64
	Ctime, Mtime        int64 // ms since 1970
	Version, Aversion   int32
	CreateCount         int64 // children ever created: the next sequential number
	OwnerSession        jute.SessionID
	Container           bool
	TTLMs               int64
}

// ImageVisitor receives the parts of an image, in the order of its fields. A nil function skips its part. An
// error ends the reading, and ReadImage returns it. Functions may keep data and lists, but must not change
// them: nodes with equal lists share one.
type ImageVisitor struct {
	Head       func(ImageHead) error // without UnsweptCount, EndCount, EndsTotal and NodeCount, which are read later
	Session    func(Session) error
	Unswept    func(jute.SessionID) error // an ended session with nodes left
	SessionEnd func(SessionEnd) error
	Node       func(ImageNode) error // parents before their children, siblings in order
}

// ReadImage reads a whole snapshot and calls v for each of its parts. It makes all checks of RestoreSnapshot
// and returns the same errors. Parts that v received before an error cannot be trusted. Beside the memory of
// VerifySnapshot it keeps the lists of all nodes.
func ReadImage(r io.Reader, v ImageVisitor) (h ImageHead, digest uint64, err error) {
	f := snapshotBuilder{blocks: newBlockReader(r), countOnly: true, visitor: v}
	if err := f.readSnapshot(); err != nil {
		return ImageHead{}, 0, err
	}
	return f.head, f.state.digest(), nil
}

// ReadImageHead reads the head of a snapshot and nothing after it, so without the fields that Head of an
// ImageVisitor lacks. It reads a few blocks of 64 KiB at most, and checks their checksums. Its errors are those of
// ReadImage.
func ReadImageHead(r io.Reader) (ImageHead, error) {
	f := snapshotBuilder{blocks: newBlockReader(r), countOnly: true}
	f.readHead()
	return f.head, f.blocks.err
}

// imageNode converts n. Nodes with equal lists share one.
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

// nodeFromImage is the reverse of imageNode.
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
