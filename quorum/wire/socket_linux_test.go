package wire

import (
	"crypto/tls"
	"net"
	"syscall"
	"testing"

	"rollcall/quorum/trust"
)

// socketOption reads an option of TCP.
func socketOption(t *testing.T, conn net.Conn, option int) (value int) {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) {
		value, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option)
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return value
}

// The kernel ends both sides of a connection between members if nothing is acknowledged, also over
// TLS, and does not wait longer and longer before it sends lost packets again.
func TestSocketOptions(t *testing.T) {
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
	plain, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	setSocketOptions(tls.Client(plain, nil), unacknowledgedTimeout)
	for end, socket := range map[string]net.Conn{
		"the dialer's end": conn, "the listener's end": in.(*Conn).Conn.(*checksumConn).Conn.(*trust.Conn).NetConn(),
		"an end under TLS": plain,
	} {
		if got := socketOption(t, socket, tcpUserTimeout); got != want {
			t.Errorf("%s has a limit of %d ms, want %d", end, got, want)
		}
		if socketOption(t, socket, tcpThinLinearTimeouts) != 1 {
			t.Errorf("%s waits longer and longer before it sends again", end)
		}
	}
}
