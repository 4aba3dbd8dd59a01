package client

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// The user of the other end of a socket is known. A user other than this process's is rejected.
func TestPeerUser(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	conn, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if uid, err := peerUser(conn); err != nil || uid != os.Geteuid() {
		t.Errorf("the user is %d, %v; want %d", uid, err, os.Geteuid())
	}
	if err := checkPeer(conn); err != nil {
		t.Error(err)
	}
	_ = conn.Close()
	if uid, err := peerUser(conn); uid != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("the user at a closed connection is %d, %v", uid, err)
	}
	wantError(t, checkPeer(conn), net.ErrClosed)
	wantError(t, checkUser(os.Geteuid()+1, os.Geteuid()), errOtherUser)
}
