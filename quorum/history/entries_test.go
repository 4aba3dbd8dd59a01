package history

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"rollcall/quorum/disk"
)

// An entry is read as it was written, and a changed byte is noticed wherever it is.
func TestEntriesOnTheirWay(t *testing.T) {
	sent := AppendEntry(AppendEntry(nil, entryOf(7, 2)), entryOf(8, 3))
	r := bytes.NewReader(sent)
	for i := range uint64(2) {
		e, err := ReadEntry(r)
		want := entryOf(7+i, 2+i)
		if err != nil || e.Index != want.Index || e.Term != want.Term || e.Type != want.Type || !bytes.Equal(e.Data, want.Data) {
			t.Fatalf("entry %d: %+v, %v", i, e, err)
		}
	}
	if _, err := ReadEntry(r); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	one := AppendEntry(nil, entryOf(7, 2))
	for _, at := range []int{0, 8, 16, 20, entryHead, len(one) - 5, len(one) - 1} {
		changed := bytes.Clone(one)
		changed[at] ^= 1
		if _, err := ReadEntry(bytes.NewReader(changed)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("byte %d has changed: %v", at, err)
		}
	}
}

// FuzzReadEntry reads whatever comes: an entry or an error, and no more memory than an entry has.
func FuzzReadEntry(f *testing.F) {
	f.Add(AppendEntry(nil, entryOf(1, 1)))
	f.Add(bytes.Repeat([]byte{0xff}, entryHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ReadEntry(bytes.NewReader(b))
		if err == nil && len(e.Data) > disk.MaxEntryBytes {
			t.Errorf("an entry of %d bytes", len(e.Data))
		}
	})
}
