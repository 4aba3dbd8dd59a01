package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"rollcall/internal/durable"
)

// Faults of Seed, for errors.Is.
var (
	// ErrIncomplete says that a directory was not filled to the end.
	ErrIncomplete = errors.New("was not filled to the end")
	// ErrHasData says that a directory is not empty, although it must be.
	ErrHasData = errors.New("is not empty")
)

// Seed fills the directories of a member that has never run: fill writes its stores. It uses the fields of cfg
// that Open uses, except those for a running member. command is the command line that an operator repeats after an
// error. There may be other files beside the member's own directory, including ZooKeeper's.
//
// Seed is all or nothing. Until the mark exists the directories are unchanged. From then on a start rejects them
// with ErrIncomplete, and Seed can be repeated. They are complete once the mark is removed: see incompleteName.
//
// cfg.Stores, if set, are filled in place of directories. They are empty, and only tests have them.
func Seed(cfg Config, command string, fill func(*Data) error) (err error) {
	if cfg.DataDir == "" {
		d := &Data{unguarded: cfg.Stores}
		return d.seedStores(fill)
	}
	locked, marked, err := lockForSeeding(cfg.DataDir, cfg.LogDir, command)
	defer func() {
		err = explainSeedError(unlock(locked, err), marked, command)
	}()
	if err != nil {
		return err
	}
	if err = clearAll(locked); err == nil {
		err = seedDirectories(locked, cfg, fill)
	}
	if err != nil {
		return errors.Join(err, clearAll(locked)) // leftovers would take space
	}
	return finishSeed(locked, command)
}

// seedDirectories fills empty directories, and gives them their identity.
func seedDirectories(locked []*directory, cfg Config, fill func(*Data) error) error {
	id := identity{
		Member: cfg.MemberID, Servers: cfg.ServerList, SeparateLog: len(locked) > 1, LogCreated: true,
	}
	d := &Data{}
	err := func() (err error) {
		if d.unguarded, d.storesCloser, err = openStores(locked, cfg, true); err != nil {
			return err
		}
		if err := checkOrBindMember(d.unguarded.Stable, locked[len(locked)-1].dir, cfg.MemberID); err != nil {
			return err
		}
		return d.seedStores(fill)
	}()
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	return writeIdentities(locked, id)
}

func (d *Data) seedStores(fill func(*Data) error) (err error) {
	if err := d.guardStores(func() bool { return false }, nil, nil); err != nil {
		return err
	}
	if d.diskID, err = ensureDiskID(d.unguarded); err != nil {
		return err
	}
	return fill(d)
}

// lockForSeeding locks and marks the directories that Seed may fill, and makes them if they do not exist. The data
// directory comes first. marked reports whether it has the mark.
func lockForSeeding(dir, logDir, command string) (locked []*directory, marked bool, err error) {
	dirs, err := operatorDirectories(dir, logDir)
	if err != nil {
		return nil, false, err
	}
	for _, d := range dirs { // before anything is written
		if err := checkSeedable(d); err != nil {
			return nil, false, err
		}
	}
	for _, d := range dirs {
		f, err := lockMemberDirectory(d)
		if err != nil {
			return locked, marked, err
		}
		locked = append(locked, f)
		if err = checkSeedable(d); err == nil { // another process may have filled it before the lock
			err = f.markIncomplete(command)
		}
		if exists, merr := isIncomplete(locked[0].dir); merr == nil {
			marked = exists
		}
		if err != nil {
			return locked, marked, err
		}
	}
	return locked, marked, nil
}

// lockMemberDirectory makes and locks a member's own directory in an operator's directory.
func lockMemberDirectory(dir string) (*directory, error) {
	memberDir := filepath.Join(dir, memberDirName)
	err := durable.MakeDirectory(memberDir, dirMode)
	if err == nil { // a command that made it may have been killed before it was durable
		err = durable.SyncDirectory(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("quorum: create data directory: %w", err)
	}
	return lockPath(memberDir)
}

// usedDirectoryAdvice is the advice for a directory that is not empty. To fill one again after its ensemble has
// started would begin another ensemble.
const usedDirectoryAdvice = "if a member of this ensemble has ever started, do not fill any directory again: start " +
	"a member that has lost its data with an empty directory, and it joins. Otherwise choose an empty directory"

// checkSeedable returns an error if a member has used an operator's directory, or cannot use it. A member's own
// directory may have the mark, or files that an interrupted start leaves.
func checkSeedable(dir string) error {
	memberDir := filepath.Join(dir, memberDirName)
	if err := checkMisplacedFiles(dir); err != nil {
		return err
	}
	if again, err := isIncomplete(memberDir); again || err != nil {
		return err
	}
	name, err := unexpectedFile(memberDir)
	switch {
	case name != "":
		return explainedError{fmt.Errorf("quorum: data directory %s %w: it has %s. The way out: %s", memberDir, ErrHasData,
			name, usedDirectoryAdvice)}
	case errors.Is(err, os.ErrNotExist):
		return nil
	}
	return err
}

// clearAll removes everything from the directories but their locks and marks.
func clearAll(locked []*directory) error {
	for _, f := range locked {
		entries, err := os.ReadDir(f.dir)
		if err != nil {
			return fmt.Errorf("quorum: read data directory: %w", err)
		}
		for _, e := range entries {
			if name := e.Name(); name == lockName || name == incompleteName {
				continue
			}
			if err := os.RemoveAll(filepath.Join(f.dir, e.Name())); err != nil {
				return fmt.Errorf("quorum: clear data directory: %w", err)
			}
		}
	}
	return nil
}

// finishSeed removes the marks of complete directories. The data directory's mark comes first: without it the
// directories are complete, and the next start removes the other mark if finishSeed cannot.
func finishSeed(locked []*directory, command string) error {
	err := locked[0].removeIncompleteMark()
	if err == nil {
		_ = removeIncompleteMarks(locked[1:])
		return nil
	}
	err = errors.Join(err, locked[0].markIncomplete(command)) // as the error reports
	if exists, merr := isIncomplete(locked[0].dir); exists || merr != nil {
		return err
	}
	return explainedError{fmt.Errorf("%w. The data directories are complete, and a member that starts there has "+
		"everything. If a start says after a loss of power that they were not filled to the end, run the command again: %s",
		err, cmp.Or(command, defaultSeedCommand))}
}

// removeIncompleteMarks removes the marks of complete directories, in order.
func removeIncompleteMarks(locked []*directory) error {
	for _, f := range locked {
		if err := f.removeIncompleteMark(); err != nil {
			return err
		}
	}
	return nil
}

// VerifyNewest reads all of the newest snapshot with verify, and compares it with its metadata.
func (d *Data) VerifyNewest(verify func(io.Reader) (SnapshotContents, error)) error {
	newest, err := d.unguarded.newestSnapshot()
	if err != nil {
		return err
	}
	if newest == nil {
		return fmt.Errorf("quorum: the snapshot is %w: %w", ErrDamaged, newestSnapshotError(d.unguarded))
	}
	return verifySnapshot(d.unguarded, newest, verify)
}
