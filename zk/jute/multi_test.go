package jute

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
)

// all returns one operation of each of these kinds, with its record filled in.
func all(with ...Op) []MultiOp {
	var ops []MultiOp
	for _, op := range with {
		m := MultiOp{Op: op}
		switch op {
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
			m.Create = CreateRequest{Path: []byte("/a"), Data: []byte{}, ACL: OpenACL, Flags: EphemeralSequential}
		case OpDelete:
			m.Delete = DeleteRequest{Path: []byte("/a"), Version: -1}
		case OpSetData:
			m.SetData = SetDataRequest{Path: []byte("/a"), Data: nil, Version: 3}
		case OpCheck:
			m.Check = CheckVersionRequest{Path: nil, Version: 4}
		case OpGetData:
			m.GetData = GetDataRequest{Path: []byte("/a"), Watch: true}
		case OpGetChildren:
			m.GetChildren = GetChildrenRequest{Path: []byte(""), Watch: true}
		}
		if op == OpCreateTTL {
			m.TTL = math.MaxInt64
		}
		ops = append(ops, m)
	}
	return ops
}

func TestDecodeMulti(t *testing.T) {
	end := AppendMultiEnd(nil)
	body := func(ops []MultiOp) []byte { // without the end mark
		b := AppendMulti(nil, ops)
		return b[:len(b)-len(end)]
	}
	writes := all(OpCreate, OpDelete, OpSetData, OpCheck, OpCreate2, OpCreateContainer, OpCreateTTL)
	reads := all(OpGetData, OpGetChildren)
	huge := MultiHeader{Type: OpCreate, Err: -1}.Append(nil)
	huge = AppendBytes(AppendString(huge, "/a"), nil)
	huge = append(AppendCount(huge, math.MaxInt32), end...)

	tests := []struct {
		name  string
		frame []byte
		want  []MultiOp
		err   error
	}{
		{name: "empty", frame: end, want: []MultiOp{}},
		{name: "writes", frame: AppendMulti(nil, writes), want: writes},
		{name: "reads", frame: AppendMulti(nil, reads), want: reads},
		{name: "bytes behind the end mark", frame: append(AppendMulti(nil, reads), 1, 2, 3), want: reads},
		{name: "end mark of another type", frame: MultiHeader{Type: OpCreate, Done: true}.Append(body(writes)), want: writes},
		{name: "writes, then a read", frame: AppendMulti(body(writes), reads), err: errMulti},
		{name: "reads, then a write", frame: AppendMulti(body(reads), writes), err: errMulti},
		{name: "reads, then a check", frame: AppendMulti(body(reads), all(OpCheck)), err: errMulti},
		{name: "setACL", frame: AppendMulti(nil, all(OpSetACL)), err: errMulti},
		{name: "setACL behind writes", frame: AppendMulti(body(writes), all(OpSetACL)), err: errMulti},
		{name: "exists", frame: AppendMulti(nil, all(OpExists)), err: errMulti},
		{name: "multi in a multi", frame: AppendMulti(nil, all(OpMulti)), err: errMulti},
		{name: "error that is no end mark", frame: AppendMulti(nil, all(OpError)), err: errMulti},
		{name: "unknown type", frame: AppendMulti(nil, all(99)), err: errMulti},
		{name: "the log's own", frame: AppendMulti(nil, all(OpAttach)), err: errMulti},
		{name: "nothing", frame: nil, err: errShortFrame},
		{name: "no end mark", frame: body(writes), err: errShortFrame},
		{name: "end mark cut short", frame: AppendMulti(nil, writes)[:len(AppendMulti(nil, writes))-1], err: errShortFrame},
		{name: "last body cut short", frame: body(writes)[:len(body(writes))-1], err: errShortFrame},
		{name: "2^31-1 ACLs", frame: huge, err: errLength},
	}
	// All cases decode into the same memory, so each also shows that nothing of the previous one
	// remains.
	var ops []MultiOp
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(tt.frame)
			var err error
			ops, err = DecodeMulti(&d, ops)
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Fatalf("DecodeMulti: %v, want %v", err, tt.err)
			}
			if len(ops) != len(tt.want) || len(ops) > 0 && !reflect.DeepEqual(ops, tt.want) {
				t.Errorf("decoded\n%+v, want\n%+v", ops, tt.want)
			}
		})
	}
}

