// Package secretfile reads files with secrets (passwords, tokens, private keys) and those that stand beside
// them in a configuration (certificates, lists of revoked ones), and has the rules about who else may read or own
// such a file, and about the directories of such files. It keeps nothing, and no error shows anything of what a file has.
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

// exposedBits are the bits of a mode that let users besides the owner change a file, or users that are not in
// its group read it. The group may read it: Kubernetes gives secrets to a pod so.
const exposedBits fs.FileMode = 0o027

// File is what was read of a file.
type File struct {
	Text []byte
	Mode fs.FileMode
}

// ExposedWarning says in words that other users may read or change the file, and what to do about it. The result is
// "" if they may not.
//
// It is a warning everywhere, and never a reason to refuse the file: ZooKeeper reads a file of any mode, and
// Kubernetes and Docker mount secrets with the modes 0644 and 0444 unless they are told otherwise, in containers
// that have no other users.
func (f File) ExposedWarning() string {
	if f.Mode.Perm()&exposedBits == 0 {
		return ""
	}
	return fmt.Sprintf("the file is open to others (mode %#o); chmod 600 it, or 640 if a group must read it", f.Mode.Perm())
}

// ReadFile reads a file of at most most bytes, and one more, so that the caller sees that a file is too long. It
// takes no pipe and no device, because reading one could wait for ever. It takes no file of a user who is neither root nor
// the one of this process: that user could change it at any time. What is checked is the open file, and not what
// the path named before. Its error names neither the path nor the key of the configuration, which a Fault adds, and is no *fs.PathError.
func ReadFile(path string, most int) (File, error) {
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
		return File{}, fmt.Errorf("the file belongs to the user %d, who is neither root nor the user %d of this process, and could change it; chown it, or run this as that user", owner, os.Geteuid())
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return File{}, withoutPath(err)
	}
	return File{Text: text, Mode: info.Mode()}, nil
}

// pathErrors are the errors of a path that names no file, or none that this user may read.
var pathErrors = []error{syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.ENOTDIR}

// withoutPath returns an error of the file system without the path. If the path or the file's rights are the cause, it
// has advice.
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

// Fault is what is wrong with a file that a key of the configuration names.
type Fault struct {
	Key, Path string
	Err       error
	IsWarning bool // a member starts with the file all the same
}

// Error implements error. The key and the path come first.
func (f *Fault) Error() string { return f.Key + "=" + f.Path + ": " + f.Err.Error() }

// Unwrap returns what is wrong.
func (f *Fault) Unwrap() error { return f.Err }

// NewFault returns the Fault for which a member does not start, or nil if err is nil.
func NewFault(key, path string, err error) error {
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

// LogExposed logs what Exposed says of the file that a key names, unless that is "".
func LogExposed(log *slog.Logger, key, path, exposed string) {
	if exposed != "" {
		log.Warn("a file with secrets is open to others", "key", key, "file", path, "reason", exposed)
	}
}
