package session

import "rollcall/zk/jute"

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
	switch r.Op {
	case jute.OpError:
		var failed jute.ErrorResponse
		failed.Decode(d)
		r.Err = failed.Err
	case jute.OpCreate:
		r.Path = d.ReadBytes()
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		r.Path = d.ReadBytes()
		r.Stat.Decode(d)
	case jute.OpSetData:
		r.Stat.Decode(d)
	case jute.OpGetData:
		r.Data = d.ReadBytes()
		r.Stat.Decode(d)
	case jute.OpGetChildren:
		var got jute.GetChildrenResponse
		got.Decode(d)
		r.Children = got.Children
	}
}
