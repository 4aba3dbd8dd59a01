package client

import "rollcall/zk/jute"

// EventType is the kind of an Event.
type EventType int

// These are all types of events.
const (
	NodeCreated     EventType = EventType(jute.EventNodeCreated)
	NodeDeleted     EventType = EventType(jute.EventNodeDeleted)
	DataChanged     EventType = EventType(jute.EventNodeDataChanged)
	ChildrenChanged EventType = EventType(jute.EventNodeChildrenChanged) // of names, not of the children's data
	SessionEnded    EventType = -1                                       // no event will come any more
	Gap             EventType = -2                                       // changes that no event reports: read again
)

var eventNames = map[EventType]string{
	NodeCreated: "created", NodeDeleted: "deleted", DataChanged: "data changed", ChildrenChanged: "children changed",
	SessionEnded: "session ended", Gap: "gap",
}

// String returns the type's name.
func (t EventType) String() string { return eventNames[t] }

// NoZxid is the Zxid of an Event whose transaction is not known.
const NoZxid Zxid = -1

// Event is a change of a node, or a Gap. A Gap names what may have changed without an event.
type Event struct {
	Type EventType
	Path string
	Zxid Zxid // of the change, or NoZxid; of a Gap: the last transaction that it covers

	// From is the transaction after which the changes of a Gap begin. It is set with a NodeDeleted without a Zxid as
	// well, and the deletion was after it: until then the node may have been deleted and created again, too. NoZxid if
	// it is not known.
	From Zxid

	// Below is set if a Gap is about all nodes at Path and below it. Otherwise it is about the node's data, its names of
	// children, and whether it was deleted and created again.
	Below bool

	Err error // of SessionEnded: the reason
}
