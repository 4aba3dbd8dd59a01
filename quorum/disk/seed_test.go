package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// seedConfig returns the configuration of a member. If apart is true, its log has a directory of its own.
func seedConfig(t *testing.T, apart bool) Config {
	cfg := directoryConfig(filepath.Join(t.TempDir(), "data"), 1)
	if apart {
		cfg.LogDir = filepath.Join(t.TempDir(), "log")
	}
	return cfg
}

// again is the command that the operator of these tests runs.
const again = "rollcall backup restore --sessions=close the.backup zoo.cfg"

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

// checkFilled checks that a member can start in the directories, and that they have what fillIn wrote.
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
	for _, f := range d.directories {
		if there, err := pathExists(filepath.Join(f.dir, incompleteName)); there || err != nil {
			t.Errorf("%s is still marked: %v", f.dir, err)
		}
	}
}

// A directory that Seed has filled starts, beside ZooKeeper's data too.
func TestSeed(t *testing.T) {
	for _, apart := range []bool{false, true} {
		cfg := seedConfig(t, apart)
		write(t, filepath.Join(cfg.DataDir, "version-2", "snapshot.0"), "ZooKeeper's")
		write(t, filepath.Join(cfg.DataDir, "myid"), "1")
		if err := Seed(cfg, again, fillIn(func() {})); err != nil {
			t.Fatal(err)
		}
		if err := Seed(cfg, again, fillIn(func() {})); !errors.Is(err, ErrHasData) {
			t.Errorf("filled twice: %v", err)
		}
		checkFilled(t, cfg)
	}
}

// After a kill at any step no member starts in the directories, and Seed can be repeated; or the directories are
// complete. After an error it is so, too.
func TestSeedInterrupted(t *testing.T) {
	for _, apart := range []bool{false, true} {
		cfg := seedConfig(t, apart)
		var killed []Config // a copy of the directories at each step
		if err := Seed(cfg, again, fillIn(func() { killed = append(killed, copied(t, cfg)) })); err != nil {
			t.Fatal(err)
		}
		for i := range ownDirectories(cfg) { // the steps before and after
			c := copied(t, cfg)
			for j, other := range ownDirectories(c) { // killed before the identity of data, of the log
				write(t, filepath.Join(other, incompleteName), "")
				if j <= i {
					remove(t, filepath.Join(other, identityName))
				}
			}
			killed = append(killed, c)
			c = copied(t, cfg) // killed when only marks were made, that of the data first
			for j, other := range ownDirectories(c) {
				remove(t, other)
				if j <= i {
					write(t, filepath.Join(other, incompleteName), "")
				}
			}
			killed = append(killed, c)
		}
		whole := copied(t, cfg) // killed before the marks were removed
		for _, own := range ownDirectories(whole) {
			write(t, filepath.Join(own, incompleteName), "")
		}
		broken := errors.New("broken")
		failed := seedConfig(t, apart)
		if err := Seed(failed, again, func(d *Data) error { return errors.Join(fillIn(func() {})(d), broken) }); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		for _, own := range ownDirectories(failed) {
			if left := listed(t, own); len(left) != 1 || filepath.Base(left[0]) != incompleteName {
				t.Errorf("after an error %s has %v", own, left)
			}
		}
		for i, c := range append(killed, whole, failed) {
			checkRefused(t, c, fmt.Sprintf("apart %t, end %d", apart, i))
		}
		checkFilled(t, cfg)
	}
}

// checkRefused checks that no member starts from the directories of an interrupted Seed, and that the Seed can be
// repeated.
func checkRefused(t *testing.T, c Config, when string) {
	t.Helper()
	d, err := Open(c)
	if err == nil {
		d.Close()
	}
	if !errors.Is(err, ErrIncomplete) {
		t.Errorf("%s: a start says %v", when, err)
	}
	if _, err := ReadDataEnd(c.DataDir, c.LogDir); !errors.Is(err, ErrIncomplete) {
		t.Errorf("%s: a recovery says %v", when, err)
	}
	if _, err := MemberDirectory(c.DataDir); !errors.Is(err, ErrIncomplete) {
		t.Errorf("%s: the directory is %v", when, err)
	}
	if err := Seed(c, again, fillIn(func() {})); err != nil {
		t.Errorf("%s: not repeated: %v", when, err)
		return
	}
	checkFilled(t, c)
}

// Once the mark of the data is removed the directories are complete, although the log's still has its own. The next start removes it.
func TestSeedEndsWithTheMarkOfTheData(t *testing.T) {
	cfg := seedConfig(t, true)
	if err := Seed(cfg, again, fillIn(func() {})); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(cfg.LogDir, memberDirName, incompleteName)
	write(t, left, "")
	if err := Seed(cfg, again, fillIn(func() {})); !errors.Is(err, ErrHasData) {
		t.Errorf("complete directories are filled again: %v", err)
	}
	checkFilled(t, cfg)
}

// Seed has succeeded once the data's mark is removed, even if the log's mark cannot be removed. An error would make its
// caller run the command again, which would reject the complete log directory.
func TestSeedEndsWithoutTheMarkOfTheData(t *testing.T) {
	cfg := seedConfig(t, true)
	left := filepath.Join(cfg.LogDir, memberDirName, incompleteName)
	if err := Seed(cfg, again, func(d *Data) error {
		remove(t, left)
		write(t, filepath.Join(left, "file"), "") // so that the mark cannot be removed
		return fillIn(func() {})(d)
	}); err != nil {
		t.Errorf("the mark of the log cannot be removed: %v", err)
	}
	remove(t, filepath.Join(left, "file"))
	checkFilled(t, cfg)
}

