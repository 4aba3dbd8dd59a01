package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"rollcall/internal/durable"
)

// The start of a BoltDB file: two meta pages, written alternately, each with the number of its
// transaction and a checksum. The numbers are in the machine's byte order.
const (
	boltMagic    = 0xED0CDAED
	boltMetaAt   = 16 // in its page
	boltSizeAt   = 8  // in the meta: the size of a page
	boltRootAt   = 16 // in the meta: the root page
	boltPagesAt  = 40 // in the meta: the number of pages
	boltTxAt     = 48
	boltSumAt    = 56
	boltMetaSize = 64
	// maxBoltPage is bbolt's maximum page size, in bytes.
	maxBoltPage = 64 << 10
)

// boltMeta holds the fields of the newest meta page.
type boltMeta struct {
	txID      uint64 // number of the last transaction
	rootPage  uint64 // page
	pageCount uint64
	pageSize  int64 // in bytes
}

// readNewestMeta reads the meta pages of a BoltDB. If one of them is incomplete, the file is damaged: bbolt would
// continue with the other one, without the last transaction. A crash does not cause that, because a meta fits into
// one sector.
func readNewestMeta(f io.ReaderAt) (newest boltMeta, err error) {
	page := int64(os.Getpagesize())
	for i := range int64(2) {
		b := make([]byte, boltMetaSize)
		if _, err := f.ReadAt(b, i*page+boltMetaAt); err != nil {
			return boltMeta{}, fmt.Errorf("%w: meta page %d: %w", ErrDamaged, i, err)
		}
		sum := fnv.New64a()
		_, _ = sum.Write(b[:boltSumAt]) // never fails
		if binary.NativeEndian.Uint32(b) != boltMagic || sum.Sum64() != binary.NativeEndian.Uint64(b[boltSumAt:]) {
			return boltMeta{}, fmt.Errorf("%w: meta page %d is not whole", ErrDamaged, i)
		}
		size := int64(binary.NativeEndian.Uint32(b[boltSizeAt:]))
		if size < boltMetaAt+boltMetaSize || size > maxBoltPage || i == 1 && size != page {
			return boltMeta{}, fmt.Errorf("%w: pages of %d bytes", ErrDamaged, size)
		}
		page = size
		if tx := binary.NativeEndian.Uint64(b[boltTxAt:]); i == 0 || tx > newest.txID {
			newest = boltMeta{tx, binary.NativeEndian.Uint64(b[boltRootAt:]), binary.NativeEndian.Uint64(b[boltPagesAt:]), size}
		}
	}
	return newest, nil
}

// boltFile is a BoltDB with terms and votes. It adds the checksum that bbolt lacks: all values share one in a boltMark.
type boltFile struct {
	*raftboltdb.BoltStore
	path string

	mu             sync.Mutex // held for a write and its mark
	values         map[string][]byte
	valuesChecksum uint32
	metaReader     *os.File // for the number of the last transaction
	markFile       *os.File
}

// boltMark describes the contents of a BoltDB after a transaction, in a file of its own. It is written after each
// transaction and not synced: it may lag behind the BoltDB, and is never ahead of it.
type boltMark struct {
	txID           uint64 // number of the transaction
	valuesChecksum uint32
}

const (
	boltMarkMagic = "RCBOLT2\n"
	boltMarkSize  = len(boltMarkMagic) + 8 + 4 + checksumSize
)

func (m boltMark) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte(boltMarkMagic), m.txID)
	b = binary.BigEndian.AppendUint32(b, m.valuesChecksum)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoliTable))
}

func decodeBoltMark(b []byte) (m boltMark, err error) {
	at := boltMarkSize - checksumSize
	if len(b) != boltMarkSize || string(b[:len(boltMarkMagic)]) != boltMarkMagic {
		return m, fmt.Errorf("%w: not a mark of %d bytes", ErrDamaged, boltMarkSize)
	}
	fields := b[len(boltMarkMagic):]
	m = boltMark{binary.BigEndian.Uint64(fields), binary.BigEndian.Uint32(fields[8:])}
	if binary.BigEndian.Uint32(b[at:]) != crc32.Checksum(b[:at], castagnoliTable) {
		return m, fmt.Errorf("%w: the checksum is wrong", ErrDamaged)
	}
	return m, nil
}

// checkAgainst compares the mark with the BoltDB as it is now. After a crash the BoltDB may be ahead of the mark.
func (m boltMark) checkAgainst(now boltMark) error {
	switch {
	case now.txID < m.txID:
		return fmt.Errorf("%w: its last transaction is %d, and %d was durable", ErrDamaged, now.txID, m.txID)
	case now.txID > m.txID:
		return nil
	case now.valuesChecksum != m.valuesChecksum:
		return fmt.Errorf("%w: the term, a vote or another of its values has changed", ErrDamaged)
	}
	return nil
}

// boltMarkName is the file with the mark, next to raft.db.
const boltMarkName = "raft.durable"

