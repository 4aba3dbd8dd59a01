package wire

import (
	"io"
	"net"
	"testing"
)

// How long 1 MiB takes over a loopback connection, from the first byte sent until the last one is read, without records and with them.
func BenchmarkLoopback(b *testing.B) {
	for _, records := range []bool{false, true} {
		name := map[bool]string{false: "bare", true: "records"}[records]
		b.Run(name, func(b *testing.B) {
			near, far := loopback(b)
			if records {
				near, far = newChecksumConn(near, nil), newChecksumConn(far, nil)
			}
			const size = 1 << 20
			sent, got := make([]byte, size), make([]byte, size)
			received := make(chan error)
			go func() {
				for {
					_, err := io.ReadFull(far, got)
					received <- err
					if err != nil {
						return
					}
				}
			}()
			b.SetBytes(size)
			for b.Loop() {
				if _, err := near.Write(sent); err != nil {
					b.Fatal(err)
				}
				if err := <-received; err != nil {
					b.Fatal(err)
				}
			}
			_ = near.Close()
			if err := <-received; err == nil {
				b.Error("a read succeeds after the connection was closed")
			}
		})
	}
}

// loopback returns both ends of a connection over 127.0.0.1.
func loopback(b *testing.B) (near, far net.Conn) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	if near, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if far, err = listener.Accept(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	return near, far
}
