package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/zk/jute"
)

// logged is a transaction for a log that a test writes.
type logged struct {
	zxid   int64
	client int64
	kind   jute.Op
	body   []byte
	digest []byte
}

// The body functions return what follows the head of a transaction.

func createBody(path, data string, ephemeral bool, creates int32) []byte {
	b := commonBody(path, data)
	if ephemeral {
		return jute.AppendInt32(append(b, 1), creates)
	}
	return jute.AppendInt32(append(b, 0), creates)
}

func commonBody(path, data string) []byte {
	return appendACL(jute.AppendString(jute.AppendString(nil, path), data), jute.OpenACL)
}

func setBody(path, data string, version int32) []byte {
	return jute.AppendInt32(jute.AppendString(jute.AppendString(nil, path), data), version)
}

func pathBody(path string) []byte { return jute.AppendString(nil, path) }

func closeBody(paths ...string) []byte {
	b := jute.AppendCount(nil, len(paths))
	for _, path := range paths {
		b = jute.AppendString(b, path)
	}
	return b
}

func multiBody(parts ...logged) []byte {
	b := jute.AppendCount(nil, len(parts))
	for _, p := range parts {
		b = jute.AppendBytes(jute.AppendInt32(b, int32(p.kind)), p.body)
	}
	return b
}

func digestOf(value uint64) []byte {
	return jute.AppendInt64(jute.AppendInt32(nil, digestVersion), int64(value))
}

// txnBytes returns the transaction as it is in a log. Its time is its zxid.
func (l *logged) txnBytes() []byte {
	b := jute.AppendInt32(jute.AppendInt64(nil, l.client), 0)
	b = jute.AppendInt64(jute.AppendInt64(b, l.zxid), l.zxid)
	b = append(jute.AppendInt32(b, int32(l.kind)), l.body...)
	return append(b, l.digest...)
}

// logBytes returns a log, with zeros at its end, and the offset of each record.
func logBytes(txns []logged) (b []byte, offsets []int) {
	b = jute.AppendInt64(jute.AppendInt32([]byte(logMagic), formatVersion), 0)
	for i := range txns {
		offsets = append(offsets, len(b))
		body := txns[i].txnBytes()
		b = binary.BigEndian.AppendUint64(b, uint64(adler32.Checksum(body)))
		b = append(jute.AppendBytes(b, body), recordEndMark)
	}
	return append(b, make([]byte, 300)...), offsets
}

// writeLog writes a log into dir, and returns its path and the offset of each record.
func writeLog(t *testing.T, dir string, txns ...logged) (path string, offsets []int) {
	t.Helper()
	b, offsets := logBytes(txns)
	path = filepath.Join(dir, fmt.Sprintf("log.%x", txns[0].zxid))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, offsets
}

