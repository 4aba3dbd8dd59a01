package history

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// slowWriter takes a time for each byte.
type slowWriter time.Duration

func (w slowWriter) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(w) * time.Duration(len(b)))
	return len(b), nil
}

// Files are compressed with a fiftieth of the time, unless the disk is very slow, and until the member ends.
func TestPace(t *testing.T) {
	for _, tt := range []struct {
		perByte time.Duration
		total   time.Duration // of 10 pieces and a byte
	}{
		{100, 10*50*100*pieceBytes + 100},
		{10_000, 10*(10_000*pieceBytes+maxPause) + 10_000},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			w := newPacedWriter(t.Context(), slowWriter(tt.perByte))
			for range 2 * 10 {
				if _, err := w.Write(make([]byte, pieceBytes/2)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Write([]byte{1}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took != tt.total {
				t.Errorf("%v a byte took %v, want %v", tt.perByte, took, tt.total)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, end)
		begun := time.Now()
		if _, err := newPacedWriter(ctx, slowWriter(10)).Write(make([]byte, pieceBytes)); !errors.Is(err, context.Canceled) {
			t.Errorf("at the end: %v", err)
		}
		if took := time.Since(begun); took != time.Millisecond {
			t.Errorf("the end took %v", took)
		}
	})
}
