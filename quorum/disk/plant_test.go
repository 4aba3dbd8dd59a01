package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// plantConfig is that of a member with its log apart, or not.
func plantConfig(t *testing.T, kind LogKind, apart bool) Config {
	cfg := folderConfig(filepath.Join(t.TempDir(), "data"), 1)
	cfg.LogKind = kind
	if apart {
		cfg.LogDir = filepath.Join(t.TempDir(), "log")
	}
	return cfg
}

// fillIn writes a term and a snapshot, and calls step after each.
func fillIn(step func()) func(*Data) error {
	return func(d *Data) error {
		step()
		if err := d.Stable().SetTerm(7); err != nil {
			return err
		}
		step()
		sink, err := d.Snapshots().Create(1, 9, 7, raft.Configuration{}, 1, nil)
		if err != nil {
			return err
		}
		step()
		if _, err := io.WriteString(sink, "state"); err != nil {
			return err
		}
		step()
		if err := sink.Close(); err != nil {
			return err
		}
		step()
		return nil
	}
}

// checkFilled checks that a member can start in the folders, and that they have what fillIn wrote.
func checkFilled(t *testing.T, cfg Config) {
	t.Helper()
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	term, err := d.Stable().Term()
	list, lerr := d.Snapshots().List()
	if err != nil || lerr != nil || term != 7 || len(list) != 1 || list[0].Index != 9 || !d.HasData() {
		t.Errorf("term %d, snapshots %v: %v, %v", term, list, err, lerr)
	}
	for _, f := range d.folders {
		if there, err := exists(filepath.Join(f.dir, plantingName)); there || err != nil {
			t.Errorf("%s is still marked: %v", f.dir, err)
		}
	}
}

// A folder that Plant has filled starts, beside ZooKeeper's data too.
func TestPlant(t *testing.T) { kinds(t, plantFolders) }

func plantFolders(t *testing.T, kind LogKind) {
	for _, apart := range []bool{false, true} {
		cfg := plantConfig(t, kind, apart)
		write(t, filepath.Join(cfg.Dir, "version-2", "snapshot.0"), "ZooKeeper's")
		write(t, filepath.Join(cfg.Dir, "myid"), "1")
		if err := Plant(cfg, fillIn(func() {})); err != nil {
			t.Fatal(err)
		}
		if err := Plant(cfg, fillIn(func() {})); !errors.Is(err, ErrHasData) {
			t.Errorf("filled twice: %v", err)
		}
		checkFilled(t, cfg)
	}
}

// After a kill at any step no member starts in the folders, and Plant can be repeated; or the folders are
// complete. After an error they are empty.
func TestPlantInterrupted(t *testing.T) { kinds(t, plantInterrupted) }

func plantInterrupted(t *testing.T, kind LogKind) {
	for _, apart := range []bool{false, true} {
		cfg := plantConfig(t, kind, apart)
		var killed []Config // a copy of the folders at each step
		if err := Plant(cfg, fillIn(func() { killed = append(killed, copied(t, cfg)) })); err != nil {
			t.Fatal(err)
		}
		for i := range ownFolders(cfg) { // the steps before and after
			c := copied(t, cfg)
			for j, other := range ownFolders(c) { // killed before the identity of data, of the log
				write(t, filepath.Join(other, plantingName), "")
				if j <= i {
					remove(t, filepath.Join(other, identityName))
				}
			}
			killed = append(killed, c)
			c = copied(t, cfg) // killed when only marks were written, the log's first
			for _, other := range ownFolders(c) {
				remove(t, other)
			}
			for j, other := range ownFolders(c) {
				if j >= i {
					write(t, filepath.Join(other, plantingName), "")
				}
			}
			killed = append(killed, c)
		}
		for i, c := range killed {
			d, err := Open(c)
			if err == nil {
				d.Close()
			}
			if !errors.Is(err, ErrPlanting) {
				t.Errorf("%s, apart %t, kill %d: a start says %v", kind, apart, i, err)
			}
			if _, err := Examine(c.Dir, c.LogDir); err == nil {
				t.Errorf("kill %d: data are found", i)
			}
			if err := Plant(c, fillIn(func() {})); err != nil {
				t.Errorf("kill %d: not repeated: %v", i, err)
				continue
			}
			checkFilled(t, c)
		}
		whole := copied(t, cfg) // killed before the marks were removed
		for _, own := range ownFolders(whole) {
			write(t, filepath.Join(own, plantingName), "")
		}
		if err := Plant(whole, fillIn(func() {})); !errors.Is(err, ErrHasData) {
			t.Errorf("a complete folder is filled again: %v", err)
		}
		checkFilled(t, whole)
		checkFilled(t, cfg)

		broken := errors.New("disk full")
		c := plantConfig(t, kind, apart)
		err := Plant(c, func(d *Data) error { return errors.Join(fillIn(func() {})(d), broken) })
		if !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		for _, own := range ownFolders(c) {
			entries, err := os.ReadDir(own)
			if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != lockName }) {
				t.Errorf("%v is left in %s: %v", entries, own, err)
			}
		}
	}
}

