package backup

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// A paced writer takes as long as its rate says, and saves up nothing while it is not used.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewPacedWriter(t.Context(), io.Discard, 1<<20)
		begun, piece := time.Now(), make([]byte, 64<<10)
		write := func(n int) {
			for range n {
				if _, err := w.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(32)
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("2 MiB took %v", took)
		}
		time.Sleep(time.Minute)
		begun = time.Now()
		write(17) // the first of them shows that nothing was written for a minute
		if took := time.Since(begun); took != time.Second {
			t.Errorf("1 MiB after a pause took %v", took)
		}
	})
}

// Small writes are not each followed by a pause.
func TestPacedInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, begun := NewPacedWriter(t.Context(), io.Discard, 1000), time.Now()
		_, _ = w.Write(make([]byte, 4))
		if took := time.Since(begun); took != 0 {
			t.Errorf("a pause of %v after 4 bytes", took)
		}
		_, _ = w.Write(make([]byte, 4))
		if took := time.Since(begun); took != 8*time.Millisecond {
			t.Errorf("a pause of %v after 8 bytes", took)
		}
	})
}

// The end of the context ends a pause, and no more is written.
func TestPacedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w, begun := NewPacedWriter(ctx, io.Discard, 1), time.Now()
		_, err := w.Write(make([]byte, 100))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if n, err := w.Write(make([]byte, 100)); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("afterwards it wrote %d bytes: %v", n, err)
		}
	})
}
