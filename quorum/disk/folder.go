package disk

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Faults of a data folder, for errors.Is.
var (
	ErrInUse          = errors.New("in use by another process")
	errForeign        = errors.New("not a Rollcall data folder")
	ErrDamaged        = errors.New("damaged")
	ErrOtherMember    = errors.New("belongs to another member")
	ErrServersChanged = errors.New("was created for another server list")
	ErrNewerFormat    = errors.New("written by a newer version")
	errOtherLog       = errors.New("was made with another log store")
)

const (
	// ownName is the folder, inside the operator's, that holds all files of a member.
	ownName = "rollcall"

	lockName     = "lock"
	identityName = "identity.json"
	logName      = "raft.db"
	spoolPrefix  = "receiving-"
	tmpSuffix    = ".tmp"

	// folderFormat is the format of the folders that this version makes, and the only one that it knows.
	folderFormat = 1
	// maxIdentity limits the identity file, in bytes: 255 servers with names of 253 bytes fit.
	maxIdentity = 128 << 10

	// dirMode and fileMode are the modes of all folders and files made here, because the data
	// contain passwords of sessions.
	dirMode, fileMode = 0o700, 0o600
)

// identity says which member a folder belongs to. A folder is never used as another member's: that one would
// then count votes and entries as its own that it never gave.
type identity struct {
	Format  int      `json:"format"`
	Member  uint32   `json:"member"`
	Servers []string `json:"servers"`   // the list for which the folder was made, canonical; the ensemble's may have changed since
	Apart   bool     `json:"log_apart"` // the log is in a folder of its own
	Log     bool     `json:"log"`       // the log has been created: if it is missing, the folder is damaged
	Store   LogKind  `json:"log_store"` // how the log is stored
}

// folder is a locked data folder.
type folder struct {
	dir  string
	lock *os.File
	id   identity // zero while the folder is new
}

// OwnFolder returns the folder in which the files of a member are, or will be, whose data folder or
// log folder is dir. It creates nothing. Other files in dir do not matter, with two exceptions:
// ZooKeeper's data are refused, and incomplete data of a member give ErrDamaged or, if they have a mark, ErrPlanting.
func OwnFolder(dir string) (string, error) {
	own, err := ownFolder(dir)
	if err == nil {
		err = checkMark(own)
	}
	return own, err
}

// ownFolder is OwnFolder for a folder that may be that of a log: if a member has begun in it, its mark does not matter.
func ownFolder(dir string) (string, error) {
	own := filepath.Join(dir, ownName)
	begun, err := exists(filepath.Join(own, identityName))
	switch {
	case errors.Is(err, syscall.ENOTDIR) && isDirectory(dir):
		return "", fmt.Errorf("quorum: data folder %s: a member's files go into its subfolder %s, and there is a file of that name; move it away, or choose another folder", dir, ownName)
	case err != nil:
		return "", fmt.Errorf("quorum: read data folder: %w", err)
	case begun:
		return own, nil
	}
	if err := checkMark(own); err != nil {
		return "", err
	}
	return own, checkOthers(dir)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// checkOthers returns an error if a folder in which no member has begun contains data.
func checkOthers(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, "version-2", "*"))
	switch {
	case err != nil:
		return fmt.Errorf("quorum: data folder %s: %w", dir, err)
	case len(found) > 0:
		return fmt.Errorf("quorum: data folder %s is %w: version-2 has ZooKeeper's data. The way out: take them over with rollcall import, or choose an empty folder for a new ensemble without data", dir, errForeign)
	}
	return checkLeftovers(dir)
}

// checkLeftovers returns an error if the files of a member are directly in an operator's folder.
func checkLeftovers(dir string) error {
	for _, pattern := range []string{identityName, logName, filepath.Join(walName, walMetaName), filepath.Join(snapshotsDir, "*", metaFile)} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("quorum: data folder %s: %w", dir, err)
		}
		if len(found) > 0 {
			return explained{fmt.Errorf("quorum: data folder %s is %w: it has %s, and a member's files must be in its subfolder %s. The way out: if this is the subfolder of a member, configure the folder above it",
				dir, ErrDamaged, found[0], ownName)}
		}
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// makeFolder makes dir, and missing folders above it, durably.
func makeFolder(dir string) error {
	err := os.Mkdir(dir, dirMode)
	if errors.Is(err, os.ErrNotExist) {
		if err := makeFolder(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, dirMode)
	}
	switch {
	case err == nil:
		return syncDir(filepath.Dir(dir))
	case errors.Is(err, os.ErrExist):
		return nil
	}
	return err
}

