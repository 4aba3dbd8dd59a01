package jute

import "testing"

func BenchmarkDecodeGetData(b *testing.B) {
	frame := GetDataRequest{Path: []byte("/services/web/node-17"), Watch: true}.Append(RequestHeader{1, OpGetData}.Append(nil))
	var h RequestHeader
	var r GetDataRequest
	b.ReportAllocs()
	for b.Loop() {
		d := NewDecoder(frame)
		h.Decode(&d)
		r.Decode(&d)
		if d.Err() != nil {
			b.Fatal(d.Err())
		}
	}
}

func BenchmarkDecodeSetData(b *testing.B) {
	frame := SetDataRequest{Path: []byte("/services/web/node-17"), Data: make([]byte, 100), Version: -1}.Append(RequestHeader{1, OpSetData}.Append(nil))
	var h RequestHeader
	var r SetDataRequest
	b.ReportAllocs()
	for b.Loop() {
		d := NewDecoder(frame)
		h.Decode(&d)
		r.Decode(&d)
		if d.Err() != nil {
			b.Fatal(d.Err())
		}
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