// A mark counts whatever is in it. If it is whole, it names the command to run again.
func TestMarkNamesTheCommand(t *testing.T) {
	whole := incompleteMarkText(again)
	for _, tt := range []struct{ text, want string }{
		{whole, again},
		{"", defaultSeedCommand},
		{whole[:len(whole)-1], defaultSeedCommand},
		{whole[:10], defaultSeedCommand},
		{"rollcall backup restore other.backup zoo.cfg" + whole[len(again):], defaultSeedCommand},
		{whole + "more", defaultSeedCommand},
		{incompleteMarkText(strings.Repeat("x", maxIncompleteMark)), defaultSeedCommand},
		{strings.Repeat("x", 2*maxIncompleteMark), defaultSeedCommand},
	} {
		cfg := seedConfig(t, false)
		write(t, filepath.Join(cfg.DataDir, memberDirName, incompleteName), tt.text)
		if _, err := Open(cfg); !errors.Is(err, ErrIncomplete) ||
			!strings.Contains(err.Error(), "run the command that fills it again: "+tt.want+". ") {
			t.Errorf("mark %.80q: %v, want %q", tt.text, err, tt.want)
		}
		if err := Seed(cfg, again, fillIn(func() {})); err != nil {
			t.Errorf("mark %.80q: not repeated: %v", tt.text, err)
		}
	}
}

// An error of Seed reports whether anything was written, and names the command to run again. It never advises the
// operator to start the member.
func TestSeedAdvises(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "state.bin", Err: syscall.ENOSPC}
	grown := errors.New("file resize error: " + (&os.PathError{Op: "truncate", Path: "raft.db.tmp", Err: syscall.ENOSPC}).Error()) // as bbolt makes it: nothing is wrapped
	for _, tt := range []struct {
		err   error
		begun bool
		want  string
	}{
		{full, true, "the disk is full (write state.bin: no space left on device). No member starts there until the data directories are filled. The way out: free space there, and run the command again: " + again},
		{full, false, "the disk is full (write state.bin: no space left on device). Nothing was written: the data directories are as they were, and a member that starts there begins without data. The way out: free space there, and run the command again: " + again},
		{grown, true, "the disk is full (file resize error: truncate raft.db.tmp: no space left on device). No member starts there until the data directories are filled. The way out: free space there, and run the command again: " + again},
		{io.ErrUnexpectedEOF, true, "unexpected EOF. No member starts there until the data directories are filled. The way out: run the command again: " + again},
		{io.ErrUnexpectedEOF, false, "unexpected EOF"},
	} {
		if err := explainSeedError(tt.err, tt.begun, again); !errors.Is(err, tt.err) || err.Error() != tt.want ||
			WithAdvice(err, false).Error() != tt.want {
			t.Errorf("%v, begun %t: %q, want %q", tt.err, tt.begun, err, tt.want)
		}
	}
}

// ownDirectories returns a member's own directories, first the data directory.
func ownDirectories(cfg Config) []string {
	own := []string{filepath.Join(cfg.DataDir, memberDirName)}
	if cfg.LogDir != "" {
		own = append(own, filepath.Join(cfg.LogDir, memberDirName))
	}
	return own
}

// copied returns cfg with copies of its directories.
func copied(t *testing.T, cfg Config) Config {
	t.Helper()
	for _, dir := range []*string{&cfg.DataDir, &cfg.LogDir} {
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

// Seed rejects directories that are not empty, names the files in them, and changes nothing.
func TestSeedRefuses(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(t *testing.T, cfg *Config)
		want  error
		say   string
	}{
		{"something in its own directory", func(t *testing.T, cfg *Config) {
			write(t, filepath.Join(cfg.DataDir, memberDirName, "letters.txt"), "")
		}, ErrHasData, "letters.txt"},
		{"a member's own directory", func(t *testing.T, cfg *Config) { write(t, filepath.Join(cfg.DataDir, identityName), "{}") }, ErrDamaged, identityName},
		{"its log", func(t *testing.T, cfg *Config) { write(t, filepath.Join(cfg.DataDir, logName), "x") }, ErrDamaged, logName},
		{"data in the log's directory", func(t *testing.T, cfg *Config) {
			write(t, filepath.Join(cfg.LogDir, memberDirName, identityName), "{}")
		}, ErrHasData, identityName},
		{"one directory in the other", func(_ *testing.T, cfg *Config) { cfg.LogDir = filepath.Join(cfg.DataDir, memberDirName) }, nil, "must not be its other directory"},
		{"a file", func(t *testing.T, cfg *Config) { write(t, filepath.Join(cfg.DataDir, memberDirName), "x") }, nil, memberDirName},
		{"in use", func(t *testing.T, cfg *Config) {
			f, err := makeAndLockDirectory(filepath.Join(cfg.DataDir, memberDirName))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.close() })
		}, ErrInUse, ""},
	}
	for _, tt := range tests {
		cfg := seedConfig(t, true)
		tt.spoil(t, &cfg)
		before := listed(t, cfg.DataDir)
		err := Seed(cfg, again, func(*Data) error { t.Errorf("%s: filled", tt.name); return nil })
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: %v, want %v and %q", tt.name, err, tt.want, tt.say)
		}
		if after := listed(t, cfg.DataDir); !slices.Equal(after, before) {
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
