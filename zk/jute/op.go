package jute

import (
	"iter"
	"strconv"
)

// Op is an opcode: the operation of a request or of a transaction in the log.
type Op int32

// These are the opcodes of requests. OpNotification and OpDeleteContainer are listed so that servers can name
// them when they reject them.
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
	OpCreateSession        Op = -10 // not a request: a client connects
	OpCloseSession         Op = -11
	OpError                Op = -1 // the type of a failed operation's result and of a multi's end mark
)

// These are the log's own transactions, which are never on a client's wire.
const (
	OpTermStart Op = -1001 // a leader's term begins
	OpAnnounce  Op = -1002 // a member's process has started
	OpAttach    Op = -1003 // a connection becomes the owner of a session
	OpExpire    Op = -1004 // a silent session ends
	OpEmpty     Op = -1005 // takes the place of a transaction that is no longer wanted
	OpReap      Op = -1006 // a container or a node with a TTL is removed
	OpSweep     Op = -1007 // some of the nodes that an ended session has left are removed
	OpKill      Op = -1008 // an operator ends a session
	OpIdentify  Op = -1009 // the owner of a session has proved more identities

	OpChangeServers Op = -1010 // an operator changes the list of servers
)

// Class groups the operations that servers treat alike.
type Class uint8

const (
	ClassOther    Class = iota // a client may not send it as a request, or not alone
	ClassCreate                // a write that creates a node
	ClassWrite                 // any other write
	ClassRead                  // reads the tree
	ClassSync                  // waits until the server has applied everything written before
	ClassWatch                 // concerns only watches
	ClassSession               // concerns the session or its connection
	ClassIdentity              // identifies the client; does not keep the session alive
	ClassLog                   // the log's own
)

// Record is implemented by the pointer to every record. Decode reads the record, and Append writes it.
type Record interface {
	Decode(d *Decoder)
	Append(b []byte) []byte
}

// operationInfo is one row of operations. Package server has a table of handlers.
type operationInfo struct {
	op           Op
	name         string // ZooKeeper's name
	abbreviation string // ZooKeeper's, in lists of connections; "" if there is none
	class        Class
	isWrite      bool          // it goes through the log
	request      func() Record // nil if no record follows the request's header
	response     func() Record // nil if no record follows the reply's header
}

// operations is the table of all opcodes. The body of a multi or a multiRead is not a record: see
// DecodeMulti. A check counts as a write because the multi that it is part of does.
var operations = [...]operationInfo{
	{OpNotification, "notification", "", ClassOther, false, nil, newRecord[WatcherEvent]},
	{OpCreate, "create", "CREA", ClassCreate, true, newRecord[CreateRequest], newRecord[CreateResponse]},
	{OpDelete, "delete", "DELE", ClassWrite, true, newRecord[DeleteRequest], nil},
	{OpExists, "exists", "EXIS", ClassRead, false, newRecord[ExistsRequest], newRecord[ExistsResponse]},
	{OpGetData, "getData", "GETD", ClassRead, false, newRecord[GetDataRequest], newRecord[GetDataResponse]},
	{OpSetData, "setData", "SETD", ClassWrite, true, newRecord[SetDataRequest], newRecord[SetDataResponse]},
	{OpGetACL, "getACL", "GETA", ClassRead, false, newRecord[GetACLRequest], newRecord[GetACLResponse]},
	{OpSetACL, "setACL", "SETA", ClassWrite, true, newRecord[SetACLRequest], newRecord[SetACLResponse]},
	{OpGetChildren, "getChildren", "GETC", ClassRead, false, newRecord[GetChildrenRequest], newRecord[GetChildrenResponse]},
	{OpSync, "sync", "SYNC", ClassSync, false, newRecord[SyncRequest], newRecord[SyncResponse]},
	{OpPing, "ping", "PING", ClassSession, false, nil, nil},
	{OpGetChildren2, "getChildren2", "GETC", ClassRead, false, newRecord[GetChildrenRequest], newRecord[GetChildren2Response]},
	{OpCheck, "check", "CHEC", ClassOther, true, newRecord[CheckVersionRequest], nil},
	{OpMulti, "multi", "MULT", ClassWrite, true, nil, nil},
	{OpCreate2, "create2", "CREA", ClassCreate, true, newRecord[CreateRequest], newRecord[Create2Response]},
	{OpReconfig, "reconfig", "RECO", ClassWrite, true, newRecord[ReconfigRequest], newRecord[GetDataResponse]},
	{OpCheckWatches, "checkWatches", "CHKW", ClassWatch, false, newRecord[CheckWatchesRequest], nil},
	{OpRemoveWatches, "removeWatches", "REMW", ClassWatch, false, newRecord[RemoveWatchesRequest], nil},
	{OpCreateContainer, "createContainer", "CREA", ClassCreate, true, newRecord[CreateRequest], newRecord[Create2Response]},
	{OpDeleteContainer, "deleteContainer", "", ClassOther, true, newRecord[PathRecord], nil},
	{OpCreateTTL, "createTTL", "CREA", ClassCreate, true, newRecord[CreateTTLRequest], newRecord[Create2Response]},
	{OpMultiRead, "multiRead", "MLTR", ClassRead, false, nil, nil},
	{OpAuth, "auth", "", ClassIdentity, false, newRecord[AuthPacket], nil},
	{OpSetWatches, "setWatches", "SETW", ClassWatch, false, newRecord[SetWatches], nil},
	{OpSASL, "sasl", "", ClassIdentity, false, newRecord[SASLToken], newRecord[SASLToken]},
	{OpGetEphemerals, "getEphemerals", "GETE", ClassRead, false, newRecord[GetEphemeralsRequest], newRecord[GetEphemeralsResponse]},
	{
		OpGetAllChildrenNumber, "getAllChildrenNumber", "GETACN", ClassRead, false, newRecord[GetAllChildrenNumberRequest],
		newRecord[GetAllChildrenNumberResponse],
	},
	{OpSetWatches2, "setWatches2", "STW2", ClassWatch, false, newRecord[SetWatches2], nil},
	{OpAddWatch, "addWatch", "ADDW", ClassWatch, false, newRecord[AddWatchRequest], newRecord[ErrorResponse]},
	{OpWhoAmI, "whoAmI", "HOMI", ClassSession, false, nil, newRecord[WhoAmIResponse]},
	{OpCreateSession, "createSession", "SESS", ClassOther, true, newRecord[ConnectRequest], newRecord[ConnectResponse]},
	{OpCloseSession, "closeSession", "CLOS", ClassSession, true, nil, nil},
	{OpError, "error", "", ClassOther, false, nil, newRecord[ErrorResponse]},
	{OpTermStart, "termStart", "", ClassLog, true, nil, nil},
	{OpAnnounce, "announce", "", ClassLog, true, nil, nil},
	{OpAttach, "attach", "", ClassLog, true, nil, nil},
	{OpExpire, "expire", "", ClassLog, true, nil, nil},
	{OpEmpty, "empty", "", ClassLog, true, nil, nil},
	{OpReap, "reap", "", ClassLog, true, nil, nil},
	{OpSweep, "sweep", "", ClassLog, true, nil, nil},
	{OpKill, "kill", "", ClassLog, true, nil, nil},
	{OpIdentify, "identify", "", ClassLog, true, nil, nil},
	{OpChangeServers, "changeServers", "", ClassLog, true, nil, nil},
}

