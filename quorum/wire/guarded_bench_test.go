package wire

import (
	"net"
	"testing"
)

// BenchmarkConnect measures a connection between members over TCP on one machine, from dialing to the reply to the
// hello, plain and with a secret.
func BenchmarkConnect(b *testing.B) {
	const secret = "the secret of the members"
	for _, tt := range []struct {
		name           string
		dialer, dialed Hello
	}{
		{"plain", NewHello(testBook(2, testPeers)), NewHello(testBook(1, testPeers))},
		{"secret", guarded(b, 2, secret, false), guarded(b, 1, secret, false)},
	} {
		b.Run(tt.name, func(b *testing.B) {
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			l := NewListener(inner, tt.dialed, nil)
			defer l.Close()
			for b.Loop() {
				conn, err := tt.dialer.Dial(b.Context(), DialTCP, inner.Addr().String(), 1)
				if err != nil {
					b.Fatal(err)
				}
				in, err := l.Accept()
				if err != nil {
					b.Fatal(err)
				}
				in.Close()
				conn.Close()
			}
		})
	}
}
