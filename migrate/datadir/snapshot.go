package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"rollcall/zk/jute"
)

const (
	snapshotMagic = "ZKSN"
	formatVersion = 2
	// openACL is the number of the ACL that is open to everyone. It is never in a snapshot's table.
	openACL = -1
)

// snapshotInfo has the contents of a file besides the State.
type snapshotInfo struct {
	file string
	zxid int64 // from the file's name: the State has all transactions up to it, and perhaps later ones
	// highestZxid is the highest zxid that left a trace. If it is above zxid, the State has parts of later
	// transactions, up to at least this one.
	highestZxid int64
	// The digest of the tree after the transaction digestZxid; 0 if there is none.
	digestZxid int64
	digest     int64
}

// readSnapshot reads one file into an empty State.
func readSnapshot(file string, zxid int64, room func() error) (*State, *snapshotInfo, error) {
	src, closer, err := openSnapshot(file)
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, nil, err // the snapshot may be valid
	}
	if err != nil {
		return nil, nil, &Damage{File: file, Problem: err.Error()}
	}
	defer func() { _ = closer.Close() }() // only read
	src.checkRoom = room
	r := snapshotReader{valueReader: src, state: NewState(), snapshotInfo: snapshotInfo{file: file, zxid: zxid}}
	if err := r.readParts(); err != nil {
		if src.roomError != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, src.roomError)
		}
		return nil, nil, &Damage{File: file, Offset: r.offset(), Problem: err.Error(), isCompressed: r.size < 0}
	}
	r.state.Zxid = zxid
	r.state.Epoch = Epoch(zxid)
	return r.state, &r.snapshotInfo, nil
}

// snapshotReader reads the parts of a snapshot in order:
//
//	head, sessions, ACLs, nodes, seal, and since 3.6 a digest, and since 3.9 the last zxid, each with
//	a seal.
//
// A seal is the Adler-32 of everything before it, and the text "/".
type snapshotReader struct {
	*valueReader
	state *State
	snapshotInfo
	acls  map[int64][]jute.ACL
	arena []byte
}

