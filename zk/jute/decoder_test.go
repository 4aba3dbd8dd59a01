package jute

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

func TestDecoderReadBytes(t *testing.T) {
	tests := []struct {
		name  string
		frame []byte
		want  []byte
		err   error
	}{
		{name: "empty", frame: []byte{0, 0, 0, 0}, want: []byte{}},
		{name: "null", frame: []byte{0xff, 0xff, 0xff, 0xff}},
		{name: "path", frame: []byte{0, 0, 0, 2, '/', 'a'}, want: []byte("/a")},
		{name: "more behind it", frame: []byte{0, 0, 0, 1, '/', 'a'}, want: []byte("/")},
		{name: "length past the end", frame: []byte{0, 0, 0, 9, '/'}, err: errShortFrame},
		{name: "length one past the end", frame: []byte{0, 0, 0, 2, '/'}, err: errShortFrame},
		{name: "greatest length", frame: []byte{0x7f, 0xff, 0xff, 0xff, '/'}, err: errShortFrame},
		{name: "length of -2", frame: []byte{0xff, 0xff, 0xff, 0xfe, '/'}, err: errLength},
		{name: "least length", frame: []byte{0x80, 0, 0, 0, '/'}, err: errLength},
		{name: "half a length", frame: []byte{0, 0}, err: errShortFrame},
		{name: "nothing", frame: nil, err: errShortFrame},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(tt.frame)
			got := d.ReadBytes()
			if !bytes.Equal(got, tt.want) || (got == nil) != (tt.want == nil) || !errors.Is(d.Err(), tt.err) {
				t.Errorf("ReadBytes() = %#v, %v, want %#v, %v", got, d.Err(), tt.want, tt.err)
			}
			if cap(got) != len(got) {
				t.Errorf("capacity %d beyond length %d: an append would write into the frame", cap(got), len(got))
			}
		})
	}
}

func TestDecoderReadCount(t *testing.T) {
	tests := []struct {
		name  string
		count int32
		rest  int // bytes after the count
		size  int
		want  int
		null  bool
		err   error
	}{
		{name: "null", count: -1, size: 4, null: true},
		{name: "empty", count: 0, size: 4},
		{name: "-2 is empty", count: -2, size: 4},
		{name: "least is empty", count: math.MinInt32, size: 4},
		{name: "fits", count: 3, rest: 12, size: 4, want: 3},
		{name: "one byte too few", count: 3, rest: 11, size: 4, null: true, err: errLength},
		{name: "greatest", count: math.MaxInt32, rest: 12, size: 4, null: true, err: errLength},
		{name: "elements of no size", count: math.MaxInt32, rest: 12, size: 0, null: true, err: errLength},
		{name: "elements of negative size", count: 13, rest: 12, size: -1, null: true, err: errLength},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(append(AppendCount(nil, int(tt.count)), make([]byte, tt.rest)...))
			n, null := d.ReadCount(tt.size)
			if n != tt.want || null != tt.null || !errors.Is(d.Err(), tt.err) {
				t.Errorf("ReadCount() = %d, %t, %v, want %d, %t, %v", n, null, d.Err(), tt.want, tt.null, tt.err)
			}
		})
	}
}

func TestDecoderNumbers(t *testing.T) {
	b := AppendBool(nil, true)
	b = AppendBool(b, false)
	b = append(b, 0x80) // every byte except 0 is true
	for _, v := range []int32{0, -1, math.MaxInt32, math.MinInt32} {
		b = AppendInt32(b, v)
	}
	for _, v := range []int64{0, -1, math.MaxInt64, math.MinInt64} {
		b = AppendInt64(b, v)
	}
	d := NewDecoder(b)
	if !d.ReadBool() || d.ReadBool() || !d.ReadBool() {
		t.Error("bools: want true, false, true")
	}
	for _, want := range []int32{0, -1, math.MaxInt32, math.MinInt32} {
		if got := d.ReadInt32(); got != want {
			t.Errorf("ReadInt32() = %d, want %d", got, want)
		}
	}
	for _, want := range []int64{0, -1, math.MaxInt64, math.MinInt64} {
		if got := d.ReadInt64(); got != want {
			t.Errorf("ReadInt64() = %d, want %d", got, want)
		}
	}
	if d.Err() != nil || len(d.Rest()) != 0 {
		t.Errorf("Err() = %v, %d bytes left", d.Err(), len(d.Rest()))
	}
}

// If the last byte of a value is missing, reading it returns zero and sets the error. Each kind of
// value is tried.
func TestDecoderShort(t *testing.T) {
	tests := []struct {
		name string
		size int
		read func(d *Decoder) bool // reports whether the value is zero
	}{
		{"bool", 1, func(d *Decoder) bool { return !d.ReadBool() }},
		{"int", 4, func(d *Decoder) bool { return d.ReadInt32() == 0 }},
		{"long", 8, func(d *Decoder) bool { return d.ReadInt64() == 0 }},
		{"string", 4, func(d *Decoder) bool { return d.ReadBytes() == nil }},
		{"count", 4, func(d *Decoder) bool { n, null := d.ReadCount(1); return n == 0 && null }},
		{"stat", StatSize, func(d *Decoder) bool { s := Stat{Version: 1}; s.Decode(d); return s == Stat{} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(bytes.Repeat([]byte{1}, tt.size-1))
			if zero := tt.read(&d); !zero || !errors.Is(d.Err(), errShortFrame) {
				t.Errorf("zero: %t, Err() = %v, want true, %v", zero, d.Err(), errShortFrame)
			}
		})
	}
}

