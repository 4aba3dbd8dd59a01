package quorum

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"
)

// What is wrong with a data folder, for errors.Is.
var (
	ErrInUse          = errors.New("in use by another process")
	ErrForeign        = errors.New("not a Rollcall data folder")
	ErrDamaged        = errors.New("damaged")
	ErrOtherMember    = errors.New("belongs to another member")
	ErrServersChanged = errors.New("was created for another server list")
	ErrNewerFormat    = errors.New("written by a newer version")
	ErrOtherLog       = errors.New("was made with another log store")
)

const (
	lockName     = "lock"
	identityName = "identity.json"
	logName      = "raft.db"
	snapshotsDir = "snapshots" // raft's FileSnapshotStore names it so
	spoolPrefix  = "receiving-"
	tmpSuffix    = ".tmp"

	// boltFormat is that of a folder whose log is in BoltDB, walFormat of one in raft-wal: versions
	// that know only the former must not take it for a member without entries.
	boltFormat   = 1
	walFormat    = 2
	folderFormat = 2 // the newest known
	// maxIdentity bounds the identity file: 255 servers with names of 253 bytes fit.
	maxIdentity = 128 << 10
)

// identity says whose data a folder holds. A folder is never used under another one:
// that would lend this member votes and entries that it never gave.
type identity struct {
	Format  int      `json:"format"`
	Member  uint32   `json:"member"`
	Servers []string `json:"servers"`   // canonical
	Apart   bool     `json:"log_apart"` // the log lies in a folder of its own
	Log     bool     `json:"log"`       // the log has been created: without it the folder is damaged
	Store   LogKind  `json:"log_store"` // what the log is in; folders made before there was a choice have none
}

// as returns the identity of a folder with a log of that kind.
func (id identity) as(kind LogKind) identity {
	id.Store, id.Format = kind, boltFormat
	if kind == LogWAL {
		id.Format = walFormat
	}
	return id
}

// folder is a locked data folder.
type folder struct {
	dir  string
	lock *os.File
	id   identity // zero while fresh
}

// lockFolder creates dir if needed and locks it for the life of the process.
func lockFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("quorum: create data folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("quorum: lock data folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("quorum: data folder %s: %w", dir, err), lock.Close())
	}
	f := &folder{dir: dir, lock: lock}
	if f.id, err = readIdentity(dir); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *folder) close() error { return f.lock.Close() } // and the lock with it

func (f *folder) fresh() bool { return f.id.Format == 0 }

// check compares the folder with what this member is configured as.
func (f *folder) check(want identity) error {
	switch {
	case f.fresh():
		return nil
	case f.id.Member != want.Member:
		return fmt.Errorf("quorum: data folder %s %w: it is that of member %d, this is member %d (myid)",
			f.dir, ErrOtherMember, f.id.Member, want.Member)
	case !slices.Equal(f.id.Servers, want.Servers):
		return fmt.Errorf("quorum: data folder %s %w: it has [%s], configured is [%s]",
			f.dir, ErrServersChanged, strings.Join(f.id.Servers, ", "), strings.Join(want.Servers, ", "))
	case f.id.Apart != want.Apart:
		return fmt.Errorf("quorum: data folder %s is %w: its log was kept apart: %t, configured (dataLogDir): %t",
			f.dir, ErrDamaged, f.id.Apart, want.Apart)
	case want.Store != "" && f.id.Store != want.Store:
		return fmt.Errorf("quorum: data folder %s %w: %s has %s, configured (logStore) is %s",
			f.dir, ErrOtherLog, filepath.Join(f.dir, identityName), f.id.Store, want.Store)
	}
	return nil
}

// write stores id so that after a crash either the old or the new one is there.
func (f *folder) write(id identity) error {
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(f.dir, identityName), data); err != nil {
		return fmt.Errorf("quorum: write identity: %w", err)
	}
	f.id = id
	return nil
}

