package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/bbolt"
)

// branches returns a BoltDB with branch pages, and the positions of these.
func branches(t *testing.T, d *boltDir) (b []byte, at []int) {
	t.Helper()
	log := d.open()
	for i := range 40 {
		if err := log.Set(fmt.Appendf(nil, "key %d", i), make([]byte, 300)); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	b = d.read(logName)
	page := os.Getpagesize()
	for p := 2 * page; p < len(b); p += page {
		if binary.NativeEndian.Uint16(b[p+8:]) == boltBranchPage && binary.NativeEndian.Uint64(b[p:]) == uint64(p/page) {
			at = append(at, p)
		}
	}
	if len(at) == 0 {
		t.Fatal("there are no branch pages")
	}
	return b, at
}

// A wrong bit in a page that leads to others is found, or does no harm. Nothing crashes, although
// bbolt reads these pages in a goroutine of its own.
func TestBoltBranchBits(t *testing.T) {
	t.Parallel()
	d := &boltDir{t: t, dir: t.TempDir()}
	b, at := branches(t, d)
	refused, opened := 0, 0
	for _, p := range at {
		for bit := range 8 * (boltPageHeaderSize + 2*boltElementSize) { // of the first two elements
			b[p+bit/8] ^= 1 << (bit % 8)
			meta, err := readNewestMeta(bytes.NewReader(b))
			if err == nil {
				err = checkPages(bytes.NewReader(b), int64(len(b)), meta)
			}
			if err != nil {
				refused++
			} else {
				remake(t, d, b)
				log, err := openLog(d.dir, d.dir, testSegment, logOpening{}, hclog.NewNullLogger())
				if err == nil {
					opened++
					log.Close()
				} else if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), d.path(logName)) {
					t.Fatalf("bit %d of the page at %d: %v, want ErrDamaged with the file", bit, p, err)
				}
			}
			b[p+bit/8] ^= 1 << (bit % 8) // as it was
		}
	}
	t.Logf("%d refused for their pages, %d opened", refused, opened)
}

// remake replaces a BoltDB by another file, without a mark: bbolt keeps a file locked that it could
// not open.
func remake(t *testing.T, d *boltDir, b []byte) {
	t.Helper()
	if err := os.RemoveAll(d.dir); err != nil {
		t.Fatal(err)
	}
	write(t, d.path(logName), string(b))
}