func TestDecoderErrorSticks(t *testing.T) {
	d := NewDecoder([]byte{0xff, 0xff, 0xff, 0xfe, 1, 1, 1, 1, 1, 1, 1, 1})
	d.ReadBytes()
	n, null := d.ReadCount(1)
	if d.ReadBool() || d.ReadInt32() != 0 || d.ReadInt64() != 0 || d.ReadBytes() != nil || n != 0 || !null {
		t.Error("a read after an error returned a value")
	}
	if !errors.Is(d.Err(), errLength) || d.Rest() != nil {
		t.Errorf("Err() = %v, Rest() = %v, want the first error, %v, and nothing", d.Err(), d.Rest(), errLength)
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	getData := GetDataRequest{Path: []byte("/a/b"), Watch: true}.Append(RequestHeader{Xid: 1, Op: OpGetData}.Append(nil))
	setData := SetDataRequest{Path: []byte("/a/b"), Data: make([]byte, 100), Version: 7}.Append(RequestHeader{Xid: 2, Op: OpSetData}.Append(nil))
	create := CreateRequest{Path: []byte("/a/b"), ACL: OpenACL}.Append(RequestHeader{Xid: 3, Op: OpCreate}.Append(nil))
	watches := SetWatches{Data: [][]byte{[]byte("/a"), []byte("/b")}, Exist: [][]byte{}}.Append(RequestHeader{Xid: 4, Op: OpSetWatches}.Append(nil))
	multi := AppendMulti(nil, []MultiOp{{Op: OpCreate, Create: CreateRequest{ACL: OpenACL}}, {Op: OpCheck}})
	var r struct { // reused from request to request
		header   RequestHeader
		getData  GetDataRequest
		setData  SetDataRequest
		create   CreateRequest
		watches  SetWatches
		multi    []MultiOp
		response []byte
	}
	tests := []struct {
		name string
		run  func() error
	}{
		{"header and getData", func() error {
			d := NewDecoder(getData)
			r.header.Decode(&d)
			r.getData.Decode(&d)
			return d.Err()
		}},
		{"header and setData", func() error {
			d := NewDecoder(setData)
			r.header.Decode(&d)
			r.setData.Decode(&d)
			return d.Err()
		}},
		{"header and create", func() error {
			d := NewDecoder(create)
			r.header.Decode(&d)
			r.create.Decode(&d)
			return d.Err()
		}},
		{"header and setWatches", func() error {
			d := NewDecoder(watches)
			r.header.Decode(&d)
			r.watches.Decode(&d)
			return d.Err()
		}},
		{"multi", func() (err error) {
			d := NewDecoder(multi)
			r.multi, err = DecodeMulti(&d, r.multi)
			return err
		}},
		{"reply", func() error {
			b, mark := BeginFrame(r.response[:0])
			b = ReplyHeader{Xid: 1, Zxid: 2}.Append(b)
			b = GetDataResponse{Data: r.setData.Data}.Append(b)
			r.response = EndFrame(b, mark)
			return nil
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			allocs := testing.AllocsPerRun(100, func() {
				if err := tt.run(); err != nil {
					t.Fatal(err)
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations per run, want none", allocs)
			}
		})
	}
	if string(r.getData.Path) != "/a/b" || !r.getData.Watch || r.setData.Version != 7 || len(r.multi) != 2 {
		t.Errorf("decoded %+v", r)
	}
}

// A vector that claims more elements than its frame can hold does not allocate memory.
func TestHugeCountsAllocateNothing(t *testing.T) {
	for _, count := range []int{math.MaxInt32, math.MaxInt32 - 1, 1 << 20, 4} {
		frame := append(AppendCount(nil, count), make([]byte, 12)...)
		allocs := testing.AllocsPerRun(10, func() {
			d := NewDecoder(frame)
			if got := d.readStrings(nil); got != nil || d.Err() == nil {
				t.Fatalf("decoded %d strings from a count of %d", len(got), count)
			}
			d = NewDecoder(frame)
			if got := d.readACLs(nil); got != nil || d.Err() == nil {
				t.Fatalf("decoded %d ACLs from a count of %d", len(got), count)
			}
			d = NewDecoder(frame)
			var who WhoAmIResponse
			if who.Decode(&d); who.ClientInfo != nil || d.Err() == nil {
				t.Fatalf("decoded %d identities from a count of %d", len(who.ClientInfo), count)
			}
		})
		if allocs != 0 {
			t.Errorf("count %d: %v allocations, want none", count, allocs)
		}
	}
}

// A vector of the smallest possible elements may fill its frame to the last byte.
func TestSmallestElementsFit(t *testing.T) {
	for _, r := range []Record{
		&GetChildrenResponse{make([][]byte, 3)},
		&SetWatches{Child: make([][]byte, 3)},
		&WhoAmIResponse{make([]ClientInfo, 3)},
	} {
		if err := decode(fresh(r), r.Append(nil)); err != nil {
			t.Errorf("%s: %v", name(r), err)
		}
	}
	d := NewDecoder(appendACLs(nil, make([]ACL, 3)))
	if got := d.readACLs(nil); len(got) != 3 || d.Err() != nil {
		t.Errorf("%d ACLs, %v, want 3", len(got), d.Err())
	}
}
