package jute

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// records holds one of every record. TestAllRecordsAreListed keeps it complete.
var records = []Record{
	&ACL{},
	&AddWatchRequest{},
	&AuthPacket{},
	&ClientInfo{},
	&ConnectRequest{},
	&ConnectResponse{},
	&Create2Response{},
	&CreateRequest{},
	&CreateTTLRequest{},
	&ErrorResponse{},
	&GetACLResponse{},
	&GetAllChildrenNumberResponse{},
	&GetChildren2Response{},
	&GetChildrenResponse{},
	&GetDataResponse{},
	&GetEphemeralsResponse{},
	&ID{},
	&MultiHeader{},
	&PathRecord{},
	&ReconfigRequest{},
	&ReplyHeader{},
	&RequestHeader{},
	&SASLToken{},
	&SetACLRequest{},
	&SetDataRequest{},
	&SetWatches2{},
	&SetWatches{},
	&StatRecord{},
	&Stat{},
	&VersionedPath{},
	&WatchedPath{},
	&WatcherEvent{},
	&WatcherRequest{},
	&WhoAmIResponse{},
}

// fresh returns a new record of r's type.
func fresh(r Record) Record {
	return reflect.New(reflect.TypeOf(r).Elem()).Interface().(Record)
}

func name(r Record) string {
	return reflect.TypeOf(r).Elem().Name()
}

// decode decodes frame into r and returns the Decoder's error.
func decode(r Record, frame []byte) error {
	d := NewDecoder(frame)
	r.Decode(&d)
	return d.Err()
}

// sources parses the package's files, without its tests.
func sources(t *testing.T) []*ast.File {
	t.Helper()
	var files []*ast.File
	entries, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

func TestAllRecordsAreListed(t *testing.T) {
	var declared, listed []string
	for _, file := range sources(t) {
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == "Decode" && fn.Recv != nil {
				declared = append(declared, fn.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name)
			}
		}
	}
	for _, r := range records {
		listed = append(listed, name(r))
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) {
		t.Errorf("types with a Decode method:\n%v\nlisted:\n%v", declared, listed)
	}
}

// filling selects the value that fill gives to strings, buffers and vectors.
type filling int

const (
	null filling = iota
	empty
	mixed // vectors of a null, an empty and a full element
)

// populateFields sets every field of v to a value that is not its zero value. But a null filling sets
// strings, buffers and vectors to nil.
func populateFields(v reflect.Value, with filling) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32:
		v.SetInt(math.MinInt32 + 7)
	case reflect.Int64:
		v.SetInt(math.MinInt64 + 9)
	case reflect.Uint8:
		v.SetUint('x')
	case reflect.Struct:
		for i := range v.NumField() {
			populateFields(v.Field(i), with)
		}
	case reflect.Slice:
		switch with {
		case null:
			v.SetZero()
		case empty:
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		case mixed:
			v.Set(reflect.MakeSlice(v.Type(), 3, 3))
			for i := range 3 {
				populateFields(v.Index(i), filling(i))
			}
		}
	default:
		panic("a record has a field of type " + v.Type().String())
	}
}

func TestNullAndEmptyAreKeptApart(t *testing.T) {
	for _, zero := range records {
		t.Run(name(zero), func(t *testing.T) {
			var frames [][]byte
			for _, with := range []filling{null, empty, mixed} {
				want, got := fresh(zero), fresh(zero)
				populateFields(reflect.ValueOf(want).Elem(), with)
				frame := want.Append(nil)
				if err := decode(got, frame); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("decoded %#v, %v, want %#v", got, err, want)
				}
				frames = append(frames, frame)
			}
			if hasSlice(reflect.TypeOf(zero).Elem()) && bytes.Equal(frames[null], frames[empty]) {
				t.Errorf("null and empty are both encoded as %x", frames[null])
			}
		})
	}
}

func hasSlice(typ reflect.Type) bool {
	if typ.Kind() != reflect.Struct {
		return typ.Kind() == reflect.Slice
	}
	return slices.ContainsFunc(reflect.VisibleFields(typ), func(f reflect.StructField) bool { return hasSlice(f.Type) })
}

