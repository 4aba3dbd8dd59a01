package proto

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	pb "google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// drawTxn draws a transaction in which any field may be empty.
func drawTxn(t *rapid.T) *Txn {
	txn := &Txn{
		Member: rapid.Uint32().Draw(t, "member"), Incarnation: rapid.Uint64().Draw(t, "boot"), Seq: rapid.Uint64().Draw(t, "seq"),
		Session: rapid.Int64().Draw(t, "session"), Conn: rapid.Uint64().Draw(t, "conn"), Op: rapid.Int32().Draw(t, "op"),
		AclBytes: rapid.Uint32().Draw(t, "lists"), ReachableServers: rapid.SliceOfN(rapid.Uint32(), 0, 3).Draw(t, "reached"),
	}
	if body := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "body"); len(body) > 0 {
		txn.Body = body
	}
	for range rapid.IntRange(0, 3).Draw(t, "identities") {
		txn.Ids = append(txn.Ids, &Identity{Scheme: rapid.StringN(0, 5, 20).Draw(t, "scheme"), Id: rapid.StringN(0, 5, 20).Draw(t, "id")})
	}
	return txn
}

// What is encoded here has the bytes of protobuf, and is decoded to what was encoded.
func TestCodecIsProtobuf(t *testing.T) {
	usual := encoding.GetCodecV2("proto")
	rapid.Check(t, func(t *rapid.T) {
		e := &Entry{
			Format: rapid.Uint32().Draw(t, "format"), Term: rapid.Uint64().Draw(t, "term"), Nonce: rapid.Uint64().Draw(t, "nonce"),
			TimeMs: rapid.Int64().Draw(t, "time"), Txns: rapid.SliceOfN(rapid.Custom(drawTxn), 0, 3).Draw(t, "txns"),
		}
		got, err := MarshalEntry(e)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := (pb.MarshalOptions{Deterministic: true}).Marshal(e); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("the entry is %x, want %x: %v", got, want, err)
		}
		if len(got) != cap(got) {
			t.Fatalf("the entry has %d bytes of memory for %d", cap(got), len(got))
		}
		if decoded, err := UnmarshalEntry(got); err != nil || !pb.Equal(decoded, e) {
			t.Fatalf("decoded %v, want %v: %v", decoded, e, err)
		}
		for _, txn := range e.Txns {
			if n := txn.EncodedSize(); n != pb.Size(txn) {
				t.Fatalf("size %d, want %d", n, pb.Size(txn))
			}
		}
		f := &Forwarded{Member: e.Format, Incarnation: e.Term, Nonce: e.Nonce, Txns: e.Txns}
		for name, c := range map[string]encoding.CodecV2{"encoded": Codec(), "decoded": usual} {
			data, err := c.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			decoded := &Forwarded{Member: 1, Txns: []*Txn{{}}} // a message that was used before
			err = usual.Unmarshal(data, decoded)
			if name == "decoded" {
				err = decoded.unmarshal(data.Materialize())
			}
			if err != nil || !pb.Equal(decoded, f) {
				t.Fatalf("%s: %v, want %v: %v", name, decoded, f, err)
			}
		}
	})
}

// Other messages and invalid identities are protobuf's own.
func TestCodecOfOtherMessages(t *testing.T) {
	ping := &Ping{Number: 7}
	data, err := Codec().Marshal(ping)
	decoded := &Ping{}
	if err != nil || Codec().Unmarshal(data, decoded) != nil || !pb.Equal(decoded, ping) || Codec().Name() != "proto" {
		t.Errorf("%v, want %v: %v", decoded, ping, err)
	}
	for _, id := range []*Identity{{Scheme: "ip", Id: "\xff"}, {Scheme: "\xff", Id: "1"}} {
		invalid := []*Txn{{Ids: []*Identity{id}}}
		if _, err := MarshalEntry(&Entry{Txns: invalid}); err == nil {
			t.Errorf("an entry with the invalid identity %v was encoded", id)
		}
		if _, err := Codec().Marshal(&Forwarded{Txns: invalid}); err == nil {
			t.Errorf("a message with the invalid identity %v was encoded", id)
		}
	}
}

