package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/zk/jute"
)

// writeText writes a file.
func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Of several directories, the one with the highest epoch is read, then the one with the highest zxid. If
// two have different transactions under the same zxid, a note says so.
func TestChoose(t *testing.T) {
	second := int64(1) << 32
	var directories []Directory
	for _, txns := range [][]logged{
		append(noop(2, 9), noop(second+1, second+2)...),
		append(noop(2, 7), noop(second+1, second+4)...),
		append(noop(2, 8), logged{zxid: 9, kind: jute.OpCreate, body: createBody("/lost", "", false, 1)}),
		noop(2, 12),
	} {
		dir := t.TempDir()
		writeBase(t, dir, 1, nil)
		writeLog(t, dir, txns...)
		directories = append(directories, Directory{Data: dir})
	}
	s, report, err := Read(directories[:3], Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Zxid != second+4 || report.Directory != directories[1] ||
		!strings.Contains(report.ChoiceReason, "epoch, 1, and among those the highest zxid, 0x100000004") {
		t.Errorf("zxid %#x of %v, because %s", s.Zxid, report.Directory, report.ChoiceReason)
	}
	if len(report.Notes) != 0 {
		t.Errorf("notes %q; want none: the second directory has no transaction 9", report.Notes)
	}
	_, report, err = Read([]Directory{directories[2], directories[0]}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "different transactions 0x9") {
		t.Errorf("notes %q; want one about 0x9", report.Notes)
	}
	// A server that has accepted the epoch 2 has not joined it, and is not elected for it. But there may
	// have been a leader of that epoch.
	writeText(t, filepath.Join(directories[3].Data, "acceptedEpoch"), "2\n")
	s, report, err = Read(directories, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Zxid != second+4 || s.Epoch != 2 || report.Directory != directories[1] {
		t.Errorf("zxid %#x, epoch %d of %v; want the second directory's, and epoch 2", s.Zxid, s.Epoch, report.Directory)
	}
	// A server that has joined the epoch 3 knows that the others' longer log is of an older one.
	writeText(t, filepath.Join(directories[2].Data, "currentEpoch"), "3\n")
	s, report, err = Read(directories, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Zxid != 9 || s.Epoch != 3 || report.Directory != directories[2] {
		t.Errorf("zxid %#x, epoch %d of %v; want that with the highest epoch", s.Zxid, s.Epoch, report.Directory)
	}
}

// A directory may be a dataDir with a dataLogDir, and may have files of others.
func TestDirectory(t *testing.T) {
	data, logs := t.TempDir(), t.TempDir()
	for _, dir := range []string{data, logs} {
		if err := os.Mkdir(filepath.Join(dir, versionDirName), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeBase(t, filepath.Join(data, versionDirName), 1, nil)
	writeLog(t, filepath.Join(logs, versionDirName), noop(2, 5)...)
	writeText(t, filepath.Join(data, "myid"), "1")
	writeText(t, filepath.Join(data, versionDirName, "snapshot.old"), "?")
	writeText(t, filepath.Join(logs, versionDirName, "log.2.bak"), "?")
	writeText(t, filepath.Join(data, versionDirName, "acceptedEpoch"), "4")
	s, report, err := Read([]Directory{{Data: data, Logs: logs}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Zxid != 5 || s.Epoch != 4 {
		t.Errorf("zxid %#x, epoch %d; want 5 and 4", s.Zxid, s.Epoch)
	}
	notes := strings.Join(report.Notes, "\n")
	if len(report.Notes) != 2 || !strings.Contains(notes, "snapshot.old") || !strings.Contains(notes, "log.2.bak") {
		t.Errorf("notes %q; want one about each file that is not read", report.Notes)
	}
}

// A directory that cannot be read is rejected, and the error names the remedy.
func TestDirectoryRefused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		fill    func(dir string)
		options Options
		want    string
	}{
		{"empty", func(string) {}, Options{}, "has no snapshot and no log"},
		{"a file", func(dir string) {
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			writeText(t, dir, "")
		}, Options{}, "is no directory"},
		{"no snapshot", func(dir string) { writeLog(t, dir, noop(1, 2)...) }, Options{}, "snapshot.trust.empty"},
		{"no log", func(dir string) { writeBase(t, dir, 1, nil) }, Options{}, "name the dataLogDir too"},
		{"no first log", func(dir string) { writeLog(t, dir, noop(5, 6)...) }, Options{TrustEmpty: true}, "between 0x0 and this one are missing"},
		{"no valid snapshot", func(dir string) {
			writeText(t, filepath.Join(dir, "snapshot.3"), "ZKSN")
			writeLog(t, dir, noop(1, 6)...)
		}, Options{}, "no snapshot is valid"},
		{"epoch", func(dir string) {
			writeBase(t, dir, 1, nil)
			writeText(t, filepath.Join(dir, "currentEpoch"), "one")
		}, Options{}, `"one" is no epoch`},
		{"another file", func(dir string) {
			writeBase(t, dir, 1, nil)
			writeText(t, filepath.Join(dir, "log.2"), "a text that is no log at all")
		}, Options{}, `it begins with "a te"`},
		{"a short log", func(dir string) {
			writeBase(t, dir, 1, nil)
			writeText(t, filepath.Join(dir, "log.2"), "ZKLG")
		}, Options{}, "move it out of the directory"},
		{"a snapshot that cannot be opened", func(dir string) {
			writeBase(t, dir, 1, nil)
			if err := os.Symlink("nowhere", filepath.Join(dir, "snapshot.2")); err != nil {
				t.Fatal(err)
			}
			writeLog(t, dir, noop(2, 5)...)
		}, Options{}, "snapshot.2"},
		{"a changed text", func(dir string) {
			path := writeBase(t, dir, 1, nil)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			writeText(t, path, strings.Replace(string(text), "anyone", "anyome", 1))
		}, Options{}, "the check value of the bytes before is"},
		{"two ACLs of a number", func(dir string) {
			acl := appendACL(jute.AppendInt64(nil, 7), jute.OpenACL)
			b := jute.AppendCount(jute.AppendCount(encodeHead(snapshotMagic, -1), 0), 2)
			writeText(t, filepath.Join(dir, "snapshot.1"), string(slices.Concat(b, acl, acl)))
		}, Options{}, "duplicate ACL number 7"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		tt.fill(dir)
		_, _, err := Read([]Directory{{Data: dir}}, tt.options)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
	if _, _, err := Read(nil, Options{}); err == nil {
		t.Error("no directory: no error")
	}
}

// What ZooKeeper tolerates without a loss is tolerated, and noted.
func TestTolerated(t *testing.T) {
	for _, tt := range []struct {
		name    string
		fill    func(dir string)
		options Options
		want    string // in the note; "": none
	}{
		{"an empty newest log", func(dir string) {
			writeBase(t, dir, 1, nil)
			writeLog(t, dir, noop(2, 5)...)
			writeText(t, filepath.Join(dir, "log.6"), "")
		}, Options{}, "the log is empty"},
		{"a snapshot that was being written", func(dir string) {
			writeBase(t, dir, 1, nil)
			writeLog(t, dir, noop(2, 5)...)
			writeText(t, filepath.Join(dir, "snapshot.4"), "ZKSN\x00\x00\x00\x02")
		}, Options{}, "this snapshot is not valid, and an older one is used"},
		{"a cut record", func(dir string) {
			writeBase(t, dir, 1, nil)
			path, offsets := writeLog(t, dir, noop(2, 6)...)
			if err := os.Truncate(path, int64(offsets[4]+30)); err != nil {
				t.Fatal(err)
			}
		}, Options{}, "the last record is cut"},
		{"no snapshot of 3.4", func(dir string) { writeLog(t, dir, noop(1, 5)...) }, Options{TrustEmpty: true}, ""},
		{"a snapshot only", func(dir string) { writeBase(t, dir, 5, nil) }, Options{NoLogs: true}, ""},
		{"an orphan", func(dir string) {
			writeBase(t, dir, 5, func(s *State) { mustAdd(t, s, Node{Path: "/orphan", Owner: 7}) })
		}, Options{NoLogs: true}, "session 0x7 is not there; its 1 ephemeral nodes are removed"},
		{"a TTL node of 3.5.3 by chance", func(dir string) {
			writeBase(t, dir, 5, func(s *State) { mustAdd(t, s, Node{Path: "/orphan", Owner: ttlMark353 | 5000}) })
		}, Options{NoLogs: true}, "needs emulate353TTLNodes"},
		{"a TTL node of 3.5.3", func(dir string) {
			writeBase(t, dir, 5, func(s *State) { mustAdd(t, s, Node{Path: "/t", Owner: ttlMark353 | 5000}) })
		}, Options{TTL353: true, NoLogs: true}, ""},
		{"a version of the configuration", func(dir string) {
			writeBase(t, dir, 5, func(s *State) { mustAdd(t, s, Node{Path: configPath, Mzxid: 1 << 32}) })
		}, Options{NoLogs: true}, ""},
	} {
		dir := t.TempDir()
		tt.fill(dir)
		s, report, err := Read([]Directory{{Data: dir}}, tt.options)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if s.Zxid != 5 || len(report.Losses) != 0 || s.Get("/orphan") != nil {
			t.Errorf("%s: zxid %#x, losses %q", tt.name, s.Zxid, report.Losses)
		}
		if notes := strings.Join(report.Notes, "\n"); !strings.Contains(notes, tt.want) || (tt.want == "") != (notes == "") {
			t.Errorf("%s: notes %q; want %q", tt.name, notes, tt.want)
		}
		if n := s.Get("/t"); n != nil && (s.Kind(n) != TTL || n.TTL() != 5000) {
			t.Errorf("%s: kind %d, TTL %d; want one of 5 s", tt.name, s.Kind(n), n.TTL())
		}
	}
}

// An owner that is a session's id is one, even if it looks like a TTL node's: server 255 makes such ids
// if extended types are off.
func TestKind(t *testing.T) {
	s := NewState()
	n := &Node{Owner: TTLOwner(1000)}
	if s.Kind(n) != TTL {
		t.Errorf("kind %d; want that of a TTL node", s.Kind(n))
	}
	s.Sessions[jute.SessionID(n.Owner)] = 4000
	if s.Kind(n) != Ephemeral {
		t.Errorf("kind %d; want that of an ephemeral node", s.Kind(n))
	}
}

// The digest is right in the locale C too, in which Java reads "?" for characters beyond ASCII.
func TestDigestInASCII(t *testing.T) {
	s, c := NewState(), NewState()
	mustAdd(t, s, Node{Path: "/"})
	mustAdd(t, c, Node{Path: "/"})
	s.digest.computeFor(s)
	c.digest.computeFor(c)
	mustAdd(t, s, Node{Path: "/höher", Czxid: 5})
	mustAdd(t, c, Node{Path: "/h?her", Czxid: 5})
	if c.digest.sum == s.digest.sum || !s.digest.equalsValue(int64(c.digest.sum)) || !s.digest.equalsValue(int64(s.digest.sum)) {
		t.Errorf("digests %+v and %+v", s.digest, c.digest)
	}
	s.changeUnlessNewer(&txn{zxid: 6}, "/höher", func(n *Node) { n.Version++ })
	c.changeUnlessNewer(&txn{zxid: 6}, "/h?her", func(n *Node) { n.Version++ })
	if !s.digest.equalsValue(int64(c.digest.sum)) {
		t.Errorf("after a change: digests %+v and %+v", s.digest, c.digest)
	}
}

// Every directory must have logs, not only the one that is chosen: a server that is behind would win over those whose logs were
// forgotten.
func TestChooseWithoutLogs(t *testing.T) {
	behind, ahead, logs := t.TempDir(), t.TempDir(), t.TempDir()
	writeBase(t, behind, 1, nil)
	writeLog(t, behind, noop(2, 5)...)
	writeBase(t, ahead, 1, nil)
	writeLog(t, logs, noop(2, 900)...)
	given := []Directory{{Data: behind}, {Data: ahead}}
	for range 2 {
		var d *Damage
		if _, _, err := Read(given, Options{}); !errors.As(err, &d) || !strings.HasPrefix(d.File, ahead) ||
			!strings.Contains(d.Remedy, "name the dataLogDir") {
			t.Errorf("%v: %v, want that %s has no log", given, err, ahead)
		}
		given[0], given[1] = given[1], given[0]
	}
	_, report, err := Read(given, Options{NoLogs: true})
	if err != nil || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], ahead+" has no log") {
		t.Errorf("if that is allowed: %v, %v, want a note", report, err)
	}
	s, report, err := Read([]Directory{{Data: behind}, {Data: ahead, Logs: logs}}, Options{})
	if err != nil || s.Zxid != 900 || len(report.Notes) != 0 {
		t.Errorf("with all logs: %v, %v", report, err)
	}
}

// A directory whose log is damaged before its end is rejected even beside a sound one that is older. It is read as
// ZooKeeper would read it only on request.
func TestChooseDamaged(t *testing.T) {
	var directories []Directory
	var path string
	for _, n := range []int64{3, 9} {
		dir := t.TempDir()
		writeBase(t, dir, 1, nil)
		path, _ = writeLog(t, dir, noop(2, n)...)
		directories = append(directories, Directory{Data: dir})
	}
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(log[headSize : headSize+recordHeadSize+40]) // the first record, before whole ones
	if err := os.WriteFile(path, log, 0o600); err != nil {
		t.Fatal(err)
	}
	var d *Damage
	if _, _, err := Read(directories, Options{}); !errors.As(err, &d) || d.File != path || d.Offset != headSize {
		t.Errorf("beside a sound directory: %v, want damage of %s at %d", err, path, headSize)
	}
	if s, _, err := Read(directories, Options{AsZooKeeper: true}); err != nil || s.Zxid != 3 {
		t.Errorf("as ZooKeeper: zxid %v: %v", s, err)
	}
}
