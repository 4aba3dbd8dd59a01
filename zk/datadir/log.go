package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"os"
)

// A log has a head, as a snapshot has, and then a record for each transaction: its Adler-32 in 8
// bytes, its length in 4, the transaction, and the letter B. ZooKeeper makes room for records with
// zeros, so zeros follow the last one.
const (
	logMagic   = "ZKLG"
	recordHead = 8 + 4
	recordEnd  = 'B'
	txnHead    = 8 + 4 + 8 + 8 + 4
)

// logReader reads the records of one log.
type logReader struct {
	*source
	f    *os.File
	file string
}

// record is one record of a log.
type record struct {
	offset int64
	body   []byte // valid until the next one is read
}

// openLog opens a log and reads its head. It returns nil for a log that is the newest of its directory
// and empty: ZooKeeper had just created it.
func openLog(file string, newest bool) (*logReader, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // only read
		return nil, err
	}
	if info.Size() == 0 && newest {
		return nil, f.Close()
	}
	r := &logReader{source: newSource(f, info.Size()), f: f, file: file}
	err = readHead(r.source, logMagic)
	if r.err != nil {
		err = r.err
	}
	if err == nil {
		return r, nil
	}
	_ = f.Close() // only read
	remedy := useOther
	if info.Size() < headSize+recordHead {
		remedy = "it is too short to hold a transaction: move it out of the directory"
	}
	return nil, &Damage{File: file, What: "this is no transaction log: " + err.Error(), Remedy: remedy}
}

// close closes the file.
func (r *logReader) close() { _ = r.f.Close() }

// next returns the next record, or nil if what follows is none. The caller then asks ending what it
// is.
func (r *logReader) next() (*record, error) {
	start := r.offset()
	head := r.take(recordHead)
	if head == nil {
		return nil, r.unlessEnd(start)
	}
	sum, n := binary.BigEndian.Uint64(head), int64(int32(binary.BigEndian.Uint32(head[8:])))
	if n < 0 || n > maxValue {
		return nil, r.damage(start, fmt.Sprintf("a record of %d bytes; allowed are %d to %d", n, txnHead, maxValue))
	}
	if n < txnHead || n >= r.size-start-recordHead {
		return nil, nil
	}
	body := r.body(int(n) + 1)
	if body == nil {
		return nil, r.unlessEnd(start)
	}
	if body[n] != recordEnd {
		return nil, nil
	}
	if got := adler32.Checksum(body[:n]); uint64(got) != sum {
		return nil, r.damage(start, fmt.Sprintf("the check value of the record is 0x%x and should be 0x%x", sum, got))
	}
	return &record{start, body[:n]}, nil
}

// unlessEnd returns the error of reading as a Damage, but nil if it only says that the file ends.
func (r *logReader) unlessEnd(start int64) error {
	if errors.Is(r.err, errEnd) {
		return nil
	}
	return r.damage(start, r.err.Error())
}

// damage returns what says that the file is damaged at offset.
func (r *logReader) damage(offset int64, what string) *Damage {
	return &Damage{File: r.file, Offset: offset, What: what, Remedy: useOther}
}

// body reads n bytes. The result is valid until the next call.
func (r *logReader) body(n int) []byte {
	if n <= windowSize {
		return r.take(n)
	}
	var b []byte
	for len(b) < n && r.err == nil {
		b = append(b, r.take(min(n-len(b), windowSize))...)
	}
	if r.err != nil {
		return nil
	}
	return b
}
