package quorum

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// openPermissions returns the permissions that users other than the owner have for the files below dir.
func openPermissions(t *testing.T, dir string) (open []string) {
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

// Everything that a member makes can be read only by its owner, even in a directory that everyone may
// read. Other files stay as they are.
func TestModes(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	made, shared, log := filepath.Join(top, "made", "here"), filepath.Join(top, "shared"), filepath.Join(top, "log")
	write(t, filepath.Join(shared, "zoo.cfg"), "tickTime=2000")
	write(t, filepath.Join(shared, "logs", "x"), "x")
	for _, d := range []string{shared, filepath.Join(shared, "logs")} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := len(openPermissions(t, shared))
	for _, dir := range []string{made, shared} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, 1)
			e.compact()
			e.members[1].dir = dir
			compact := e.members[1].adjust
			e.members[1].adjust = func(c *Config) { compact(c); c.LogDir = log }
			e.start(1)
			e.proposeMany(30, 1)
			e.wait("a snapshot", func() bool { return e.snapshot(1) })
			s, err := e.members[1].node.disk.NewSpool()
			if err != nil {
				t.Fatal(err)
			}
			if open := openPermissions(t, own(dir)); len(open) > 0 {
				t.Errorf("while it runs: %q", open)
			}
			s.Close()
			e.stop(1)
		})
		if open := openPermissions(t, log); len(open) > 0 {
			t.Errorf("the log: %q", open)
		}
		if err := os.RemoveAll(log); err != nil {
			t.Fatal(err)
		}
	}
	if open := openPermissions(t, filepath.Join(top, "made")); len(open) > 0 {
		t.Errorf("a directory that it made: %q", open)
	}
	if open := openPermissions(t, shared); len(open) != before {
		t.Errorf("a directory of the operator's, in which %d may be read: %q", before, open)
	}
}
