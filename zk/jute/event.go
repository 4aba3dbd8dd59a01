package jute

import "strconv"

// EventType is the kind of change of a watched node. EventNone and the types from 5 on concern a session or a
// watch; clients make the latter for themselves.
type EventType int32

// These are all event types. Servers send the four that begin with EventNode.
const (
	EventNone                   EventType = -1
	EventNodeCreated            EventType = 1
	EventNodeDeleted            EventType = 2
	EventNodeDataChanged        EventType = 3
	EventNodeChildrenChanged    EventType = 4
	EventDataWatchRemoved       EventType = 5
	EventChildWatchRemoved      EventType = 6
	EventPersistentWatchRemoved EventType = 7
)

var eventNames = map[EventType]string{
	EventNone:                   "None",
	EventNodeCreated:            "NodeCreated",
	EventNodeDeleted:            "NodeDeleted",
	EventNodeDataChanged:        "NodeDataChanged",
	EventNodeChildrenChanged:    "NodeChildrenChanged",
	EventDataWatchRemoved:       "DataWatchRemoved",
	EventChildWatchRemoved:      "ChildWatchRemoved",
	EventPersistentWatchRemoved: "PersistentWatchRemoved",
}

// String returns ZooKeeper's name of the type, or its number if it has none.
func (t EventType) String() string {
	if name, ok := eventNames[t]; ok {
		return name
	}
	return "event(" + strconv.Itoa(int(t)) + ")"
}

// KeeperState is the state of a client's session as an event reports it.
type KeeperState int32

// These are all states. Servers send only StateSyncConnected.
const (
	StateUnknown           KeeperState = -1
	StateDisconnected      KeeperState = 0
	StateNoSyncConnected   KeeperState = 1
	StateSyncConnected     KeeperState = 3
	StateAuthFailed        KeeperState = 4
	StateConnectedReadOnly KeeperState = 5
	StateSaslAuthenticated KeeperState = 6
	StateClosed            KeeperState = 7
	StateExpired           KeeperState = -112
)

var stateNames = map[KeeperState]string{
	StateUnknown:           "Unknown",
	StateDisconnected:      "Disconnected",
	StateNoSyncConnected:   "NoSyncConnected",
	StateSyncConnected:     "SyncConnected",
	StateAuthFailed:        "AuthFailed",
	StateConnectedReadOnly: "ConnectedReadOnly",
	StateSaslAuthenticated: "SaslAuthenticated",
	StateClosed:            "Closed",
	StateExpired:           "Expired",
}

// String returns ZooKeeper's name of the state, or its number if it has none.
func (s KeeperState) String() string {
	if name, ok := stateNames[s]; ok {
		return name
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}

// WatcherEvent reports a change to a client. It follows a ReplyHeader with XidNotification.
type WatcherEvent struct {
	Type  EventType
	State KeeperState
	Path  []byte
}

func (e *WatcherEvent) Decode(d *Decoder) {
	e.Type = EventType(d.ReadInt32())
	e.State = KeeperState(d.ReadInt32())
	e.Path = d.ReadBytes()
}

func (e WatcherEvent) Append(b []byte) []byte {
	b = AppendInt32(b, int32(e.Type))
	b = AppendInt32(b, int32(e.State))
	return AppendBytes(b, e.Path)
}
