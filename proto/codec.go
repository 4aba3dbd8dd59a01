package proto

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec "proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Every write is part of a Forwarded and of an Entry. So these two messages are encoded and decoded here, without
// protobuf's tables. The bytes are those of protobuf. A message with anything that this version does not write is left to
// protobuf's own Unmarshal: unknown fields, other wire types, empty bytes, lists of reached servers.

// Numbers of the fields in rollcall.proto.
const (
	entryFormat, entryTerm, entryNonce, entryTime, entryTxns                      = 1, 2, 3, 4, 5
	forwardedMember, forwardedIncarnation, forwardedNonce, forwardedTxns          = 1, 2, 3, 4
	txnMember, txnIncarnation, txnSeq, txnSession, txnConn, txnOp, txnBody        = 1, 2, 3, 4, 5, 6, 7
	txnIds, txnReachableServers, txnACLBytes, identityScheme, identityID, tagSize = 8, 9, 10, 1, 2, 1
)

var errInvalidUTF8 = errors.New("proto: an identity is not valid UTF-8")

// MarshalEntry encodes an entry as proto.Marshal does. The error is that an identity is not valid UTF-8.
func MarshalEntry(e *Entry) ([]byte, error) {
	b := make([]byte, 0, sizeUvarint(uint64(e.Format))+sizeUvarint(e.Term)+sizeFixed(e.Nonce)+sizeUvarint(uint64(e.TimeMs))+
		sizeTxns(e.Txns)+len(e.unknownFields))
	b = appendUvarint(b, entryFormat, uint64(e.Format))
	b = appendUvarint(b, entryTerm, e.Term)
	b = appendFixed(b, entryNonce, e.Nonce)
	b = appendUvarint(b, entryTime, uint64(e.TimeMs))
	b, err := appendTxns(b, entryTxns, e.Txns)
	return append(b, e.unknownFields...), err
}

// UnmarshalEntry decodes an entry as proto.Unmarshal does. The bodies of the transactions are parts of data, which must not be
// changed afterwards.
func UnmarshalEntry(data []byte) (*Entry, error) {
	e := &Entry{}
	if e.decode(data) {
		return e, nil
	}
	return e, proto.Unmarshal(data, e) // resets e
}

// Codec returns the codec of the connections between members. Its name and its bytes are those of gRPC's codec for
// protobuf. The transactions of a decoded Forwarded share its memory.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ encoding.CodecV2 }

const forwardedName = "rollcall.v1.Forwarded"

func (c codec) Marshal(message any) (mem.BufferSlice, error) {
	f, ok := message.(*Forwarded)
	if !ok {
		return c.CodecV2.Marshal(message)
	}
	b, err := f.marshal()
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

// Unmarshal checks the numbers and the lists in a message before it decodes it.
func (c codec) Unmarshal(data mem.BufferSlice, message any) error {
	if f, ok := message.(*Forwarded); ok {
		whole := data.Materialize()
		if err := boundsByName()[forwardedName].check(whole); err != nil {
			return err
		}
		return f.unmarshal(whole)
	}
	m, ok := message.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, message)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	if bound := boundsByName()[m.ProtoReflect().Descriptor().FullName()]; bound != nil {
		if err := bound.check(whole.ReadOnlyData()); err != nil {
			return err
		}
	}
	return proto.Unmarshal(whole.ReadOnlyData(), m)
}

func (f *Forwarded) marshal() ([]byte, error) {
	b := make([]byte, 0, sizeUvarint(uint64(f.Member))+sizeFixed(f.Incarnation)+sizeFixed(f.Nonce)+sizeTxns(f.Txns)+len(f.unknownFields))
	b = appendUvarint(b, forwardedMember, uint64(f.Member))
	b = appendFixed(b, forwardedIncarnation, f.Incarnation)
	b = appendFixed(b, forwardedNonce, f.Nonce)
	b, err := appendTxns(b, forwardedTxns, f.Txns)
	return append(b, f.unknownFields...), err
}

func (f *Forwarded) unmarshal(data []byte) error {
	proto.Reset(f)
	if f.decode(data) {
		return nil
	}
	return proto.Unmarshal(data, f) // resets f
}

