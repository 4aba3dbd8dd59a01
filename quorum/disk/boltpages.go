package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"go.etcd.io/bbolt"
)

// The layout of BoltDB's pages, as in internal/common of go.etcd.io/bbolt v1.5.0. The numbers are
// in the machine's byte order.
const (
	boltPageHeaderSize = 16 // id, flags, number of elements, number of pages that follow this one
	boltBranchPage     = 0x01
	boltLeafPage       = 0x02

	// boltElementSize is the size of an element. In a branch an element has the position and length
	// of its key, and a page. In a leaf it has flags, the position of its key, and the lengths of
	// key and value.
	boltElementSize      = 16
	boltBucketFlag       = 0x01
	boltBucketHeaderSize = 16 // root page, sequence
	firstBoltPage        = 2  // the first one after the meta pages
	// maxBoltDepth limits the depth of a tree. Even a tree with 2^64 entries is less deep.
	maxBoltDepth = 64
)

// pageChecker visits all pages that a BoltDB uses.
type pageChecker struct {
	file      io.ReaderAt
	fileSize  int64
	meta      boltMeta
	seenPages map[uint64]bool
}

// checkPages reads all pages in use, except the values. It returns an error if bbolt could read
// beyond a page or follow a cycle, or if keys are out of order. bbolt reads the same pages when it
// opens the file, in a goroutine of its own, and damage would crash the process there. checkPages
// reads each page once, and once more for each key that is not in the first of several pages.
func checkPages(file io.ReaderAt, size int64, meta boltMeta) error {
	w := &pageChecker{file: file, fileSize: size, meta: meta, seenPages: map[uint64]bool{}}
	_, err := w.checkTree(meta.rootPage, 0, keyRange{})
	return err
}

// boltPage is a page together with its overflow pages.
type boltPage struct {
	id           uint64
	offset       int64 // in the file
	length       int64
	flags        uint16
	elementCount int    // number of elements
	firstPage    []byte // without overflow pages
}

// readUnseenPage reads a page that has not been visited yet.
func (w *pageChecker) readUnseenPage(id uint64) (p boltPage, err error) {
	if id < firstBoltPage || id >= w.meta.pageCount {
		return p, fmt.Errorf("%w: it refers to page %d, and has %d", ErrDamaged, id, w.meta.pageCount)
	}
	p = boltPage{id: id, offset: int64(id) * w.meta.pageSize, firstPage: make([]byte, w.meta.pageSize)}
	if _, err := w.file.ReadAt(p.firstPage, p.offset); err != nil {
		return p, fmt.Errorf("%w: page %d: %w", ErrDamaged, id, err)
	}
	if own := binary.NativeEndian.Uint64(p.firstPage); own != id {
		return p, fmt.Errorf("%w: page %d says that it is page %d", ErrDamaged, id, own)
	}
	p.flags, p.elementCount = binary.NativeEndian.Uint16(p.firstPage[8:]),
		int(binary.NativeEndian.Uint16(p.firstPage[10:]))
	follow := uint64(binary.NativeEndian.Uint32(p.firstPage[12:]))
	p.length = int64(follow+1) * w.meta.pageSize
	switch {
	case follow >= w.meta.pageCount-id || p.offset+p.length > w.fileSize:
		return p, fmt.Errorf("%w: page %d and the %d that follow it go beyond the end", ErrDamaged, id, follow)
	case p.flags != boltLeafPage && (p.flags != boltBranchPage || p.elementCount == 0),
		boltPageHeaderSize+int64(p.elementCount)*boltElementSize > p.length:
		return p, fmt.Errorf("%w: page %d has the flags %#x and %d elements", ErrDamaged, id, p.flags, p.elementCount)
	}
	for i := id; i <= id+follow; i++ {
		if w.seenPages[i] {
			return p, fmt.Errorf("%w: page %d is used twice", ErrDamaged, i)
		}
		w.seenPages[i] = true
	}
	return p, nil
}

// readPart returns n bytes of a page, from at on.
func (w *pageChecker) readPart(p boltPage, at, n int64) ([]byte, error) {
	if at+n > p.length {
		return nil, fmt.Errorf("%w: an element of page %d lies beyond it", ErrDamaged, p.id)
	}
	if at+n <= int64(len(p.firstPage)) {
		return p.firstPage[at:][:n], nil
	}
	b := make([]byte, n)
	if _, err := w.file.ReadAt(b, p.offset+at); err != nil {
		return nil, fmt.Errorf("%w: page %d: %w", ErrDamaged, p.id, err)
	}
	return b, nil
}

// boltElement is an element of a page.
type boltElement struct {
	key       []byte
	childPage uint64 // the next page of a branch, or the root of a bucket; 0: none
	inBranch  bool
}

