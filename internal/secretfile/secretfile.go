// Package secretfile reads files with secrets (passwords, tokens, private keys) and the files beside them in
// a configuration (certificates, lists of revoked ones). It has the rules about the permissions and the owner
// of such a file and its directories. It keeps nothing, and no error shows the content of a file.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"syscall"
)

// exposedBits are the bits of a mode that let users besides the owner change a file, or users outside its
// group read it. The group may read it, because Kubernetes gives secrets to a pod in this way.
const exposedBits fs.FileMode = 0o027

// File is the content of a file, and what says who else may read or change it.
type File struct {
	Path  string
	Text  []byte
	Mode  fs.FileMode
	Owner int // the user
	// IsOnReadOnlyMount is set if nobody can change the file or its mode where it is mounted, as containers mount secrets.
	IsOnReadOnlyMount bool
}

// Describe returns a File without its text.
func Describe(f *os.File, info fs.FileInfo) File {
	return File{Path: f.Name(), Mode: info.Mode(), Owner: OwnerOf(info), IsOnReadOnlyMount: isOnReadOnlyMount(f)}
}

// readOnlyMount is the flag of statfs for a mount that is read-only. It is the same on Linux, macOS and FreeBSD.
const readOnlyMount = 1

// isOnReadOnlyMount reports whether an open file is on a mount that is read-only. If the system cannot tell, it is not.
func isOnReadOnlyMount(f *os.File) bool {
	var mount syscall.Statfs_t
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var failure error
	err = conn.Control(func(fd uintptr) { failure = syscall.Fstatfs(int(fd), &mount) })
	return err == nil && failure == nil && uint64(mount.Flags)&readOnlyMount != 0
}

// RejectExposed returns an error if users who should not may read or change a file that has a token or a secret of Rollcall's
// own, and the file's mode is this machine's to change. It returns nil for what ExposedWarning warns of besides:
//
//   - A file on a read-only mount. Kubernetes mounts secrets with the mode 0644 by default, and Docker with 0444, both
//     read-only.
//   - A file that others may only read, and that belongs to another user than that of this process, which is root. So do other
//     ways of mounting secrets. This process could not change the mode.
//
// ssh treats private keys in the same way. What is no regular file, such as a pipe, is not rejected.
func (f File) RejectExposed() error {
	isOpen := f.Mode.Perm()&exposedBits != 0
	othersWrite := f.Mode.Perm()&othersWriteBits != 0
	if !isOpen || !f.Mode.IsRegular() || f.IsOnReadOnlyMount || !othersWrite && f.Owner != os.Geteuid() {
		return nil
	}
	return fmt.Errorf("the file is open to other users (mode %#o); only its owner may read and change it, and its group may "+
		"read it (mode 0600 or 0640 at most): run chmod 600 %s, and replace what is in the file if others may have read it",
		f.Mode.Perm(), f.Path)
}

// ExposedWarning returns a warning, with advice, if other users may read or change the file, or "".
//
// For a file that ZooKeeper has, too, it never is a reason to reject it: ZooKeeper reads a file of any mode. For the others see
// RejectExposed.
func (f File) ExposedWarning() string {
	if f.Mode.Perm()&exposedBits == 0 {
		return ""
	}
	return fmt.Sprintf("the file is open to others (mode %#o); chmod 600 it, or 640 if a group must read it",
		f.Mode.Perm())
}

// ReadTrustedFile reads a file of at most most bytes, and one more, so that the caller notices a file that is too
// long. It rejects pipes and devices, because reading one could wait for ever, and files of a user other than
// root and the user of this process, who could change it at any time. It checks the open file, not the path.
// Its error names neither the path nor the key of the configuration, which a Fault adds, and is no
// *fs.PathError.
func ReadTrustedFile(path string, most int) (File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not wait for the writer of a pipe
	if err != nil {
		return File{}, withoutPath(err)
	}
	defer func() { _ = f.Close() }() // it was only read from
	info, err := f.Stat()
	if err != nil {
		return File{}, withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return File{}, fmt.Errorf("this is not a file (mode %v); it must name a file", info.Mode())
	}
	if owner := OwnerOf(info); !IsTrusted(owner, nil) {
		return File{}, fmt.Errorf("the file belongs to the user %d, who is neither root nor the user %d of this process, "+
			"and could change it; chown it, or run this as that user", owner, os.Geteuid())
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return File{}, withoutPath(err)
	}
	described := Describe(f, info)
	described.Text = text
	return described, nil
}

// pathErrors are the errors of a path that names no file, or none that this user may read.
var pathErrors = []error{syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.ENOTDIR}

// withoutPath returns an error of the file system without the path, and with advice if the path or the file's
// permissions are the cause.
func withoutPath(err error) error {
	var path *fs.PathError
	switch {
	case !errors.As(err, &path):
		return err
	case slices.Contains(pathErrors, path.Err):
		return fmt.Errorf("%w; it must name a file that this user may read", path.Err)
	}
	return path.Err
}

// Fault is the fault of a file that a key of the configuration names.
type Fault struct {
	Key, Path string
	Err       error
	IsWarning bool // a member starts with the file all the same
}

// Error implements error. The key and the path come first.
func (f *Fault) Error() string { return f.Key + "=" + f.Path + ": " + f.Err.Error() }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// WrapFault returns a Fault with which a member does not start, or nil if err is nil.
func WrapFault(key, path string, err error) error {
	if err == nil {
		return nil
	}
	return &Fault{Key: key, Path: path, Err: err}
}

// NewWarnings returns the Faults with which a member starts: one for each text that is not "".
func NewWarnings(key, path string, texts ...string) (faults []*Fault) {
	for _, text := range texts {
		if text != "" {
			faults = append(faults, &Fault{Key: key, Path: path, Err: errors.New(text), IsWarning: true})
		}
	}
	return faults
}

// LogIfExposed logs a warning of ExposedWarning for the file that a key names, unless it is "".
func LogIfExposed(log *slog.Logger, key, path, exposed string) {
	if exposed != "" {
		log.Warn("a file with secrets is open to others", "key", key, "file", path, "reason", exposed)
	}
}
