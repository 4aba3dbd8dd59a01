package quorum

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/quorum/disk"
)

// formerly moves a member's files to where earlier versions had them.
func formerly(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(own(dir))
	for _, e := range entries {
		err = errors.Join(err, os.Rename(filepath.Join(own(dir), e.Name()), filepath.Join(dir, e.Name())))
	}
	if err = errors.Join(err, os.Remove(own(dir))); err != nil {
		t.Fatal(err)
	}
}

// modes returns which permissions users other than the owner have for the files below dir.
func modes(t *testing.T, dir string) (open []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		info, ierr := e.Info()
		if err = errors.Join(err, ierr); err == nil && info.Mode().Perm()&0o077 != 0 {
			open = append(open, info.Mode().String()+" "+path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// Everything that a member makes can be read only by its owner, even in a folder that everyone may
// read. Other files stay as they are.
func TestModes(t *testing.T) { kinds(t, filesAreTheOwners) }

func filesAreTheOwners(t *testing.T, kind disk.LogKind) {
	top := t.TempDir()
	made, shared, log := filepath.Join(top, "made", "here"), filepath.Join(top, "shared"), filepath.Join(top, "log")
	write(t, filepath.Join(shared, "zoo.cfg"), "tickTime=2000")
	write(t, filepath.Join(shared, "logs", "x"), "x")
	for _, d := range []string{shared, filepath.Join(shared, "logs")} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := len(modes(t, shared))
	for _, dir := range []string{made, shared} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, 1)
			e.compact()
			e.kind, e.members[1].dir = kind, dir
			compact := e.members[1].adjust
			e.members[1].adjust = func(c *Config) { compact(c); c.LogDir = log }
			e.start(1)
			e.fill(30, 1)
			e.wait("a snapshot", func() bool { return e.snapshot(1) })
			s, err := e.members[1].node.disk.NewSpool()
			if err != nil {
				t.Fatal(err)
			}
			if open := modes(t, own(dir)); len(open) > 0 {
				t.Errorf("while it runs: %q", open)
			}
			s.Close()
			e.stop(1)
		})
		if open := modes(t, log); len(open) > 0 {
			t.Errorf("the log: %q", open)
		}
		if err := os.RemoveAll(log); err != nil {
			t.Fatal(err)
		}
	}
	if open := modes(t, filepath.Join(top, "made")); len(open) > 0 {
		t.Errorf("a folder that it made: %q", open)
	}
	if open := modes(t, shared); len(open) != before {
		t.Errorf("a folder of the operator's, in which %d may be read: %q", before, open)
	}
}

// Files where earlier versions had them are used there, and nothing is moved.
func TestFormerPlace(t *testing.T) { kinds(t, formerPlace) }

func formerPlace(t *testing.T, kind disk.LogKind) {
	for name, spoil := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string // in the error; "": it starts
	}{
		"whole":          {func(*testing.T, string) {}, ""},
		"version-2":      {func(t *testing.T, dir string) { write(t, dir+"/version-2/log.1", "") }, ""},
		"half a start":   {func(t *testing.T, dir string) { write(t, own(dir)+"/lock", "") }, ""},
		"identity lost":  {func(_ *testing.T, dir string) { os.Remove(filepath.Join(dir, identityName)) }, "no identity.json"},
		"a second place": {func(t *testing.T, dir string) { write(t, filepath.Join(own(dir), identityName), "{}") }, "has one, too"},
		"all but snapshots lost": {func(t *testing.T, dir string) {
			write(t, dir+"/snapshots/1-2-3/meta.json", "")
			for _, name := range []string{identityName, logName, walName} {
				os.RemoveAll(filepath.Join(dir, name))
			}
		}, "1-2-3"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, cfg := filledFolder(t, kind)
			formerly(t, dir)
			spoil.spoil(t, dir)
			n, err := Open(cfg)
			if err == nil {
				n.Close()
			}
			if spoil.want != "" {
				if !errors.Is(err, disk.ErrDamaged) || !strings.Contains(err.Error(), spoil.want) {
					t.Errorf("Open: %v, want ErrDamaged and %q", err, spoil.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 1)
				e.members[1].dir = dir
				e.start(1)
				e.applied([]string{"a", "b", "c"}, 1)
				e.stop(1)
			})
			if err := Recover(Recovery{Dir: dir, Self: 1, Peers: cfg.Peers, Machine: &machine{}}); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(filepath.Join(own(dir), identityName)); !errors.Is(err, os.ErrNotExist) {
				t.Error("there is a second place now")
			}
		})
	}
}
