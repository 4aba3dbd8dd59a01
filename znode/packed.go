package znode

import (
	"bytes"
	"encoding/binary"
	"unsafe"
)

// packedData is a node's data and their version. The data are null or any number of bytes, which never change.
// It takes 16 bytes. A slice alone takes 24, because it has a capacity. Before the first of longData bytes or more is their hash, in
// sumSize bytes. The zero value is null.
type packedData struct {
	first   *byte  // nil: null
	length  uint32 // no data are as long as 4 GiB: a snapshot's are shorter, and a request's far shorter
	version int32  // of the data, as clients see it
}

// emptyData is what first points to if there are no bytes.
var emptyData byte

// storedHashSize is how many bytes the hash of long data takes.
const storedHashSize = 8

// packData returns b as data of version 0. It keeps b, unless that is long, so b must not change.
func packData(b []byte) packedData {
	switch {
	case b == nil:
		return packedData{}
	case len(b) == 0:
		return packedData{first: &emptyData}
	case len(b) >= hashedDataMin:
		return packWithHash(b)
	}
	return packedData{first: unsafe.SliceData(b), length: uint32(len(b))}
}

// packCopy returns a copy of b as data of version 0.
func packCopy(b []byte) packedData {
	if len(b) >= hashedDataMin {
		return packWithHash(b)
	}
	return packData(bytes.Clone(b))
}

func packWithHash(b []byte) packedData {
	kept := make([]byte, storedHashSize, storedHashSize+len(b))
	binary.LittleEndian.PutUint64(kept, hashData(b))
	kept = append(kept, b...)
	return packedData{first: &kept[storedHashSize], length: uint32(len(b))}
}

// storedHash returns the hash that is kept beside long data.
func (p packedData) storedHash() uint64 {
	return binary.LittleEndian.Uint64(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(p.first), -storedHashSize)), storedHashSize))
}

// bytes returns the data, or nil if they are null. The caller must not change them.
func (p packedData) bytes() []byte {
	if p.isNull() {
		return nil
	}
	return unsafe.Slice(p.first, p.length)
}

func (p packedData) len() int { return int(p.length) }

func (p packedData) isNull() bool { return p.first == nil }