// lockFolder makes dir if it does not exist, and locks it for the life of the process.
func lockFolder(dir string) (*folder, error) {
	if err := makeFolder(dir); err != nil {
		return nil, fmt.Errorf("quorum: create data folder: %w", err)
	}
	f, err := lockPath(dir)
	if err != nil {
		return nil, err
	}
	if f.id, err = readIdentity(dir); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// lockPath locks a folder, whatever it contains.
func lockPath(dir string) (*folder, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("quorum: lock data folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("quorum: data folder %s: %w", dir, err), lock.Close())
	}
	return &folder{dir: dir, lock: lock}, nil
}

func (f *folder) close() error { return f.lock.Close() } // this also releases the lock

// identity returns the path of the identity file.
func (f *folder) identity() string { return filepath.Join(f.dir, identityName) }

func (f *folder) fresh() bool { return f.id.Format == 0 }

// check compares the folder with this member's configuration.
func (f *folder) check(want identity) error {
	switch {
	case f.fresh():
		return nil
	case f.id.Member != want.Member:
		return fmt.Errorf("quorum: data folder %s %w: %s is of member %d, and this is member %d (myid). The way out: start each member with its own number and its own folder",
			f.dir, ErrOtherMember, f.identity(), f.id.Member, want.Member)
	case f.id.Apart != want.Apart:
		log, way := "apart from it, and dataLogDir names no other folder", "set dataLogDir to the folder that has the log"
		if want.Apart {
			log, way = "in it, and dataLogDir names another folder", "leave dataLogDir out"
		}
		return explained{fmt.Errorf("quorum: data folder %s is %w: its log was kept %s (%s). The way out: %s", f.dir, ErrDamaged, log, f.identity(), way)}
	case want.Store != "" && f.id.Store != want.Store:
		return fmt.Errorf("quorum: data folder %s %w: %s has %s, configured (logStore) is %s. The way out: configure logStore=%s",
			f.dir, errOtherLog, f.identity(), f.id.Store, want.Store, f.id.Store)
	}
	return nil
}

// write stores id so that after a crash either the old or the new one is there.
func (f *folder) write(id identity) error {
	id.Format = folderFormat
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(f.identity(), data); err != nil {
		return fmt.Errorf("quorum: write identity: %w", err)
	}
	f.id = id
	return nil
}

// readIdentity returns the identity of a folder, or the zero identity if the folder is empty.
func readIdentity(dir string) (id identity, err error) {
	path := filepath.Join(dir, identityName)
	data, err := readUpTo(path, maxIdentity)
	if errors.Is(err, os.ErrNotExist) {
		return id, checkEmpty(dir)
	} else if err != nil {
		return id, fmt.Errorf("quorum: read identity: %w", err)
	}
	damaged := func(why string) error {
		return fmt.Errorf("quorum: %s is %w: %s", path, ErrDamaged, why)
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return identity{}, damaged(err.Error())
	}
	switch {
	case id.Format > folderFormat:
		return identity{}, newerVersion(fmt.Errorf("%s: %w: format %d, this version knows up to %d", path, ErrNewerFormat, id.Format, folderFormat))
	case id.Format < 1 || id.Member == 0 || len(id.Servers) == 0 || !id.Store.Known():
		return identity{}, damaged("incomplete")
	}
	return id, nil
}

// checkEmpty returns an error unless a member's own folder holds nothing, or only what a start that
// was killed early leaves.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("quorum: read data folder: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); name != lockName && name != identityName+tmpSuffix {
			return fmt.Errorf("quorum: data folder %s is %w: it has %s, but no %s", dir, ErrDamaged, name, filepath.Join(dir, identityName))
		}
	}
	return nil
}

// MadeFor returns the server list for which a data folder was made, or nil if no member has begun there. The
// ensemble's list may have changed since. It neither locks the folder nor changes anything.
func MadeFor(dir string) ([]string, error) {
	own, err := OwnFolder(dir)
	if err != nil {
		return nil, err
	}
	if there, err := exists(filepath.Join(own, identityName)); err != nil || !there {
		return nil, err
	}
	id, err := readIdentity(own)
	return id.Servers, err
}

