// Package localsocket connects commands to a member on their own machine, through a socket in the member's
// data directory. No other user can listen there in the member's place, as anybody can at a free port,
// because no other user may write in the directory. Both sides check that.
package localsocket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"rollcall/internal/secretfile"
)

const (
	// SocketName is the name of the socket in the data directory.
	SocketName = "admin.sock"
	// socketMode lets only the user of the member and root connect.
	socketMode = 0o600
	// maxPath is the longest path of a socket, in bytes: sun_path has 108 on Linux and 104 elsewhere, with a
	// zero at the end.
	maxPath = 103
	// PeerPrefix begins the remote address of a connection from the socket. The number of the user follows.
	PeerPrefix = "unix:"
)

// MemberPlace is the data directory and the client ports of a configured member.
type MemberPlace struct {
	Dir         string   // dataDir; "": unknown
	ClientPorts []string // of clients, as in the configuration
}

// listener removes its socket on Close.
type listener struct {
	*net.UnixListener
	path        string
	createdFile fs.FileInfo
	closeOnce   sync.Once
}

// Listen listens on the socket in a directory. It replaces an existing one: the caller has the directory's
// lock. It returns an error if another user could change the content of the directory.
func Listen(dir string) (net.Listener, error) {
	dir, err := secretfile.ResolveTrustedDirectory(dir)
	if err != nil {
		return nil, err
	}
	next := SocketName + "." + rand.Text()
	near, done, err := shortPath(dir, next)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: near, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it is renamed below
	s := &listener{UnixListener: l, path: filepath.Join(dir, SocketName)}
	err = os.Chmod(filepath.Join(dir, next), socketMode)
	if err == nil {
		s.createdFile, err = os.Lstat(filepath.Join(dir, next))
	}
	if err == nil {
		err = os.Rename(filepath.Join(dir, next), s.path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(filepath.Join(dir, next)))
	}
	return s, nil
}

// Accept implements net.Listener. The remote address of the connection names the user at its other end.
func (s *listener) Accept() (net.Conn, error) {
	c, err := s.AcceptUnix()
	if err != nil {
		return nil, err
	}
	uid, known := peerUser(c)
	if !known {
		return &acceptedConn{c, "not-known"}, nil
	}
	return &acceptedConn{c, peerAddress(strconv.Itoa(uid))}, nil
}

// Close implements net.Listener. It removes the socket, unless another one has replaced it.
func (s *listener) Close() (err error) {
	err = net.ErrClosed
	s.closeOnce.Do(func() {
		err = s.UnixListener.Close()
		if there, gone := os.Lstat(s.path); gone == nil && os.SameFile(there, s.createdFile) {
			err = errors.Join(err, os.Remove(s.path))
		}
	})
	return err
}

type acceptedConn struct {
	*net.UnixConn
	peer peerAddress
}

func (a *acceptedConn) RemoteAddr() net.Addr { return a.peer }

// peerAddress is a user of this machine.
type peerAddress string

func (peerAddress) Network() string  { return "unix" }
func (a peerAddress) String() string { return PeerPrefix + string(a) }

// Dial connects to the socket at path. It returns an error if another user than root, this user and the users
// others could have put the socket there, owns it, or listens on it.
func Dial(ctx context.Context, path string, others ...int) (net.Conn, error) {
	dir, err := secretfile.ResolveTrustedDirectory(filepath.Dir(path), others...)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	info, err := os.Lstat(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return nil, fmt.Errorf("%s is not a socket (mode %v)", path, info.Mode())
	}
	if owner := secretfile.OwnerOf(info); !secretfile.IsTrusted(owner, others) {
		return nil, fmt.Errorf("%s belongs to the user %d, who is neither root nor you nor the owner of the token", path,
			owner)
	}
	near, done, err := shortPath(dir, name)
	if err != nil {
		return nil, err
	}
	defer done()
	c, err := new(net.Dialer).DialContext(ctx, "unix", near)
	if err != nil {
		return nil, err
	}
	if uid, known := peerUser(c.(*net.UnixConn)); known && !secretfile.IsTrusted(uid, others) {
		return nil, errors.Join(fmt.Errorf("the user %d listens on %s, who is neither root nor you nor the owner of the token", uid, path), c.Close())
	}
	return c, nil
}
