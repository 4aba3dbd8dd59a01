package jute

import (
	"errors"
	"fmt"
)

// errMulti means that a multi has an operation that it must not have, or mixes reads and writes.
var errMulti = errors.New("jute: operation not allowed in this multi")

// MultiOp is one operation of a multi, in the field that Op selects. The other fields are zero.
type MultiOp struct {
	Op          Op
	Create      CreateRequest // create, create2, createContainer and createTTL
	TTL         int64         // of createTTL, in ms
	Delete      DeleteRequest
	SetData     SetDataRequest
	Check       CheckVersionRequest
	GetData     GetDataRequest
	GetChildren GetChildrenRequest
}

// DecodeMulti reads a multi's operations up to the end mark, into the memory of dst. Either all of
// them write or all of them read. The caller must check whether that suits the request (OpMulti or
// OpMultiRead), and check paths, modes and nulls.
//
// The error is errMulti (wrapped) or the Decoder's; then no operations are returned. The memory
// needed is bounded by the frame, but may be 25 times as large. The operations refer to the frame: see ForgetMulti.
func DecodeMulti(d *Decoder, dst []MultiOp) (ops []MultiOp, err error) {
	dst = dst[:0]
	defer func() {
		if err != nil {
			ops = ForgetMulti(dst)
		}
	}()
	writes := false // whether the first operation writes
	for {
		var h MultiHeader
		h.Decode(d)
		if d.Err() != nil {
			return nil, d.Err()
		}
		if h.Done {
			return dst, nil
		}
		if n := len(dst); n < cap(dst) {
			dst = dst[:n+1]
		} else {
			dst = append(dst, MultiOp{})
		}
		op := &dst[len(dst)-1]
		if !op.decodeBody(h.Type, d) {
			return nil, fmt.Errorf("%w: %v", errMulti, h.Type)
		}
		switch w := h.Type.IsWrite(); {
		case len(dst) == 1:
			writes = w
		case w != writes:
			return nil, fmt.Errorf("%w: %v together with %v", errMulti, h.Type, dst[0].Op)
		}
	}
}

// ForgetMulti drops the operations, so that they keep no frame alive, and returns their memory for DecodeMulti. The memory of
// their ACLs is part of it.
func ForgetMulti(ops []MultiOp) []MultiOp {
	for i := range ops {
		create := ops[i].Create
		create.Forget()
		ops[i] = MultiOp{Create: create}
	}
	return ops[:0]
}

// CountMultiOps returns the number of operations in body, up to the end mark or the first byte that cannot be
// decoded. It needs no memory in proportion to them.
func CountMultiOps(body []byte) (n int) {
	EachMultiOp(body, func(*MultiOp) bool { n++; return true })
	return n
}

// EachMultiOp calls do for each operation in body, up to the end mark, the first byte that cannot be decoded,
// or until do returns false. It reports whether the end mark was reached. The operation is valid during the
// call. EachMultiOp needs no memory in proportion to their number.
func EachMultiOp(body []byte, do func(*MultiOp) (more bool)) (whole bool) {
	d := NewDecoder(body)
	var op MultiOp
	for {
		var h MultiHeader
		h.Decode(&d)
		if d.Err() != nil || h.Done {
			return h.Done
		}
		if !op.decodeBody(h.Type, &d) || d.Err() != nil || !do(&op) {
			return false
		}
	}
}

// decodeBody reads the body of an operation of type t, or returns false if a multi must not have one.
func (op *MultiOp) decodeBody(t Op, d *Decoder) bool {
	acl := op.Create.ACL // kept for its memory
	*op = MultiOp{Op: t}
	switch t {
	case OpCreate, OpCreate2, OpCreateContainer:
		op.Create.ACL = acl
		op.Create.Decode(d)
	case OpCreateTTL:
		op.Create.ACL = acl
		op.Create.Decode(d)
		op.TTL = d.ReadInt64()
	case OpDelete:
		op.Delete.Decode(d)
	case OpSetData:
		op.SetData.Decode(d)
	case OpCheck:
		op.Check.Decode(d)
	case OpGetData:
		op.GetData.Decode(d)
	case OpGetChildren:
		op.GetChildren.Decode(d)
	default:
		return false
	}
	return true
}

// Path returns the operation's path, or nil if a multi must not have the operation.
func (op *MultiOp) Path() []byte {
	switch op.Op {
	case OpDelete:
		return op.Delete.Path
	case OpSetData:
		return op.SetData.Path
	case OpCheck:
		return op.Check.Path
	case OpGetData:
		return op.GetData.Path
	case OpGetChildren:
		return op.GetChildren.Path
	}
	return op.Create.Path
}

// AppendMulti appends a multi's operations and the end mark. It writes no body for an operation that a multi
// must not have.
func AppendMulti(b []byte, ops []MultiOp) []byte {
	for i := range ops {
		b = AppendMultiOp(b, &ops[i])
	}
	return AppendMultiEnd(b)
}

// AppendMultiOp appends one operation of a multi.
func AppendMultiOp(b []byte, op *MultiOp) []byte {
	b = MultiHeader{Type: op.Op, Err: unusedMultiErr}.Append(b)
	switch op.Op {
	case OpCreate, OpCreate2, OpCreateContainer:
		return op.Create.Append(b)
	case OpCreateTTL:
		return AppendInt64(op.Create.Append(b), op.TTL)
	case OpDelete:
		return op.Delete.Append(b)
	case OpSetData:
		return op.SetData.Append(b)
	case OpCheck:
		return op.Check.Append(b)
	case OpGetData:
		return op.GetData.Append(b)
	case OpGetChildren:
		return op.GetChildren.Append(b)
	}
	return b
}

// AppendMultiEnd appends the mark after the last operation or result of a multi.
func AppendMultiEnd(b []byte) []byte {
	return MultiHeader{Type: OpError, Done: true, Err: unusedMultiErr}.Append(b)
}

// MultiHeader precedes each operation and each result of a multi. If Done is set, it is the end
// mark.
type MultiHeader struct {
	Type Op // in a result: OpError if the operation failed, and an ErrorResponse follows
	Done bool
	Err  Code // in a result
}

// unusedMultiErr is MultiHeader.Err where the field has no meaning.
const unusedMultiErr Code = -1

func (h *MultiHeader) Decode(d *Decoder) {
	h.Type = Op(d.ReadInt32())
	h.Done = d.ReadBool()
	h.Err = Code(d.ReadInt32())
}

func (h MultiHeader) Append(b []byte) []byte {
	b = AppendInt32(b, int32(h.Type))
	b = AppendBool(b, h.Done)
	return AppendInt32(b, int32(h.Err))
}