func (r *snapshotReader) readParts() error {
	for _, part := range []func() error{
		r.readHead, r.readSessions, r.readACLs, r.readNodes, r.readAndCheckSeal,
		r.readTail,
	} {
		err := part()
		if r.err != nil {
			return r.err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *snapshotReader) readHead() error {
	return readHead(r.valueReader, snapshotMagic)
}

// headSize is the length of the head that readHead reads.
const headSize = 16

// readHead reads the beginning of a snapshot or a log: its magic, the format and an unused database number.
func readHead(s *valueReader, magic string) error {
	if got := s.takeBytes(len(magic)); s.err == nil && string(got) != magic {
		return fmt.Errorf("it begins with %q; %q was expected", got, magic)
	}
	if version := s.readInt32(); s.err == nil && version != formatVersion {
		return fmt.Errorf("its format is %d, but must be %d", version, formatVersion)
	}
	s.readInt64()
	return nil
}

func (r *snapshotReader) readSessions() error {
	for n := r.readCount(); n > 0 && r.err == nil; n-- {
		id, timeout := jute.SessionID(r.readInt64()), r.readInt32()
		if _, twice := r.state.Sessions[id]; twice && r.err == nil {
			return fmt.Errorf("duplicate session %v", id)
		}
		r.state.Sessions[id] = timeout
	}
	return nil
}

func (r *snapshotReader) readACLs() error {
	r.acls = map[int64][]jute.ACL{openACL: r.state.shareACL(jute.OpenACL)}
	for n := r.readCount(); n > 0 && r.err == nil; n-- {
		number := r.readInt64()
		if _, twice := r.acls[number]; twice && r.err == nil {
			return fmt.Errorf("duplicate ACL number %d", number)
		}
		var b []byte
		entries := r.readCount()
		for i := 0; i < entries && r.err == nil; i++ {
			b = jute.AppendInt32(b, r.readInt32())
			for range 2 {
				text, _ := r.readBytes()
				b = jute.AppendBytes(b, text)
			}
		}
		if r.err != nil {
			return nil
		}
		r.acls[number] = r.state.shareEncodedACL(b, entries)
	}
	return nil
}

func (r *snapshotReader) readNodes() error {
	var n Node
	for {
		path, _ := r.readBytes()
		if r.err != nil || string(path) == "/" {
			return nil // "/" is the end; the path of the root is ""
		}
		n.Path = string(path)
		if n.Path == "" {
			n.Path = "/"
		}
		r.readNode(&n)
		if r.err != nil {
			return nil
		}
		if err := r.state.Add(n); err != nil {
			return err
		}
		if n.Path != configPath {
			r.highestZxid = max(r.highestZxid, n.Czxid, n.Mzxid, n.Pzxid)
		}
	}
}

// configPath is a node whose mzxid is the version of the configuration, and may be above every zxid.
const configPath = "/zookeeper/config"

// nodeSize is the length of a node's fields after its data.
const nodeSize = 6*8 + 3*4 + 8

func (r *snapshotReader) readNode(n *Node) {
	data, owned := r.readBytes()
	if owned || data == nil {
		n.Data = data
	} else {
		n.Data = r.copyData(data)
	}
	b := r.takeBytes(nodeSize)
	if b == nil {
		return
	}
	d := jute.NewDecoder(b)
	number := d.ReadInt64()
	acl, known := r.acls[number]
	if n.ACL, n.missingACL = acl, 0; !known {
		n.missingACL = number
	}
	n.Czxid, n.Mzxid = d.ReadInt64(), d.ReadInt64()
	n.Ctime, n.Mtime = d.ReadInt64(), d.ReadInt64()
	n.Version, n.Creates, n.Aversion = d.ReadInt32(), d.ReadInt32(), d.ReadInt32()
	n.Owner = d.ReadInt64()
	n.Pzxid = d.ReadInt64()
}

const (
	arenaSize    = 64 << 10
	maxArenaData = 4 << 10 // longer data have memory of their own
)

// copyData returns a copy of data. Short ones share an arena.
func (r *snapshotReader) copyData(data []byte) []byte {
	if len(data) > maxArenaData {
		return append([]byte(nil), data...)
	}
	if len(data) > cap(r.arena)-len(r.arena) {
		r.arena = make([]byte, 0, arenaSize)
	}
	start := len(r.arena)
	r.arena = append(r.arena, data...)
	return r.arena[start:len(r.arena):len(r.arena)]
}

// sealSize is the length of a seal.
const sealSize = 8 + 4 + 1

func (r *snapshotReader) readAndCheckSeal() error {
	want := r.adlerSum()
	got := r.readInt64()
	end := r.takeBytes(sealSize - 8)
	if r.err != nil {
		return nil
	}
	if got != want {
		return fmt.Errorf("the check value of the bytes before is 0x%x and should be 0x%x", uint64(got), uint64(want))
	}
	if string(end) != "\x00\x00\x00\x01/" {
		return errors.New(`the text "/" was expected after the check value`)
	}
	return nil
}

// readTail reads the parts that newer versions write after the first seal. With digests switched off there is a last
// zxid without a digest.
func (r *snapshotReader) readTail() error {
	if r.atEnd() || r.err != nil {
		return nil
	}
	if !r.bytesFollow(8 + sealSize + 1) {
		return r.readLastZxid()
	}
	if err := r.readDigest(); err != nil || r.err != nil {
		return err
	}
	if err := r.readAndCheckSeal(); err != nil || r.err != nil || r.atEnd() {
		return err
	}
	return r.readLastZxid()
}

// bytesFollow reports whether at least n bytes follow.
func (r *snapshotReader) bytesFollow(n int) bool {
	if r.fillWindow(n) {
		return true
	}
	if errors.Is(r.err, errFileEnds) {
		r.err = nil
	}
	return false
}

func (r *snapshotReader) readDigest() error {
	zxid, version := r.readInt64(), r.readInt32()
	if version < digestVersion {
		text, _ := r.readBytes()
		if _, err := strconv.ParseUint(string(text), 16, 64); text != nil && err != nil && r.err == nil {
			return fmt.Errorf("the digest %.40q is no hexadecimal number", text)
		}
		return nil
	}
	value := r.readInt64()
	if version == digestVersion && zxid > 0 {
		r.digestZxid, r.digest = zxid, value
		r.highestZxid = max(r.highestZxid, zxid)
	}
	return nil
}

func (r *snapshotReader) readLastZxid() error {
	r.highestZxid = max(r.highestZxid, r.readInt64())
	if err := r.readAndCheckSeal(); err != nil || r.err != nil {
		return err
	}
	if !r.atEnd() && r.err == nil {
		return errors.New("something follows the end")
	}
	return nil
}
