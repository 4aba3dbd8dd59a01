package audit

import (
	"strings"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// operation describes the lines about the transactions of an opcode.
type operation struct {
	name string // as in ZooKeeper's audit log, if it has one
	// decodeBody reads fields from the body of a request. It is nil for a multi. A body that cannot be read leaves the
	// fields as they are.
	decodeBody func(e *Event, body []byte)
	isCreate   bool // NodeExists is no failure: many clients create their nodes at every start
	isRetried  bool // after SessionMoved the server or the client tries again, so it leaves no line
}

// operations has the opcodes of changes and of sessions, by operationIndex. The others leave no line and have no name.
// Transactions of the leader itself come as an Event.
var operations = func() (table [operationCount + 1]operation) {
	for op, how := range map[jute.Op]operation{
		jute.OpCreate:          {name: "create", decodeBody: decodeCreate, isCreate: true},
		jute.OpCreate2:         {name: "create", decodeBody: decodeCreate, isCreate: true},
		jute.OpCreateContainer: {name: "create", decodeBody: decodeContainer, isCreate: true},
		jute.OpCreateTTL:       {name: "create", decodeBody: decodeCreate, isCreate: true},
		jute.OpDelete:          {name: "delete", decodeBody: decodeDelete},
		jute.OpSetData:         {name: "setData", decodeBody: decodeSetData},
		jute.OpSetACL:          {name: "setAcl", decodeBody: decodeSetACL},
		jute.OpReconfig:        {name: "reconfig", decodeBody: decodeNothing},
		jute.OpMulti:           {name: "multiOperation"},
		jute.OpCreateSession:   {name: "createSession", decodeBody: decodeNothing},
		jute.OpAttach:          {name: "resumeSession", decodeBody: decodeNothing, isRetried: true},
		jute.OpCloseSession:    {name: "closeSession", decodeBody: decodeNothing},
	} {
		table[operationIndex(op)] = how
	}
	return table
}()

// The opcodes in the table are between these two.
const (
	minOp          = jute.OpAttach
	maxOp          = jute.OpCreateTTL
	operationCount = int(maxOp - minOp + 1)
)

// operationIndex returns the index of an opcode in operations: the last one for an opcode out of bounds.
func operationIndex(op jute.Op) int {
	if op < minOp || op > maxOp {
		return operationCount
	}
	return int(op - minOp)
}

// leavesNoLine reports whether a transaction with this result leaves no line.
func (o *operation) leavesNoLine(code jute.Code) bool {
	return o.isRetried && code == jute.SessionMoved
}

// completeEvent sets the fields of e that the body and the result of its transaction determine.
func (o *operation) completeEvent(e *Event, body []byte, r *znode.Result) {
	e.Operation = o.name
	o.decodeBody(e, body)
	if r.Path != "" {
		e.Path = r.Path // of a created node
	}
	switch {
	case r.Code == jute.OK:
	case r.Code == jute.NodeExists && o.isCreate:
		e.Result, e.Reason = Unchanged, r.Code.Error()
	default:
		e.Result, e.Error = Failure, r.Code.Error()
	}
}

func decodeNothing(*Event, []byte) {}

// decodeCreate reads the part that the records of all creates begin with.
func decodeCreate(e *Event, body []byte) {
	var r jute.CreateRequest
	d := jute.NewDecoder(body)
	if r.Decode(&d); d.Err() == nil {
		e.Path, e.Type = string(r.Path), createModeName(r.Flags)
	}
}

func decodeContainer(e *Event, body []byte) {
	decodeCreate(e, body)
	e.Type = createModeName(jute.Container)
}

func decodeDelete(e *Event, body []byte) {
	var r jute.DeleteRequest
	d := jute.NewDecoder(body)
	if r.Decode(&d); d.Err() == nil {
		e.Path = string(r.Path)
	}
}

func decodeSetData(e *Event, body []byte) {
	var r jute.SetDataRequest
	d := jute.NewDecoder(body)
	if r.Decode(&d); d.Err() == nil {
		e.Path = string(r.Path)
	}
}

func decodeSetACL(e *Event, body []byte) {
	var r jute.SetACLRequest
	d := jute.NewDecoder(body)
	if r.Decode(&d); d.Err() == nil {
		e.Path, e.ACL = string(r.Path), aclText(r.ACL)
	}
}

// createModeNames are as in ZooKeeper's audit log.
var createModeNames = func() (names [jute.PersistentSequentialWithTTL + 1]string) {
	for mode := range names {
		names[mode] = strings.ToLower(jute.CreateMode(mode).String())
	}
	return names
}()

func createModeName(mode jute.CreateMode) string {
	if !mode.IsKnown() {
		return mode.String()
	}
	return createModeNames[mode]
}

// queueMulti queues a line for each operation of a multi, or a single one if the multi failed. e has the fields that
// all lines share. The caller holds the lock.
func (l *Log) queueMulti(e *Event, body []byte, r *znode.Result) {
	defer l.forgetMultiOps()
	if err := l.decodeMultiOps(body); err != nil || r.Code != jute.OK || len(r.Multi) != len(l.multiOps) ||
		failedOp(r.Multi) >= 0 {
		l.queueFailedMulti(e, r)
		return
	}
	for i := range l.multiOps {
		op := &l.multiOps[i]
		if op.Op == jute.OpCheck {
			continue // it changes nothing
		}
		if e.setMultiOp(op); op.Op.IsCreate() {
			e.Path = r.Multi[i].Path
		}
		l.queueOrSuppress(e)
	}
}

// decodeMultiOps reads the operations of a multi into l.multiOps, until forgetMultiOps. The caller holds the lock.
func (l *Log) decodeMultiOps(body []byte) (err error) {
	if cap(l.multiOps) > maxKeptOps {
		l.multiOps = nil
	}
	d := jute.NewDecoder(body)
	l.multiOps, err = jute.DecodeMulti(&d, l.multiOps)
	return err
}

// forgetMultiOps drops the operations, which are parts of an entry of the ensemble's log. The caller holds the lock.
func (l *Log) forgetMultiOps() { l.multiOps = jute.ForgetMulti(l.multiOps) }

// setMultiOp sets the fields for an operation of a multi.
func (e *Event) setMultiOp(op *jute.MultiOp) {
	e.Operation, e.Path, e.Type = operations[operationIndex(op.Op)].name, string(op.Path()), ""
	if op.Op.IsCreate() {
		e.Type = createModeName(op.Create.Flags)
	}
	if op.Op == jute.OpCreateContainer {
		e.Type = createModeName(jute.Container)
	}
}

// queueFailedMulti queues the line of a failed multi. Its target is the path of the operation that failed.
func (l *Log) queueFailedMulti(e *Event, r *znode.Result) {
	e.Operation, e.Result, e.Error = operations[operationIndex(jute.OpMulti)].name, Failure, r.Code.Error()
	if at := failedOp(r.Multi); at >= 0 && at < len(l.multiOps) {
		e.Error, e.Target = r.Multi[at].Code.Error(), string(l.multiOps[at].Path())
	}
	l.queueOrSuppress(e)
}

// failedOp returns the index of the operation that made a multi fail, or -1.
func failedOp(results []znode.OpResult) int {
	for i := range results {
		if code := results[i].Code; results[i].Op == jute.OpError && code != jute.OK && code != jute.RuntimeInconsistency {
			return i
		}
	}
	return -1
}

// maxKeptOps limits the memory that is kept from one multi to the next, in operations.
const maxKeptOps = 1024
