package wire

import (
	"crypto/tls"
	"net"
	"syscall"
	"testing"

	"rollcall/quorum/trust"
)

// userTimeout reads a socket's TCP_USER_TIMEOUT, in milliseconds.
func userTimeout(t *testing.T, conn net.Conn) (ms int) {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) {
		ms, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return ms
}

// The kernel ends both sides of a connection between members if nothing is acknowledged, also over
// TLS.
func TestUserTimeout(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(inner, NewHello(testBook(1, testPeers)), nil)
	defer l.Close()
	conn, err := DialTCP(t.Context(), inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := NewHello(testBook(2, testPeers)).HandshakeDialed(conn, 1); err != nil {
		t.Fatal(err)
	}
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	want := int(unacknowledgedTimeout.Milliseconds())
	if got := userTimeout(t, conn); got != want {
		t.Errorf("the dialer's end has %d ms, want %d", got, want)
	}
	if got := userTimeout(t, in.(*Conn).Conn.(*checksumConn).Conn.(*trust.Conn).NetConn()); got != want {
		t.Errorf("the listener's end has %d ms, want %d", got, want)
	}
	plain, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	limitUnacknowledged(tls.Client(plain, nil), unacknowledgedTimeout)
	if got := userTimeout(t, plain); got != want {
		t.Errorf("under TLS it has %d ms, want %d", got, want)
	}
}
