package datadir

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// A value is read as it is, and not one byte more, whether it fits the window through which a file is read or not.
func TestValuesOfAllLengths(t *testing.T) {
	for _, n := range []int{0, 1, windowSize - 1, windowSize, windowSize + 1, 2 * windowSize, 2*windowSize + 1} {
		want := make([]byte, n)
		for i := range want {
			want[i] = byte(i*7 + i>>8) // another pattern in each window
		}
		text := append(binary.BigEndian.AppendUint32(nil, uint32(n)), want...)
		text = append(text, "rest"...)
		s := newValueReader(bytes.NewReader(text), int64(len(text)))
		got, _ := s.readBytes()
		got = bytes.Clone(got) // it is part of the window
		if rest := s.takeBytes(4); !bytes.Equal(got, want) || string(rest) != "rest" || s.err != nil {
			t.Errorf("%d bytes: %d were read, then %q, %v", n, len(got), rest, s.err)
		}
	}
}

// An epoch that cannot be read is an error, and not the epoch of a standalone server.
func TestUnreadableEpoch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "currentEpoch")
	if epoch, err := readEpoch(path); epoch != 0 || err != nil {
		t.Errorf("without a file: %d, %v", epoch, err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if epoch, err := readEpoch(path); err == nil {
		t.Errorf("a directory has the epoch %d", epoch)
	}
	if epoch, err := readEpoch(filepath.Join(path, string(bytes.Repeat([]byte("x"), 300)))); err == nil {
		t.Errorf("a name that is too long has the epoch %d", epoch)
	}
}
