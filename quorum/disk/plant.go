package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// plantingName is the file that marks a folder while Plant fills it. As long as the folder has no
// identity, no member starts from it, and the next Plant begins anew.
const plantingName = "planting"

// Faults of Plant, for errors.Is.
var (
	// ErrPlanting says that a folder was not filled to the end.
	ErrPlanting = errors.New("was not filled to the end")
	// ErrHasData says that a folder is not empty, although it must be.
	ErrHasData = errors.New("is not empty")
)

// Plant fills the folders of a member that has never run: fill writes its stores. Of cfg it uses what
// Open does, except what is for a running member. Files of others may be beside the member's own folder, those
// of ZooKeeper too.
//
// It is all or nothing. After an error the folders are as empty as before. After a crash they are either
// complete, or a start refuses them with ErrPlanting and Plant can be repeated. The identity in the data
// folder is written last: with it the folders are complete.
//
// cfg.Stores, if set, are filled in place of folders. They are empty, and only tests have them.
func Plant(cfg Config, fill func(*Data) error) (err error) {
	if cfg.Dir == "" {
		d := &Data{bare: cfg.Stores}
		return d.plant(fill)
	}
	fs, err := plantedFolders(cfg.Dir, cfg.LogDir)
	defer func() {
		for _, f := range fs {
			err = errors.Join(err, f.close())
		}
	}()
	if err != nil {
		return err
	}
	for i := len(fs) - 1; i >= 0; i-- { // the data folder's mark is there while anything else is
		if err := replaceFile(filepath.Join(fs[i].dir, plantingName), []byte("This folder is being filled.\n")); err != nil {
			return errors.Join(fmt.Errorf("quorum: mark data folder: %w", err), unplant(fs))
		}
	}
	if err = clearAll(fs); err == nil {
		err = plant(fs, cfg, fill)
	}
	if err != nil {
		return errors.Join(err, unplant(fs))
	}
	return unmark(fs)
}

// plant fills empty folders, and gives them their identity.
func plant(fs []*folder, cfg Config, fill func(*Data) error) error {
	id := identity{Member: cfg.Member, Servers: cfg.Servers, Apart: len(fs) > 1, Log: true}.as(cmp.Or(cfg.LogKind, DefaultLogKind))
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
	for _, f := range fs {
		if err := syncDir(filepath.Dir(f.dir)); err != nil {
			return fmt.Errorf("quorum: create data folder: %w", err)
		}
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

// plantedFolders locks the folders that Plant may fill. It makes them if they do not exist.
func plantedFolders(dir, logDir string) (fs []*folder, err error) {
	dirs := []string{dir}
	if logDir != "" && filepath.Clean(logDir) != filepath.Clean(dir) {
		dirs = append(dirs, logDir)
	}
	for _, d := range dirs {
		if err := mayPlant(d, dirs); err != nil {
			return fs, err
		}
	}
	for _, d := range dirs {
		f, err := lockEmpty(filepath.Join(d, ownName))
		if err != nil {
			return fs, err
		}
		fs = append(fs, f)
	}
	return fs, nil
}

// elsewhere is the advice for a folder that is not empty. To fill one again after its ensemble has started would
// begin another ensemble.
const elsewhere = "if a member of this ensemble has ever started, do not fill any folder again: start a member that has lost its data with an empty folder, and it joins. Otherwise choose an empty folder"

// mayPlant returns an error if a member has begun in an operator's folder, or cannot begin there.
func mayPlant(dir string, dirs []string) error {
	own := filepath.Join(dir, ownName)
	for _, other := range dirs {
		if filepath.Clean(other) == own {
			return fmt.Errorf("quorum: data folder %s: a member's files go into its subfolder %s, which must not be its other folder too (dataDir, dataLogDir); choose another one", dir, ownName)
		}
	}
	for _, path := range []string{filepath.Join(dir, identityName), filepath.Join(own, identityName)} {
		there, err := exists(path)
		if err != nil {
			return fmt.Errorf("quorum: read data folder: %w", err)
		}
		marked := false
		if there && dir != dirs[0] { // the identity in the data folder is the last to be written
			marked, err = exists(filepath.Join(filepath.Dir(path), plantingName))
			if err != nil {
				return fmt.Errorf("quorum: read data folder: %w", err)
			}
		}
		if there && !marked {
			return explained{fmt.Errorf("quorum: data folder %s %w: it has %s, so it is that of a member. The way out: %s", dir, ErrHasData, path, elsewhere)}
		}
	}
	return checkLeftovers(dir)
}

// lockEmpty makes and locks a member's own folder. It returns an error if the folder holds anything that
// neither Plant nor a start that was killed early has left.
func lockEmpty(own string) (*folder, error) {
	marked, err := exists(filepath.Join(own, plantingName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("quorum: read data folder: %w", err)
	}
	if entries, err := os.ReadDir(own); err == nil && !marked {
		for _, e := range entries {
			if name := e.Name(); name != lockName && name != identityName+tmpSuffix && name != plantingName+tmpSuffix {
				return nil, explained{fmt.Errorf("quorum: data folder %s %w: it has %s. The way out: %s", own, ErrHasData, name, elsewhere)}
			}
		}
	}
	if err := makeFolder(own); err != nil {
		return nil, fmt.Errorf("quorum: create data folder: %w", err)
	}
	return lockPath(own)
}

// clearAll removes everything from the folders but their locks and marks.
func clearAll(fs []*folder) error {
	for _, f := range fs {
		entries, err := os.ReadDir(f.dir)
		if err != nil {
			return fmt.Errorf("quorum: read data folder: %w", err)
		}
		for _, e := range entries {
			if name := e.Name(); name == lockName || name == plantingName {
				continue
			}
			if err := os.RemoveAll(filepath.Join(f.dir, e.Name())); err != nil {
				return fmt.Errorf("quorum: clear data folder: %w", err)
			}
		}
	}
	return nil
}

// unplant makes the folders empty again.
func unplant(fs []*folder) error {
	if err := clearAll(fs); err != nil {
		return err
	}
	return unmark(fs)
}

// unmark removes the marks of complete or empty folders, that of the data folder last.
func unmark(fs []*folder) error {
	for i := len(fs) - 1; i >= 0; i-- {
		err := os.Remove(filepath.Join(fs[i].dir, plantingName))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = syncDir(fs[i].dir)
		}
		if err != nil {
			return fmt.Errorf("quorum: mark data folder: %w", err)
		}
	}
	return nil
}

// checkPlanted returns ErrPlanting if a crash has interrupted Plant in a member's own folder.
func checkPlanted(own string) error {
	marked, err := exists(filepath.Join(own, plantingName))
	if err != nil || !marked {
		return err
	}
	return explained{fmt.Errorf("quorum: data folder %s %w: it has %s. The way out: run the command that filled it again", own, ErrPlanting, plantingName)}
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
