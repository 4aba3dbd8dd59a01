package jute

import "strconv"

// CreateMode is the kind of node in a create request.
type CreateMode int32

const (
	Persistent                  CreateMode = 0
	Ephemeral                   CreateMode = 1
	PersistentSequential        CreateMode = 2
	EphemeralSequential         CreateMode = 3
	Container                   CreateMode = 4
	PersistentWithTTL           CreateMode = 5
	PersistentSequentialWithTTL CreateMode = 6
)

// IsEphemeral reports whether the node is deleted when its session ends.
func (m CreateMode) IsEphemeral() bool { return m == Ephemeral || m == EphemeralSequential }

// IsSequential reports whether a number is appended to the node's name.
func (m CreateMode) IsSequential() bool {
	return m == PersistentSequential || m == EphemeralSequential || m == PersistentSequentialWithTTL
}

// IsContainer reports whether the node is a container.
func (m CreateMode) IsContainer() bool { return m == Container }

// IsTTL reports whether the node has a time to live: it is deleted some time after its last change.
func (m CreateMode) IsTTL() bool {
	return m == PersistentWithTTL || m == PersistentSequentialWithTTL
}

// MaxTTL is the longest time to live, in ms: ZooKeeper stores it in 40 bits.
const MaxTTL = 1<<40 - 1

// IsKnown reports whether m is one of the modes above.
func (m CreateMode) IsKnown() bool { return m >= Persistent && m <= PersistentSequentialWithTTL }

// String returns ZooKeeper's name of the mode, or its number if it has none.
func (m CreateMode) String() string {
	if !m.IsKnown() {
		return "mode(" + strconv.Itoa(int(m)) + ")"
	}
	return modeNames[m]
}

var modeNames = [...]string{
	Persistent:                  "PERSISTENT",
	Ephemeral:                   "EPHEMERAL",
	PersistentSequential:        "PERSISTENT_SEQUENTIAL",
	EphemeralSequential:         "EPHEMERAL_SEQUENTIAL",
	Container:                   "CONTAINER",
	PersistentWithTTL:           "PERSISTENT_WITH_TTL",
	PersistentSequentialWithTTL: "PERSISTENT_SEQUENTIAL_WITH_TTL",
}