// EncodedSize returns the length of the encoded transaction, as proto.Size does.
func (t *Txn) EncodedSize() int {
	n := sizeUvarint(uint64(t.Member)) + sizeFixed(t.Incarnation) + sizeUvarint(t.Seq) + sizeFixed(uint64(t.Session)) + sizeFixed(t.Conn) +
		sizeUvarint(encodeOp(t.Op)) + sizeBytes(len(t.Body)) + sizeUvarint(uint64(t.AclBytes)) + len(t.unknownFields)
	for _, id := range t.Ids {
		n += tagSize + protowire.SizeBytes(id.encodedSize())
	}
	if len(t.ReachableServers) > 0 {
		n += tagSize + protowire.SizeBytes(sizeServerIDs(t.ReachableServers))
	}
	return n
}

func (t *Txn) append(b []byte) ([]byte, error) {
	b = appendUvarint(b, txnMember, uint64(t.Member))
	b = appendFixed(b, txnIncarnation, t.Incarnation)
	b = appendUvarint(b, txnSeq, t.Seq)
	b = appendFixed(b, txnSession, uint64(t.Session))
	b = appendFixed(b, txnConn, t.Conn)
	b = appendUvarint(b, txnOp, encodeOp(t.Op))
	if len(t.Body) > 0 {
		b = append(appendLength(b, txnBody, len(t.Body)), t.Body...)
	}
	for _, id := range t.Ids {
		if !utf8.ValidString(id.Scheme) || !utf8.ValidString(id.Id) {
			return nil, errInvalidUTF8
		}
		b = id.append(b)
	}
	if len(t.ReachableServers) > 0 {
		b = appendLength(b, txnReachableServers, sizeServerIDs(t.ReachableServers))
		for _, server := range t.ReachableServers {
			b = binary.AppendUvarint(b, uint64(server))
		}
	}
	b = appendUvarint(b, txnACLBytes, uint64(t.AclBytes))
	return append(b, t.unknownFields...), nil
}

func (i *Identity) encodedSize() int {
	return sizeBytes(len(i.Scheme)) + sizeBytes(len(i.Id)) + len(i.unknownFields)
}

func (i *Identity) append(b []byte) []byte {
	b = appendLength(b, txnIds, i.encodedSize())
	if i.Scheme != "" {
		b = append(appendLength(b, identityScheme, len(i.Scheme)), i.Scheme...)
	}
	if i.Id != "" {
		b = append(appendLength(b, identityID, len(i.Id)), i.Id...)
	}
	return append(b, i.unknownFields...)
}

func sizeTxns(txns []*Txn) (n int) {
	for _, t := range txns {
		n += tagSize + protowire.SizeBytes(t.EncodedSize())
	}
	return n
}

func appendTxns(b []byte, field protowire.Number, txns []*Txn) ([]byte, error) {
	var err error
	for _, t := range txns {
		b = appendLength(b, field, t.EncodedSize())
		if b, err = t.append(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func sizeServerIDs(servers []uint32) (n int) {
	for _, server := range servers {
		n += protowire.SizeVarint(uint64(server))
	}
	return n
}

// encodeOp encodes an operation, a sint32.
func encodeOp(op int32) uint64 { return protowire.EncodeZigZag(int64(op)) }

// Fields without a value are left out.

func sizeUvarint(v uint64) int {
	if v == 0 {
		return 0
	}
	return tagSize + protowire.SizeVarint(v)
}

func sizeFixed(v uint64) int {
	if v == 0 {
		return 0
	}
	return tagSize + protowire.SizeFixed64()
}

func sizeBytes(n int) int {
	if n == 0 {
		return 0
	}
	return tagSize + protowire.SizeBytes(n)
}

func appendUvarint(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, key(field, protowire.VarintType)), v)
}

func appendFixed(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.LittleEndian.AppendUint64(append(b, key(field, protowire.Fixed64Type)), v)
}

// appendLength begins a field with so many bytes.
func appendLength(b []byte, field protowire.Number, n int) []byte {
	return binary.AppendUvarint(append(b, key(field, protowire.BytesType)), uint64(n))
}
