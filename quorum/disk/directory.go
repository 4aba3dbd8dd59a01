package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"rollcall/internal/durable"
)

// Faults of a data directory, for errors.Is.
var (
	ErrInUse            = errors.New("in use by another process")
	errForeignDirectory = errors.New("not a Rollcall data directory")
	ErrDamaged          = errors.New("damaged")
	ErrOtherMember      = errors.New("belongs to another member")
	ErrServersChanged   = errors.New("was created for another server list")
	ErrNewerFormat      = errors.New("written by a newer version")
	errEarlierFormat    = errors.New("was made by an earlier build")
)

const (
	// memberDirName is the subdirectory of the operator's directory that holds all files of a member.
	memberDirName = "rollcall"

	lockName     = "lock"
	identityName = "identity.json"
	logName      = "raft.db"
	spoolPrefix  = "receiving-"
	tmpSuffix    = ".tmp"

	// directoryFormat is the only format of directories that this version knows. In format 1 the log was in raft.db, or in
	// the directory wal. In format 2 nothing outside of the log knew it.
	directoryFormat = 3
	// maxIdentity limits the identity file, in bytes: 255 servers with names of 253 bytes fit.
	maxIdentity = 128 << 10

	// dirMode and fileMode apply to all directories and files made here, because the data contain session
	// passwords.
	dirMode, fileMode = 0o700, 0o600
)

// identity identifies the owner of a directory. A directory is never used by another member: that one would count
// votes and entries as its own that it never gave.
type identity struct {
	Format int    `json:"format"`
	Member uint32 `json:"member"`
	// when the directory was created; canonical. The ensemble's may have changed since
	Servers     []string `json:"servers"`
	SeparateLog bool     `json:"log_apart"`
	LogCreated  bool     `json:"log"` // from then on a missing log is damage
}

// directory is a locked data directory.
type directory struct {
	dir      string
	lockFile *os.File
	identity identity // zero while the directory is new
}

// OwnDirectory returns the directory of a member's own files in one of its operator's directories.
func OwnDirectory(dir string) string { return filepath.Join(dir, memberDirName) }

// MemberDirectory returns the directory for the files of the member whose data directory or log directory is dir.
// It creates nothing. Other files in dir do not matter, with two exceptions: it rejects ZooKeeper's data, and
// incomplete data of a member give ErrDamaged or, if they have a mark, ErrIncomplete.
func MemberDirectory(dir string) (string, error) {
	memberDir, err := memberOrLogDirectory(dir)
	if err == nil {
		err = checkComplete(memberDir)
	}
	return memberDir, err
}

