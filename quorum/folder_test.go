package quorum

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/proto"
)

// idleStream is a stream layer of a member that is opened but not run.
type idleStream struct{ memberAddr }

func (s idleStream) Addr() net.Addr          { return s.memberAddr }
func (idleStream) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (idleStream) Close() error              { return nil }
func (idleStream) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return nil, net.ErrClosed
}

var testPeers = []Peer{{1, "m1:3888"}, {2, "m2:3888"}, {3, "m3:3888"}}

func folderConfig(dir string, self uint32) Config {
	return Config{
		Self: self, Peers: testPeers, Dir: dir, Stream: idleStream{memberAddr(testPeers[self-1].Addr)},
		Machine: &machine{}, Tick: testTick,
		Ask: func(context.Context, Peer) (*proto.HelloReply, error) { return nil, errors.New("nobody") },
	}
}

func openAndClose(t *testing.T, cfg Config) {
	t.Helper()
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(text), 0o640)); err != nil {
		t.Fatal(err)
	}
}

// Whose folder is it? In each case dir belongs to member 1 of testPeers before spoil.
func TestFolderIdentity(t *testing.T) {
	tests := []struct {
		name  string
		fresh bool // start from an empty folder instead
		spoil func(t *testing.T, dir string, cfg *Config)
		want  error
		say   []string
	}{
		{name: "untouched", spoil: func(*testing.T, string, *Config) {}},
		{name: "list in another order", spoil: func(_ *testing.T, _ string, c *Config) {
			c.Peers = []Peer{testPeers[2], testPeers[0], testPeers[1]}
		}},
		{name: "lost+found and myid", fresh: true, spoil: func(t *testing.T, dir string, _ *Config) {
			write(t, dir+"/lost+found/x", "")
			write(t, dir+"/myid", "1")
		}},
		{name: "killed at its first identity", fresh: true, spoil: func(t *testing.T, dir string, _ *Config) {
			write(t, dir+"/lock", "")
			write(t, dir+"/identity.json.tmp", "{")
		}},
		{name: "ZooKeeper's", fresh: true, want: ErrForeign, say: []string{"version-2", "ZooKeeper"}, spoil: func(t *testing.T, dir string, _ *Config) {
			write(t, dir+"/version-2/log.1", "")
			write(t, dir+"/myid", "1")
		}},
		{name: "somebody's", fresh: true, want: ErrForeign, say: []string{"letters.txt"}, spoil: func(t *testing.T, dir string, _ *Config) {
			write(t, dir+"/letters.txt", "")
		}},
		{name: "identity lost", want: ErrForeign, spoil: func(t *testing.T, dir string, _ *Config) {
			os.Remove(dir + "/identity.json")
		}},
		{name: "identity cut short", want: ErrDamaged, say: []string{"identity.json"}, spoil: func(t *testing.T, dir string, _ *Config) {
			write(t, dir+"/identity.json", `{"format": 1, "mem`)
		}},
		{name: "identity empty", want: ErrDamaged, spoil: func(t *testing.T, dir string, _ *Config) {
			write(t, dir+"/identity.json", ``)
		}},
		{name: "identity without member", want: ErrDamaged, spoil: func(t *testing.T, dir string, _ *Config) {
			write(t, dir+"/identity.json", `{"format": 1}`)
		}},
		{name: "identity huge", want: ErrDamaged, spoil: func(t *testing.T, dir string, _ *Config) {
			write(t, dir+"/identity.json", strings.Repeat(" ", maxIdentity)+"{}")
		}},
		{name: "newer", want: ErrNewerFormat, say: []string{"format 3"}, spoil: func(t *testing.T, dir string, _ *Config) {
			write(t, dir+"/identity.json", `{"format": 3, "something": "else"}`)
		}},
		{name: "other member", want: ErrOtherMember, say: []string{"member 1", "member 2"}, spoil: func(_ *testing.T, dir string, c *Config) {
			*c = folderConfig(dir, 2)
		}},
		{name: "other servers", want: ErrServersChanged, say: []string{"m3:3888", "m9:3888"}, spoil: func(_ *testing.T, _ string, c *Config) {
			c.Peers = []Peer{testPeers[0], testPeers[1], {3, "m9:3888"}}
		}},
		{name: "log gone", want: ErrDamaged, say: []string{"raft.db", "gone"}, spoil: func(t *testing.T, dir string, _ *Config) {
			os.Remove(dir + "/raft.db")
		}},
		{name: "log emptied", want: ErrDamaged, say: []string{"raft.db", "gone"}, spoil: func(t *testing.T, dir string, _ *Config) {
			write(t, dir+"/raft.db", "")
		}},
		{name: "log moved apart", want: ErrDamaged, say: []string{"dataLogDir"}, spoil: func(t *testing.T, _ string, c *Config) {
			c.LogDir = t.TempDir()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := folderConfig(dir, 1)
			if !tt.fresh {
				openAndClose(t, cfg)
			}
			tt.spoil(t, dir, &cfg)
			n, err := Open(cfg)
			if err == nil {
				n.Close()
			}
			if !errors.Is(err, tt.want) {
				t.Fatalf("Open: %v, want %v", err, tt.want)
			}
			for _, s := range tt.say {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("Open: %v, want it to say %q", err, s)
				}
			}
		})
	}
}