// The operations of a multi that is forgotten, or that is malformed, keep nothing of the frame. The memory for them and for
// their ACLs is kept.
func TestForgetMulti(t *testing.T) {
	create := MultiOp{Op: OpCreate, Create: CreateRequest{Path: []byte("/a"), Data: []byte("data"), ACL: OpenACL}}
	frame := AppendMulti(nil, []MultiOp{create, create, create})
	malformed := AppendMulti(nil, []MultiOp{create, create, create, {Op: OpSetACL}})
	d := NewDecoder(frame)
	ops, err := DecodeMulti(&d, nil)
	if err != nil {
		t.Fatal(err)
	}
	acl := &ops[2].Create.ACL[0]
	check := func(what string) {
		t.Helper()
		for _, op := range ops[:cap(ops)] {
			list := op.Create.ACL[:cap(op.Create.ACL)]
			hasEntry := slices.ContainsFunc(list, func(e ACL) bool { return !reflect.DeepEqual(e, ACL{}) })
			if op.Create.ACL = nil; hasEntry || !reflect.DeepEqual(op, MultiOp{}) {
				t.Errorf("%s: %+v with %+v is kept", what, op, list)
			}
		}
		if list := ops[:3][2].Create.ACL; len(ops) != 0 || cap(list) == 0 || &list[:1][0] != acl {
			t.Errorf("%s: the memory is not kept", what)
		}
	}
	ops = ForgetMulti(ops)
	check("forgotten")
	d = NewDecoder(malformed)
	if ops, err = DecodeMulti(&d, ops); err == nil {
		t.Fatal("setACL was decoded")
	}
	check("malformed")
	d = NewDecoder(frame[:len(frame)-1])
	if ops, err = DecodeMulti(&d, ops); err == nil {
		t.Fatal("a frame without its last byte was decoded")
	}
	check("cut short")
}

// No input may make DecodeMulti panic or read past the frame. Operations that it has decoded are
// the same after they are encoded and decoded again.
func FuzzDecodeMulti(f *testing.F) {
	f.Add(AppendMulti(nil, all(OpCreate, OpDelete, OpSetData, OpCheck, OpCreate2, OpCreateContainer, OpCreateTTL)))
	f.Add(AppendMulti(nil, all(OpGetData, OpGetChildren)))
	f.Add(AppendMulti(nil, all(OpGetData, OpSetACL)))
	f.Add(AppendMultiEnd(nil))
	f.Add([]byte{})
	var reused []MultiOp
	f.Fuzz(func(t *testing.T, input []byte) {
		d, other := NewDecoder(guarded(input, 0)), NewDecoder(guarded(input, 0xff))
		ops, err := DecodeMulti(&d, nil)
		var err2 error
		reused, err2 = DecodeMulti(&other, reused)
		if (err == nil) != (err2 == nil) || len(ops) != len(reused) || len(ops) > 0 && !reflect.DeepEqual(ops, reused) {
			t.Fatalf("depends on the memory around the frame: %+v, %v and %+v, %v", ops, err, reused, err2)
		}
		if n := CountMultiOps(input); err == nil && n != len(ops) {
			t.Fatalf("%d operations counted, %d decoded", n, len(ops))
		}
		if err != nil {
			if len(ops) > 0 {
				t.Fatalf("%d operations returned with an error", len(ops))
			}
			return
		}
		frame := AppendMulti(nil, ops)
		if read := len(input) - len(d.Rest()); len(frame) != read {
			t.Fatalf("%d bytes read, %d written", read, len(frame))
		}
		d = NewDecoder(frame)
		again, err := DecodeMulti(&d, nil)
		if err != nil || len(again) != len(ops) || len(ops) > 0 && !reflect.DeepEqual(again, ops) {
			t.Fatalf("decoded again %+v, %v, want %+v", again, err, ops)
		}
	})
}
