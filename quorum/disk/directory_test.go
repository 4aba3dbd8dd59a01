package disk

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// These cases cover the checks of a directory's owner. Before spoil, dir is member 1's own directory, made for
// testServers, and top is the operator's directory that contains it.
func TestDirectoryIdentity(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		fresh bool // start from an empty directory instead
		spoil func(t *testing.T, dir, top string, cfg *Config)
		want  error
		say   []string
	}{
		{name: "untouched", spoil: func(*testing.T, string, string, *Config) {}},
		{name: "what operators have there", fresh: true, spoil: func(t *testing.T, _, top string, _ *Config) {
			for _, name := range []string{"lost+found/x", "myid", "zoo.cfg", "zk.pid", "logs/zk.log", "initialize", "letters.txt", "wal/x", "snapshots/x"} {
				write(t, top+"/"+name, "1")
			}
		}},
		{name: "ZooKeeper's without data", fresh: true, spoil: func(t *testing.T, _, top string, _ *Config) {
			if err := os.Mkdir(top+"/version-2", 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "killed at its first identity", fresh: true, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			write(t, dir+"/lock", "")
			write(t, dir+"/identity.json.tmp", "{")
		}},
		{name: "ZooKeeper's", fresh: true, want: errForeignDirectory, say: []string{"version-2", "ZooKeeper"}, spoil: func(t *testing.T, _, top string, _ *Config) {
			write(t, top+"/version-2/log.1", "")
			write(t, top+"/myid", "1")
		}},
		{name: "ZooKeeper's came later", spoil: func(t *testing.T, _, top string, _ *Config) {
			write(t, top+"/version-2/log.1", "")
		}},
		{name: "somebody's in its own", fresh: true, want: ErrDamaged, say: []string{"letters.txt"}, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			write(t, dir+"/letters.txt", "")
		}},
		{name: "identity lost", want: ErrDamaged, say: []string{"identity.json", "other members"}, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			os.Remove(dir + "/identity.json")
		}},
		{name: "identity cut short", want: ErrDamaged, say: []string{"identity.json"}, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			write(t, dir+"/identity.json", `{"format": 1, "mem`)
		}},
		{name: "identity empty", want: ErrDamaged, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			write(t, dir+"/identity.json", ``)
		}},
		{name: "identity without member", want: ErrDamaged, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			write(t, dir+"/identity.json", `{"format": 3}`)
		}},
		{name: "a log beside its subdirectory", fresh: true, want: ErrDamaged, say: []string{"raft.db", "subdirectory rollcall"}, spoil: func(t *testing.T, _, top string, _ *Config) {
			write(t, top+"/raft.db", "")
		}},
		{name: "a snapshot beside its subdirectory", fresh: true, want: ErrDamaged, say: []string{"1-2-3", "subdirectory rollcall"}, spoil: func(t *testing.T, _, top string, _ *Config) {
			write(t, top+"/snapshots/1-2-3/meta.json", "")
		}},
		{name: "its subdirectory is configured", want: ErrDamaged, say: []string{"identity.json", "configure the directory above it"}, spoil: func(_ *testing.T, dir, _ string, c *Config) {
			*c = directoryConfig(dir, 1)
		}},
		{name: "identity huge", want: ErrDamaged, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			identity, err := os.ReadFile(dir + "/identity.json")
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir+"/identity.json", strings.Repeat(" ", maxIdentity)+string(identity))
		}},
		{name: "newer", want: ErrNewerFormat, say: []string{"identity.json", "format 4", "start the newer version"}, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			write(t, dir+"/identity.json", `{"format": 4, "something": "else"}`)
		}},
		{name: "other member", want: ErrOtherMember, say: []string{"identity.json", "member 1", "member 2", "The way out"}, spoil: func(_ *testing.T, _, top string, c *Config) {
			*c = directoryConfig(top, 2)
		}},
		{name: "log gone", want: ErrDamaged, say: []string{"raft.db", "gone"}, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			os.Remove(dir + "/raft.db")
		}},
		{name: "log emptied", want: ErrDamaged, say: []string{"raft.db", "gone"}, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			write(t, dir+"/raft.db", "")
		}},
		{name: "segments gone", want: ErrDamaged, say: []string{"log", "gone"}, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			os.RemoveAll(dir + "/log")
		}},
		{name: "earlier build", want: errEarlierFormat, say: []string{"identity.json", "rollcall backup save", "rollcall backup restore"}, spoil: func(t *testing.T, dir, _ string, _ *Config) {
			write(t, dir+"/identity.json", `{"format": 1, "member": 1, "servers": ["1"], "log": true, "log_store": "wal"}`)
		}},
		{name: "log moved apart", want: ErrDamaged, say: []string{"dataLogDir"}, spoil: func(t *testing.T, _, _ string, c *Config) {
			c.LogDir = t.TempDir()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			cfg := directoryConfig(top, 1)
			if !tt.fresh {
				openAndClose(t, cfg)
			}
			tt.spoil(t, own(top), top, &cfg)
			d, err := Open(cfg)
			if err == nil {
				d.Close()
			}
			err = WithAdvice(err, true)
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

// If the log has a directory of its own, losing either of the two is noticed.
func TestLogDirectoryApart(t *testing.T) {
	for name, lose := range map[string]func(data, log string) string{
		"nothing": func(string, string) string { return "" },
		"log":     func(_, log string) string { return log },
		"data":    func(data, _ string) string { return data },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := directoryConfig(t.TempDir(), 1)
			cfg.LogDir = t.TempDir()
			openAndClose(t, cfg)
			if _, err := os.Stat(filepath.Join(own(cfg.LogDir), logName)); err != nil {
				t.Error(err)
			}
			lost := lose(cfg.DataDir, cfg.LogDir)
			if lost == "" {
				openAndClose(t, cfg)
				cfg.LogDir = ""
				if _, err := Open(cfg); !errors.Is(err, ErrDamaged) ||
					!strings.Contains(err.Error(), "The way out: set dataLogDir to the directory that has the log") {
					t.Errorf("Open without the log's directory: %v", err)
				}
				cfg = directoryConfig(t.TempDir(), 1)
				openAndClose(t, cfg)
				cfg.LogDir = t.TempDir()
				if _, err := Open(cfg); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "The way out: leave dataLogDir out") {
					t.Errorf("Open with another directory for the log: %v", err)
				}
				return
			}
			os.RemoveAll(lost)
			if _, err := Open(cfg); !errors.Is(err, ErrDamaged) {
				t.Errorf("Open: %v, want ErrDamaged", err)
			}
		})
	}
}