func TestFolderInUse(t *testing.T) {
	cfg := folderConfig(t.TempDir(), 1)
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "data folder") {
		t.Errorf("second Open: %v, want ErrInUse of the data folder", err)
	}
	if err := Recover(Recovery{Dir: cfg.Dir, Self: 1, Peers: testPeers[:1], Machine: &machine{}}); !errors.Is(err, ErrInUse) {
		t.Errorf("Recover: %v, want ErrInUse", err)
	}
	n.Close()
	openAndClose(t, cfg)
}

// With a log folder of its own, losing either of the two is noticed.
func TestLogFolderApart(t *testing.T) { kinds(t, logFolderApart) }

func logFolderApart(t *testing.T, kind LogKind) {
	for name, lose := range map[string]func(data, log string) string{
		"nothing": func(string, string) string { return "" },
		"log":     func(_, log string) string { return log },
		"data":    func(data, _ string) string { return data },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := folderConfig(t.TempDir(), 1)
			cfg.LogDir, cfg.LogKind = t.TempDir(), kind
			openAndClose(t, cfg)
			if _, err := os.Stat(filepath.Join(cfg.LogDir, logName)); err != nil {
				t.Error(err)
			}
			lost := lose(cfg.Dir, cfg.LogDir)
			if lost == "" {
				openAndClose(t, cfg)
				return
			}
			os.RemoveAll(lost)
			if _, err := Open(cfg); !errors.Is(err, ErrDamaged) {
				t.Errorf("Open: %v, want ErrDamaged", err)
			}
		})
	}
}

// filledFolder returns the folder of a single member that has applied some commands.
func filledFolder(t *testing.T, kind LogKind) (dir string, cfg Config) {
	t.Helper()
	dir = t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.kind, e.members[1].dir = kind, dir
		e.start(1)
		for _, c := range []string{"a", "b", "c"} {
			e.propose(c, 1)
		}
		e.stop(1)
	})
	cfg = folderConfig(dir, 1)
	cfg.Peers = []Peer{{1, "m1:3888"}}
	return dir, cfg
}

// However raft.db is damaged, Open says so; it does not panic, and starts nothing.
func TestDamagedLog(t *testing.T) {
	page := os.Getpagesize()
	tests := []struct {
		name  string
		spoil func([]byte) []byte
	}{
		{"text", func([]byte) []byte { return []byte(strings.Repeat("not a database\n", 1000)) }},
		{"short", func(b []byte) []byte { return b[:100] }},
		{"both metas zero", func(b []byte) []byte { clear(b[:2*page]); return b }},
		{"cut behind metas", func(b []byte) []byte { return b[:2*page] }},
		{"pages zero", func(b []byte) []byte { clear(b[2*page:]); return b }},
		{"pages garbage", func(b []byte) []byte {
			for i := 2 * page; i < len(b); i++ {
				b[i] = byte(i * 7)
			}
			return b
		}},
		{"page ids wild", func(b []byte) []byte {
			for at := 2 * page; at+16 <= len(b); at += page {
				binary.LittleEndian.PutUint64(b[at:], 1<<40)
				binary.LittleEndian.PutUint16(b[at+10:], 60000) // count
			}
			return b
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, cfg := filledFolder(t, LogBolt)
			path := filepath.Join(dir, logName)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, tt.spoil(b), 0o600); err != nil {
				t.Fatal(err)
			}
			n, err := Open(cfg)
			if err == nil {
				n.Close()
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), logName) {
				t.Errorf("Open: %v, want ErrDamaged naming %s", err, logName)
			}
		})
	}
}

// On real files: what was applied is there after a stop, from log and from snapshot.
func TestFilesSurvive(t *testing.T) { kinds(t, filesSurvive) }

