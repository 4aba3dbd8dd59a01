package jute

import "encoding/binary"

// Stat is a node's record without its data, as clients see it.
type Stat struct {
	Czxid          int64 // of the node's creation
	Mzxid          int64 // of the last change of the data
	Ctime          int64 // ms since 1970
	Mtime          int64 // ms since 1970
	Version        int32 // of the data
	Cversion       int32 // of the children
	Aversion       int32 // of the ACL
	EphemeralOwner SessionID
	DataLength     int32 // in bytes
	NumChildren    int32
	Pzxid          int64 // of the last create or delete of a child
}

// StatSize is the length of an encoded Stat in bytes.
const StatSize = 68

func (s *Stat) Decode(d *Decoder) {
	b := d.takeBytes(StatSize)
	if b == nil {
		*s = Stat{}
		return
	}
	b = b[:StatSize]
	s.Czxid = int64(binary.BigEndian.Uint64(b[0:]))
	s.Mzxid = int64(binary.BigEndian.Uint64(b[8:]))
	s.Ctime = int64(binary.BigEndian.Uint64(b[16:]))
	s.Mtime = int64(binary.BigEndian.Uint64(b[24:]))
	s.Version = int32(binary.BigEndian.Uint32(b[32:]))
	s.Cversion = int32(binary.BigEndian.Uint32(b[36:]))
	s.Aversion = int32(binary.BigEndian.Uint32(b[40:]))
	s.EphemeralOwner = SessionID(binary.BigEndian.Uint64(b[44:]))
	s.DataLength = int32(binary.BigEndian.Uint32(b[52:]))
	s.NumChildren = int32(binary.BigEndian.Uint32(b[56:]))
	s.Pzxid = int64(binary.BigEndian.Uint64(b[60:]))
}

func (s Stat) Append(b []byte) []byte {
	n := len(b)
	b = append(b, make([]byte, StatSize)...) // grows b and allocates nothing else
	p := b[n : n+StatSize]
	binary.BigEndian.PutUint64(p[0:], uint64(s.Czxid))
	binary.BigEndian.PutUint64(p[8:], uint64(s.Mzxid))
	binary.BigEndian.PutUint64(p[16:], uint64(s.Ctime))
	binary.BigEndian.PutUint64(p[24:], uint64(s.Mtime))
	binary.BigEndian.PutUint32(p[32:], uint32(s.Version))
	binary.BigEndian.PutUint32(p[36:], uint32(s.Cversion))
	binary.BigEndian.PutUint32(p[40:], uint32(s.Aversion))
	binary.BigEndian.PutUint64(p[44:], uint64(s.EphemeralOwner))
	binary.BigEndian.PutUint32(p[52:], uint32(s.DataLength))
	binary.BigEndian.PutUint32(p[56:], uint32(s.NumChildren))
	binary.BigEndian.PutUint64(p[60:], uint64(s.Pzxid))
	return b
}