// A directory is rejected if its subdirectory cannot be the member's.
func TestNameOfOwnDirectoryTaken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		data string
		log  string
		file bool // rollcall in the data directory is a file
		say  string
	}{
		{name: "log within", data: "d", log: "d/rollcall", say: "dataLogDir"},
		{name: "data within", data: "d/rollcall", log: "d", say: "dataLogDir"},
		{name: "file", data: "d", file: true, say: "a file of that name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			cfg := directoryConfig(filepath.Join(top, tt.data), 1)
			if tt.log != "" {
				cfg.LogDir = filepath.Join(top, tt.log)
			}
			if tt.file {
				write(t, own(cfg.DataDir), "a file")
			}
			for range 2 {
				d, err := Open(cfg)
				if err == nil {
					err = d.Close()
				}
				if err == nil || !strings.Contains(err.Error(), tt.say) || errors.Is(err, ErrDamaged) {
					t.Fatalf("Open: %v, want it to say %q", err, tt.say)
				}
			}
		})
	}
}

// take copies everything in from to to.
func take(t *testing.T, from, to string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(to, 0o750), os.CopyFS(to, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
}

// However raft.db is damaged, Open reports it, does not panic and starts nothing.
func TestDamagedLog(t *testing.T) {
	t.Parallel()
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
			t.Parallel()
			cfg := directoryConfig(t.TempDir(), 1)
			d, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint64(3) {
				err = errors.Join(err, d.Log().StoreLog(&raft.Log{Index: 1 + i, Term: 1, Data: []byte("data")}))
			}
			if err := errors.Join(err, d.Close()); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(own(cfg.DataDir), logName)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, tt.spoil(b), 0o600); err != nil {
				t.Fatal(err)
			}
			if d, err = Open(cfg); err == nil {
				d.Close()
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), logName) {
				t.Errorf("Open: %v, want ErrDamaged naming %s", err, logName)
			}
		})
	}
}

// A crash between storing an installed snapshot and emptying the log, and the files that may be
// there then.
func TestRepair(t *testing.T) {
	const unreadableState = 99 // as the index in a snapshot: it cannot be read
	entry := func(index, term uint64) *raft.Log { return &raft.Log{Index: index, Term: term} }
	tests := []struct {
		name     string
		snapshot uint64           // its index; its term is 2
		holds    SnapshotContents // the directory's real content; default: what it says
		log      []*raft.Log
		first    uint64 // the log's first index afterwards
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
		{name: "log below, snapshot holds less", snapshot: 5, holds: SnapshotContents{3, 1}, log: []*raft.Log{entry(3, 1), entry(4, 1)}, first: 3, err: ErrDamaged},
		{name: "log below, snapshot holds more", snapshot: 5, holds: SnapshotContents{6, 1}, log: []*raft.Log{entry(3, 1), entry(4, 1)}, first: 3, err: ErrDamaged},
		{name: "log contradicts, snapshot of later term", snapshot: 5, holds: SnapshotContents{5, 3}, log: []*raft.Log{entry(5, 1)}, first: 5, err: ErrDamaged},
		{name: "log contradicts, snapshot unreadable", snapshot: 5, holds: SnapshotContents{Index: unreadableState}, log: []*raft.Log{entry(5, 1)}, first: 5, err: ErrDamaged},
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
			verify := func(io.Reader) (SnapshotContents, error) {
				if tt.holds.Index == unreadableState {
					return SnapshotContents{}, ErrDamaged
				}
				return cmp.Or(tt.holds, SnapshotContents{Index: tt.snapshot, Term: 2}), nil
			}
			if err := (&Data{unguarded: s}).RepairLog(verify); !errors.Is(err, tt.err) {
				t.Errorf("Mend: %v, want %v", err, tt.err)
			}
			if first, _ := s.Log.FirstIndex(); (tt.err == nil || tt.first > 0) && first != tt.first {
				t.Errorf("log begins at %d, want %d", first, tt.first)
			}
		})
	}
}

