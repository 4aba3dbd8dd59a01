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

// snapshot is what a file had beside the State.
type snapshot struct {
	file string
	zxid int64 // from the file's name: all transactions up to it are in the State, and perhaps later ones
	// highest is the highest zxid that left a trace. If it is above zxid, the State has parts of later
	// transactions, up to at least this one.
	highest int64
	// The digest of the tree after the transaction digestZxid; 0 if there is none.
	digestZxid int64
	digest     int64
}

// readSnapshot reads one file into an empty State.
func readSnapshot(file string, zxid int64, room func() error) (*State, *snapshot, error) {
	src, closer, err := open(file)
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, nil, err // nothing says that the snapshot is not valid
	}
	if err != nil {
		return nil, nil, &Damage{File: file, What: err.Error()}
	}
	defer func() { _ = closer.Close() }() // only read
	src.room = room
	r := snapshotReader{source: src, state: NewState(), snapshot: snapshot{file: file, zxid: zxid}}
	if err := r.read(); err != nil {
		if src.full != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, src.full)
		}
		return nil, nil, &Damage{File: file, Offset: r.offset(), What: err.Error(), packed: r.size < 0}
	}
	r.state.Zxid = zxid
	r.state.Epoch = Epoch(zxid)
	return r.state, &r.snapshot, nil
}

// snapshotReader reads the parts of a snapshot in order:
//
//	head, sessions, ACLs, nodes, seal, and since 3.6 a digest, and since 3.9 the last zxid, each with
//	a seal.
//
// A seal is the Adler-32 of everything before it, and the text "/".
type snapshotReader struct {
	*source
	state *State
	snapshot
	acls  map[int64][]jute.ACL
	arena []byte
}

func (r *snapshotReader) read() error {
	for _, part := range []func() error{r.readHead, r.readSessions, r.readACLs, r.readNodes, r.readSeal, r.readEnd} {
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
	return readHead(r.source, snapshotMagic)
}

// headSize is the length of what readHead reads.
const headSize = 16

// readHead reads how a snapshot or a log begins: its magic, the format and the number of a database,
// which nobody uses.
func readHead(s *source, magic string) error {
	if got := s.take(len(magic)); s.err == nil && string(got) != magic {
		return fmt.Errorf("it begins with %q; %q was expected", got, magic)
	}
	if version := s.int32(); s.err == nil && version != formatVersion {
		return fmt.Errorf("its format is %d; known is %d", version, formatVersion)
	}
	s.int64()
	return nil
}

func (r *snapshotReader) readSessions() error {
	for n := r.count(); n > 0 && r.err == nil; n-- {
		id, timeout := jute.SessionID(r.int64()), r.int32()
		if _, twice := r.state.Sessions[id]; twice && r.err == nil {
			return fmt.Errorf("the session %v is there twice", id)
		}
		r.state.Sessions[id] = timeout
	}
	return nil
}

func (r *snapshotReader) readACLs() error {
	r.acls = map[int64][]jute.ACL{openACL: r.state.share(jute.OpenACL)}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		number := r.int64()
		if _, twice := r.acls[number]; twice && r.err == nil {
			return fmt.Errorf("the ACL number %d is there twice", number)
		}
		var b []byte
		entries := r.count()
		for i := 0; i < entries && r.err == nil; i++ {
			b = jute.AppendInt32(b, r.int32())
			for range 2 {
				text, _ := r.bytes()
				b = jute.AppendBytes(b, text)
			}
		}
		if r.err != nil {
			return nil
		}
		r.acls[number] = r.state.shareBytes(b, entries)
	}
	return nil
}

func (r *snapshotReader) readNodes() error {
	var n Node
	for {
		path, _ := r.bytes()
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
			r.highest = max(r.highest, n.Czxid, n.Mzxid, n.Pzxid)
		}
	}
}

// configPath is a node whose mzxid is the version of the configuration, and may be above every zxid.
const configPath = "/zookeeper/config"

// nodeSize is how much of a node follows its data.
const nodeSize = 6*8 + 3*4 + 8

func (r *snapshotReader) readNode(n *Node) {
	data, owned := r.bytes()
	if owned || data == nil {
		n.Data = data
	} else {
		n.Data = r.keep(data)
	}
	b := r.take(nodeSize)
	if b == nil {
		return
	}
	d := jute.NewDecoder(b)
	number := d.ReadInt64()
	acl, known := r.acls[number]
	if n.ACL, n.missing = acl, 0; !known {
		n.missing = number
	}
	n.Czxid, n.Mzxid = d.ReadInt64(), d.ReadInt64()
	n.Ctime, n.Mtime = d.ReadInt64(), d.ReadInt64()
	n.Version, n.Creates, n.Aversion = d.ReadInt32(), d.ReadInt32(), d.ReadInt32()
	n.Owner = d.ReadInt64()
	n.Pzxid = d.ReadInt64()
}

const (
	arenaSize = 64 << 10
	maxInside = 4 << 10 // longer data have memory of their own
)

// keep returns a copy of data. Short data share memory.
func (r *snapshotReader) keep(data []byte) []byte {
	if len(data) > maxInside {
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

func (r *snapshotReader) readSeal() error {
	want := r.adler()
	got := r.int64()
	end := r.take(sealSize - 8)
	if r.err != nil {
		return nil
	}
	if got != want {
		return fmt.Errorf("the check value of what is before is 0x%x and should be 0x%x", uint64(got), uint64(want))
	}
	if string(end) != "\x00\x00\x00\x01/" {
		return errors.New(`the text "/" was expected after the check value`)
	}
	return nil
}

// readEnd reads what newer versions write after the first seal. The last zxid may be there without a
// digest, if digests are switched off.
func (r *snapshotReader) readEnd() error {
	if r.ended() || r.err != nil {
		return nil
	}
	if !r.followed(8 + sealSize + 1) {
		return r.readLast()
	}
	if err := r.readDigest(); err != nil || r.err != nil {
		return err
	}
	if err := r.readSeal(); err != nil || r.err != nil || r.ended() {
		return err
	}
	return r.readLast()
}

// followed reports whether at least n bytes follow.
func (r *snapshotReader) followed(n int) bool {
	if r.fill(n) {
		return true
	}
	if errors.Is(r.err, errEnd) {
		r.err = nil
	}
	return false
}

func (r *snapshotReader) readDigest() error {
	zxid, version := r.int64(), r.int32()
	if version < digestVersion {
		text, _ := r.bytes()
		if _, err := strconv.ParseUint(string(text), 16, 64); text != nil && err != nil && r.err == nil {
			return fmt.Errorf("the digest %.40q is no hexadecimal number", text)
		}
		return nil
	}
	value := r.int64()
	if version == digestVersion && zxid > 0 {
		r.digestZxid, r.digest = zxid, value
		r.highest = max(r.highest, zxid)
	}
	return nil
}

func (r *snapshotReader) readLast() error {
	r.highest = max(r.highest, r.int64())
	if err := r.readSeal(); err != nil || r.err != nil {
		return err
	}
	if !r.ended() && r.err == nil {
		return errors.New("something follows the end")
	}
	return nil
}
