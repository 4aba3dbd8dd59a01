package znode

import (
	"bytes"
	"encoding/binary"
	"unsafe"
)

// packedData is a node's data, which never change, and their version. It takes 16 bytes, because a slice's
// capacity is left out. Data of hashedDataMin bytes or more have their hash in front of the first byte, in
// storedHashSize bytes. The zero value is null.
type packedData struct {
	first   *byte  // nil if the data are null
	length  uint32 // below 4 GiB, as requests and snapshots are limited to less
	version int32  // of the data, for clients
}

// emptyData is the target of packedData.first if there are no bytes.
var emptyData byte

const storedHashSize = 8

// packData returns data of version 0. It keeps b unless that is long, so b must not change.
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

// storedHash returns the hash in front of long data.
func (p packedData) storedHash() uint64 {
	before := (*byte)(unsafe.Add(unsafe.Pointer(p.first), -storedHashSize))
	return binary.LittleEndian.Uint64(unsafe.Slice(before, storedHashSize))
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
