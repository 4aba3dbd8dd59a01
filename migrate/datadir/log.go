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
	logMagic       = "ZKLG"
	recordHeadSize = 8 + 4
	recordEndMark  = 'B'
	txnHeadSize    = 8 + 4 + 8 + 8 + 4
)

// logReader reads the records of one log.
type logReader struct {
	*valueReader
	f    *os.File
	path string
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
	r := &logReader{valueReader: newValueReader(f, info.Size()), f: f, path: file}
	err = readHead(r.valueReader, logMagic)
	if r.err != nil {
		err = r.err
	}
	if err == nil {
		return r, nil
	}
	_ = f.Close() // only read
	remedy := useOtherMember
	if info.Size() < headSize+recordHeadSize {
		remedy = "it is too short to hold a transaction: move it out of the directory"
	}
	return nil, &Damage{File: file, Problem: "this is no transaction log: " + err.Error(), Remedy: remedy}
}

func (r *logReader) closeFile() { _ = r.f.Close() }

// nextRecord returns the next record, or nil if no valid record follows. The caller then calls checkEnding.
func (r *logReader) nextRecord() (*record, error) {
	start := r.offset()
	head := r.takeBytes(recordHeadSize)
	if head == nil {
		return nil, r.damageUnlessEnd(start)
	}
	sum, n := binary.BigEndian.Uint64(head), int64(int32(binary.BigEndian.Uint32(head[8:])))
	if n < 0 || n > maxValue {
		return nil, r.damageAt(start, fmt.Sprintf("a record of %d bytes; it must have %d to %d", n, txnHeadSize, maxValue))
	}
	if n < txnHeadSize || n >= r.size-start-recordHeadSize {
		return nil, nil
	}
	body := r.readBody(int(n) + 1)
	if body == nil {
		return nil, r.damageUnlessEnd(start)
	}
	if body[n] != recordEndMark {
		return nil, nil
	}
	if got := adler32.Checksum(body[:n]); uint64(got) != sum {
		return nil, r.damageAt(start, fmt.Sprintf("the check value of the record is 0x%x and should be 0x%x", sum, got))
	}
	return &record{start, body[:n]}, nil
}

// damageUnlessEnd returns the error of reading as a Damage, or nil if it is the end of the file.
func (r *logReader) damageUnlessEnd(start int64) error {
	if errors.Is(r.err, errFileEnds) {
		return nil
	}
	return r.damageAt(start, r.err.Error())
}

func (r *logReader) damageAt(offset int64, what string) *Damage {
	return &Damage{File: r.path, Offset: offset, Problem: what, Remedy: useOtherMember}
}

// readBody reads n bytes. The result is valid until the next call.
func (r *logReader) readBody(n int) []byte {
	if n <= windowSize {
		return r.takeBytes(n)
	}
	var b []byte
	for len(b) < n && r.err == nil {
		b = append(b, r.takeBytes(min(n-len(b), windowSize))...)
	}
	if r.err != nil {
		return nil
	}
	return b
}
