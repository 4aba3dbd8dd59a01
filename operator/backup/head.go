package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"time"

	"rollcall/internal/serverlist"
)

// A backup is a line of text, chunks of bytes, and an end:
//
//	head as JSON, space, sum (8 hexadecimal digits), newline
//	chunks: length (4 bytes, 1 to maxChunkBytes), bytes, sum (4)
//	length 0 (4), number of bytes in all chunks (8), sum (4), end of file
//
// The sum in the line is the CRC32C of the JSON. Each other sum is that of all bytes before it, except earlier
// sums of chunks, so a missing or swapped chunk is noticed. All chunks but the last are full. Integers are
// big-endian. The bytes in the chunks are a snapshot of package znode, which has checksums and a digest of its
// own.
const (
	format = "rollcall-backup"
	// Version is the newest version of the format that can be read, and the one that is written.
	Version = 1
	// maxHeadBytes limits the first line, in bytes: 255 servers with names of 253 bytes fit.
	maxHeadBytes = 256 << 10
	// maxChunkBytes limits a chunk. Reading needs one buffer of this size.
	maxChunkBytes = 64 << 10
)

// The errors of a backup that cannot be read.
var (
	// ErrNotBackup means that the bytes do not begin as a backup.
	ErrNotBackup = errors.New("not a backup")
	// ErrNewerFormat means that a newer version of this program wrote the backup.
	ErrNewerFormat = errors.New("a newer version of rollcall wrote this backup")
	// ErrCorrupt means that the backup is cut short or changed.
	ErrCorrupt = errors.New("the backup is damaged")
)

// Head is the description of a backup. Index, Term, Zxid, Nodes, Sessions and Digest are compared with the state when
// the backup is read.
type Head struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Program string    `json:"program"` // the version of the member's program
	Member  uint32    `json:"member"`  // the member that made it
	Servers []Server  `json:"servers"` // the ensemble's server list; none of a standalone server
	Time    time.Time `json:"time"`    // when the state was copied, by the member's clock
	// Confirmed reports whether a leader has confirmed the copy: it has every write that was acknowledged before the
	// backup began. Otherwise the member knew no leader, and the copy may lack the last writes.
	Confirmed bool      `json:"confirmed"`
	AsOf      time.Time `json:"as_of"` // the log's time, from the leader of the last entry
	Index     uint64    `json:"index"` // of the last entry of the log that the state contains
	Term      uint64    `json:"term"`  // of the leader then
	Zxid      int64     `json:"zxid"`
	Nodes     int       `json:"nodes"`
	Sessions  int       `json:"sessions"`
	DataBytes int64     `json:"data_bytes"` // of all paths and data
	Digest    string    `json:"digest"`     // of the state, 16 hexadecimal digits
}

// Server is one member in the server list. Its addresses are host:port.
type Server struct {
	ID       uint32 `json:"id"`
	Quorum   string `json:"quorum"`
	Election string `json:"election"`
	Client   string `json:"client"` // "": not in the list
}

// ServersOf returns the servers of a list for a head.
func ServersOf(list serverlist.List) (all []Server) {
	for _, s := range list {
		all = append(all, Server{ID: s.ID, Quorum: s.QuorumAddr(), Election: s.ElectionAddr(), Client: s.ClientAddr()})
	}
	return all
}

var castagnoliTable = crc32.MakeTable(crc32.Castagnoli)

// FormatDigest returns a digest in the format of Head.Digest.
func FormatDigest(digest uint64) string { return fmt.Sprintf("%016x", digest) }

// encodeLine returns the first line of a backup.
func (h Head) encodeLine() ([]byte, error) {
	h.Format, h.Version = format, Version
	if h.Servers == nil {
		h.Servers = []Server{}
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("backup: head: %w", err)
	}
	text = fmt.Appendf(text, " %08x\n", crc32.Checksum(text, castagnoliTable))
	if len(text) > maxHeadBytes {
		return nil, fmt.Errorf("backup: the head has %d bytes, but must have at most %d", len(text), maxHeadBytes)
	}
	return text, nil
}

type lineReader interface {
	io.Reader
	ReadSlice(delim byte) ([]byte, error)
}

// readHead reads the first line, and returns it with its head.
func readHead(r lineReader) (h Head, line []byte, err error) {
	line, err = r.ReadSlice('\n')
	begins := []byte(`{"format":"` + format + `"`)
	if !bytes.HasPrefix(line, begins[:min(len(begins), len(line))]) || len(line) == 0 && errors.Is(err, io.EOF) {
		return h, nil, fmt.Errorf("%w: it does not begin with a head; rollcall backup save writes one", ErrNotBackup)
	}
	switch {
	case errors.Is(err, io.EOF):
		return h, nil, fmt.Errorf("%w: it is cut short at byte %d, in its head", ErrCorrupt, len(line))
	case len(line) == maxHeadBytes && line[maxHeadBytes-1] != '\n':
		return h, nil, fmt.Errorf("%w: its head has more than %d bytes", ErrCorrupt, maxHeadBytes)
	case err != nil:
		return h, nil, fmt.Errorf("read backup: %w", err)
	}
	text, sum, ok := splitChecksum(line)
	if !ok || crc32.Checksum(text, castagnoliTable) != sum {
		return h, nil, fmt.Errorf("%w: its head, bytes 0 to %d, does not fit its checksum", ErrCorrupt, len(line))
	}
	return parseHead(text, line)
}

// splitChecksum cuts the first line into its JSON and its sum.
func splitChecksum(line []byte) (text []byte, sum uint32, ok bool) {
	const tail = len(" 01234567\n")
	if len(line) <= tail || line[len(line)-tail] != ' ' {
		return nil, 0, false
	}
	text = line[:len(line)-tail]
	n, err := strconv.ParseUint(string(line[len(line)-tail+1:len(line)-1]), 16, 32)
	return text, uint32(n), err == nil
}

// parseHead reads the JSON of a head whose checksum fits.
func parseHead(text, line []byte) (h Head, _ []byte, err error) {
	var kind struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &kind); err != nil {
		return h, nil, fmt.Errorf("%w: its head: %w", ErrCorrupt, err)
	}
	if kind.Version > Version {
		return h, nil, fmt.Errorf("%w: its format is %d, and this program reads 1 to %d; read it with that version",
			ErrNewerFormat, kind.Version, Version)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, nil, fmt.Errorf("%w: its head: %w", ErrCorrupt, err)
	}
	if h.Version < 1 || h.Nodes < 0 || h.Sessions < 0 || h.DataBytes < 0 {
		return h, nil, fmt.Errorf("%w: its head has a number below 0, or no version", ErrCorrupt)
	}
	return h, line, nil
}
