package stream

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// writeNow writes as much as the socket takes, in order, and returns the number of bytes.
func TestWriteNow(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	sock, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	raw := rawOf(sock)
	if n := writeNow(raw, []byte("first ")); n != 6 {
		t.Fatalf("%d bytes written to an empty socket, want 6", n)
	}
	want := []byte("first ")
	part := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for full := false; !full; { // nothing is read, so the socket fills up
		n := writeNow(raw, part)
		want = append(want, part[:n]...)
		full = n < len(part)
	}
	if n := writeNow(raw, part); n == len(part) {
		t.Errorf("%d bytes written to a full socket", n)
	}
	_ = client.SetReadDeadline(time.Now().Add(patience / 6))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, which differ from those written, err %v", len(got), err)
	}
	_ = sock.Close()
	if n := writeNow(raw, part); n != 0 {
		t.Errorf("%d bytes written to a closed socket", n)
	}
	one, _ := net.Pipe()
	if rawOf(one) != nil {
		t.Error("a pipe can be written to without waiting")
	}
}