// ownFolders returns a member's own folders, that of the data first.
func ownFolders(cfg Config) []string {
	own := []string{filepath.Join(cfg.Dir, ownName)}
	if cfg.LogDir != "" {
		own = append(own, filepath.Join(cfg.LogDir, ownName))
	}
	return own
}

// copied returns cfg with copies of its folders.
func copied(t *testing.T, cfg Config) Config {
	t.Helper()
	for _, dir := range []*string{&cfg.Dir, &cfg.LogDir} {
		if *dir == "" {
			continue
		}
		to := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(to, os.DirFS(*dir)); err != nil {
			t.Fatal(err)
		}
		*dir = to
	}
	return cfg
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// Plant refuses folders that are not empty, names what is in them, and changes nothing.
func TestPlantRefuses(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(t *testing.T, cfg *Config)
		want  error
		say   string
	}{
		{"something in its own folder", func(t *testing.T, cfg *Config) { write(t, filepath.Join(cfg.Dir, ownName, "letters.txt"), "") }, ErrHasData, "letters.txt"},
		{"a member of an earlier version", func(t *testing.T, cfg *Config) { write(t, filepath.Join(cfg.Dir, identityName), "{}") }, ErrHasData, identityName},
		{"its log", func(t *testing.T, cfg *Config) { write(t, filepath.Join(cfg.Dir, logName), "x") }, ErrDamaged, logName},
		{"data in the log's folder", func(t *testing.T, cfg *Config) { write(t, filepath.Join(cfg.LogDir, ownName, identityName), "{}") }, ErrHasData, identityName},
		{"one folder in the other", func(_ *testing.T, cfg *Config) { cfg.LogDir = filepath.Join(cfg.Dir, ownName) }, nil, "must not be its other folder"},
		{"a file", func(t *testing.T, cfg *Config) { write(t, filepath.Join(cfg.Dir, ownName), "x") }, nil, ownName},
		{"in use", func(t *testing.T, cfg *Config) {
			f, err := lockFolder(filepath.Join(cfg.Dir, ownName))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.close() })
		}, ErrInUse, ""},
	}
	for _, tt := range tests {
		cfg := plantConfig(t, LogWAL, true)
		tt.spoil(t, &cfg)
		before := listed(t, cfg.Dir)
		err := Plant(cfg, func(*Data) error { t.Errorf("%s: filled", tt.name); return nil })
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: %v, want %v and %q", tt.name, err, tt.want, tt.say)
		}
		if after := listed(t, cfg.Dir); !slices.Equal(after, before) {
			t.Errorf("%s: %v, before %v", tt.name, after, before)
		}
	}
}

// listed returns the files below dir, without locks.
func listed(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != lockName {
			files = append(files, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}
