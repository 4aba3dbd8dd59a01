package client

import (
	"time"

	"rollcall/zk/jute"
)

// Zxid is the number of a transaction. A later transaction has a greater one.
type Zxid int64

// SessionID identifies a session. 0 is none.
type SessionID int64

// String returns the id as ZooKeeper's tools print it, such as 0x1000012f99a0001.
func (id SessionID) String() string { return jute.SessionID(id).String() }

// AnyVersion in a call matches any version of the node.
const AnyVersion int32 = -1

// Stat is the metadata of a node. Servers do not show whether a node is a container or has a TTL.
type Stat struct {
	Created         Zxid  // the transaction that created the node
	Changed         Zxid  // the last one that set its data
	ChildrenChanged Zxid  // the last one that created or deleted a child
	CreatedMs       int64 // when, by the leader's clock: milliseconds since 1970; see CreatedAt
	ChangedMs       int64 // see ChangedAt

	Version         int32 // how often the data were set
	ChildrenVersion int32 // how often the children changed
	ACLVersion      int32 // how often the ACL was set

	Owner       SessionID // of an ephemeral node; 0 for other nodes
	DataLength  int       // in bytes
	NumChildren int
}

// CreatedAt returns the time at which the node was created, by the leader's clock.
func (s Stat) CreatedAt() time.Time { return time.UnixMilli(s.CreatedMs) }

// ChangedAt returns the time at which the node's data were last set, by the leader's clock.
func (s Stat) ChangedAt() time.Time { return time.UnixMilli(s.ChangedMs) }

// readStat reads a Stat.
func readStat(d *jute.Decoder) Stat {
	var s jute.Stat
	s.Decode(d)
	return statOf(s)
}

func statOf(s jute.Stat) Stat {
	return Stat{
		Created: Zxid(s.Czxid), Changed: Zxid(s.Mzxid), ChildrenChanged: Zxid(s.Pzxid),
		CreatedMs: s.Ctime, ChangedMs: s.Mtime,
		Version: s.Version, ChildrenVersion: s.Cversion, ACLVersion: s.Aversion,
		DataLength: int(s.DataLength), NumChildren: int(s.NumChildren), Owner: SessionID(s.EphemeralOwner),
	}
}

// Mode is the kind of node that a create makes: how long it lives, whether its name gets a number, and its ACL.
// The zero value is Persistent.
type Mode struct {
	mode jute.CreateMode
	ttl  time.Duration
	acl  []ACL
}

// These are the kinds of nodes. Everyone has every permission on them: see WithACL. A sequential node's name gets a
// number of ten digits, or 19 after 8,999,999,999, which is greater than those of all nodes that the parent had before.
var (
	Persistent           = Mode{mode: jute.Persistent}
	PersistentSequential = Mode{mode: jute.PersistentSequential}
	Ephemeral            = Mode{mode: jute.Ephemeral}           // deleted when the session ends; has no children
	EphemeralSequential  = Mode{mode: jute.EphemeralSequential} // both
	Container            = Mode{mode: jute.Container}           // deleted some time after its last child
)

// WithTTL returns the mode of a node that the servers delete when it had no children and no change for ttl, in whole
// milliseconds. m must be Persistent or PersistentSequential; servers reject others.
func (m Mode) WithTTL(ttl time.Duration) Mode {
	m.ttl = ttl
	switch m.mode {
	case jute.Persistent:
		m.mode = jute.PersistentWithTTL
	case jute.PersistentSequential:
		m.mode = jute.PersistentSequentialWithTTL
	default:
		m.mode = badMode
	}
	return m
}

// badMode is a mode that every server rejects.
const badMode jute.CreateMode = -1

// WithACL returns the mode of a node with this ACL.
func (m Mode) WithACL(acl ...ACL) Mode {
	m.acl = acl
	return m
}

// IsEphemeral reports whether the node is deleted when its session ends.
func (m Mode) IsEphemeral() bool { return m.mode.IsEphemeral() }

// IsSequential reports whether a number is appended to the node's name.
func (m Mode) IsSequential() bool { return m.mode.IsSequential() }