// Faults in a page that bbolt must not read.
func TestCheckPages(t *testing.T) {
	t.Parallel()
	d := &boltDir{t: t, dir: t.TempDir()}
	whole, at := branches(t, d)
	branch := at[0]
	first := boltPageHeaderSize // the first element
	child := int(binary.NativeEndian.Uint64(whole[branch+first+8:])) * os.Getpagesize()
	put32 := func(at int, n uint32) func(b []byte) {
		return func(b []byte) { binary.NativeEndian.PutUint32(b[at:], n) }
	}
	put64 := func(at int, n uint64) func(b []byte) {
		return func(b []byte) { binary.NativeEndian.PutUint64(b[at:], n) }
	}
	for name, spoil := range map[string]func(b []byte){
		"page of another number":      put64(child, 1<<40),
		"page beyond the end":         put64(branch+first+8, 1<<60),
		"meta page":                   put64(branch+first+8, 1),
		"page 0":                      put64(branch+first+8, 0),
		"circle":                      put64(branch+first+8, uint64(branch/os.Getpagesize())),
		"page used twice":             put64(branch+first+8, binary.NativeEndian.Uint64(whole[branch+first+boltElementSize+8:])),
		"more pages than there are":   put32(child+12, 1<<31),
		"page that covers the next":   put32(child+12, 1),
		"neither branch nor leaf":     put32(child+8, 0x10),
		"branch without elements":     put32(branch+8, boltBranchPage),
		"more elements than fit":      func(b []byte) { binary.NativeEndian.PutUint16(b[child+10:], 0xffff) },
		"key of a branch beyond it":   put32(branch+first, 1<<31),
		"long key of a branch":        put32(branch+first+4, 1<<31),
		"key of a leaf beyond it":     put32(child+first+4, 1<<31),
		"long value":                  put32(child+first+12, 1<<31),
		"long key of a leaf":          put32(child+first+8, 1<<31),
		"keys out of order":           put64(child+int(binary.NativeEndian.Uint32(whole[child+first+4:]))+first, 1<<62),
		"key below that of its page":  put64(branch+int(binary.NativeEndian.Uint32(whole[branch+first:]))+first, 1<<58),
		"keys after the next page's":  put64(branch+int(binary.NativeEndian.Uint32(whole[branch+first+boltElementSize:]))+first+boltElementSize, 0),
		"value taken for a bucket":    put32(child+first, boltBucketFlag),
		"value taken for a short one": func(b []byte) { put32(child+first, boltBucketFlag)(b); put32(child+first+12, 8)(b) },
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(whole)
			spoil(b)
			meta, err := readNewestMeta(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			if err := checkPages(bytes.NewReader(b), int64(len(b)), meta); !errors.Is(err, ErrDamaged) {
				t.Errorf("%v, want ErrDamaged", err)
			}
		})
	}
	long := boltPage{id: 2, length: 1 << 20, firstPage: make([]byte, os.Getpagesize())}
	if _, err := new(pageChecker).readKey(long, 0, bbolt.MaxKeySize+1); !errors.Is(err, ErrDamaged) {
		t.Errorf("key that is longer than bbolt's: %v, want ErrDamaged", err)
	}
	meta, err := readNewestMeta(bytes.NewReader(whole))
	if err := errors.Join(err, checkPages(bytes.NewReader(whole), int64(len(whole)), meta)); err != nil {
		t.Errorf("whole: %v", err)
	}
	if err := checkPages(bytes.NewReader(whole), int64(child)+1, meta); !errors.Is(err, ErrDamaged) {
		t.Errorf("cut: %v, want ErrDamaged", err)
	}
}

// Small buckets are stored inside a value, with a page of their own. Damage to such a page is found, or does no harm:
// bbolt searches for the first key without end if the page is no leaf.
func TestBucketInsideValue(t *testing.T) {
	t.Parallel()
	d := &boltDir{t: t, dir: t.TempDir()}
	d.store()
	for _, path := range []string{filepath.Join(d.dir, logName)} {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		meta, err := readNewestMeta(bytes.NewReader(whole))
		if err != nil {
			t.Fatal(err)
		}
		root := whole[int64(meta.rootPage)*meta.pageSize:][:meta.pageSize]
		if binary.NativeEndian.Uint16(root[8:]) != boltLeafPage || binary.NativeEndian.Uint32(root[boltPageHeaderSize:])&boltBucketFlag == 0 {
			t.Fatalf("%s: the first page has no bucket", path)
		}
		b := bytes.Clone(whole)
		spoilt := b[int64(meta.rootPage)*meta.pageSize:][:meta.pageSize]
		refused, sound := 0, 0
		check := func(what string, at int) {
			if err := os.WriteFile(path, b, fileMode); err != nil {
				t.Fatal(err)
			}
			err := openCatchingDamage(path, func() error { return checkThenViewBolt(path, readAll) })
			switch {
			case err == nil:
				sound++
			case !errors.Is(err, ErrDamaged):
				t.Fatalf("%s: %s at %d: %v, want ErrDamaged", path, what, at, err)
			default:
				refused++
			}
			copy(spoilt, root)
		}
		used := len(bytes.TrimRight(root, "\x00"))
		for at := range used {
			clear(spoilt[at:])
			check("zeros", at)
			clear(spoilt[at:min(used, at+64)])
			check("64 zeros", at)
			spoilt[at] ^= 1 << (at % 8)
			check("a bit", at)
		}
		if refused < boltPageHeaderSize+boltElementSize { // zeros from anywhere up to the end of the first element
			t.Errorf("%s: of %d damaged files %d were refused", path, refused+sound, refused)
		}
	}
}

func readAll(tx *bbolt.Tx) error {
	return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
		return b.ForEach(func(_, _ []byte) error { return nil })
	})
}