// A field that this version does not know stays in a transaction that it passes on.
func TestCodecKeepsUnknownFields(t *testing.T) {
	const unknown = "\xa0\x06\x01" // field 100 is 1
	for name, data := range map[string]string{
		"of the entry": unknown, "of a transaction": "\x2a\x03" + unknown, "of an identity": "\x2a\x05\x42\x03" + unknown,
	} {
		e, err := UnmarshalEntry([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := MarshalEntry(e); err != nil || string(again) != data {
			t.Errorf("%s: %x, want %x: %v", name, again, data, err)
		}
	}
}

// Whatever the bytes are, they are decoded as protobuf decodes them, or rejected as it rejects them.
func FuzzDecode(f *testing.F) {
	txn := &Txn{Member: 1, Incarnation: 2, Seq: 3, Session: 4, Conn: 5, Op: -6, Body: []byte("body"), AclBytes: 8, Ids: []*Identity{{Scheme: "ip", Id: "1"}}}
	for _, e := range []*Entry{{}, {Format: 1, Term: 2, Nonce: 3, TimeMs: 4, Txns: []*Txn{txn, {}, {ReachableServers: []uint32{1, 300}}}}} {
		data, err := MarshalEntry(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, data := range unusualMessages() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkDecoded(t, data) })
}

// unusual are messages that no member sends. If they have a transaction, they are an Entry.
var unusual = map[string]string{
	"a number twice":                "\x08\x01\x08\x02\x10\x01\x10\x00",
	"a number in ten bytes":         "\x08\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00",
	"the largest number":            "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	"a number above 64 bits":        "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
	"a number in eleven bytes":      "\x10\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
	"a number above 32 bits":        "\x08\x81\x80\x80\x80\x10",
	"a tag in two bytes":            "\x88\x00\x01",
	"a tag in six bytes":            "\x88\x80\x80\x80\x80\x00\x01",
	"field 0":                       "\x00\x01",
	"field 15":                      "\x78\x01",
	"a group":                       "\x0b\x08\x01\x0c",
	"a group that does not end":     "\x0b\x08\x01",
	"the end of a group":            "\x0c",
	"32 bits":                       "\x0d\x01\x02\x03\x04",
	"wire type 6":                   "\x0e\x01",
	"wire type 7":                   "\x0f\x01",
	"bytes instead of a number":     "\x0a\x00",
	"a number instead of bytes":     "\x28\x01",
	"no value":                      "\x08",
	"64 bits cut short":             "\x19\x01\x02\x03\x04\x05\x06\x07",
	"no transaction":                "",
	"empty transactions":            "\x2a\x00\x2a\x00",
	"a transaction cut short":       "\x2a\x03\x08\x01",
	"no length":                     "\x2a",
	"a length of 2^63 - 1":          "\x2a\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00",
	"a length of 2^64 - 1":          "\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00",
	"a length of 2^31":              "\x2a\x80\x80\x80\x80\x08\x00",
	"a body past its transaction":   "\x2a\x02\x3a\x01\x61",
	"unknown fields, then known":    "\x78\x01\x08\x01\x78\x02\x10\x02",
	"an unknown field, then damage": "\x78\x01\x08",
}

// unusualTxns are transactions that no member sends.
var unusualTxns = map[string]string{
	"a number above 32 bits":         "\x08\x81\x80\x80\x80\x10",
	"an operation above 32 bits":     "\x30\x83\x80\x80\x80\x10",
	"lists above 32 bits":            "\x50\x83\x80\x80\x80\x10",
	"a number instead of bytes":      "\x38\x01",
	"an empty body":                  "\x3a\x00",
	"two bodies":                     "\x3a\x01\x61\x3a\x01\x62",
	"a body, and an empty one":       "\x3a\x01\x61\x3a\x00",
	"an empty body, and another":     "\x3a\x00\x3a\x01\x61",
	"an empty identity":              "\x42\x00",
	"an identity with two ids":       "\x42\x06\x12\x01\x61\x12\x01\x62",
	"an identity with a number":      "\x42\x02\x08\x01",
	"a scheme that is not UTF-8":     "\x42\x03\x0a\x01\xff",
	"an id that is not UTF-8":        "\x42\x03\x12\x01\xff",
	"unknown text that is not UTF-8": "\x42\x03\x1a\x01\xff",
	"servers one by one":             "\x48\x01\x48\x02",
	"servers in two lists":           "\x4a\x01\x01\x4a\x01\x02",
	"nothing":                        "",
	"an unknown field":               "\x78\x01",
}

// unusualMessages returns them all. Each transaction is in an Entry and in a Forwarded.
func unusualMessages() map[string][]byte {
	all := map[string][]byte{}
	for name, data := range unusual {
		all[name] = []byte(data)
	}
	for name, data := range unusualTxns {
		for message, field := range map[string]protowire.Number{"entry": entryTxns, "message": forwardedTxns} {
			all["a transaction with "+name+" in the "+message] = append(appendLength(nil, field, len(data)), data...)
		}
	}
	return all
}

// checkDecoded checks that data are decoded as protobuf decodes them, or rejected if it rejects them, and that what is decoded
// is encoded as protobuf encodes it.
func checkDecoded(t *testing.T, data []byte) {
	t.Helper()
	want := &Entry{}
	wantErr := pb.Unmarshal(data, want)
	got, err := UnmarshalEntry(bytes.Clone(data))
	if (err == nil) != (wantErr == nil) || err == nil && !pb.Equal(got, want) {
		t.Errorf("entry %x: %v, %v; want %v, %v", data, got, err, want, wantErr)
	}
	if err == nil {
		again, err := MarshalEntry(got)
		if wantAgain, wantErr := pb.Marshal(want); err != nil || wantErr != nil || !bytes.Equal(again, wantAgain) || cap(again) != len(again) {
			t.Errorf("entry %x: encoded %x, %v; want %x, %v", data, again, err, wantAgain, wantErr)
		}
	}
	wantForwarded, forwarded := &Forwarded{}, &Forwarded{}
	wantErr = pb.Unmarshal(data, wantForwarded)
	err = forwarded.unmarshal(bytes.Clone(data))
	if (err == nil) != (wantErr == nil) || err == nil && !pb.Equal(forwarded, wantForwarded) {
		t.Errorf("message %x: %v, %v; want %v, %v", data, forwarded, err, wantForwarded, wantErr)
	}
	if err == nil {
		again, err := forwarded.marshal()
		if wantAgain, wantErr := pb.Marshal(wantForwarded); err != nil || wantErr != nil || !bytes.Equal(again, wantAgain) ||
			cap(again) != len(again) {
			t.Errorf("message %x: encoded %x, %v; want %x, %v", data, again, err, wantAgain, wantErr)
		}
	}
}

// Unusual and damaged messages are decoded as protobuf decodes them: else members of two versions, of which one decodes an
// entry that the other one rejects, would have different states.
func TestDecodeUnusual(t *testing.T) {
	for name, data := range unusualMessages() {
		t.Run(name, func(t *testing.T) { checkDecoded(t, data) })
	}
	txn := &Txn{Member: 1, Incarnation: 2, Seq: 3, Session: 4, Conn: 5, Op: -6, Body: []byte("body"), AclBytes: 8, Ids: []*Identity{{Scheme: "ip", Id: "1"}}}
	for _, m := range []pb.Message{&Entry{Format: 1, Term: 300, Nonce: 3, TimeMs: 4, Txns: []*Txn{txn}}, &Forwarded{Member: 1, Incarnation: 2, Nonce: 3, Txns: []*Txn{txn}}} {
		data, err := pb.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for i, before := range data {
			checkDecoded(t, data[:i])
			for to := range 256 {
				data[i] = byte(to)
				checkDecoded(t, data)
			}
			data[i] = before
		}
	}
}

// A decoded message of another member does not share the memory of the connection, which is used again. The parts of an entry
// share the entry's, but an append to one does not change the next.
func TestDecodedMemory(t *testing.T) {
	f := &Forwarded{Member: 1, Txns: []*Txn{{Body: []byte("one"), Ids: []*Identity{{Scheme: "ip", Id: "1"}}}, {Body: []byte("two")}}}
	data, err := f.marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 9} {
		memory, decoded := bytes.Clone(data), &Forwarded{}
		buffers := mem.BufferSlice{mem.SliceBuffer(memory[:at]), mem.SliceBuffer(memory[at:])}
		if at == 0 {
			buffers = buffers[1:]
		}
		if err := Codec().Unmarshal(buffers, decoded); err != nil {
			t.Fatal(err)
		}
		clear(memory)
		_ = append(decoded.Txns[0].Body, make([]byte, 14)...) // as far as the other body
		if !pb.Equal(decoded, f) {
			t.Errorf("in %d parts: %v, want %v", len(buffers), decoded, f)
		}
	}
}

func BenchmarkEntry(b *testing.B) {
	e := &Entry{Format: 1, Term: 2, Nonce: 3, TimeMs: 1 << 40}
	for range 500 {
		e.Txns = append(e.Txns, &Txn{Member: 1, Incarnation: 1 << 60, Seq: 1 << 20, Session: 1 << 56, Conn: 1 << 60, Op: 5, Body: make([]byte, 130)})
	}
	data, err := MarshalEntry(e)
	if err != nil {
		b.Fatal(err)
	}
	for name, run := range map[string]func(){
		"encode":          func() { _, _ = MarshalEntry(e) },
		"encode protobuf": func() { _, _ = pb.Marshal(e) },
		"decode":          func() { _, _ = UnmarshalEntry(data) },
		"decode protobuf": func() { _ = pb.Unmarshal(data, &Entry{}) },
		"size":            func() { sizeTxns(e.Txns) },
		"size protobuf":   func() { pb.Size(e) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
