package proto

import (
	"strconv"
	"strings"
	"testing"

	pb "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"rollcall/internal/formats"
)

const releasedFile = "messages.txt"

// valueOf returns a value for a field that is not a message. It depends on the field's number and kind alone, so that a
// field with another kind reads another value.
func valueOf(f protoreflect.FieldDescriptor) protoreflect.Value {
	n := int(f.Number())
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(f.Enum().Values().Get(1).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("text " + strconv.Itoa(n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0xff, byte(n)})
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(1<<31 + uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(1<<63 + uint64(n))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(-int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(-1<<40 - int64(n))
	}
	panic("the test has no value for a field of kind " + f.Kind().String())
}

// fill sets all fields of m. A message in it has its own first field only, because that message is in the file, too.
func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case depth > 0 && i > 0:
		case f.Message() != nil && f.IsList():
			list := m.Mutable(f).List()
			for range 2 {
				fill(list.AppendMutable().Message(), depth+1)
			}
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), depth+1)
		case f.IsList():
			m.Mutable(f).List().Append(valueOf(f))
			m.Mutable(f).List().Append(valueOf(f))
		default:
			m.Set(f, valueOf(f))
		}
	}
}

// releasedMessages returns a message of each type with all of its fields set. A field of a oneof excludes the others, so
// each of them has a message of its own.
func releasedMessages(t *testing.T) (all []formats.Frame) {
	t.Helper()
	types := File_rollcall_proto.Messages()
	for i := range types.Len() {
		d := types.Get(i)
		if d.Oneofs().Len() == 0 {
			m := newMessage(t, string(d.Name()))
			fill(m, 0)
			all = append(all, frameOf(t, string(d.Name()), m))
			continue
		}
		for j := range d.Fields().Len() {
			f := d.Fields().Get(j)
			if f.ContainingOneof() == nil || d.Oneofs().Len() > 1 {
				t.Fatalf("%s: the test expects messages that are one oneof, or have none", d.Name())
			}
			m := newMessage(t, string(d.Name()))
			fill(m.Mutable(f).Message(), 1)
			all = append(all, frameOf(t, string(d.Name())+" "+string(f.Name()), m))
		}
	}
	return all
}

func newMessage(t *testing.T, name string) protoreflect.Message {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(File_rollcall_proto.Package().Append(protoreflect.Name(name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return mt.New()
}

func frameOf(t *testing.T, name string, m protoreflect.Message) formats.Frame {
	t.Helper()
	b, err := pb.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
	if err != nil {
		t.Fatal(err)
	}
	return formats.Frame{Name: name, Bytes: b}
}

// checkValues requires that all fields of m are known, and have the values that fill gives them.
func checkValues(t *testing.T, m protoreflect.Message) {
	t.Helper()
	name := m.Descriptor().Name()
	if len(m.GetUnknown()) > 0 {
		t.Errorf("%s: this build does not know the fields %x", name, m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		values := []protoreflect.Value{v}
		if f.IsList() {
			values = nil
			for i := range v.List().Len() {
				values = append(values, v.List().Get(i))
			}
		}
		for _, v := range values {
			if f.Message() != nil {
				checkValues(t, v.Message())
			} else if !v.Equal(valueOf(f)) {
				t.Errorf("%s: field %d, %s, is %v, want %v", name, f.Number(), f.Name(), v, valueOf(f))
			}
		}
		return true
	})
}

// This build writes each message of the contract between members, and of the log, as the newest release did, and knows
// every field of every release, with its number and its type.
func TestReleasedMessages(t *testing.T) {
	formats.CheckWritten(t, releasedFile, releasedMessages(t))
	formats.EachRelease(t, releasedFile, func(t *testing.T, frames []formats.Frame) {
		for _, f := range frames {
			name, _, _ := strings.Cut(f.Name, " ")
			m := newMessage(t, name)
			if err := pb.Unmarshal(f.Bytes, m.Interface()); err != nil {
				t.Errorf("%s: %v", f.Name, err)
				continue
			}
			checkValues(t, m)
		}
	})
}