// A snapshot that is still being received when the directory is read does not count as a missing one.
func TestUnfinishedSnapshotIsNotMissed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"2-30-1795180501669", "5-2035-1795180501669.tmp", "other", "1-2"} {
		write(t, filepath.Join(dir, name, "meta.json"), "{}")
	}
	files, err := newSnapshotFiles(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if index, why, err := files.newestUnreadable(); index != 30 || !errors.Is(why, ErrDamaged) || err != nil {
		t.Errorf("newest snapshot %d, %v, %v, want 30 and ErrDamaged", index, why, err)
	}
}

// The name of a directory may have the characters of a pattern.
func TestDirectoryNamedLikePattern(t *testing.T) {
	for _, name := range []string{"rack[1]", "rack[1", `rack\`, "rack*?"} {
		dir := filepath.Join(t.TempDir(), name)
		write(t, filepath.Join(dir, "version-2", "log.1"), "")
		if _, err := MemberDirectory(dir); !errors.Is(err, errForeignDirectory) {
			t.Errorf("%s has ZooKeeper's data: %v", name, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "version-2")); err != nil {
			t.Fatal(err)
		}
		if _, err := MemberDirectory(dir); err != nil {
			t.Errorf("%s is empty: %v", name, err)
		}
		half := filepath.Join(dir, spoolPrefix+"1"+tmpSuffix)
		write(t, half, "")
		if err := removeIncompleteSnapshots(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if there, err := pathExists(half); there || err != nil {
			t.Errorf("%s still has a half snapshot: %v", name, err)
		}
	}
}

// A directory that cannot be read is not one without files: its log does not count as lost, and ZooKeeper's data in it are
// not overlooked. A link to itself cannot be read by anyone, whatever the rights.
func TestUnreadableDirectory(t *testing.T) {
	unreadable := func(t *testing.T, path string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(path), os.Symlink(filepath.Base(path), path)); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("log", func(t *testing.T) {
		cfg := directoryConfig(t.TempDir(), 1)
		d, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(own(cfg.DataDir), logDirName)
		unreadable(t, log)
		if d, err = Open(cfg); err == nil {
			d.Close()
		}
		if !errors.Is(err, syscall.ELOOP) || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), own(cfg.DataDir)) {
			t.Errorf("Open: %v, want the system's error with the directory, and not ErrDamaged", err)
		}
	})
	for _, name := range []string{"version-2", logDirName, snapshotsDir} {
		t.Run("operator's "+name, func(t *testing.T) {
			dir := t.TempDir()
			unreadable(t, filepath.Join(dir, name))
			if _, err := MemberDirectory(dir); !errors.Is(err, syscall.ELOOP) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%v, want the system's error with the directory", err)
			}
		})
	}
	t.Run("segments", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "log")
		unreadable(t, dir)
		if _, err := segmentPaths(dir); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("%v, want the system's error", err)
		}
	})
}

// A directory that cannot be read is not taken for an unused one.
func TestUnreadableIsNotUnused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, dirMode); err != nil {
		t.Fatal(err)
	}
	for path, unused := range map[string]bool{empty: true, dir: false, file: false, filepath.Join(dir, "none"): false} {
		if err := checkUnused(path); (err == nil) != unused {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A file that cannot be made, or cannot get its name, is an error, and what is there stays.
func TestReplaceFileFails(t *testing.T) {
	dir := t.TempDir()
	if err := replaceFile(filepath.Join(dir, "none", "file"), []byte("a")); err == nil {
		t.Error("into a directory that is not there")
	}
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "more"), dirMode); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(taken, []byte("a")); err == nil {
		t.Error("in place of a directory")
	}
	if err := writeIdentities([]*directory{{dir: filepath.Join(dir, "none")}}, identity{Member: 1}); err == nil {
		t.Error("an identity into a directory that is not there")
	}
	file := filepath.Join(dir, "file")
	for _, text := range []string{"a", "b"} {
		if err := replaceFile(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
}