// openFolders locks the data folder and, if it is another one, the log's. It checks that they
// belong to cfg's member and opens the stores in them. A new folder becomes that member's.
func openFolders(cfg Config) (fs []*folder, s Stores, closer io.Closer, err error) {
	defer func() {
		if err != nil {
			for _, f := range fs {
				err = errors.Join(err, f.close())
			}
			fs = nil
		}
	}()
	fs, err = lockFolders(cfg.Dir, cfg.LogDir)
	if err != nil {
		return fs, s, nil, err
	}
	id := identity{Member: cfg.Member, Servers: cfg.Servers, Store: cfg.LogKind, Apart: len(fs) > 1}
	for _, f := range fs {
		if err := f.check(id); err != nil {
			return fs, s, nil, err
		}
	}
	id.Store = cmp.Or(storeOf(fs), id.Store, DefaultLogKind)
	if err := checkWhole(fs); err != nil {
		return fs, s, nil, err
	}
	for _, f := range fs {
		if f.fresh() { // the start that made it may have been killed before it was durable
			if err := syncDir(filepath.Dir(f.dir)); err != nil {
				return fs, s, nil, fmt.Errorf("quorum: create data folder: %w", err)
			}
		}
	}
	complete := fs[0].id.Log
	if complete { // the removal of a mark by Plant may not be durable yet
		if err := unmark(fs); err != nil {
			return fs, s, nil, err
		}
	}
	for i := len(fs) - 1; i >= 0 && !complete; i-- { // the log's folder first: see checkWhole
		if err := fs[i].write(id); err != nil {
			return fs, s, nil, err
		}
	}
	s, closer, err = openStores(fs, id.Store, cfg)
	if err != nil {
		return fs, s, nil, err
	}
	id.Log = true
	for i := len(fs) - 1; i >= 0 && !complete; i-- {
		if err := fs[i].write(id); err != nil {
			return fs, s, nil, errors.Join(err, closer.Close())
		}
	}
	return fs, s, closer, nil
}

// memberFolders returns the operator's folders of a member: that of its data and, if it is another one, that of its log. Neither
// may be the subfolder that the other one's files go into.
func memberFolders(dir, logDir string) ([]string, error) {
	if logDir == "" || filepath.Clean(logDir) == filepath.Clean(dir) {
		return []string{dir}, nil
	}
	for _, pair := range [][2]string{{dir, logDir}, {logDir, dir}} {
		if filepath.Join(pair[0], ownName) == filepath.Clean(pair[1]) {
			return nil, fmt.Errorf("quorum: data folder %s: a member's files go into its subfolder %s, which must not be its other folder too (dataDir, dataLogDir); choose another one", pair[0], ownName)
		}
	}
	return []string{dir, logDir}, nil
}

// lockFolders locks the folder of a member's data and, if it is another one, that of its log.
func lockFolders(dir, logDir string) (fs []*folder, err error) {
	dirs, err := memberFolders(dir, logDir)
	for i := 0; err == nil && i < len(dirs); i++ {
		var own string
		if own, err = ownFolder(dirs[i]); err != nil {
			break
		}
		var f *folder
		if f, err = lockFolder(own); err != nil {
			break
		}
		fs = append(fs, f)
		if i == 0 { // Plant may have been killed before the lock
			err = checkMark(own)
		}
	}
	if err != nil {
		for _, f := range fs {
			err = errors.Join(err, f.close())
		}
		return nil, err
	}
	return fs, nil
}

// checkWhole returns an error if a part of the folders is missing. A member that lost its log but
// kept its snapshots has forgotten its votes all the same.
func checkWhole(fs []*folder) error {
	data, log := fs[0], fs[len(fs)-1]
	gone, err := missing(log.dir, storeOf(fs).files())
	if err != nil {
		return fmt.Errorf("quorum: open log: %w", err)
	}
	switch {
	case (data.id.Log || log.id.Log) && gone != "":
		return fmt.Errorf("quorum: data folder %s is %w: its log, %s, is gone", data.dir, ErrDamaged, gone)
	case log.id.Log && data.fresh():
		return fmt.Errorf("quorum: data folder %s is %w: it is empty, but its log's, %s, is not", data.dir, ErrDamaged, log.dir)
	case !data.fresh() && !log.fresh() && data.id.Store != log.id.Store:
		return fmt.Errorf("quorum: data folder %s is %w: its log is in %s, that of %s in %s", data.dir, ErrDamaged, data.id.Store, log.dir, log.id.Store)
	case data.id.Log && log.fresh():
		return fmt.Errorf("quorum: log folder %s is %w: it is empty, but its data folder %s is not", log.dir, ErrDamaged, data.dir)
	}
	return nil
}

// storeOf returns the kind of log that the folders were made with, or "" if they are new.
func storeOf(fs []*folder) LogKind { return cmp.Or(fs[0].id.Store, fs[len(fs)-1].id.Store) }

// missing returns the first of the files in dir that does not exist or is empty, or "" if all are
// there.
func missing(dir string, files []string) (string, error) {
	for _, name := range files {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		switch {
		case err == nil && info.Size() > 0:
		case err == nil || errors.Is(err, os.ErrNotExist):
			return path, nil
		default:
			return "", err
		}
	}
	return "", nil
}

// replaceFile writes data to path, all of it or nothing, durably.
func replaceFile(path string, data []byte) error {
	tmp := path + tmpSuffix
	file, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