// writeBase writes a snapshot with this zxid into dir. It has the nodes of an empty ZooKeeper, and
// change may add to them.
func writeBase(t *testing.T, dir string, zxid int64, change func(s *State)) string {
	t.Helper()
	s := NewState()
	s.Zxid = zxid
	for _, path := range []string{"/", "/zookeeper", quotaPath} {
		mustAdd(t, s, Node{Path: path})
	}
	if change != nil {
		change(s)
	}
	path := filepath.Join(dir, fmt.Sprintf("snapshot.%x", zxid))
	if err := writeSyncedFile(path, s.writeSnapshot); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustAdd(t *testing.T, s *State, n Node) {
	t.Helper()
	n.ACL = jute.OpenACL
	if err := s.Add(n); err != nil {
		t.Fatal(err)
	}
}

// wantDamage checks that err is a Damage of this file at this offset, with this text.
func wantDamage(t *testing.T, err error, file string, offset int64, text string) {
	t.Helper()
	var d *Damage
	if !errors.As(err, &d) {
		t.Fatalf("%v; want damage", err)
	}
	if d.File != file || d.Offset != offset || !strings.Contains(d.Error(), text) {
		t.Errorf("%v; want %s, offset %d, %q", err, file, offset, text)
	}
}

// Transactions of every kind do what they do in ZooKeeper.
func TestApply(t *testing.T) {
	const me = 0x1000001
	create := logged{zxid: 1, client: me, kind: jute.OpCreate, body: createBody("/a", "x", false, 1)}
	second := func(kind jute.Op, body []byte) []logged {
		return []logged{create, {zxid: 2, client: me, kind: kind, body: body}}
	}
	session := []logged{
		{zxid: 1, client: me, kind: jute.OpCreateSession, body: jute.AppendInt32(nil, 4000)},
		{zxid: 2, client: me, kind: jute.OpCreate, body: createBody("/e", "", true, 1)},
	}
	for _, tt := range []struct {
		name string
		txns []logged
		want func(s *State) bool
	}{
		{"create", []logged{create}, func(s *State) bool {
			n, root := s.Get("/a"), s.Get("/")
			return string(n.Data) == "x" && n.Czxid == 1 && n.Pzxid == 1 && n.Ctime == 1 && root.Creates == 1 && root.Pzxid == 1
		}},
		{"a create of before 3.4", []logged{{zxid: 1, kind: jute.OpCreate, body: append(commonBody("/a", "x"), 0)}}, func(s *State) bool {
			return s.Get("/a") != nil && s.Get("/").Creates == 1
		}},
		{"create2", second(jute.OpCreate2, createBody("/a/b", "", false, 7)), func(s *State) bool {
			return s.Get("/a/b") != nil && s.Get("/a").Creates == 7 && s.Get("/a").Pzxid == 2
		}},
		{"container", second(jute.OpCreateContainer, jute.AppendInt32(commonBody("/c", ""), 2)), func(s *State) bool {
			return s.Kind(s.Get("/c")) == Container && s.Get("/").Creates == 2
		}},
		{"TTL", second(jute.OpCreateTTL, jute.AppendInt64(jute.AppendInt32(commonBody("/t", ""), 2), 5000)), func(s *State) bool {
			return s.Kind(s.Get("/t")) == TTL && s.Get("/t").TTL() == 5000
		}},
		{"delete", second(jute.OpDelete, pathBody("/a")), func(s *State) bool {
			return s.Get("/a") == nil && s.Get("/").Pzxid == 2 && s.Get("/").Creates == 1
		}},
		{"deleteContainer", second(jute.OpDeleteContainer, pathBody("/a")), func(s *State) bool { return s.Get("/a") == nil }},
		{"delete of nothing", second(jute.OpDelete, pathBody("/b")), func(s *State) bool {
			return s.Get("/a") != nil && s.Get("/").Pzxid == 2
		}},
		{"setData", second(jute.OpSetData, setBody("/a", "y", 5)), func(s *State) bool {
			n := s.Get("/a")
			return string(n.Data) == "y" && n.Version == 5 && n.Mzxid == 2 && n.Mtime == 2 && n.Czxid == 1 && n.Pzxid == 1
		}},
		{"reconfig", second(jute.OpReconfig, setBody("/a", "y", 5)), func(s *State) bool { return string(s.Get("/a").Data) == "y" }},
		{"setACL", second(jute.OpSetACL, jute.AppendInt32(appendACL(pathBody("/a"), []jute.ACL{{Perms: 1}}), 3)), func(s *State) bool {
			n := s.Get("/a")
			return n.Aversion == 3 && len(n.ACL) == 1 && n.ACL[0].Perms == 1 && n.Mzxid == 1
		}},
		{"check", second(jute.OpCheck, jute.AppendInt32(pathBody("/a"), 0)), func(s *State) bool { return s.Zxid == 2 }},
		{"error", second(jute.OpError, jute.AppendInt32(nil, -101)), func(s *State) bool { return s.Zxid == 2 && s.Len() == 4 }},
		{"multi", second(jute.OpMulti, multiBody(
			logged{kind: jute.OpCreate, body: createBody("/b", "", false, 2)},
			logged{kind: jute.OpCheck, body: jute.AppendInt32(pathBody("/a"), 0)},
			logged{kind: jute.OpDelete, body: pathBody("/a")},
		)), func(s *State) bool { return s.Get("/a") == nil && s.Get("/b") != nil && s.Get("/b").Czxid == 2 }},
		{"a multi that failed", second(jute.OpMulti, multiBody(
			logged{kind: jute.OpDelete, body: pathBody("/a")},
			logged{kind: jute.OpError, body: jute.AppendInt32(nil, -101)},
		)), func(s *State) bool { return s.Get("/a") != nil }},
		{"createSession", session, func(s *State) bool {
			return s.Sessions[me] == 4000 && s.Kind(s.Get("/e")) == Ephemeral && s.Get("/e").Owner == me
		}},
		{"closeSession without paths", append(session, logged{zxid: 3, client: me, kind: jute.OpCloseSession}), func(s *State) bool {
			return len(s.Sessions) == 0 && s.Get("/e") == nil && s.Get("/").Pzxid == 3
		}},
		{"closeSession with paths", append(session, logged{zxid: 3, client: me, kind: jute.OpCloseSession, body: closeBody("/e")}), func(s *State) bool {
			return len(s.Sessions) == 0 && s.Get("/e") == nil
		}},
		{"closeSession with a digest only", append(session, logged{zxid: 3, client: me, kind: jute.OpCloseSession, digest: jute.AppendInt64(jute.AppendInt32(nil, 1), 0)}), func(s *State) bool {
			return len(s.Sessions) == 0 && s.Get("/e") == nil
		}},
		{"an ephemeral node that is there from later", append(session, []logged{
			{zxid: 3, client: me, kind: jute.OpSetData, body: setBody("/later", "x", 1)},
			{zxid: 4, client: me, kind: jute.OpSetACL, body: jute.AppendInt32(appendACL(pathBody("/later"), nil), 1)},
			{zxid: 5, client: me, kind: jute.OpCreateSession, body: jute.AppendInt32(nil, 4000)},
			{zxid: 6, client: me, kind: jute.OpCreate, body: createBody("/later", "", true, 3)},
		}...), func(s *State) bool {
			n := s.Get("/later")
			return string(n.Data) == "new" && n.Mzxid == 6 && n.Version == 0 && n.Aversion == 0 && len(n.ACL) == 1 && s.Get("/").Creates == 3
		}},
		{"a counter that goes on into the epoch", append(noop(1<<32-1, 1<<32-1), noop(1<<32, 1<<32)...), func(s *State) bool { return s.Zxid == 1<<32 }},
		{"an ephemeral node without its session", session[1:], func(s *State) bool {
			return s.Get("/e") == nil && s.Get("/").Creates == 1
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeBase(t, dir, tt.txns[0].zxid-1, func(s *State) {
				if strings.Contains(tt.name, "from later") {
					mustAdd(t, s, Node{Path: "/later", Data: []byte("new"), Owner: me, Czxid: 6, Mzxid: 6, Pzxid: 6})
				}
			})
			writeLog(t, dir, tt.txns...)
			if s := mustRead(t, dir); !tt.want(s) {
				t.Errorf("the state is\n%s", dump(s))
			}
		})
	}
}

// An unknown transaction is rejected with its place.
func TestTxnRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		txn  logged
		want string
	}{
		{"unknown", logged{kind: 99}, "unknown kind"},
		{"a read in a multi", logged{kind: jute.OpMulti, body: multiBody(logged{kind: jute.OpGetData})}, "its part getData"},
		{"setACL in a multi", logged{kind: jute.OpMulti, body: multiBody(logged{kind: jute.OpSetACL})}, "a multi cannot have"},
		{"short", logged{kind: jute.OpSetData, body: pathBody("/a")}, "ends within a value"},
		{"long", logged{kind: jute.OpDelete, body: append(pathBody("/a"), 1, 2, 3)}, "3 unknown bytes"},
		{"path", logged{kind: jute.OpCreate, body: createBody("a", "", false, 1)}, `"a" is no path`},
		{"root", logged{kind: jute.OpCreate, body: createBody("/", "", false, 1)}, `"/" is no path`},
		{"TTL", logged{kind: jute.OpCreateTTL, body: jute.AppendInt64(jute.AppendInt32(commonBody("/t", ""), 1), 0)}, "a time to live of 0 ms"},
		{"long TTL", logged{kind: jute.OpCreateTTL, body: jute.AppendInt64(jute.AppendInt32(commonBody("/t", ""), 1), 1<<41)}, "a time to live of"},
	} {
		dir := t.TempDir()
		writeBase(t, dir, 1, nil)
		tt.txn.zxid = 3
		path, offsets := writeLog(t, dir, logged{zxid: 2, kind: jute.OpError, body: jute.AppendInt32(nil, 0)}, tt.txn)
		_, _, err := Read([]Directory{{Data: dir}}, Options{})
		wantDamage(t, err, path, int64(offsets[1]), tt.want)
	}
}

