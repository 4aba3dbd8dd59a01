package jute

import (
	"fmt"
	"testing"
)

// BenchmarkDecode decodes a request as the server does: first its header, then its record.
func BenchmarkDecode(b *testing.B) {
	path, data := []byte("/services/web/node-17"), make([]byte, 100)
	multi := []MultiOp{
		{Op: OpCheck, Check: CheckVersionRequest{Path: path}},
		{Op: OpSetData, SetData: SetDataRequest{Path: path, Data: data}},
		{Op: OpCreate, Create: CreateRequest{Path: path, Data: data, ACL: OpenACL}},
		{Op: OpDelete, Delete: DeleteRequest{Path: path}},
	}
	watches := SetWatches2{Exist: [][]byte{}, Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{}}
	for i := range 100 {
		watches.Data = append(watches.Data, fmt.Appendf(nil, "/services/web/node-%02d", i))
	}
	var create CreateRequest // reused, so its vector keeps its memory, as when entries are applied
	var ops []MultiOp
	for _, bb := range []struct {
		name   string
		body   []byte
		decode func(d *Decoder)
	}{
		{"ping", nil, func(*Decoder) {}},
		{"connect", ConnectRequest{Passwd: make([]byte, 16), HasReadOnly: true}.Append(nil), func(d *Decoder) { var r ConnectRequest; r.Decode(d) }},
		{"exists", ExistsRequest{Path: path}.Append(nil), func(d *Decoder) { var r ExistsRequest; r.Decode(d) }},
		{"getData", GetDataRequest{Path: path, Watch: true}.Append(nil), func(d *Decoder) { var r GetDataRequest; r.Decode(d) }},
		{"getChildren", GetChildrenRequest{Path: path}.Append(nil), func(d *Decoder) { var r GetChildrenRequest; r.Decode(d) }},
		{"create", CreateRequest{Path: path, Data: data, ACL: OpenACL}.Append(nil), func(d *Decoder) { create.Decode(d) }},
		{"delete", DeleteRequest{Path: path}.Append(nil), func(d *Decoder) { var r DeleteRequest; r.Decode(d) }},
		{"setData", SetDataRequest{Path: path, Data: data, Version: -1}.Append(nil), func(d *Decoder) { var r SetDataRequest; r.Decode(d) }},
		{"setACL", SetACLRequest{Path: path, ACL: OpenACL}.Append(nil), func(d *Decoder) { var r SetACLRequest; r.Decode(d) }},
		{"multi of four", AppendMulti(nil, multi), func(d *Decoder) { ops, _ = DecodeMulti(d, ops) }},
		{"setWatches of 100", watches.Append(nil), func(d *Decoder) { var r SetWatches2; r.Decode(d) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			frame := append(RequestHeader{Xid: 1, Op: OpGetData}.Append(nil), bb.body...)
			var h RequestHeader
			var d Decoder // outside the loop, because passing it to bb.decode moves it to the heap
			b.ReportAllocs()
			for b.Loop() {
				d = NewDecoder(frame)
				h.Decode(&d)
				if bb.decode(&d); d.Err() != nil {
					b.Fatal(d.Err())
				}
			}
		})
	}
}

func BenchmarkAppendStat(b *testing.B) {
	s := Stat{Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: 5, EphemeralOwner: 6, Pzxid: 7}
	buf := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		buf = s.Append(buf[:0])
	}
}
