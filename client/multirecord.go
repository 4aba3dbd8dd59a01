package client

import (
	"fmt"

	"rollcall/zk/jute"
)

// opOfMulti returns the operation for a multi: OpMultiRead if all operations read.
func opOfMulti(ops []Operation) jute.Op {
	for i := range ops {
		if ops[i].op.IsWrite() {
			return jute.OpMulti
		}
	}
	return jute.OpMultiRead
}

// checkOperations returns an ErrBadArguments unless all operations are of one kind and have valid paths.
func checkOperations(op jute.Op, ops []Operation) error {
	for i := range ops {
		err := ops[i].checkPath()
		if err == nil && op == jute.OpMulti && !ops[i].op.IsWrite() {
			err = fmt.Errorf("%w: a multi that writes cannot read: read in a call of its own", ErrBadArguments)
		}
		if err != nil {
			return &MultiError{Index: i, Op: ops[i].op.String(), Path: ops[i].path, Err: err}
		}
	}
	return nil
}

// multiRecord is the record of a multi.
type multiRecord struct {
	root chroot
	ops  []Operation
}

// Append implements session.Record.
func (r *multiRecord) Append(b []byte) []byte { return appendMulti(b, r.root, r.ops) }

func appendMulti(b []byte, root chroot, ops []Operation) []byte {
	for i := range ops {
		b = jute.MultiHeader{Type: ops[i].op, Err: unusedCode}.Append(b)
		b = ops[i].appendBody(b, root)
	}
	return jute.AppendMultiEnd(b)
}

// unusedCode is the code in the header of an operation, where it has no meaning.
const unusedCode jute.Code = -1

// multiReply is the reply to a multi. Paths of nodes begin at root.
type multiReply struct {
	root    chroot
	results []Result
	most    int // results that are read: one more than the operations, so that too many are noticed
}

// Decode implements session.Readable. It appends to results, which refer to the reply.
func (m *multiReply) Decode(d *jute.Decoder) {
	for {
		var header jute.MultiHeader
		header.Decode(d)
		if d.Err() != nil || header.Done || len(m.results) == m.most {
			return
		}
		m.results = append(m.results, Result{})
		m.results[len(m.results)-1].decode(d, header.Type, m.root)
	}
}

func (r *Result) decode(d *jute.Decoder, op jute.Op, root chroot) {
	switch op {
	case jute.OpError:
		var failed jute.ErrorResponse
		failed.Decode(d)
		r.Err = failed.Err.Err()
	case jute.OpCreate:
		r.Path = root.callerPath(string(d.ReadBytes()))
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		r.Path = root.callerPath(string(d.ReadBytes()))
		r.Stat = readStat(d)
	case jute.OpSetData:
		r.Stat = readStat(d)
	case jute.OpGetData:
		r.Data = d.ReadBytes()
		r.Stat = readStat(d)
	case jute.OpGetChildren:
		var list childNames
		list.decodeNames(d)
		r.Children = list.names
	}
}

// multiError returns the error of a multi: that there are not as many results as operations, or that of the first
// operation that failed a multi of writes.
func multiError(op jute.Op, ops []Operation, results []Result) error {
	if len(results) != len(ops) {
		return callError(op, "", fmt.Errorf("%w: %d results of %d operations", ErrProtocol, len(results), len(ops)))
	}
	if op != jute.OpMulti {
		return nil
	}
	for i := range results {
		if err := results[i].Err; err != nil {
			return callError(op, "", &MultiError{Index: i, Op: ops[i].op.String(), Path: ops[i].path, Err: err})
		}
	}
	return nil
}
