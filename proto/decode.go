package proto

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The decode methods return false for what they leave to protobuf, and for malformed bytes.

func (e *Entry) decode(data []byte) bool {
	txns := newTxnSlab(data, entryTxns)
	for f := (fieldReader{rest: data}); len(f.rest) > 0; {
		if !f.next() {
			return false
		}
		switch f.key {
		case key(entryFormat, protowire.VarintType):
			e.Format = uint32(f.number)
		case key(entryTerm, protowire.VarintType):
			e.Term = f.number
		case key(entryNonce, protowire.Fixed64Type):
			e.Nonce = f.number
		case key(entryTime, protowire.VarintType):
			e.TimeMs = int64(f.number)
		case key(entryTxns, protowire.BytesType):
			if !txns.add(f.bytes) {
				return false
			}
		default:
			return false
		}
	}
	e.Txns = txns.pointers
	return true
}

func (f *Forwarded) decode(data []byte) bool {
	txns := newTxnSlab(data, forwardedTxns)
	for r := (fieldReader{rest: data}); len(r.rest) > 0; {
		if !r.next() {
			return false
		}
		switch r.key {
		case key(forwardedMember, protowire.VarintType):
			f.Member = uint32(r.number)
		case key(forwardedIncarnation, protowire.Fixed64Type):
			f.Incarnation = r.number
		case key(forwardedNonce, protowire.Fixed64Type):
			f.Nonce = r.number
		case key(forwardedTxns, protowire.BytesType):
			if !txns.add(r.bytes) {
				return false
			}
		default:
			return false
		}
	}
	f.Txns = txns.pointers
	return true
}

func (t *Txn) decode(data []byte) bool {
	for f := (fieldReader{rest: data}); len(f.rest) > 0; {
		if !f.next() {
			return false
		}
		switch f.key {
		case key(txnMember, protowire.VarintType):
			t.Member = uint32(f.number)
		case key(txnIncarnation, protowire.Fixed64Type):
			t.Incarnation = f.number
		case key(txnSeq, protowire.VarintType):
			t.Seq = f.number
		case key(txnSession, protowire.Fixed64Type):
			t.Session = int64(f.number)
		case key(txnConn, protowire.Fixed64Type):
			t.Conn = f.number
		case key(txnOp, protowire.VarintType):
			t.Op = int32(protowire.DecodeZigZag(f.number & math.MaxUint32))
		case key(txnBody, protowire.BytesType):
			if t.Body = f.bytes; len(t.Body) == 0 {
				return false
			}
		case key(txnIds, protowire.BytesType):
			id := &Identity{}
			if !id.decode(f.bytes) {
				return false
			}
			t.Ids = append(t.Ids, id)
		case key(txnACLBytes, protowire.VarintType):
			t.AclBytes = uint32(f.number)
		default:
			return false
		}
	}
	return true
}

func (i *Identity) decode(data []byte) bool {
	for f := (fieldReader{rest: data}); len(f.rest) > 0; {
		if !f.next() || !utf8.Valid(f.bytes) {
			return false
		}
		switch f.key {
		case key(identityScheme, protowire.BytesType):
			i.Scheme = string(f.bytes)
		case key(identityID, protowire.BytesType):
			i.Id = string(f.bytes)
		default:
			return false
		}
	}
	return true
}

// EachTxn calls do with the opcode and the body of each transaction of an encoded entry, up to the first one that has
// anything which UnmarshalEntry leaves to protobuf. It reports whether do was called for all. It allocates nothing. The bodies are parts of data.
func EachTxn(data []byte, do func(op int32, body []byte)) (all bool) {
	f := fieldReader{rest: data}
	for f.next() {
		if f.key != key(entryTxns, protowire.BytesType) {
			continue
		}
		op, body := int32(0), []byte(nil)
		t := fieldReader{rest: f.bytes}
		for t.next() {
			switch t.key {
			case key(txnOp, protowire.VarintType):
				op = int32(protowire.DecodeZigZag(t.number & math.MaxUint32))
			case key(txnBody, protowire.BytesType):
				body = t.bytes
			}
		}
		if len(t.rest) > 0 {
			return false
		}
		do(op, body)
	}
	return len(f.rest) == 0
}

// txnSlab holds the transactions of a message in one piece of memory.
type txnSlab struct {
	free     []Txn
	pointers []*Txn
}

// newTxnSlab counts the transactions in data, so it allocates no more than a fixed multiple of data: a transaction is
// two bytes at least.
func newTxnSlab(data []byte, field protowire.Number) (s txnSlab) {
	n := 0
	for f := (fieldReader{rest: data}); f.next(); {
		if f.key == key(field, protowire.BytesType) {
			n++
		}
	}
	if n > 0 {
		s = txnSlab{make([]Txn, n), make([]*Txn, 0, n)}
	}
	return s
}

func (s *txnSlab) add(data []byte) bool {
	t := &s.free[0]
	s.free, s.pointers = s.free[1:], append(s.pointers, t)
	return t.decode(data)
}

// fieldReader reads a message's fields one after the other.
type fieldReader struct {
	rest   []byte
	key    byte   // the field's number and wire type
	number uint64 // its value, unless it is bytes
	bytes  []byte // its value if it is bytes; a part of the message
}

// key is the tag of a field as it is encoded: in one byte, as all fields here have numbers below 16.
func key(field protowire.Number, kind protowire.Type) byte { return byte(field)<<3 | byte(kind) }

// next reads the next field. It returns false if it is malformed, or no field of this file.
func (f *fieldReader) next() bool {
	if len(f.rest) == 0 || f.rest[0] >= 0x80 {
		return false
	}
	f.key, f.bytes = f.rest[0], nil
	value := f.rest[1:]
	switch protowire.Type(f.key & 7) {
	case protowire.VarintType:
		var n int
		f.number, n = binary.Uvarint(value)
		if n <= 0 {
			return false
		}
		f.rest = value[n:]
	case protowire.Fixed64Type:
		if len(value) < 8 {
			return false
		}
		f.number, f.rest = binary.LittleEndian.Uint64(value), value[8:]
	case protowire.BytesType:
		length, n := binary.Uvarint(value)
		if n <= 0 || length > uint64(len(value)-n) {
			return false
		}
		end := n + int(length)
		f.bytes, f.rest = value[n:end:end], value[end:]
	default:
		return false
	}
	return true
}
