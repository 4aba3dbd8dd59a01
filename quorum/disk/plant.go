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
	// ErrPlanting says that a directory was not filled to the end.
	ErrPlanting = errors.New("was not filled to the end")
	// ErrHasData says that a directory is not empty, although it must be.
	ErrHasData = errors.New("is not empty")
)

// Plant fills the directories of a member that has never run: fill writes its stores. Of cfg it uses what
// Open does, except what is for a running member. command is the command line that an operator runs again after an
// error. Files of others may be beside the member's own directory, those of ZooKeeper too.
//
// It is all or nothing. Until the mark exists the directories are as before. From then on a start refuses them with
// ErrPlanting, and Plant can be repeated. They are complete once the mark is removed: see markName.
//
// cfg.Stores, if set, are filled in place of directories. They are empty, and only tests have them.
func Plant(cfg Config, command string, fill func(*Data) error) (err error) {
	if cfg.Dir == "" {
		d := &Data{bare: cfg.Stores}
		return d.plant(fill)
	}
	fs, begun, err := plantedDirectories(cfg.Dir, cfg.LogDir, command)
	defer func() {
		for _, f := range fs {
			err = errors.Join(err, f.close())
		}
		err = planted(err, begun, command)
	}()
	if err != nil {
		return err
	}
	if err = clearAll(fs); err == nil {
		err = plant(fs, cfg, fill)
	}
	if err != nil {
		return errors.Join(err, clearAll(fs)) // what is left would take space
	}
	return finish(fs, command)
}

// plant fills empty directories, and gives them their identity.
func plant(fs []*directory, cfg Config, fill func(*Data) error) error {
	id := identity{Member: cfg.Member, Servers: cfg.Servers, Apart: len(fs) > 1, Log: true, Store: cmp.Or(cfg.LogKind, DefaultLogKind)}
	d := &Data{}
	err := func() (err error) {
		if d.bare, d.closer, err = openStores(fs, id.Store, cfg); err != nil {
			return err
		}
		if err := bind(d.bare.Stable, fs[len(fs)-1].dir, cfg.Member); err != nil {
			return err
		}
		return d.plant(fill)
	}()
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	for i := len(fs) - 1; i >= 0; i-- {
		if err := fs[i].write(id); err != nil {
			return err
		}
	}
	return nil
}

// plant fills empty stores.
func (d *Data) plant(fill func(*Data) error) (err error) {
	if err := d.guard(func() bool { return false }, nil, nil); err != nil {
		return err
	}
	if d.id, err = identify(d.bare); err != nil {
		return err
	}
	return fill(d)
}

// plantedDirectories locks and marks the directories that Plant may fill, that of the data first. It makes them if they do not
// exist. begun says whether the data directory has a mark.
func plantedDirectories(dir, logDir, command string) (fs []*directory, begun bool, err error) {
	dirs, err := memberDirectories(dir, logDir)
	if err != nil {
		return nil, false, err
	}
	for _, d := range dirs { // before anything is written
		if err := mayPlant(d); err != nil {
			return nil, false, err
		}
	}
	for _, d := range dirs {
		f, err := lockOwn(d)
		if err != nil {
			return fs, begun, err
		}
		fs = append(fs, f)
		if err = mayPlant(d); err == nil { // another process may have filled it before the lock
			err = f.mark(command)
		}
		if there, merr := marked(fs[0].dir); merr == nil {
			begun = there
		}
		if err != nil {
			return fs, begun, err
		}
	}
	return fs, begun, nil
}

// lockOwn makes and locks a member's own directory in an operator's directory.
func lockOwn(dir string) (*directory, error) {
	own := filepath.Join(dir, ownName)
	err := makeDirectory(own)
	if err == nil { // a command that made it may have been killed before it was durable
		err = syncDir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("quorum: create data directory: %w", err)
	}
	return lockPath(own)
}

// elsewhere is the advice for a directory that is not empty. To fill one again after its ensemble has started would
// begin another ensemble.
const elsewhere = "if a member of this ensemble has ever started, do not fill any directory again: start a member that has lost its data with an empty directory, and it joins. Otherwise choose an empty directory"

// mayPlant returns an error if a member has begun in an operator's directory, or cannot begin there. Of a member's own directory,
// it accepts one with a mark, and one that holds only what a start that was killed early leaves.
func mayPlant(dir string) error {
	own := filepath.Join(dir, ownName)
	if err := checkLeftovers(dir); err != nil {
		return err
	}
	if again, err := marked(own); again || err != nil {
		return err
	}
	entries, err := os.ReadDir(own)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("quorum: read data directory: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); name != lockName && name != identityName+tmpSuffix {
			return notEmpty(own, name)
		}
	}
	return nil
}

func notEmpty(dir, name string) error {
	return explained{fmt.Errorf("quorum: data directory %s %w: it has %s. The way out: %s", dir, ErrHasData, name, elsewhere)}
}

// clearAll removes everything from the directories but their locks and marks.
func clearAll(fs []*directory) error {
	for _, f := range fs {
		entries, err := os.ReadDir(f.dir)
		if err != nil {
			return fmt.Errorf("quorum: read data directory: %w", err)
		}
		for _, e := range entries {
			if name := e.Name(); name == lockName || name == markName {
				continue
			}
			if err := os.RemoveAll(filepath.Join(f.dir, e.Name())); err != nil {
				return fmt.Errorf("quorum: clear data directory: %w", err)
			}
		}
	}
	return nil
}

// finish removes the marks of directories that Plant has filled, that of the data first: without it the directories are complete. The next start
// removes the others if finish cannot.
func finish(fs []*directory, command string) error {
	err := fs[0].unmark()
	if err == nil {
		_ = unmark(fs[1:])
		return nil
	}
	err = errors.Join(err, fs[0].mark(command)) // as the caller is told
	if there, merr := marked(fs[0].dir); there || merr != nil {
		return err
	}
	return explained{fmt.Errorf("%w. The data directories are complete, and a member that starts there has everything. If a start says after a loss of power that they were not filled to the end, run the command again: %s",
		err, cmp.Or(command, anyCommand))}
}

// unmark removes the marks of complete directories, that of the data first: with it the directories are complete.
func unmark(fs []*directory) error {
	for _, f := range fs {
		if err := f.unmark(); err != nil {
			return err
		}
	}
	return nil
}

// VerifyNewest reads all of the newest snapshot with verify, and compares it with what its metadata say.
func (d *Data) VerifyNewest(verify func(io.Reader) (Contents, error)) error {
	list, err := d.bare.Snapshots.List()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("quorum: the snapshot is %w: %w", ErrDamaged, unreadable(d.bare))
	}
	return verifyStored(d.bare, list[0], verify)
}
