package audit

import (
	"strings"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// operation says what the audit log writes about the transactions of an opcode.
type operation struct {
	name string // as in ZooKeeper's audit log, if it has one
	// describe sets what the body of a request says. It is nil for a multi. A body that cannot be read
	// leaves the fields as they are.
	describe func(e *Event, body []byte)
	creates  bool // the code NodeExists is no failure: many clients create what they need whenever they start
	retried  bool // after the code SessionMoved the server or the client tries again, so that result leaves no line
}

// operations has every opcode of a client that changes something, and those of sessions. It is
// indexed by operationAt. The others leave no line, and have no name. What the leader itself puts into the log comes
// as an Event.
var operations = func() (table [operationCount + 1]operation) {
	for op, how := range map[jute.Op]operation{
		jute.OpCreate:          {name: "create", describe: describeCreate, creates: true},
		jute.OpCreate2:         {name: "create", describe: describeCreate, creates: true},
		jute.OpCreateContainer: {name: "create", describe: describeContainer, creates: true},
		jute.OpCreateTTL:       {name: "create", describe: describeCreate, creates: true},
		jute.OpDelete:          {name: "delete", describe: describeDelete},
		jute.OpSetData:         {name: "setData", describe: describeSetData},
		jute.OpSetACL:          {name: "setAcl", describe: describeSetACL},
		jute.OpReconfig:        {name: "reconfig", describe: describeNothing},
		jute.OpMulti:           {name: "multiOperation"},
		jute.OpCreateSession:   {name: "createSession", describe: describeNothing},
		jute.OpAttach:          {name: "resumeSession", describe: describeNothing, retried: true},
		jute.OpCloseSession:    {name: "closeSession", describe: describeNothing},
	} {
		table[operationAt(op)] = how
	}
	return table
}()

// The opcodes in the table are between these two.
const (
	leastOp        = jute.OpAttach
	greatestOp     = jute.OpCreateTTL
	operationCount = int(greatestOp - leastOp + 1)
)

// operationAt returns the place of an opcode in operations. All that are out of bounds have the last one.
func operationAt(op jute.Op) int {
	if op < leastOp || op > greatestOp {
		return operationCount
	}
	return int(op - leastOp)
}

// passing reports whether a transaction with this result leaves no line.
func (o *operation) passing(code jute.Code) bool { return o.retried && code == jute.SessionMoved }

// tell completes e, which is of a transaction with this body and result.
func (o *operation) tell(e *Event, body []byte, r *znode.Result) {
	e.Operation = o.name
	o.describe(e, body)
	if r.Path != "" {
		e.Path = r.Path // of a node that was created
	}
	switch {
	case r.Code == jute.OK:
	case r.Code == jute.NodeExists && o.creates:
		e.Result, e.Reason = Unchanged, r.Code.Error()
	default:
		e.Result, e.Error = Failure, r.Code.Error()
	}
}

func describeNothing(*Event, []byte) {}

// describeCreate reads the part that all records of a create begin with.
func describeCreate(e *Event, body []byte) {
	var r jute.CreateRequest
	d := jute.NewDecoder(body)
	if r.Decode(&d); d.Err() == nil {
		e.Path, e.Type = string(r.Path), typeOf(r.Flags)
	}
}

func describeContainer(e *Event, body []byte) {
	describeCreate(e, body)
	e.Type = typeOf(jute.Container)
}

func describeDelete(e *Event, body []byte) {
	var r jute.DeleteRequest
	d := jute.NewDecoder(body)
	if r.Decode(&d); d.Err() == nil {
		e.Path = string(r.Path)
	}
}

func describeSetData(e *Event, body []byte) {
	var r jute.SetDataRequest
	d := jute.NewDecoder(body)
	if r.Decode(&d); d.Err() == nil {
		e.Path = string(r.Path)
	}
}

func describeSetACL(e *Event, body []byte) {
	var r jute.SetACLRequest
	d := jute.NewDecoder(body)
	if r.Decode(&d); d.Err() == nil {
		e.Path, e.ACL = string(r.Path), aclText(r.ACL)
	}
}

// types are the names of the modes of a create, as in ZooKeeper's audit log.
var types = func() (names [jute.PersistentSequentialWithTTL + 1]string) {
	for mode := range names {
		names[mode] = strings.ToLower(jute.CreateMode(mode).String())
	}
	return names
}()

func typeOf(mode jute.CreateMode) string {
	if !mode.IsKnown() {
		return mode.String()
	}
	return types[mode]
}

// multi queues the lines of a multi: one for each of its operations, or a single one if none was done. e has what all
// of them say. The caller holds the lock.
func (l *Log) multi(e *Event, body []byte, r *znode.Result) {
	if err := l.decodeMulti(body); err != nil || r.Code != jute.OK || len(r.Multi) != len(l.ops) || failed(r.Multi) >= 0 {
		l.failedMulti(e, r)
		return
	}
	for i := range l.ops {
		op := &l.ops[i]
		if op.Op == jute.OpCheck {
			continue // it changes nothing
		}
		if e.tellOperation(op); op.Op.IsCreate() {
			e.Path = r.Multi[i].Path
		}
		l.line(e)
	}
}

// decodeMulti reads the operations of a multi into l.ops. The caller holds the lock.
func (l *Log) decodeMulti(body []byte) (err error) {
	if cap(l.ops) > keepOps {
		l.ops = nil
	}
	d := jute.NewDecoder(body)
	l.ops, err = jute.DecodeMulti(&d, l.ops)
	return err
}

// tellOperation sets what an operation of a multi asks for.
func (e *Event) tellOperation(op *jute.MultiOp) {
	e.Operation, e.Path, e.Type = operations[operationAt(op.Op)].name, string(op.Path()), ""
	if op.Op.IsCreate() {
		e.Type = typeOf(op.Create.Flags)
	}
	if op.Op == jute.OpCreateContainer {
		e.Type = typeOf(jute.Container)
	}
}

// failedMulti queues the line of a multi of which nothing was done. Its target is that of the operation that failed.
func (l *Log) failedMulti(e *Event, r *znode.Result) {
	e.Operation, e.Result, e.Error = operations[operationAt(jute.OpMulti)].name, Failure, r.Code.Error()
	if at := failed(r.Multi); at >= 0 && at < len(l.ops) {
		e.Error, e.Target = r.Multi[at].Code.Error(), string(l.ops[at].Path())
	}
	l.line(e)
}

// failed returns which operation of a multi made it fail, or -1.
func failed(results []znode.OpResult) int {
	for i := range results {
		if code := results[i].Code; results[i].Op == jute.OpError && code != jute.OK && code != jute.RuntimeInconsistency {
			return i
		}
	}
	return -1
}

// keepOps is how many operations' memory is kept from one multi to the next.
const keepOps = 1024
