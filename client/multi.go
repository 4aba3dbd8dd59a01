package client

import (
	"context"
	"fmt"
	"slices"

	"rollcall/zk/jute"
)

// Result is the result of one operation of a multi.
type Result struct {
	Err      error    // nil: it succeeded
	Path     string   // of the node that was created
	Stat     Stat     // of a create, a set and a get
	Data     []byte   // of a get
	Children []string // of a read of children, in no order
}

// MultiError names the operation that failed a multi of writes.
type MultiError struct {
	Index int    // of the operation
	Op    string // ZooKeeper's name of the operation, such as setData
	Path  string // as the caller gave it
	Err   error  // the reason
}

// Error implements error.
func (e *MultiError) Error() string {
	return fmt.Sprintf("operation %d, %s %s: %v", e.Index, e.Op, e.Path, e.Err)
}

// Unwrap returns Err.
func (e *MultiError) Unwrap() error { return e.Err }

// Multi carries out all operations in order, or none of them. They all write, or all read; a read succeeds or fails
// by itself. There is one result for each operation.
//
// If a write fails, the error is an *Error with a *MultiError, which errors.Is finds the reason in, and results shows
// the operations after it with ErrNotRun. A multi without operations does nothing.
func (c *Client) Multi(ctx context.Context, ops ...Operation) ([]Result, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	o := multiOp(ops[0].path, ops)
	reply := multiReply{root: c.chroot, results: make([]Result, 0, len(ops)), most: len(ops) + 1}
	if err := c.carryOut(ctx, o, &reply); err != nil {
		return nil, err
	}
	return o.multiResults(reply.results)
}

// multiOp returns a multi: OpMultiRead if all operations read. Its errors name path.
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
