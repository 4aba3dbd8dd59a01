package client

import (
	"context"
	"fmt"
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