func (w *pageChecker) readElement(p boltPage, i int) (e boltElement, err error) {
	at := boltPageHeaderSize + int64(i)*boltElementSize
	b, err := w.readPart(p, at, boltElementSize)
	if err != nil {
		return e, err
	}
	word := func(i int) int64 { return int64(binary.NativeEndian.Uint32(b[4*i:])) }
	if e.inBranch = p.flags == boltBranchPage; e.inBranch {
		e.childPage = binary.NativeEndian.Uint64(b[8:])
		e.key, err = w.readKey(p, at+word(0), word(1))
		return e, err
	}
	place, key, value := at+word(1), word(2), word(3)
	if place+key+value > p.length {
		return e, fmt.Errorf("%w: an element of page %d lies beyond it", ErrDamaged, p.id)
	}
	if e.key, err = w.readKey(p, place, key); err != nil || word(0)&boltBucketFlag == 0 {
		return e, err
	}
	if value < boltBucketHeaderSize {
		return e, fmt.Errorf("%w: a bucket in page %d has %d bytes", ErrDamaged, p.id, value)
	}
	bucket, err := w.readPart(p, place+key, value)
	if err != nil {
		return e, err
	}
	if e.childPage = binary.NativeEndian.Uint64(bucket); e.childPage == 0 {
		err = w.checkInlineBucket(p.id, bucket[boltBucketHeaderSize:])
	}
	return e, err
}

// checkInlineBucket checks b, the only page of a bucket that is stored inside a value of page id. It must be a
// leaf without buckets. If it were a branch, bbolt would take the page for its own child, without end.
func (w *pageChecker) checkInlineBucket(id uint64, b []byte) error {
	if len(b) < boltPageHeaderSize {
		return fmt.Errorf("%w: a bucket in page %d has a page of %d bytes", ErrDamaged, id, len(b))
	}
	p := boltPage{id: id, length: int64(len(b)), firstPage: b}
	p.flags, p.elementCount = binary.NativeEndian.Uint16(b[8:]), int(binary.NativeEndian.Uint16(b[10:]))
	if p.flags != boltLeafPage || boltPageHeaderSize+int64(p.elementCount)*boltElementSize > p.length {
		return fmt.Errorf("%w: a bucket in page %d has the flags %#x and %d elements", ErrDamaged, id, p.flags,
			p.elementCount)
	}
	var last []byte
	for i := range p.elementCount {
		if binary.NativeEndian.Uint32(b[boltPageHeaderSize+i*boltElementSize:])&boltBucketFlag != 0 {
			return fmt.Errorf("%w: a bucket in page %d has a bucket", ErrDamaged, id)
		}
		e, err := w.readElement(p, i)
		if err != nil {
			return err
		}
		if i > 0 && bytes.Compare(last, e.key) >= 0 {
			return fmt.Errorf("%w: the keys of a bucket in page %d are out of order", ErrDamaged, id)
		}
		last = e.key
	}
	return nil
}

func (w *pageChecker) readKey(p boltPage, at, n int64) ([]byte, error) {
	if n > bbolt.MaxKeySize {
		return nil, fmt.Errorf("%w: a key in page %d has %d bytes", ErrDamaged, p.id, n)
	}
	return w.readPart(p, at, n)
}

// keyRange limits the keys of a page: at least first, and below limit. nil is no limit.
type keyRange struct{ first, limit []byte }

// checkTree checks a page at the given depth and all pages below it. It returns the last key.
func (w *pageChecker) checkTree(id uint64, depth int, within keyRange) (last []byte, err error) {
	if depth > maxBoltDepth {
		return nil, fmt.Errorf("%w: page %d has more than %d above it", ErrDamaged, id, maxBoltDepth)
	}
	p, err := w.readUnseenPage(id)
	if err != nil {
		return nil, err
	}
	elements := make([]boltElement, p.elementCount)
	for i := range elements {
		if elements[i], err = w.readElement(p, i); err != nil {
			return nil, err
		}
	}
	last = within.first
	for i, e := range elements {
		order := bytes.Compare(last, e.key)
		if last != nil && (order > 0 || order == 0 && i > 0) || within.limit != nil &&
			bytes.Compare(e.key, within.limit) >= 0 {
			return nil, fmt.Errorf("%w: the keys of page %d are out of order", ErrDamaged, id)
		}
		last = e.key
		switch {
		case e.inBranch:
			below := keyRange{e.key, within.limit}
			if i+1 < len(elements) {
				below.limit = elements[i+1].key
			}
			last, err = w.checkTree(e.childPage, depth+1, below)
		case e.childPage != 0:
			_, err = w.checkTree(e.childPage, depth+1, keyRange{})
		}
		if err != nil {
			return nil, err
		}
	}
	return last, nil
}
