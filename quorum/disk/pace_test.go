package disk

import (
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A snapshot's writer pauses after each piece for three times as long as the piece took, up to a
// limit. It does not pause when the member ends.
func TestSnapshotIsPaced(t *testing.T) {
	const pieces = 10
	for _, c := range []struct {
		name        string
		took, total time.Duration
		hurry       bool
	}{
		{"a fast disk", 2 * time.Millisecond, pieces * 8 * time.Millisecond, false},
		{"a slow disk", 100 * time.Millisecond, pieces * (100*time.Millisecond + maxPause), false},
		{"at the end", 2 * time.Millisecond, pieces * 2 * time.Millisecond, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hurry atomic.Bool
				hurry.Store(c.hurry)
				begun := time.Now()
				p := NewPacedWriter(slowWriter(c.took/4), &hurry, begun)
				for range 4 * pieces {
					if n, err := p.Write(make([]byte, flushSize/4)); n != flushSize/4 || err != nil {
						t.Fatal(n, err)
					}
				}
				if d := time.Since(begun); d != c.total {
					t.Errorf("took %v, want %v", d, c.total)
				}
			})
		})
	}
}

// slowWriter takes a fixed time for each write.
type slowWriter time.Duration

func (w slowWriter) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(w))
	return io.Discard.Write(b)
}
