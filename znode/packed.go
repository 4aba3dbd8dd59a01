package znode

import (
	"bytes"
	"encoding/binary"
	"unsafe"
)

// packed is a node's data and their version. The data are null or any number of bytes, which never change.
// It takes 16 bytes. A slice alone takes 24, because it has a capacity. Before the first of longData bytes or more is their hash, in
// sumSize bytes. The zero value is null.
type packed struct {
	first   *byte  // nil: null
	n       uint32 // no data are as long as 4 GiB: a snapshot's are shorter, and a request's far shorter
	version int32  // of the data, as clients see it
}

// noByte is what first points to if there are no bytes.
var noByte byte

// sumSize is how many bytes the hash of long data takes.
const sumSize = 8

// pack returns b as data of version 0. It keeps b, unless that is long, so b must not change.
func pack(b []byte) packed {
	switch {
	case b == nil:
		return packed{}
	case len(b) == 0:
		return packed{first: &noByte}
	case len(b) >= longData:
		return packLong(b)
	}
	return packed{first: unsafe.SliceData(b), n: uint32(len(b))}
}

// packCopy returns a copy of b as data of version 0.
func packCopy(b []byte) packed {
	if len(b) >= longData {
		return packLong(b)
	}
	return pack(bytes.Clone(b))
}

func packLong(b []byte) packed {
	kept := make([]byte, sumSize, sumSize+len(b))
	binary.LittleEndian.PutUint64(kept, hashData(b))
	kept = append(kept, b...)
	return packed{first: &kept[sumSize], n: uint32(len(b))}
}

// sum returns the hash that is kept beside long data.
func (p packed) sum() uint64 {
	return binary.LittleEndian.Uint64(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(p.first), -sumSize)), sumSize))
}

// bytes returns the data, or nil if they are null. The caller must not change them.
func (p packed) bytes() []byte {
	if p.null() {
		return nil
	}
	return unsafe.Slice(p.first, p.n)
}

func (p packed) len() int { return int(p.n) }

func (p packed) null() bool { return p.first == nil }