// readIdentity returns the zero identity for an empty folder.
func readIdentity(dir string) (id identity, err error) {
	file, err := os.Open(filepath.Join(dir, identityName))
	if errors.Is(err, os.ErrNotExist) {
		return id, checkEmpty(dir)
	} else if err != nil {
		return id, fmt.Errorf("quorum: read identity: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxIdentity+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return id, fmt.Errorf("quorum: read identity: %w", err)
	}
	damaged := func(why string) error {
		return fmt.Errorf("quorum: %s is %w: %s", file.Name(), ErrDamaged, why)
	}
	if len(data) > maxIdentity {
		return id, damaged("too long")
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return identity{}, damaged(err.Error())
	}
	switch {
	case id.Format > folderFormat:
		return identity{}, fmt.Errorf("quorum: data folder %s was %w: format %d, this version knows up to %d",
			dir, ErrNewerFormat, id.Format, folderFormat)
	case id.Format < boltFormat || id.Member == 0 || len(id.Servers) == 0:
		return identity{}, damaged("incomplete")
	}
	id.Store = cmp.Or(id.Store, LogBolt)
	if id.as(id.Store).Format != id.Format || !id.Store.Known() {
		return identity{}, damaged(fmt.Sprintf("format %d with a log in %q", id.Format, id.Store))
	}
	return id, nil
}

// checkEmpty tolerates what a start that was killed early and mkfs leave behind.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("quorum: read data folder: %w", err)
	}
	for _, e := range entries {
		switch name := e.Name(); name {
		case lockName, identityName + tmpSuffix, "lost+found", "myid":
		case "version-2":
			return fmt.Errorf("quorum: data folder %s is %w: version-2 is ZooKeeper's; give Rollcall a folder of its own", dir, ErrForeign)
		default:
			return fmt.Errorf("quorum: data folder %s is %w: it holds %q but no %s", dir, ErrForeign, name, identityName)
		}
	}
	return nil
}

func snapshotPath(dir string) string { return filepath.Join(dir, snapshotsDir) }

// openFolders locks the data folder and, if it is another one, the log's, checks that
// they are id's and open the stores in them. A fresh folder becomes id's.
func openFolders(dir, logDir string, id identity, hl hclog.Logger) (fs []*folder, s Stores, closer io.Closer, err error) {
	defer func() {
		if err != nil {
			for _, f := range fs {
				err = errors.Join(err, f.close())
			}
			fs = nil
		}
	}()
	fs, err = lockFolders(dir, logDir)
	if err != nil {
		return fs, s, nil, err
	}
	id.Apart = len(fs) > 1
	for _, f := range fs {
		if err := f.check(id); err != nil {
			return fs, s, nil, err
		}
	}
	id = id.as(cmp.Or(storeOf(fs), id.Store, DefaultLogKind))
	if err := checkWhole(fs); err != nil {
		return fs, s, nil, err
	}
	complete := fs[0].id.Log
	for i := len(fs) - 1; i >= 0 && !complete; i-- { // the log's folder first: see checkWhole
		if err := fs[i].write(id); err != nil {
			return fs, s, nil, err
		}
	}
	s, closer, err = openStores(dir, fs[len(fs)-1].dir, id.Store, hl)
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

// lockFolders returns the data folder and, if apart, the log's.
func lockFolders(dir, logDir string) ([]*folder, error) {
	f, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	if logDir == "" || filepath.Clean(logDir) == filepath.Clean(dir) {
		return []*folder{f}, nil
	}
	l, err := lockFolder(logDir)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return []*folder{f, l}, nil
}

// checkWhole refuses folders of which a part is gone. A member that lost its log but kept
// its snapshots has forgotten its votes all the same.
func checkWhole(fs []*folder) error {
	data, log := fs[0], fs[len(fs)-1]
	gone, err := missing(log.dir, storeOf(fs).files())
	if err != nil {
		return fmt.Errorf("quorum: open log: %w", err)
	}
	switch {
	case (data.id.Log || log.id.Log) && gone != "":
		return fmt.Errorf("quorum: data folder %s is %w: its log, %s, is gone; to join anew, empty it", data.dir, ErrDamaged, gone)
	case log.id.Log && data.fresh():
		return fmt.Errorf("quorum: data folder %s is %w: it is empty, but its log's, %s, is not; to join anew, empty both", data.dir, ErrDamaged, log.dir)
	case !data.fresh() && !log.fresh() && data.id.Store != log.id.Store:
		return fmt.Errorf("quorum: data folder %s is %w: its log is in %s, that of %s in %s", data.dir, ErrDamaged, data.id.Store, log.dir, log.id.Store)
	case data.id.Log && log.fresh():
		return fmt.Errorf("quorum: log folder %s is %w: it is empty, but its data folder %s is not; to join anew, empty both", log.dir, ErrDamaged, data.dir)
	}
	return nil
}

// storeOf is the kind of log that the folders were made with; "" if they are fresh.
func storeOf(fs []*folder) LogKind { return cmp.Or(fs[0].id.Store, fs[len(fs)-1].id.Store) }

// missing returns the first of some files in dir that is not there, or empty; "" if none is.
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

// replaceFile writes data under path, all of it or nothing, durably.
func replaceFile(path string, data []byte) error {
	tmp := path + tmpSuffix
	file, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
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