func filesSurvive(t *testing.T, kind LogKind) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.compact()
		e.kind, e.members[1].dir = kind, dir
		e.start(1)
		all := e.fill(3*minTrailing, 1)
		n := e.members[1].node
		e.wait("a snapshot and a shorter log", func() bool {
			first, _ := n.log.LogStore.FirstIndex()
			return first > 1
		})
		e.stop(1)
		write(t, filepath.Join(dir, snapshotsDir, "1-9-9.tmp", "state.bin"), "half")
		write(t, filepath.Join(dir, "receiving-1.tmp"), "half")
		e.start(1)
		e.applied(all, 1)
		if e.members[1].machine.restored != 1 {
			t.Error("the snapshot was not used")
		}
		e.stop(1)
		for _, left := range []string{filepath.Join(snapshotsDir, "1-9-9.tmp"), "receiving-1.tmp"} {
			if _, err := os.Stat(filepath.Join(dir, left)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s was left: %v", left, err)
			}
		}
	})

	// The newest snapshot damaged, and the log does not make up for it: no start.
	snaps, err := filepath.Glob(filepath.Join(dir, snapshotsDir, "*", "state.bin"))
	if err != nil || len(snaps) == 0 {
		t.Fatal(snaps, err)
	}
	slices.Sort(snaps)
	for _, damage := range []string{"state.bin", "meta.json"} {
		write(t, filepath.Join(filepath.Dir(snaps[len(snaps)-1]), damage), "{")
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, 1)
			e.members[1].dir = dir
			if err := e.tryStart(1); err == nil {
				e.members[1].err = e.ended(1)
			} else if !errors.Is(err, ErrDamaged) {
				t.Errorf("%s damaged: Open: %v, want ErrDamaged", damage, err)
			}
			if m := e.members[1]; m.done != nil && !errors.Is(m.err, ErrDamaged) {
				t.Errorf("%s damaged: Run: %v, want ErrDamaged", damage, m.err)
			}
		})
	}
}

// The newest snapshot was installed, so that no log lies behind it, and is damaged. An older
// one is there; but to start from it would be to forget what others count on.
func TestDamagedSnapshotIsNotSkipped(t *testing.T) { kinds(t, damagedSnapshotIsNotSkipped) }

func damagedSnapshotIsNotSkipped(t *testing.T, kind LogKind) {
	for _, part := range []string{"state.bin", "meta.json"} {
		t.Run(part, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 1)
				e.compact()
				dir := t.TempDir()
				e.kind, e.members[1].dir = kind, dir
				e.start(1)
				snapshots := func() []string {
					all, _ := filepath.Glob(filepath.Join(dir, snapshotsDir, "*-*-*[0-9]"))
					slices.Sort(all)
					return all
				}
				for round := range 2 {
					e.fill(30, 1)
					e.wait("a snapshot", func() bool { return len(snapshots()) > round })
				}
				e.stop(1)
				log, err := openLog(kind, dir, hclog.NewNullLogger())
				if err != nil {
					t.Fatal(err)
				}
				last, _ := log.LastIndex()
				if err := errors.Join(log.DeleteRange(1, last), log.Close()); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(snapshots()[1], part), "{")
				e.start(1)
				if err := e.ended(1); !errors.Is(err, ErrDamaged) {
					t.Errorf("Run: %v, want ErrDamaged", err)
				}
				rec := Recovery{Dir: dir, Self: 1, Peers: e.peers, Machine: &machine{}}
				if err := Recover(rec); !errors.Is(err, ErrDamaged) {
					t.Errorf("Recover: %v, want ErrDamaged", err)
				}
			})
		})
	}
}

// A crash between storing an installed snapshot and emptying the log, and what may lie
// around then.
func TestMend(t *testing.T) {
	entry := func(index, term uint64) *raft.Log { return &raft.Log{Index: index, Term: term} }
	tests := []struct {
		name     string
		snapshot uint64 // its index; its term is 2
		log      []*raft.Log
		first    uint64 // of the log afterwards
		err      error
	}{
		{name: "nothing"},
		{name: "log alone", log: []*raft.Log{entry(1, 1), entry(2, 2)}, first: 1},
		{name: "log alone, its beginning gone", log: []*raft.Log{entry(2, 1)}, err: ErrDamaged},
		{name: "snapshot alone", snapshot: 5},
		{name: "log ends at snapshot", snapshot: 5, log: []*raft.Log{entry(4, 1), entry(5, 2)}, first: 4},
		{name: "log goes on", snapshot: 5, log: []*raft.Log{entry(5, 2), entry(6, 2)}, first: 5},
		{name: "log follows", snapshot: 5, log: []*raft.Log{entry(6, 2)}, first: 6},
		{name: "log below", snapshot: 5, log: []*raft.Log{entry(3, 1), entry(4, 1)}},
		{name: "log contradicts", snapshot: 5, log: []*raft.Log{entry(5, 1), entry(6, 1)}},
		{name: "gap", snapshot: 5, log: []*raft.Log{entry(7, 2)}, err: ErrDamaged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := memStores()
			if err := s.Log.StoreLogs(tt.log); err != nil {
				t.Fatal(err)
			}
			if tt.snapshot > 0 {
				_, trans := raft.NewInmemTransport("")
				if _, err := s.Snapshots.Create(1, tt.snapshot, 2, raft.Configuration{}, 1, trans); err != nil {
					t.Fatal(err)
				}
			}
			if err := mend(s); !errors.Is(err, tt.err) {
				t.Errorf("mend: %v, want %v", err, tt.err)
			}
			if first, _ := s.Log.FirstIndex(); tt.err == nil && first != tt.first {
				t.Errorf("log begins at %d, want %d", first, tt.first)
			}
		})
	}
}

