package wire

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// How long both ends together take for the checksum of what one of them sends, with the copies that it needs, and without a network.
func BenchmarkChecksums(b *testing.B) {
	for _, n := range []int{200, 4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var wire bytes.Buffer
			near, far := newChecksumConn(recorded{w: &wire}, nil), newChecksumConn(recorded{r: &wire}, nil)
			sent, got := make([]byte, n), make([]byte, n)
			b.SetBytes(int64(n))
			for b.Loop() {
				if _, err := near.Write(sent); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(far, got); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
