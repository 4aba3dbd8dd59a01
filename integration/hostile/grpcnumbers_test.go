package hostile

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"rollcall/lab/process"
	"rollcall/proto"
)

// longList is above the limits of all lists, except a leader's replies and syncs, which take a million.
const longList = 1<<17 + 1

// impossible is a message in which one number is extreme or one list is long.
type impossible struct {
	field   string // as errors of the codec name it
	message protoreflect.Message
}

// impossibleMessages returns messages of a type with each number of it, and of the messages in it, at each of the values, and with
// each list too long. All other fields are those that the member thief sends.
func impossibleMessages(m protoreflect.MessageDescriptor, values []uint64, depth int) (all []impossible) {
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		field := string(m.Name()) + "." + string(f.Name())
		if f.Kind() == protoreflect.MessageKind && depth > 0 {
			for _, inner := range impossibleMessages(f.Message(), values, depth-1) {
				all = append(all, impossible{inner.field, withValue(m, f, protoreflect.ValueOfMessage(inner.message))})
			}
		}
		for _, n := range values {
			if value := numberOf(f, n); value.IsValid() {
				all = append(all, impossible{field, withValue(m, f, value)})
			}
		}
		if f.IsList() {
			long := ofThief(m)
			for list := long.Mutable(f).List(); list.Len() < longList; {
				list.Append(list.NewElement())
			}
			all = append(all, impossible{field, long})
		}
	}
	return all
}

// ofThief returns a message that says that the member thief has sent it.
func ofThief(m protoreflect.MessageDescriptor) protoreflect.Message {
	made := dynamicpb.NewMessage(m)
	for _, name := range []protoreflect.Name{"member", "leader"} {
		if f := m.Fields().ByName(name); f != nil && f.Kind() == protoreflect.Uint32Kind {
			made.Set(f, protoreflect.ValueOfUint32(thief))
		}
	}
	return made
}

func withValue(m protoreflect.MessageDescriptor, f protoreflect.FieldDescriptor, value protoreflect.Value) protoreflect.Message {
	made := ofThief(m)
	if f.IsList() {
		made.Mutable(f).List().Append(value)
	} else {
		made.Set(f, value)
	}
	return made
}

// numberOf returns n, cut to the field's type, or nothing if the field is no integer. Ids, nonces and digests, which are fixed64, have
// no extremes.
func numberOf(f protoreflect.FieldDescriptor, n uint64) (none protoreflect.Value) {
	switch f.Kind() {
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(min(n, math.MaxUint32)))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(n)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
	}
	return none
}

// changesMembers are methods that an accepted request would have move leadership or close clients. They get only numbers that no
// member accepts.
var changesMembers = map[protoreflect.Name]bool{"Drain": true, "Rebalance": true, "HandOver": true}

// sendsImpossibleMessages calls each method of both services with impossible messages. Each call ends, some with their
// connection. An error of the codec names the wrong number or list: its field is added to named.
func (s stolen) sendsImpossibleMessages(t *testing.T, to uint32, named map[string]bool) {
	t.Helper()
	c := s.grpc(t, to)
	sent, begun := 0, time.Now()
	for i := range proto.File_rollcall_proto.Services().Len() {
		methods := proto.File_rollcall_proto.Services().Get(i).Methods()
		for j := range methods.Len() {
			method := methods.Get(j)
			values := []uint64{math.MaxUint64}
			if !changesMembers[method.Name()] {
				values = append(values, math.MaxUint8, math.MaxInt32, math.MaxUint32, 1<<48, 1<<60, 1<<62, math.MaxInt64, 1<<63)
			}
			for _, one := range impossibleMessages(method.Input(), values, 4) {
				err := call(t, c, method, one.message)
				sent++
				switch code := status.Code(err); {
				case err == nil:
				case code == codes.Unavailable: // the member has closed the connection; gRPC would wait longer each time
					c = s.grpc(t, to)
				case code == codes.DeadlineExceeded:
					t.Errorf("member %d, %s with %s %v: %v", to, method.Name(), one.field, one.message, err)
				case strings.Contains(err.Error(), "proto: "+one.field+" "):
					named[one.field] = true
				}
			}
		}
	}
	t.Logf("member %d: %d messages in %v", to, sent, time.Since(begun).Round(time.Millisecond))
}

// rejectedFields are some of the fields that an error must name, at least one of each method. Only a leader reads writes.
var rejectedFields = []string{
	"HelloRequest.member", "Ping.term", "Ping.number", "Ack.commit", "Ack.refused", "Verdict.index", "Forwarded.member", "Forwarded.txns",
	"Txn.seq", "Txn.ids", "SyncRequest.member", "HandOverRequest.target", "DrainRequest.over_ms", "RebalanceRequest.connections",
	"ViewTimes.indexes", "ViewSlow.limit", "ViewSessions.limit",
}

// call sends one message with a method, and waits for the reply or the end of the stream.
func call(t *testing.T, c *grpc.ClientConn, method protoreflect.MethodDescriptor, m protoreflect.Message) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
	defer cancel()
	name := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
	reply := dynamicpb.NewMessage(method.Output())
	if !method.IsStreamingClient() {
		return c.Invoke(ctx, name, m.Interface(), reply, grpc.WaitForReady(true))
	}
	both := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := c.NewStream(ctx, both, name, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if err := stream.SendMsg(m.Interface()); err != nil && !errors.Is(err, io.EOF) { // the stream's own error follows
		return err
	}
	_ = stream.CloseSend() // always nil
	for {
		if err := stream.RecvMsg(reply); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