// Decode overwrites every field of a record, even if the frame is too short.
func TestDecodeSetsEveryField(t *testing.T) {
	for _, zero := range records {
		t.Run(name(zero), func(t *testing.T) {
			for _, with := range []filling{null, empty, mixed} {
				want, got := fresh(zero), fresh(zero)
				populateFields(reflect.ValueOf(got).Elem(), mixed)
				reflect.ValueOf(want).Elem().SetZero()
				if with != null {
					setSlices(reflect.ValueOf(want).Elem(), with)
				}
				if err := decode(got, want.Append(nil)); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("decoded %#v, %v, want %#v", got, err, want)
				}
			}
			got := fresh(zero)
			populateFields(reflect.ValueOf(got).Elem(), mixed)
			if err := decode(got, nil); err == nil || !reflect.DeepEqual(got, fresh(zero)) {
				t.Errorf("decoded from nothing: %#v, %v", got, err)
			}
		})
	}
}

// setSlices fills the strings, buffers and vectors of v and nothing else.
func setSlices(v reflect.Value, with filling) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			setSlices(f, with)
		case reflect.Slice:
			populateFields(f, with)
		}
	}
}

// Decoding a record returns an error if bytes at its end are missing.
func TestEveryPrefixIsAnError(t *testing.T) {
	for _, zero := range records {
		t.Run(name(zero), func(t *testing.T) {
			full := fresh(zero)
			populateFields(reflect.ValueOf(full).Elem(), mixed)
			frame := full.Append(nil)
			for n := range frame {
				if strings.HasPrefix(name(zero), "Connect") && n == len(frame)-1 {
					continue // the last byte may be missing
				}
				if got := fresh(zero); decode(got, frame[:n]) == nil {
					t.Errorf("%d of %d bytes decoded to %#v", n, len(frame), got)
				}
			}
		})
	}
}

func TestTrailingBytesAreLeft(t *testing.T) {
	d := NewDecoder(append(GetDataRequest{Path: []byte("/a")}.Append(nil), "garbage"...))
	var r GetDataRequest
	r.Decode(&d)
	if string(r.Path) != "/a" || string(d.Rest()) != "garbage" || d.Err() != nil {
		t.Errorf("decoded %q, left %q, %v", r.Path, d.Rest(), d.Err())
	}
}

// Decoding reuses the memory of a vector. A shorter vector shows nothing of a longer one before it.
func TestVectorsAreReused(t *testing.T) {
	long := GetChildrenResponse{Children: [][]byte{[]byte("a"), []byte("b"), []byte("c")}}.Append(nil)
	short := GetChildrenResponse{Children: [][]byte{nil}}.Append(nil)
	var r GetChildrenResponse
	if err := decode(&r, long); err != nil {
		t.Fatal(err)
	}
	first := &r.Children[0]
	if err := decode(&r, short); err != nil {
		t.Fatal(err)
	}
	if len(r.Children) != 1 || r.Children[0] != nil || &r.Children[0] != first {
		t.Errorf("decoded %q, reused: %t", r.Children, &r.Children[0] == first)
	}
}

// No input may make a record's Decode panic or read past the frame. A record that it has decoded is
// the same after it is encoded and decoded again.
func FuzzDecoder(f *testing.F) {
	for i, r := range records {
		for _, with := range []filling{null, empty, mixed} {
			full := fresh(r)
			populateFields(reflect.ValueOf(full).Elem(), with)
			f.Add(byte(i), full.Append(nil))
		}
		f.Add(byte(i), append(AppendCount(nil, math.MaxInt32), make([]byte, 40)...))
	}
	f.Fuzz(func(t *testing.T, which byte, input []byte) {
		zero := records[int(which)%len(records)]
		got, other, again := fresh(zero), fresh(zero), fresh(zero)
		d := NewDecoder(guarded(input, 0))
		got.Decode(&d)
		if err := decode(other, guarded(input, 0xff)); !errors.Is(err, d.Err()) || !reflect.DeepEqual(got, other) {
			t.Fatalf("%s depends on bytes outside its frame: %#v, %v and %#v, %v", name(zero), got, d.Err(), other, err)
		}
		if d.Err() != nil {
			return
		}
		frame := got.Append(nil)
		if read := len(input) - len(d.Rest()); len(frame) != read {
			t.Fatalf("%s: %d bytes read, %d written", name(zero), read, len(frame))
		}
		if err := decode(again, frame); err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%s: decoded again %#v, %v, want %#v", name(zero), again, err, got)
		}
	})
}

// guarded returns input within a larger array whose other bytes are all fence.
func guarded(input []byte, fence byte) []byte {
	const width = 128
	b := bytes.Repeat([]byte{fence}, len(input)+2*width)
	copy(b[width:], input)
	return b[width : width+len(input)]
}