func TestOpenRefusesConfig(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"wildcard":          func(c *Config) { c.Peers = []Peer{{1, "0.0.0.0:3888"}} },
		"bind address":      func(c *Config) { c.Stream = idleStream{"0.0.0.0:3888"} },
		"no machine":        func(c *Config) { c.Machine = nil },
		"no stream":         func(c *Config) { c.Stream = nil },
		"no ask":            func(c *Config) { c.Ask = nil },
		"no tick":           func(c *Config) { c.Tick = 0 },
		"no folder":         func(c *Config) { c.Dir = "" },
		"folder and stores": func(c *Config) { c.Stores = memStores() },
		"half of stores":    func(c *Config) { c.Dir, c.Stores = "", memStores(); c.Stores.Stable = nil },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := folderConfig(t.TempDir(), 1)
			spoil(&cfg)
			if n, err := Open(cfg); err == nil {
				n.Close()
				t.Error("opened")
			}
		})
	}
}

// countingLog records what is deleted, and crashes after so many deletions.
type countingLog struct {
	*raft.InmemStore
	most    uint64
	crashIn int
}

var errCrash = errors.New("crash")

func (c *countingLog) DeleteRange(first, last uint64) error {
	if c.crashIn--; c.crashIn < 0 {
		return errCrash
	}
	c.most = max(c.most, last-first+1)
	return c.InmemStore.DeleteRange(first, last)
}

// A log is shortened in steps, from the end that leaves no hole.
func TestDeleteInSteps(t *testing.T) {
	const size = 3*deleteChunk + 10
	tests := []struct {
		name                string
		first, last         uint64 // to delete of 1 to size
		crashIn             int
		leftFirst, leftLast uint64
	}{
		{"beginning", 1, size - 5, 9, size - 4, size},
		{"end", 6, size, 9, 1, 5},
		{"all", 1, size, 9, 0, 0},
		{"one", size, size, 9, 1, size - 1},
		{"nothing", 5, 4, 9, 1, size},
		{"beginning, crash", 1, size - 5, 2, 2*deleteChunk + 1, size},
		{"end, crash", 6, size, 2, 1, size - 2*deleteChunk},
		{"all, crash", 1, size, 2, 1, size - 2*deleteChunk},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &countingLog{InmemStore: raft.NewInmemStore(), crashIn: tt.crashIn}
			s := &logStore{LogStore: c, figures: new(figures), guard: guard{running: func() bool { return false }, ops: &operations{}}}
			for i := uint64(1); i <= size; i++ {
				if err := s.StoreLog(&raft.Log{Index: i}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.DeleteRange(tt.first, tt.last); err != nil && !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			first, _ := s.FirstIndex()
			last, _ := s.LastIndex()
			if first != tt.leftFirst || last != tt.leftLast || c.most > deleteChunk {
				t.Errorf("left %d to %d, want %d to %d; at most %d at once", first, last, tt.leftFirst, tt.leftLast, c.most)
			}
		})
	}
	c := &countingLog{InmemStore: raft.NewInmemStore(), crashIn: 1}
	s := &logStore{LogStore: c, figures: new(figures), whole: true, guard: guard{running: func() bool { return false }, ops: &operations{}}}
	for i := uint64(1); i <= size; i++ {
		if err := s.StoreLog(&raft.Log{Index: i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DeleteRange(1, size-1); err != nil || c.most != size-1 {
		t.Errorf("files: %d at once, %v", c.most, err)
	}
}

// What is still being received when the folder is looked at is no snapshot that is missing.
func TestUnfinishedSnapshotIsNotMissed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"2-30-1795180501669", "5-2035-1795180501669.tmp", "other"} {
		write(t, filepath.Join(dir, name, "meta.json"), "{}")
	}
	if newest, err := newestNamed(dir); newest != 30 || err != nil {
		t.Errorf("newest snapshot %d, %v, want 30", newest, err)
	}
}
