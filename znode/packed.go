package znode

import "unsafe"

// packed is a node's data and their version. The data are null or any number of bytes, which never change.
// It takes 16 bytes. A slice alone takes 24, because it has a capacity. The zero value is null.
type packed struct {
	first   *byte  // nil: null
	n       uint32 // no data are as long as 4 GiB: a snapshot's are shorter, and a request's far shorter
	version int32  // of the data, as clients see it
}

// noByte is what first points to if there are no bytes.
var noByte byte

// pack returns b as data of version 0. It keeps b, which must not change.
func pack(b []byte) packed {
	switch {
	case b == nil:
		return packed{}
	case len(b) == 0:
		return packed{first: &noByte}
	}
	return packed{first: unsafe.SliceData(b), n: uint32(len(b))}
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
