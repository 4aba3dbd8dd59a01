package client

import (
	"fmt"
	"slices"

	"rollcall/zk/jute"
)

// multiOp returns a multi: OpMultiRead if all operations read. path is that of its errors.
func multiOp(path string, ops []Operation) Operation {
	o := Operation{op: jute.OpMultiRead, path: path, ops: ops}
	if slices.ContainsFunc(ops, func(o Operation) bool { return o.op.IsWrite() }) {
		o.op = jute.OpMulti
	}
	return o
}

// checkOperations returns an ErrBadArguments unless all operations are of one kind and have valid paths.
func checkOperations(op jute.Op, ops []Operation) error {
	for i := range ops {
		err := ops[i].checkPath()
		if err == nil && op == jute.OpMulti && !ops[i].op.IsWrite() {
			err = fmt.Errorf("%w: a multi that writes cannot read: read in a call of its own", ErrBadArguments)
		}
		if err != nil {
			return ops[i].failedAt(i, err)
		}
	}
	return nil
}

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
		m.results[len(m.results)-1].decode(d, header.Type, m.root, "")
	}
}

// decode reads the result of an operation. A node that was created at asked, the path of the request, needs no memory
// for its path.
func (r *Result) decode(d *jute.Decoder, op jute.Op, root chroot, asked string) {
	switch op {
	case jute.OpError:
		var failed jute.ErrorResponse
		failed.Decode(d)
		r.Err = failed.Err.Err()
	case jute.OpCreate:
		r.Path = root.createdPath(d.ReadBytes(), asked)
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		r.Path = root.createdPath(d.ReadBytes(), asked)
		r.Stat = readStat(d)
	case jute.OpSetData, jute.OpExists:
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

// multiResults returns the results of a multi and its error: that there are not as many results as operations, or that
// of the first operation that failed a multi of writes.
func (o *Operation) multiResults(results []Result) ([]Result, error) {
	if len(results) != len(o.ops) {
		return nil, callError(o.op, "", fmt.Errorf("%w: %d results of %d operations", ErrProtocol, len(results), len(o.ops)))
	}
	i := slices.IndexFunc(results, func(r Result) bool { return r.Err != nil })
	if i < 0 || o.op != jute.OpMulti {
		return results, nil
	}
	return results, callError(o.op, "", o.ops[i].failedAt(i, results[i].Err))
}

// failedAt returns the error of the operation with an index of a multi.
func (o *Operation) failedAt(index int, err error) *MultiError {
	return &MultiError{Index: index, Op: o.op.String(), Path: o.path, Err: err}
}
