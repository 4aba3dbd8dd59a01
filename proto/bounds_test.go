package proto

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	pb "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// sentFields returns the fields of the messages that members send to each other, by message and field.
func sentFields() map[protoreflect.FullName]protoreflect.FieldDescriptor {
	all, seen := map[protoreflect.FullName]protoreflect.FieldDescriptor{}, map[protoreflect.FullName]bool{}
	var add func(m protoreflect.MessageDescriptor)
	add = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			all[protoreflect.FullName(m.Name()).Append(f.Name())] = f
			if f.Kind() == protoreflect.MessageKind {
				add(f.Message())
			}
		}
	}
	for _, m := range messagesOfServices() {
		add(m)
	}
	return all
}

func isNumber(f protoreflect.FieldDescriptor) bool {
	switch f.Kind() {
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind,
		protoreflect.Sint32Kind, protoreflect.Sint64Kind, protoreflect.EnumKind:
		return true
	case protoreflect.BoolKind, protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind,
		protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return false
	}
	panic(f.FullName() + " is of a kind without a rule")
}

// Every integer in a message from another member has a bound, and every list a greatest length. No row is left of a field that has
// gone.
func TestEveryNumberHasABound(t *testing.T) {
	fields := sentFields()
	for name, f := range fields {
		if _, bounded := numberBounds[name]; bounded != isNumber(f) {
			t.Errorf("%s is a %v, and has a bound: %t", name, f.Kind(), bounded)
		}
		if _, bounded := listBounds[name]; bounded != f.IsList() {
			t.Errorf("%s has a greatest length: %t", name, bounded)
		}
		if f.Number() >= maxFields {
			t.Errorf("%s has the number %d; raise maxFields", name, f.Number())
		}
	}
	for name := range numberBounds {
		if fields[name] == nil {
			t.Errorf("%s is no field", name)
		}
	}
	for name := range listBounds {
		if fields[name] == nil {
			t.Errorf("%s is no field", name)
		}
	}
}

// A member's number, a position and a duration have the same bound in all messages, so that none is raised by mistake.
func TestSameNamesHaveSameBounds(t *testing.T) {
	byName := map[protoreflect.Name]uint64{"limit": maxPage, "clock_ms": maxClock, "timeout_ms": maxTimeout, "timeouts_ms": maxTimeout}
	for _, name := range []protoreflect.Name{"member", "members", "agree", "leader", "target", "missing", "reachable_servers"} {
		byName[name] = maxMember
	}
	for _, name := range []protoreflect.Name{
		"term", "last_term", "index", "indexes", "last_index", "snapshot_index", "through", "commit", "seq", "proof", "number", "before",
		"first", "next",
	} {
		byName[name] = maxPosition
	}
	for name := range numberBounds {
		want, known := byName[name.Name()]
		if strings.HasSuffix(string(name), "_us") {
			want, known = maxMicros, true
		}
		if name.Parent() == "TimeRow" && name.Name() != "index" {
			want, known = maxNanos, true
		}
		if got := numberBounds[name]; known && got != want {
			t.Errorf("%s may be %d, want %d as in the other messages", name, got, want)
		}
	}
}

// withField returns a message of a type that members send, in which one field, perhaps of a message inside it, has a value or so
// many elements; nil if the type has no such field.
func withField(m protoreflect.MessageType, field protoreflect.FieldDescriptor, set func(in protoreflect.Message), depth int) pb.Message {
	made := m.New()
	if m.Descriptor() == field.Parent() {
		set(made)
		return made.Interface()
	}
	if depth == 0 {
		return nil
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if f.Kind() != protoreflect.MessageKind {
			continue
		}
		empty := made.NewField(f)
		inner := empty
		if f.IsList() {
			inner = empty.List().NewElement()
		}
		filled := withField(inner.Message().Type(), field, set, depth-1)
		if filled == nil {
			continue
		}
		if f.IsList() {
			empty.List().Append(protoreflect.ValueOfMessage(filled.ProtoReflect()))
			made.Set(f, empty)
		} else {
			made.Set(f, protoreflect.ValueOfMessage(filled.ProtoReflect()))
		}
		return made.Interface()
	}
	return nil
}

// carrier returns a message that a method sends or receives, with set applied to the message of a field.
func carrier(t *testing.T, field protoreflect.FieldDescriptor, set func(in protoreflect.Message)) pb.Message {
	t.Helper()
	for _, m := range messagesOfServices() {
		if made := withField(typeOf(t, m), field, set, 4); made != nil {
			return made
		}
	}
	t.Fatalf("no message has %s", field.FullName())
	return nil
}

