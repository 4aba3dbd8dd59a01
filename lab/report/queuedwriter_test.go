package report

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A terminal that takes nothing stops neither a display nor its end. What it takes later comes in order, whole.
func TestTerminalThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, written := io.Pipe()
		q := NewQueuedWriter(written)
		line := strings.Repeat("x", 1023) + "\n"
		const lines = 2 * maxQueuedText / 1024
		for range lines {
			if n, err := io.WriteString(q, line); n != len(line) || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		began := time.Now()
		q.Close()
		if waited := time.Since(began); waited != queuedTextTime {
			t.Errorf("Close waits for %v", waited)
		}
		_, _ = io.WriteString(q, "late\n")
		go func() {
			<-q.ended
			_ = written.Close()
		}()
		got, err := io.ReadAll(read)
		if want := strings.Repeat(line, maxQueuedText/1024); err != nil || string(got) != want {
			t.Errorf("%d bytes come, want %d; %v", len(got), len(want), err)
		}
	})
}

// What was written before Close is there after it.
func TestQueuedTextIsWritten(t *testing.T) {
	var b bytes.Buffer
	q := NewQueuedWriter(&b)
	for _, text := range []string{"a", "b", "c"} {
		_, _ = io.WriteString(q, text)
	}
	q.Close()
	if b.String() != "abc" {
		t.Errorf("%q is written", &b)
	}
}