// openOrCreateBolt opens a BoltDB, or makes it. If whole is set, its mark must be there.
func openOrCreateBolt(path string, whole bool) (store *boltFile, err error) {
	err = openCatchingDamage(path, func() error {
		if err := createBoltIfMissing(path); err != nil {
			return err
		}
		store = &boltFile{path: path, values: map[string][]byte{}}
		now, err := store.loadValuesAndMark()
		if err != nil {
			return err
		}
		if store.markFile, err = store.openAndCheckMark(now, whole); err != nil {
			return err
		}
		if err = store.openStore(); err != nil {
			return errors.Join(err, store.Close())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return store, nil
}

// createBoltIfMissing makes an empty BoltDB if there is no file. The file is renamed once it is complete, and
// the name is durable before there is a mark. Otherwise a power loss during the first start could leave a
// partial file, or a mark without a file, and both would count as damage.
func createBoltIfMissing(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp := path + tmpSuffix
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) { // what a crash has left
		return err
	}
	store, err := raftboltdb.New(raftboltdb.Options{Path: tmp, BoltOptions: boltOptions()})
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return durable.SyncDirectory(filepath.Dir(path))
}

// loadValuesAndMark reads the file before bbolt writes to it, and returns its present mark.
func (f *boltFile) loadValuesAndMark() (now boltMark, err error) {
	err = checkThenViewBolt(f.path, func(tx *bbolt.Tx) error {
		now.txID = uint64(tx.ID())
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			switch string(name) {
			case boltLogs:
				if k, _ := b.Cursor().First(); k != nil {
					return fmt.Errorf("%w: it has entries of a log", ErrDamaged)
				}
				return nil
			case boltConf:
				return b.ForEach(func(k, v []byte) error {
					f.values[string(k)] = bytes.Clone(v)
					return nil
				})
			}
			return fmt.Errorf("%w: it has a bucket %q", ErrDamaged, name)
		})
	})
	f.valuesChecksum = valuesChecksum(f.values)
	now.valuesChecksum = f.valuesChecksum
	return now, err
}

// The buckets of raft-boltdb.
const (
	boltLogs = "logs"
	boltConf = "conf"
)

func valuesChecksum(values map[string][]byte) uint32 {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(values)) {
		b = fmt.Appendf(b, "%q=%q\n", k, values[k])
	}
	return crc32.Checksum(b, castagnoliTable)
}

// openAndCheckMark opens the mark, or makes one, and compares it with the file as it is now.
func (f *boltFile) openAndCheckMark(now boltMark, whole bool) (*os.File, error) {
	path := filepath.Join(filepath.Dir(f.path), boltMarkName)
	var was boltMark
	file, err := openMark(path, boltMarkSize, whole, func(b []byte) (err error) {
		was, err = decodeBoltMark(b)
		return err
	})
	if err != nil {
		return nil, err
	}
	if file == nil {
		if err := replaceFile(path, now.encode()); err != nil {
			return nil, err
		}
		return os.OpenFile(path, os.O_RDWR, 0)
	}
	if err := was.checkAgainst(now); err != nil {
		return nil, errors.Join(fmt.Errorf("%w (%s says so)", err, path), file.Close())
	}
	return file, nil
}

func (f *boltFile) openStore() (err error) {
	f.BoltStore, err = raftboltdb.New(raftboltdb.Options{Path: f.path, BoltOptions: boltOptions()})
	if err != nil {
		return err
	}
	if f.metaReader, err = os.Open(f.path); err != nil {
		return err
	}
	if err := f.writeAndMark(func() error { return nil }); err != nil { // New has made a transaction
		return err
	}
	if _, err := f.GetUint64(keyTerm); err != nil && !isNotFound(err) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// Close closes those of the files that are open.
func (f *boltFile) Close() error {
	var err error
	if f.BoltStore != nil {
		err = f.BoltStore.Close()
	}
	for _, file := range []*os.File{f.metaReader, f.markFile} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}

// writeAndMark calls do, which writes to the BoltDB, and then updates the mark.
func (f *boltFile) writeAndMark(do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	now := boltMark{valuesChecksum: f.valuesChecksum}
	meta, err := readNewestMeta(f.metaReader)
	if err != nil {
		return err
	}
	now.txID = meta.txID
	_, err = f.markFile.WriteAt(now.encode(), 0)
	return err
}

// Set implements raft.StableStore, like the next method.
func (f *boltFile) Set(k, v []byte) error {
	return f.writeAndMark(func() error {
		if err := f.BoltStore.Set(k, v); err != nil {
			return err
		}
		f.values[string(k)] = bytes.Clone(v)
		f.valuesChecksum = valuesChecksum(f.values)
		return nil
	})
}

func (f *boltFile) SetUint64(k []byte, v uint64) error {
	return f.Set(k, binary.BigEndian.AppendUint64(nil, v))
}

// checkThenViewBolt opens a BoltDB for reading, if there is one and its pages are sound. do must read all of
// its buckets, so that bbolt's own checks see them before it opens the file for writing.
func checkThenViewBolt(path string, do func(tx *bbolt.Tx) error) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is still to be made
	} else if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Size() > 0 {
		var meta boltMeta
		if meta, err = readNewestMeta(file); err == nil {
			err = checkPages(file, info.Size(), meta)
		}
	}
	if err := errors.Join(err, file.Close()); err != nil || info.Size() == 0 {
		return err
	}
	options := boltOptions()
	options.ReadOnly = true
	db, err := bbolt.Open(path, 0, options)
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("%w: %d bytes long, %d are used", ErrDamaged, info.Size(), tx.Size())
		}
		return do(tx)
	})
	return errors.Join(err, db.Close())
}

// keyMember is the key of the member's id in the stable store. Another member's file has other votes, and maybe
// another log.
var keyMember = []byte("RollcallMember")

// checkOrBindMember stores the id of the member that owns the stable store in the log's directory. It returns an error
// if another member owns it.
func checkOrBindMember(s raft.StableStore, logDir string, member uint32) error {
	owner, err := s.GetUint64(keyMember)
	switch {
	case err != nil && !isNotFound(err):
		return fmt.Errorf("quorum: read state: %w", err)
	case owner == uint64(member):
		return nil
	case owner != 0:
		return fmt.Errorf("quorum: %s is %w: it belongs to member %d, and this is member %d", filepath.Join(logDir, logName),
			ErrDamaged, owner, member)
	}
	if err := s.SetUint64(keyMember, uint64(member)); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	return nil
}