// noop returns transactions from first to last that change nothing.
func noop(first, last int64) (txns []logged) {
	for zxid := first; zxid <= last; zxid++ {
		txns = append(txns, logged{zxid: zxid, kind: jute.OpError, body: jute.AppendInt32(nil, 0)})
	}
	return txns
}

// Transactions that ZooKeeper would silently lose are rejected. With Options.AsZooKeeper they are lost as in ZooKeeper.
func TestLosses(t *testing.T) {
	second := int64(1) << 32
	for _, tt := range []struct {
		name   string
		spoil  func(t *testing.T, dir string) (file string, offset int64)
		want   string
		asking int64 // the zxid of the state that ZooKeeper would have; 0: it would not start
	}{
		{"a gap between logs", func(t *testing.T, dir string) (string, int64) {
			writeLog(t, dir, noop(2, 5)...)
			path, offsets := writeLog(t, dir, noop(7, 8)...)
			return path, int64(offsets[0])
		}, "between 0x5 and this one are missing", 8},
		{"a gap within a log", func(t *testing.T, dir string) (string, int64) {
			path, offsets := writeLog(t, dir, append(noop(2, 5), noop(7, 8)...)...)
			return path, int64(offsets[4])
		}, "between 0x5 and this one are missing", 8},
		{"the first one of an epoch is missing", func(t *testing.T, dir string) (string, int64) {
			path, offsets := writeLog(t, dir, append(noop(2, 5), noop(second+2, second+3)...)...)
			return path, int64(offsets[4])
		}, "are missing", second + 3},
		{"zxids go back", func(t *testing.T, dir string) (string, int64) {
			path, offsets := writeLog(t, dir, append(noop(2, 5), noop(4, 8)...)...)
			return path, int64(offsets[4])
		}, "but is older", 0},
		{"a longer length", func(t *testing.T, dir string) (string, int64) {
			path, offsets := writeLog(t, dir, noop(2, 9)...)
			patch(t, path, offsets[3]+8, 0, 0, 1)
			return path, int64(offsets[3])
		}, "this is no record, but a whole one follows at offset ", 4},
		{"a length beyond the file", func(t *testing.T, dir string) (string, int64) {
			path, offsets := writeLog(t, dir, noop(2, 9)...)
			patch(t, path, offsets[3]+8, 0, 1)
			return path, int64(offsets[3])
		}, "this is no record, but a whole one follows at offset ", 4},
		{"the length of the last one", func(t *testing.T, dir string) (string, int64) {
			path, offsets := writeLog(t, dir, noop(2, 9)...)
			patch(t, path, offsets[7]+8, 0, 0, 1)
			return path, int64(offsets[7])
		}, "the length of the last record is 292 and should be 36", 8},
		{"a hole", func(t *testing.T, dir string) (string, int64) {
			path, offsets := writeLog(t, dir, noop(2, 9)...)
			patch(t, path, offsets[3], make([]byte, offsets[4]-offsets[3])...)
			return path, int64(offsets[3])
		}, "a record of 0 bytes", 4},
		{"another letter", func(t *testing.T, dir string) (string, int64) {
			path, offsets := writeLog(t, dir, noop(2, 9)...)
			patch(t, path, offsets[4]-1, 'C')
			return path, int64(offsets[3])
		}, "does not end with the letter B", 4},
		{"a negative length", func(t *testing.T, dir string) (string, int64) {
			path, offsets := writeLog(t, dir, noop(2, 9)...)
			patch(t, path, offsets[3]+8, 0xff)
			return path, int64(offsets[3])
		}, "bytes; it must have", 0},
		{"a check value", func(t *testing.T, dir string) (string, int64) {
			path, offsets := writeLog(t, dir, noop(2, 9)...)
			patch(t, path, offsets[3]+7, 0)
			return path, int64(offsets[3])
		}, "the check value of the record is", 0},
		{"a broken snapshot whose transaction no log has", func(t *testing.T, dir string) (string, int64) {
			writeLog(t, dir, noop(2, 9)...)
			path := filepath.Join(dir, "snapshot.c")
			if err := os.WriteFile(path, []byte("ZKSN"), 0o600); err != nil {
				t.Fatal(err)
			}
			return path, 4
		}, "no log has the transaction 0xc", 9},
		{"a snapshot with a trace of what no log has", func(t *testing.T, dir string) (string, int64) {
			path := writeBase(t, dir, 3, func(s *State) { mustAdd(t, s, Node{Path: "/a", Czxid: 11}) })
			writeLog(t, dir, noop(2, 9)...)
			return path, 0
		}, "has a part of this transaction, but the logs end at 0x9", 9},
		{"a wrong digest", func(t *testing.T, dir string) (string, int64) {
			txns := noop(2, 9)
			txns[6].digest, txns[7].digest = digestOf(1), digestOf(2)
			path, offsets := writeLog(t, dir, txns...)
			return path, int64(offsets[6])
		}, "does not have the digests", 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeBase(t, dir, 1, nil)
			file, offset := tt.spoil(t, dir)
			_, _, err := Read([]Directory{{Data: dir}}, Options{})
			wantDamage(t, err, file, offset, tt.want)
			s, report, err := Read([]Directory{{Data: dir}}, Options{AsZooKeeper: true})
			switch {
			case tt.asking == 0:
				wantDamage(t, err, file, offset, tt.want)
			case err != nil:
				t.Error(err)
			case s.Zxid != tt.asking || len(report.Losses) != 1:
				t.Errorf("as ZooKeeper: zxid %#x, losses %q; want %#x", s.Zxid, report.Losses, tt.asking)
			}
		})
	}
}

// patch writes bytes into a file.
func patch(t *testing.T, path string, offset int, b ...byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, int64(offset)); err != nil {
		t.Fatal(err)
	}
}

// A later digest that is equal shows that an earlier one was wrong, and not the tree.
func TestDigestLater(t *testing.T) {
	dir := t.TempDir()
	writeBase(t, dir, 1, nil)
	s, _, err := Read([]Directory{{Data: dir}}, Options{NoLogs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.digest.computeFor(s)
	txns := noop(2, 4)
	txns[0].digest, txns[2].digest = digestOf(1), digestOf(s.digest.sum)
	writeLog(t, dir, txns...)
	_, report, err := Read([]Directory{{Data: dir}}, Options{})
	if err != nil || report.Digests != 2 {
		t.Errorf("%+v, %v; want the snapshot's digest and the last one to be equal", report, err)
	}
}
