package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Faults of Plant, for errors.Is.
var (
	// ErrIncomplete says that a directory was not filled to the end.
	ErrIncomplete = errors.New("was not filled to the end")
	// ErrHasData says that a directory is not empty, although it must be.
	ErrHasData = errors.New("is not empty")
)

// Seed fills the directories of a member that has never run: fill writes its stores. Of cfg it uses what
// Open does, except what is for a running member. command is the command line that an operator runs again after an
// error. Files of others may be beside the member's own directory, those of ZooKeeper too.
//
// It is all or nothing. Until the mark exists the directories are as before. From then on a start refuses them with
// ErrPlanting, and Plant can be repeated. They are complete once the mark is removed: see markName.
//
// cfg.Stores, if set, are filled in place of directories. They are empty, and only tests have them.
func Seed(cfg Config, command string, fill func(*Data) error) (err error) {
	if cfg.DataDir == "" {
		d := &Data{unguarded: cfg.Stores}
		return d.seedStores(fill)
	}
	fs, begun, err := lockForSeeding(cfg.DataDir, cfg.LogDir, command)
	defer func() {
		for _, f := range fs {
			err = errors.Join(err, f.close())
		}
		err = explainSeedError(err, begun, command)
	}()
	if err != nil {
		return err
	}
	if err = clearAll(fs); err == nil {
		err = seedDirectories(fs, cfg, fill)
	}
	if err != nil {
		return errors.Join(err, clearAll(fs)) // what is left would take space
	}
	return finishSeed(fs, command)
}

// seedDirectories fills empty directories, and gives them their identity.
func seedDirectories(fs []*directory, cfg Config, fill func(*Data) error) error {
	id := identity{Member: cfg.MemberID, Servers: cfg.ServerList, SeparateLog: len(fs) > 1, LogCreated: true, LogKind: cmp.Or(cfg.LogKind, DefaultLogKind)}
	d := &Data{}
	err := func() (err error) {
		if d.unguarded, d.storesCloser, err = openStores(fs, id.LogKind, cfg); err != nil {
			return err
		}
		if err := bindToMember(d.unguarded.Stable, fs[len(fs)-1].dir, cfg.MemberID); err != nil {
			return err
		}
		return d.seedStores(fill)
	}()
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	for i := len(fs) - 1; i >= 0; i-- {
		if err := fs[i].writeIdentity(id); err != nil {
			return err
		}
	}
	return nil
}

// seedStores fills empty stores.
func (d *Data) seedStores(fill func(*Data) error) (err error) {
	if err := d.guardStores(func() bool { return false }, nil, nil); err != nil {
		return err
	}
	if d.diskID, err = ensureDiskID(d.unguarded); err != nil {
		return err
	}
	return fill(d)
}

// lockForSeeding locks and marks the directories that Plant may fill, that of the data first. It makes them if they do not
// exist. begun says whether the data directory has a mark.
func lockForSeeding(dir, logDir, command string) (fs []*directory, begun bool, err error) {
	dirs, err := memberDirectories(dir, logDir)
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
			return fs, begun, err
		}
		fs = append(fs, f)
		if err = checkSeedable(d); err == nil { // another process may have filled it before the lock
			err = f.markIncomplete(command)
		}
		if there, merr := isIncomplete(fs[0].dir); merr == nil {
			begun = there
		}
		if err != nil {
			return fs, begun, err
		}
	}
	return fs, begun, nil
}

// lockMemberDirectory makes and locks a member's own directory in an operator's directory.
func lockMemberDirectory(dir string) (*directory, error) {
	own := filepath.Join(dir, memberDirName)
	err := makeDirectory(own)
	if err == nil { // a command that made it may have been killed before it was durable
		err = syncDir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("quorum: create data directory: %w", err)
	}
	return lockPath(own)
}

// usedDirectoryAdvice is the advice for a directory that is not empty. To fill one again after its ensemble has started would
// begin another ensemble.
const usedDirectoryAdvice = "if a member of this ensemble has ever started, do not fill any directory again: start a member that has lost its data with an empty directory, and it joins. Otherwise choose an empty directory"

// checkSeedable returns an error if a member has begun in an operator's directory, or cannot begin there. Of a member's own directory,
// it accepts one with a mark, and one that holds only what a start that was killed early leaves.
func checkSeedable(dir string) error {
	own := filepath.Join(dir, memberDirName)
	if err := checkLeftovers(dir); err != nil {
		return err
	}
	if again, err := isIncomplete(own); again || err != nil {
		return err
	}
	entries, err := os.ReadDir(own)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("quorum: read data directory: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); name != lockName && name != identityName+tmpSuffix {
			return notEmptyError(own, name)
		}
	}
	return nil
}

func notEmptyError(dir, name string) error {
	return explainedError{fmt.Errorf("quorum: data directory %s %w: it has %s. The way out: %s", dir, ErrHasData, name, usedDirectoryAdvice)}
}

// clearAll removes everything from the directories but their locks and marks.
func clearAll(fs []*directory) error {
	for _, f := range fs {
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

// finishSeed removes the marks of directories that Plant has filled, that of the data first: without it the directories are complete. The next start
// removes the others if finish cannot.
func finishSeed(fs []*directory, command string) error {
	err := fs[0].removeIncompleteMark()
	if err == nil {
		_ = removeIncompleteMarks(fs[1:])
		return nil
	}
	err = errors.Join(err, fs[0].markIncomplete(command)) // as the caller is told
	if there, merr := isIncomplete(fs[0].dir); there || merr != nil {
		return err
	}
	return explainedError{fmt.Errorf("%w. The data directories are complete, and a member that starts there has everything. If a start says after a loss of power that they were not filled to the end, run the command again: %s",
		err, cmp.Or(command, defaultSeedCommand))}
}

// removeIncompleteMarks removes the marks of complete directories, that of the data first: with it the directories are complete.
func removeIncompleteMarks(fs []*directory) error {
	for _, f := range fs {
		if err := f.removeIncompleteMark(); err != nil {
			return err
		}
	}
	return nil
}

// VerifyNewest reads all of the newest snapshot with verify, and compares it with what its metadata say.
func (d *Data) VerifyNewest(verify func(io.Reader) (SnapshotContents, error)) error {
	list, err := d.unguarded.Snapshots.List()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("quorum: the snapshot is %w: %w", ErrDamaged, newestUnreadable(d.unguarded))
	}
	return verifySnapshot(d.unguarded, list[0], verify)
}
