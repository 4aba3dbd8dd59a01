package datadir

import (
	"errors"
	"fmt"

	"rollcall/zk/jute"
)

// txn is a transaction of a log.
type txn struct {
	session int64
	zxid    int64
	timeMs  int64
	opcode  jute.Op
	ops     []nodeChange // its changes of nodes, in order; none if it failed
	// timeout is for createSession. paths are for closeSession: nodes to remove besides the session's own.
	timeout int32
	paths   []string
	// digest is the digest of the tree after the transaction.
	hasDigest bool
	digest    int64
}

// nodeChange is one change of a node.
type nodeChange struct {
	opcode  jute.Op
	path    string
	data    []byte // refers to the record
	acl     []jute.ACL
	owner   int64
	creates int32 // of a create, the parent's new Creates; -1: one more
	version int32
}

// decodeTxn reads the body of a record.
func (s *State) decodeTxn(body []byte) (txn, error) {
	d := jute.NewDecoder(body)
	var t txn
	t.session = d.ReadInt64()
	d.ReadInt32() // the number of the client's request
	t.zxid, t.timeMs = d.ReadInt64(), d.ReadInt64()
	t.opcode = jute.Op(d.ReadInt32())
	if err := d.Err(); err != nil {
		return t, err
	}
	rest, err := s.decodeBody(&t, d.Rest())
	if err != nil {
		return t, fmt.Errorf("a transaction %v: %w", t.opcode, err)
	}
	if len(rest) == 0 {
		return t, nil
	}
	if len(rest) != digestSize {
		return t, fmt.Errorf("a transaction %v has %d unknown bytes at its end", t.opcode, len(rest))
	}
	d = jute.NewDecoder(rest)
	t.hasDigest, t.digest = d.ReadInt32() == digestVersion, d.ReadInt64()
	return t, nil
}

// digestSize is the length of a digest after a transaction: its version and its value.
const digestSize = 4 + 8

// decodeBody reads the body of t, and returns the bytes after it.
func (s *State) decodeBody(t *txn, body []byte) ([]byte, error) {
	d := jute.NewDecoder(body)
	switch t.opcode {
	case jute.OpCreateSession:
		t.timeout = d.ReadInt32()
	case jute.OpCloseSession:
		return t.decodeCloseSession(body), nil
	case jute.OpError:
		d.ReadInt32()
	case jute.OpMulti:
		if err := s.decodeMulti(t, &d); err != nil {
			return nil, err
		}
	default:
		o, err := s.decodeOp(t, t.opcode, &d)
		if err == nil {
			t.ops = append(t.ops, o)
			break
		}
		if t.opcode != jute.OpCreate || d.Err() == nil {
			return nil, err
		}
		return s.decodeOldCreate(t, body)
	}
	return d.Rest(), d.Err()
}

// decodeCloseSession reads the body of a closeSession. Before 3.6 it is empty. Since then it has the paths of the
// session's nodes, unless that is switched off.
func (t *txn) decodeCloseSession(body []byte) []byte {
	d := jute.NewDecoder(body)
	n, _ := d.ReadCount(4)
	var paths []string
	for range n {
		path := string(d.ReadBytes())
		if !jute.ValidPath(path) {
			return body
		}
		paths = append(paths, path)
	}
	if d.Err() != nil {
		return body
	}
	t.paths = paths
	return d.Rest()
}

// decodeOldCreate reads a create of before 3.4, which does not have the parent's Creates.
func (s *State) decodeOldCreate(t *txn, body []byte) ([]byte, error) {
	d := jute.NewDecoder(body)
	o := nodeChange{opcode: jute.OpCreate, creates: -1}
	err := s.decodeCreate(&o, &d)
	if d.ReadBool() {
		o.owner = t.session
	}
	t.ops = append(t.ops, o)
	return d.Rest(), errors.Join(err, d.Err())
}

// decodeMulti reads the operations of a multi. If one of them failed, none has an effect.
func (s *State) decodeMulti(t *txn, d *jute.Decoder) error {
	n, _ := d.ReadCount(4 + 4)
	failed := false
	for range n {
		kind, body := jute.Op(d.ReadInt32()), jute.NewDecoder(d.ReadBytes())
		if d.Err() != nil {
			return d.Err()
		}
		if kind == jute.OpError {
			failed = true
		}
		if failed {
			continue
		}
		if kind == jute.OpSetACL || kind == jute.OpReconfig {
			return fmt.Errorf("a multi cannot have the part %v", kind)
		}
		o, err := s.decodeOp(t, kind, &body)
		if err != nil {
			return fmt.Errorf("its part %v: %w", kind, err)
		}
		t.ops = append(t.ops, o)
	}
	if failed {
		t.ops = nil
	}
	return d.Err()
}

// decodeOp reads a change of a node.
func (s *State) decodeOp(t *txn, kind jute.Op, d *jute.Decoder) (nodeChange, error) {
	o := nodeChange{opcode: kind}
	var err error
	switch kind {
	case jute.OpCreate, jute.OpCreate2:
		err = s.decodeCreate(&o, d)
		if d.ReadBool() {
			o.owner = t.session
		}
		o.creates = d.ReadInt32()
	case jute.OpCreateContainer:
		err = s.decodeCreate(&o, d)
		o.owner, o.creates = containerOwner, d.ReadInt32()
	case jute.OpCreateTTL:
		err = s.decodeCreate(&o, d)
		o.creates = d.ReadInt32()
		ttl := d.ReadInt64()
		if o.owner = TTLOwner(ttl); ttl <= 0 || ttl > jute.MaxTTL && d.Err() == nil {
			err = errors.Join(err, fmt.Errorf("a time to live of %d ms; it must be 1 to %d", ttl, jute.MaxTTL))
		}
	case jute.OpDelete, jute.OpDeleteContainer:
		o.path = string(d.ReadBytes())
	case jute.OpSetData, jute.OpReconfig:
		o.path, o.data, o.version = string(d.ReadBytes()), d.ReadBytes(), d.ReadInt32()
	case jute.OpSetACL:
		o.path = string(d.ReadBytes())
		o.acl, err = s.decodeACL(d)
		o.version = d.ReadInt32()
	case jute.OpCheck:
		o.path = string(d.ReadBytes())
		d.ReadInt32()
	default:
		return o, errors.New("unknown kind")
	}
	return o, errors.Join(err, d.Err())
}

// decodeCreate reads the values that all creates have in common.
func (s *State) decodeCreate(o *nodeChange, d *jute.Decoder) (err error) {
	o.path, o.data = string(d.ReadBytes()), d.ReadBytes()
	o.acl, err = s.decodeACL(d)
	if !jute.ValidPath(o.path) || o.path == "/" {
		return errors.Join(err, fmt.Errorf("%.100q is no path for a new node", o.path))
	}
	return err
}

// minACLEntrySize is the size of the smallest entry of an ACL: permissions and two empty texts.
const minACLEntrySize = 4 + 4 + 4

// decodeACL reads an ACL. Null is an ACL that is open to everyone.
func (s *State) decodeACL(d *jute.Decoder) ([]jute.ACL, error) {
	n, null := d.ReadCount(minACLEntrySize)
	if null {
		return s.shareACL(jute.OpenACL), d.Err()
	}
	before := d.Rest()
	for range n {
		var entry jute.ACL
		entry.Decode(d)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return s.shareEncodedACL(before[:len(before)-len(d.Rest())], n), nil
}