func newRecord[R any, P interface {
	*R
	Record
}]() Record {
	return P(new(R))
}

const (
	leastOp    = OpChangeServers
	greatestOp = OpWhoAmI
)

// rowIndex has the number of an opcode's row in operations, from 1, at op - leastOp, or 0 if there is no row.
var rowIndex = func() (rows [greatestOp - leastOp + 1]uint8) {
	for i := range operations {
		rows[operations[i].op-leastOp] = uint8(i + 1)
	}
	return rows
}()

// isWriteOp is the column isWrite, indexed by op - leastOp, for multis, which check each operation.
var isWriteOp = func() (writes [greatestOp - leastOp + 1]bool) {
	for i := range operations {
		writes[operations[i].op-leastOp] = operations[i].isWrite
	}
	return writes
}()

// info returns the opcode's row, or nil.
func (op Op) info() *operationInfo {
	if op < leastOp || op > greatestOp || rowIndex[op-leastOp] == 0 {
		return nil
	}
	return &operations[rowIndex[op-leastOp]-1]
}

// AllOps yields every opcode.
func AllOps() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		for i := range operations {
			if !yield(operations[i].op) {
				return
			}
		}
	}
}

// String returns ZooKeeper's name of the opcode, or its number if it has none.
func (op Op) String() string {
	if row := op.info(); row != nil {
		return row.name
	}
	return "op(" + strconv.Itoa(int(op)) + ")"
}

// Abbreviation returns ZooKeeper's abbreviation of a request's opcode, or "NA" if it has none.
func (op Op) Abbreviation() string {
	if row := op.info(); row != nil && row.abbreviation != "" {
		return row.abbreviation
	}
	return "NA"
}

// Class returns the operation's class. It is ClassOther for an unknown opcode.
func (op Op) Class() Class {
	if row := op.info(); row != nil {
		return row.class
	}
	return ClassOther
}

// IsWrite reports whether the operation goes through the log. A check does, as part of a multi that
// writes.
func (op Op) IsWrite() bool {
	at := uint32(op - leastOp)
	return at < uint32(len(isWriteOp)) && isWriteOp[at]
}

// IsCreate reports whether the operation creates a node.
func (op Op) IsCreate() bool { return op.Class() == ClassCreate }

// NewRequest returns a new record for the operation's request, or nil if it has none, as a multi: see
// DecodeMulti.
func (op Op) NewRequest() Record {
	if row := op.info(); row != nil && row.request != nil {
		return row.request()
	}
	return nil
}

// NewResponse returns a new record for the operation's reply or result in a multi, or nil if it has none.
func (op Op) NewResponse() Record {
	if row := op.info(); row != nil && row.response != nil {
		return row.response()
	}
	return nil
}
