package before

import (
	"context"
	"fmt"

	"rollcall/zk/jute"
)

// MultiResult is the result of one operation of a multi.
type MultiResult struct {
	Op       jute.Op // the operation's type; jute.OpError if it failed
	Err      jute.Code
	Path     []byte    // set by a create
	Data     []byte    // set by a getData
	Stat     jute.Stat // set by setData, getData, and by create2 and the other creates that return a Stat
	Children [][]byte  // set by a getChildren
}

// MultiRequest is the record of multi and multiRead.
type MultiRequest []jute.MultiOp

// Append writes the record.
func (r MultiRequest) Append(b []byte) []byte { return jute.AppendMulti(b, r) }

// MultiResponse is the reply to multi and multiRead: one result for each operation.
type MultiResponse struct {
	Results []MultiResult
}

// Decode reads the record up to the end mark. If the input is malformed, the Decoder keeps the
// error.
func (r *MultiResponse) Decode(d *jute.Decoder) {
	r.Results = r.Results[:0]
	for {
		var h jute.MultiHeader
		h.Decode(d)
		if d.Err() != nil || h.Done {
			return
		}
		res := MultiResult{Op: h.Type}
		res.decode(d)
		r.Results = append(r.Results, res)
	}
}

func (r *MultiResult) decode(d *jute.Decoder) {
	rec := r.Op.NewResponse()
	if rec == nil {
		return
	}
	rec.Decode(d)
	switch rec := rec.(type) {
	case *jute.ErrorResponse:
		r.Err = rec.Err
	case *jute.PathRecord:
		r.Path = rec.Path
	case *jute.Create2Response:
		r.Path, r.Stat = rec.Path, rec.Stat
	case *jute.StatRecord:
		r.Stat = rec.Stat
	case *jute.GetDataResponse:
		r.Data, r.Stat = rec.Data, rec.Stat
	case *jute.GetChildrenResponse:
		r.Children = rec.Children
	}
}

// Multi carries out all operations in order, or none. If all of them read (getData and
// getChildren), each succeeds or fails by itself. For writes, the error is that of the operation
// that failed, and results shows which one that is. The operations before it have OK, and those
// after it jute.RuntimeInconsistency.
func (c *Client) Multi(ctx context.Context, ops []jute.MultiOp) (results []MultiResult, err error) {
	op := jute.OpMulti
	if len(ops) > 0 && !ops[0].Op.IsWrite() {
		op = jute.OpMultiRead
	}
	var resp MultiResponse
	if _, err := c.Do(ctx, op, MultiRequest(ops), &resp); err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	if len(resp.Results) != len(ops) {
		return nil, &Error{Op: op, Err: fmt.Errorf("%w: %d results of %d operations", ErrProtocol, len(resp.Results),
			len(ops))}
	}
	for i := range resp.Results {
		if e := resp.Results[i].Err; e != jute.OK && op == jute.OpMulti {
			return resp.Results, &Error{Op: ops[i].Op, Path: string(ops[i].Path()), Err: e}
		}
	}
	return resp.Results, nil
}