// memberOrLogDirectory is MemberDirectory for a directory that may hold only a log: if a member has begun in it, its
// mark does not matter.
func memberOrLogDirectory(dir string) (string, error) {
	memberDir := filepath.Join(dir, memberDirName)
	began, err := pathExists(filepath.Join(memberDir, identityName))
	switch {
	case errors.Is(err, syscall.ENOTDIR) && isDirectory(dir):
		return "", fmt.Errorf("quorum: data directory %s: a member's files go into its subdirectory %s, and there is a "+
			"file of that name; move it away, or choose another directory", dir, memberDirName)
	case err != nil:
		return "", fmt.Errorf("quorum: read data directory: %w", err)
	case began:
		return memberDir, nil
	}
	if err := checkComplete(memberDir); err != nil {
		return "", err
	}
	return memberDir, checkForeignData(dir)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// checkForeignData returns an error if a directory that no member has used contains data.
func checkForeignData(dir string) error {
	found, err := globIn(dir, "version-2/*")
	switch {
	case err != nil:
		return fmt.Errorf("quorum: data directory %s: %w", dir, err)
	case len(found) > 0:
		return fmt.Errorf("quorum: data directory %s is %w: version-2 has ZooKeeper's data. The way out: take them over "+
			"with rollcall import, or choose an empty directory for a new ensemble without data", dir, errForeignDirectory)
	}
	return checkMisplacedFiles(dir)
}

// checkMisplacedFiles returns an error if the files of a member are directly in an operator's directory.
func checkMisplacedFiles(dir string) error {
	for _, pattern := range []string{
		identityName, logName, filepath.Join(logDirName, "*"+segmentSuffix), filepath.Join(snapshotsDir, "*", metaFile),
	} {
		found, err := globIn(dir, pattern)
		if err != nil {
			return fmt.Errorf("quorum: data directory %s: %w", dir, err)
		}
		if len(found) > 0 {
			return explainedError{fmt.Errorf("quorum: data directory %s is %w: it has %s, and a member's files must be in "+
				"its subdirectory %s. The way out: if this is the subdirectory of a member, configure the directory above it",
				dir, ErrDamaged, found[0], memberDirName)}
		}
	}
	return nil
}

// globIn returns the paths in dir that match a pattern. Special characters in dir have no meaning. A directory that does
// not exist has no matches, and one that cannot be read gives an error: what it has would count as missing otherwise.
func globIn(dir, pattern string) ([]string, error) {
	files := readableFS{FS: os.DirFS(dir)}
	found, err := fs.Glob(&files, pattern)
	for i, name := range found {
		found[i] = filepath.Join(dir, name)
	}
	if files.failed != nil && err == nil {
		err = fmt.Errorf("%s: %w", dir, files.failed)
	}
	return found, err
}

// readableFS keeps the first error of the system, which fs.Glob ignores.
type readableFS struct {
	fs.FS
	failed error
}

func (f *readableFS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	f.note(err)
	return entries, err
}

func (f *readableFS) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(f.FS, name)
	f.note(err)
	return info, err
}

func (f *readableFS) note(err error) {
	if f.failed == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		f.failed = err
	}
}

