package jute

import "strconv"

// Op is an opcode: what a request asks for, or what a transaction of the log does.
type Op int32

// The opcodes of requests. OpNotification and OpDeleteContainer are known so that servers
// can name what they refuse.
const (
	OpNotification         Op = 0
	OpCreate               Op = 1
	OpDelete               Op = 2
	OpExists               Op = 3
	OpGetData              Op = 4
	OpSetData              Op = 5
	OpGetACL               Op = 6
	OpSetACL               Op = 7
	OpGetChildren          Op = 8
	OpSync                 Op = 9
	OpPing                 Op = 11
	OpGetChildren2         Op = 12
	OpCheck                Op = 13 // only within a multi
	OpMulti                Op = 14
	OpCreate2              Op = 15
	OpReconfig             Op = 16
	OpCheckWatches         Op = 17
	OpRemoveWatches        Op = 18
	OpCreateContainer      Op = 19
	OpDeleteContainer      Op = 20
	OpCreateTTL            Op = 21
	OpMultiRead            Op = 22
	OpAuth                 Op = 100
	OpSetWatches           Op = 101
	OpSASL                 Op = 102
	OpGetEphemerals        Op = 103
	OpGetAllChildrenNumber Op = 104
	OpSetWatches2          Op = 105
	OpAddWatch             Op = 106
	OpWhoAmI               Op = 107
	OpCreateSession        Op = -10 // no request: a client connects
	OpCloseSession         Op = -11
	OpError                Op = -1 // type of a failed operation's result, and of a multi's end
)

// The log's own transactions, never on a client's wire.
const (
	OpTermStart Op = -1001 // a leader's term opens
	OpAnnounce  Op = -1002 // a member's process has started
	OpAttach    Op = -1003 // a connection takes over a session
	OpExpire    Op = -1004 // a session nobody was heard from ends
	OpEmpty     Op = -1005 // stands for a transaction that is no longer wanted
	OpReap      Op = -1006 // a container or a node with a TTL goes
	OpSweep     Op = -1007 // some of the many nodes that an ended session has left go
)

var opNames = map[Op]string{
	OpNotification:         "notification",
	OpCreate:               "create",
	OpDelete:               "delete",
	OpExists:               "exists",
	OpGetData:              "getData",
	OpSetData:              "setData",
	OpGetACL:               "getACL",
	OpSetACL:               "setACL",
	OpGetChildren:          "getChildren",
	OpSync:                 "sync",
	OpPing:                 "ping",
	OpGetChildren2:         "getChildren2",
	OpCheck:                "check",
	OpMulti:                "multi",
	OpCreate2:              "create2",
	OpReconfig:             "reconfig",
	OpCheckWatches:         "checkWatches",
	OpRemoveWatches:        "removeWatches",
	OpCreateContainer:      "createContainer",
	OpDeleteContainer:      "deleteContainer",
	OpCreateTTL:            "createTTL",
	OpMultiRead:            "multiRead",
	OpAuth:                 "auth",
	OpSetWatches:           "setWatches",
	OpSASL:                 "sasl",
	OpGetEphemerals:        "getEphemerals",
	OpGetAllChildrenNumber: "getAllChildrenNumber",
	OpSetWatches2:          "setWatches2",
	OpAddWatch:             "addWatch",
	OpWhoAmI:               "whoAmI",
	OpCreateSession:        "createSession",
	OpCloseSession:         "closeSession",
	OpError:                "error",
	OpTermStart:            "termStart",
	OpAnnounce:             "announce",
	OpAttach:               "attach",
	OpExpire:               "expire",
	OpEmpty:                "empty",
	OpReap:                 "reap",
	OpSweep:                "sweep",
}

// String returns ZooKeeper's name of the opcode, or its number if it has none.
func (op Op) String() string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return "op(" + strconv.Itoa(int(op)) + ")"
}

// IsWrite reports whether the operation goes through the log. A check does: it is part of
// a multi that writes.
func (op Op) IsWrite() bool {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpDeleteContainer,
		OpSetData, OpSetACL, OpCheck, OpMulti, OpReconfig, OpCreateSession, OpCloseSession,
		OpTermStart, OpAnnounce, OpAttach, OpExpire, OpEmpty, OpReap, OpSweep:
		return true
	}
	return false
}
