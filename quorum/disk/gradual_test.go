package disk

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Every piece of a file is sent to the disk once, as soon as it is long enough, and the file has all that was
// written.
func TestGradual(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	g := NewGradualFile(f)
	var sent []int64 // where pieces end
	g.flushRange = func(_ *os.File, from, size int64) {
		if last := append([]int64{0}, sent...)[len(sent)]; from != last || size < flushSize {
			t.Errorf("%d bytes from %d on are sent to the disk, after those up to %d", size, from, last)
		}
		sent = append(sent, from+size)
	}
	var want []byte
	for i, n := range []int{flushSize - 1, 1, 100, flushSize, 3 * flushSize, 0, 7} {
		part := bytes.Repeat([]byte{byte(i)}, n)
		want = append(want, part...)
		if wrote, err := g.Write(part); wrote != n || err != nil {
			t.Fatal(wrote, err)
		}
		if unsent := int64(len(want)) - append([]int64{0}, sent...)[len(sent)]; unsent >= flushSize {
			t.Errorf("after part %d, %d bytes are not sent to the disk", i, unsent)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) || len(sent) != 3 {
		t.Errorf("%d bytes of %d, in pieces up to %v: %v", len(got), len(want), sent, err)
	}
}
