package localsocket

import (
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// shortPath returns a path of a file in a directory that is short enough for a socket. done releases it.
func shortPath(dir, name string) (path string, done func(), err error) {
	if path = filepath.Join(dir, name); len(path) <= maxPath {
		return path, func() {}, nil
	}
	d, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, err
	}
	// it was not read
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), name), func() { _ = d.Close() }, nil
}

// peerUser returns the user at the other end of a connection.
func peerUser(c *net.UnixConn) (uid int, known bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid, known = int(cred.Uid), true
		}
	})
	return uid, known && err == nil
}