// decodes reports whether the codec takes a message. If it does not, the error must name the field.
func decodes(t *testing.T, m pb.Message, name protoreflect.FullName) bool {
	t.Helper()
	data, err := pb.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	err = Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, m.ProtoReflect().New().Interface())
	if err != nil && !strings.Contains(err.Error(), string(name)) {
		t.Fatalf("%s: %v", name, err)
	}
	return err == nil
}

// The codec takes each number up to its bound, and rejects it above. No number makes it fail otherwise.
func TestNumbersAtTheirBounds(t *testing.T) {
	for name, f := range sentFields() {
		most, bounded := numberBounds[name]
		if !bounded {
			continue
		}
		for _, n := range []uint64{0, 1, most, most + 1, math.MaxInt32, math.MaxUint32, math.MaxInt64, math.MaxUint64} {
			value, fits := numberOf(f, n)
			if !fits {
				continue
			}
			m := carrier(t, f, func(in protoreflect.Message) {
				if f.IsList() {
					in.Mutable(f).List().Append(value)
				} else {
					in.Set(f, value)
				}
			})
			if got := decodes(t, m, name); got != (n <= most) {
				t.Errorf("%s %d is taken: %t", name, n, got)
			}
		}
	}
}

func typeOf(t *testing.T, m protoreflect.MessageDescriptor) protoreflect.MessageType {
	t.Helper()
	found, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// numberOf returns n as the value of a field, if its type has room.
func numberOf(f protoreflect.FieldDescriptor, n uint64) (protoreflect.Value, bool) {
	switch f.Kind() {
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n)), n <= math.MaxUint32
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(n), true
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(int32(n)), n <= math.MaxInt32
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n)), n <= math.MaxInt32
	}
	return protoreflect.ValueOfInt64(int64(n)), n <= math.MaxInt64
}

// The codec takes each list up to its greatest length, and rejects a longer one.
func TestListsAtTheirBounds(t *testing.T) {
	for name, f := range sentFields() {
		most := listBounds[name]
		if !f.IsList() {
			continue
		}
		for _, n := range []int{0, 1, most, most + 1} {
			m := carrier(t, f, func(in protoreflect.Message) {
				list := in.Mutable(f).List()
				for range n {
					list.Append(list.NewElement())
				}
			})
			if got := decodes(t, m, name); got != (n <= most) {
				t.Errorf("%s with %d elements is taken: %t", name, n, got)
			}
		}
	}
}

// A negative number is bounded by its absolute value, and a number that is longer than its type is rejected.
func TestUnusualNumbers(t *testing.T) {
	for name, tt := range map[string]struct {
		m    pb.Message
		want bool
	}{
		"the zero time":      {&Pong{ClockMs: -62135596800000}, true},
		"a clock before it":  {&Pong{ClockMs: -maxClock - 1}, false},
		"the least clock":    {&Pong{ClockMs: math.MinInt64}, false},
		"an unknown version": {&ViewReply{About: &ViewReply_Status{Status: &MemberStatus{Zxid: math.MinInt64}}}, true},
	} {
		data, err := pb.Marshal(tt.m)
		if err != nil {
			t.Fatal(err)
		}
		if err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, tt.m.ProtoReflect().New().Interface()); (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Fields of these numbers; fifth has bit 32 of a varint in its fifth byte.
	const first, indexes, unknown, fifth = 1 << 3, 2<<3 | byte(protowire.BytesType), 15 << 3, 0x10
	for name, tt := range map[string]struct {
		m    pb.Message
		data []byte
		want bool
	}{
		"a member above 2^32, of which protobuf makes 1": {&HelloRequest{}, []byte{first, 0x81, 0x80, 0x80, 0x80, fifth}, false},
		"a cause above 2^32":                             {&CauseRow{}, []byte{first, 0x81, 0x80, 0x80, 0x80, fifth}, false},
		"a long number in a packed list":                 {&StateHashes{}, []byte{indexes, 10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, false},
		"a long number after an unknown field":           {&HelloRequest{}, []byte{unknown, 1, first, 0x80, 2}, false},
		"an unknown field":                               {&HelloRequest{}, []byte{unknown, 1, first, 1}, true},
	} {
		if err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(tt.data)}, tt.m); (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is no message is rejected, and never makes the check panic or run on.
func FuzzBounds(f *testing.F) {
	f.Add([]byte{1 << 3, 0x81, 0x80, 0x80, 0x80, 0x80, 0x01})
	f.Add([]byte{5<<3 | 2, 2, 1 << 3, 0xff})
	f.Fuzz(func(_ *testing.T, data []byte) {
		for _, m := range messagesOfServices() {
			_ = boundsByName()[m.FullName()].check(data)
		}
	})
}
