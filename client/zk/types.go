package zk

import (
	"cmp"

	"rollcall/client"
)

// DefaultPort is the port of servers without one.
const DefaultPort = client.DefaultPort

// EventType is the type of an event.
type EventType int32

// These are all types of events.
const (
	EventNodeCreated         EventType = 1
	EventNodeDeleted         EventType = 2
	EventNodeDataChanged     EventType = 3
	EventNodeChildrenChanged EventType = 4

	EventSession     EventType = -1 // the state of the session has changed
	EventNotWatching EventType = -2 // a watch has ended without an event; Err is the reason
)

var eventNames = map[EventType]string{
	EventNodeCreated: "EventNodeCreated", EventNodeDeleted: "EventNodeDeleted",
	EventNodeDataChanged: "EventNodeDataChanged", EventNodeChildrenChanged: "EventNodeChildrenChanged",
	EventSession: "EventSession", EventNotWatching: "EventNotWatching",
}

// String returns the type's name.
func (t EventType) String() string { return cmp.Or(eventNames[t], "Unknown") }

// State is the state of a session.
type State int32

// These are all states.
const (
	StateUnknown           State = -1
	StateDisconnected      State = 0
	StateConnecting        State = 1
	StateSyncConnected     State = 3
	StateAuthFailed        State = 4
	StateConnectedReadOnly State = 5
	StateSaslAuthenticated State = 6
	StateExpired           State = -112

	StateConnected  State = 100 // there is a connection, and no session on it yet
	StateHasSession State = 101
)

var stateNames = map[State]string{
	StateUnknown: "StateUnknown", StateDisconnected: "StateDisconnected", StateConnecting: "StateConnecting",
	StateSyncConnected: "StateSyncConnected", StateAuthFailed: "StateAuthFailed",
	StateConnectedReadOnly: "StateConnectedReadOnly", StateSaslAuthenticated: "StateSaslAuthenticated",
	StateExpired: "StateExpired", StateConnected: "StateConnected", StateHasSession: "StateHasSession",
}

// String returns the state's name.
func (s State) String() string { return cmp.Or(stateNames[s], "Unknown") }

// Event is a change of a node or of the session.
type Event struct {
	Type   EventType
	State  State
	Path   string // of the watched node; "" for a change of the session
	Err    error
	Server string // of a change of the session
}

// Permissions of an ACL.
const (
	PermRead   = int32(client.PermRead)
	PermWrite  = int32(client.PermWrite)
	PermCreate = int32(client.PermCreate)
	PermDelete = int32(client.PermDelete)
	PermAdmin  = int32(client.PermAdmin)
	PermAll    = int32(client.PermAll)
)

// ACL grants permissions on a node to an identity.
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

// AuthACL returns a list that grants perms to the client's own identities.
func AuthACL(perms int32) []ACL { return []ACL{{perms, "auth", ""}} }

// WorldACL returns a list that grants perms to everyone.
func WorldACL(perms int32) []ACL { return []ACL{{perms, "world", "anyone"}} }

// DigestACL returns a list that grants perms to those who know the password of user.
func DigestACL(perms int32, user, password string) []ACL {
	return []ACL{{perms, "digest", client.DigestIdentity(user, password).ID}}
}

func clientACL(list []ACL) []client.ACL {
	acl := make([]client.ACL, len(list)) // an empty list is not one for everyone: the servers reject it
	for i, a := range list {
		acl[i] = client.ACL{
			Permissions: client.Permission(a.Perms), Identity: client.Identity{Scheme: a.Scheme, ID: a.ID},
		}
	}
	return acl
}

func aclOf(list []client.ACL) []ACL {
	acl := make([]ACL, len(list))
	for i, a := range list {
		acl[i] = ACL{int32(a.Permissions), a.Identity.Scheme, a.Identity.ID}
	}
	return acl
}

// Stat is the metadata of a node.
type Stat struct {
	Czxid          int64 // of the creation
	Mzxid          int64 // of the last change of the data
	Ctime          int64 // of the creation, in milliseconds since 1970
	Mtime          int64 // of the last change of the data
	Version        int32 // how often the data were set
	Cversion       int32 // how often the children changed
	Aversion       int32 // how often the ACL was set
	EphemeralOwner int64 // session of an ephemeral node; 0 for others
	DataLength     int32
	NumChildren    int32
	Pzxid          int64 // of the last creation or deletion of a child
}

func statOf(s client.Stat) *Stat {
	return &Stat{
		Czxid: int64(s.Created), Mzxid: int64(s.Changed), Pzxid: int64(s.ChildrenChanged),
		Ctime: s.CreatedMs, Mtime: s.ChangedMs,
		Version: s.Version, Cversion: s.ChildrenVersion, Aversion: s.ACLVersion, EphemeralOwner: int64(s.Owner),
		DataLength: int32(s.DataLength), NumChildren: int32(s.NumChildren),
	}
}

// Operations of a Multi.
type (
	PathVersionRequest struct {
		Path    string
		Version int32 // -1: any
	}
	CheckVersionRequest PathVersionRequest
	DeleteRequest       PathVersionRequest

	CreateRequest struct {
		Path  string
		Data  []byte
		Acl   []ACL //lint:ignore ST1003 that library's name
		Flags int32
	}
	SetDataRequest struct {
		Path    string
		Data    []byte
		Version int32 // -1: any
	}
)

// MultiResponse is the result of one operation of a Multi.
type MultiResponse struct {
	Stat   *Stat
	String string // the path of a node that was created
	Error  error
}