func pathExists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// makeAndLockDirectory makes dir if it does not exist, and locks it for the life of the process.
func makeAndLockDirectory(dir string) (*directory, error) {
	if err := durable.MakeDirectory(dir, dirMode); err != nil {
		return nil, fmt.Errorf("quorum: create data directory: %w", err)
	}
	f, err := lockPath(dir)
	if err != nil {
		return nil, err
	}
	if f.identity, err = readIdentity(dir); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// lockPath locks a directory, whatever it contains.
func lockPath(dir string) (*directory, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("quorum: lock data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("quorum: data directory %s: %w", dir, err), lock.Close())
	}
	return &directory{dir: dir, lockFile: lock}, nil
}

func (f *directory) close() error { return f.lockFile.Close() } // this also releases the lock

func (f *directory) identityPath() string { return filepath.Join(f.dir, identityName) }

func (f *directory) isNew() bool { return f.identity.Format == 0 }

// checkIdentity compares the directory with this member's configuration.
func (f *directory) checkIdentity(want identity) error {
	switch {
	case f.isNew():
		return nil
	case f.identity.Member != want.Member:
		return fmt.Errorf("quorum: data directory %s %w: %s is of member %d, and this is member %d (myid). The way out: "+
			"start each member with its own number and its own directory",
			f.dir, ErrOtherMember, f.identityPath(), f.identity.Member, want.Member)
	case f.identity.SeparateLog != want.SeparateLog:
		log, way := "apart from it, and dataLogDir names no other directory",
			"set dataLogDir to the directory that has the log"
		if want.SeparateLog {
			log, way = "in it, and dataLogDir names another directory", "leave dataLogDir out"
		}
		return explainedError{fmt.Errorf("quorum: data directory %s is %w: its log was kept %s (%s). The way out: %s", f.dir,
			ErrDamaged, log, f.identityPath(), way)}
	}
	return nil
}

// writeIdentity replaces the identity atomically and durably.
func (f *directory) writeIdentity(id identity) error {
	id.Format = directoryFormat
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(f.identityPath(), data); err != nil {
		return fmt.Errorf("quorum: write identity: %w", err)
	}
	f.identity = id
	return nil
}

// readIdentity returns the identity of a directory, or the zero identity if the directory is empty.
func readIdentity(dir string) (id identity, err error) {
	path := filepath.Join(dir, identityName)
	data, err := readUnlessLonger(path, maxIdentity)
	if errors.Is(err, os.ErrNotExist) {
		return id, checkUnused(dir)
	} else if err != nil {
		return id, fmt.Errorf("quorum: read identity: %w", err)
	}
	damaged := func(reason string) error {
		return fmt.Errorf("quorum: %s is %w: %s", path, ErrDamaged, reason)
	}
	if err := json.Unmarshal(data, &id); err != nil {
		return identity{}, damaged(err.Error())
	}
	switch {
	case id.Format > directoryFormat:
		return identity{}, newerVersionError(fmt.Errorf("%s: %w: format %d, this version knows up to %d", path,
			ErrNewerFormat, id.Format, directoryFormat))
	case id.Format == 1 || id.Format == 2:
		return identity{}, explainedError{fmt.Errorf("quorum: data directory %s %w (%s has format %d), and this version cannot read "+
			"its log. The way out: have the earlier build write a backup (rollcall backup save), move the data directory and the "+
			"log directory away, and restore the backup into empty ones (rollcall backup restore)", dir, errEarlierFormat, path, id.Format)}
	case id.Format < 1 || id.Member == 0 || len(id.Servers) == 0:
		return identity{}, damaged("incomplete")
	}
	return id, nil
}

// checkUnused returns an error unless a member's own directory is empty, except for files that an interrupted start
// leaves.
func checkUnused(memberDir string) error {
	name, err := unexpectedFile(memberDir)
	if name != "" {
		err = fmt.Errorf("quorum: data directory %s is %w: it has %s, but no %s", memberDir, ErrDamaged, name,
			filepath.Join(memberDir, identityName))
	}
	return err
}

// unexpectedFile returns a file in a member's own directory that an interrupted start does not leave, or "".
func unexpectedFile(memberDir string) (string, error) {
	entries, err := os.ReadDir(memberDir)
	if err != nil {
		return "", fmt.Errorf("quorum: read data directory: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); name != lockName && name != identityName+tmpSuffix {
			return name, nil
		}
	}
	return "", nil
}

// ServerListOf returns the server list for which a data directory was created, or nil if no member has begun
// there. The ensemble's list may have changed since. It neither locks nor changes the directory.
func ServerListOf(dir string) ([]string, error) {
	memberDir, err := MemberDirectory(dir)
	if err != nil {
		return nil, err
	}
	if exists, err := pathExists(filepath.Join(memberDir, identityName)); err != nil || !exists {
		return nil, err
	}
	id, err := readIdentity(memberDir)
	return id.Servers, err
}

// openDirectoriesAndStores locks the data directory and the log directory, if that is separate. It checks that
// they belong to cfg's member and opens the stores in them. A new directory becomes that member's.
func openDirectoriesAndStores(cfg Config) (locked []*directory, s Stores, closer io.Closer, err error) {
	defer func() {
		if err != nil {
			locked, err = nil, unlock(locked, err)
		}
	}()
	locked, err = lockDirectories(cfg.DataDir, cfg.LogDir)
	if err != nil {
		return locked, s, nil, err
	}
	id := identity{Member: cfg.MemberID, Servers: cfg.ServerList, SeparateLog: len(locked) > 1}
	for _, f := range locked {
		if err := f.checkIdentity(id); err != nil {
			return locked, s, nil, err
		}
	}
	if err := checkNothingMissing(locked); err != nil {
		return locked, s, nil, err
	}
	for _, f := range locked {
		if f.isNew() { // the start that made it may have been killed before it was durable
			if err := durable.SyncDirectory(filepath.Dir(f.dir)); err != nil {
				return locked, s, nil, fmt.Errorf("quorum: create data directory: %w", err)
			}
		}
	}
	complete := locked[0].identity.LogCreated
	if complete { // the removal of a mark by Seed may not be durable yet
		if err := removeIncompleteMarks(locked); err != nil {
			return locked, s, nil, err
		}
	}
	if !complete {
		if err := writeIdentities(locked, id); err != nil {
			return locked, s, nil, err
		}
	}
	s, closer, err = openStores(locked, cfg, true)
	if err != nil {
		return locked, s, nil, err
	}
	if id.LogCreated = true; !complete {
		if err := writeIdentities(locked, id); err != nil {
			return locked, s, nil, errors.Join(err, closer.Close())
		}
	}
	return locked, s, closer, nil
}

// operatorDirectories returns the operator's directories of a member: the data directory, and the log directory if
// that is separate. Neither may be the subdirectory for the other one's files.
func operatorDirectories(dir, logDir string) ([]string, error) {
	if logDir == "" || filepath.Clean(logDir) == filepath.Clean(dir) {
		return []string{dir}, nil
	}
	for _, pair := range [][2]string{{dir, logDir}, {logDir, dir}} {
		if filepath.Join(pair[0], memberDirName) == filepath.Clean(pair[1]) {
			return nil, fmt.Errorf("quorum: data directory %s: a member's files go into its subdirectory %s, which must not "+
				"be its other directory too (dataDir, dataLogDir); choose another one", pair[0], memberDirName)
		}
	}
	return []string{dir, logDir}, nil
}

// lockDirectories locks the data directory, and the log directory if that is separate.
func lockDirectories(dir, logDir string) (locked []*directory, err error) {
	dirs, err := operatorDirectories(dir, logDir)
	for i := 0; err == nil && i < len(dirs); i++ {
		var memberDir string
		if memberDir, err = memberOrLogDirectory(dirs[i]); err != nil {
			break
		}
		var f *directory
		if f, err = makeAndLockDirectory(memberDir); err != nil {
			break
		}
		locked = append(locked, f)
		if i == 0 { // Seed may have been killed before the lock
			err = checkComplete(memberDir)
		}
	}
	if err != nil {
		return nil, unlock(locked, err)
	}
	return locked, nil
}

// unlock unlocks directories, and joins the errors to err.
func unlock(locked []*directory, err error) error {
	for _, f := range locked {
		err = errors.Join(err, f.close())
	}
	return err
}

// writeIdentities writes the identity into all directories. The log's directory comes first: see checkNothingMissing.
func writeIdentities(locked []*directory, id identity) error {
	for _, f := range slices.Backward(locked) {
		if err := f.writeIdentity(id); err != nil {
			return err
		}
	}
	return nil
}

// checkNothingMissing returns an error if a part of the directories is missing. A member that has lost its log has
// forgotten its votes, even if it has its snapshots.
func checkNothingMissing(locked []*directory) error {
	data, log := locked[0], locked[len(locked)-1]
	gone, err := missingLogFile(log.dir)
	if err != nil {
		return fmt.Errorf("quorum: open log: %w", err)
	}
	switch {
	case (data.identity.LogCreated || log.identity.LogCreated) && gone != "":
		return fmt.Errorf("quorum: data directory %s is %w: its log, %s, is gone", data.dir, ErrDamaged, gone)
	case log.identity.LogCreated && data.isNew():
		return fmt.Errorf("quorum: data directory %s is %w: it is empty, but its log's, %s, is not", data.dir, ErrDamaged,
			log.dir)
	case data.identity.LogCreated && log.isNew():
		return fmt.Errorf("quorum: log directory %s is %w: it is empty, but its data directory %s is not", log.dir,
			ErrDamaged, data.dir)
	}
	return nil
}

// missingLogFile returns a file without which the log in dir counts as missing, or "". The names of segments are not known.
func missingLogFile(dir string) (string, error) {
	path := filepath.Join(dir, logName)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0:
		return path, nil
	case err != nil:
		return "", err
	}
	segments, err := globIn(dir, filepath.Join(logDirName, "*"+segmentSuffix))
	if err != nil || len(segments) > 0 {
		return "", err
	}
	return filepath.Join(dir, logDirName), nil
}

// replaceFile writes data to path, atomically and durably.
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
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return durable.SyncDirectory(filepath.Dir(path))
}
