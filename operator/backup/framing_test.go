package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// someHead is the head of the backups of these tests.
func someHead() Head {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return Head{
		Format: format, Version: Version, Program: "1.2.3", Member: 2,
		Servers: []Server{{1, "m1:2888", "m1:3888", "m1:2181"}, {2, "m2:2888", "m2:3888", ""}},
		Time:    at, Confirmed: true, AsOf: at.Add(-time.Second), Index: 7, Term: 3, Zxid: 3<<32 | 9, Nodes: 4, Sessions: 1, DataBytes: 12, Digest: FormatDigest(77),
	}
}

func someState(n int) []byte {
	state := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range state {
		state[i] = byte(rng.Uint32())
	}
	return state
}

// framed returns a backup with some bytes for its state.
func framed(t testing.TB, h Head, state []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, h)
	if err == nil {
		_, err = io.Copy(w, iotest.HalfReader(bytes.NewReader(state)))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unframed reads a backup without looking at its state.
func unframed(r io.Reader) (Head, []byte, error) {
	b, err := NewReader(r)
	if err != nil {
		return Head{}, nil, err
	}
	state, err := io.ReadAll(b)
	return b.Head, state, err
}

// What was written is read again, however it fills the chunks and however it arrives.
func TestFraming(t *testing.T) {
	for _, n := range []int{0, 1, maxChunkBytes - 1, maxChunkBytes, maxChunkBytes + 1, 3 * maxChunkBytes, 3*maxChunkBytes + 100} {
		want := someState(n)
		file := framed(t, someHead(), want)
		for name, r := range map[string]io.Reader{"at once": bytes.NewReader(file), "halves": iotest.HalfReader(bytes.NewReader(file)), "data with EOF": iotest.DataErrReader(bytes.NewReader(file))} {
			h, got, err := unframed(r)
			if err != nil || !bytes.Equal(got, want) || !reflect.DeepEqual(h, someHead()) {
				t.Errorf("%d bytes, %s: read %d bytes, head %+v: %v", n, name, len(got), h, err)
			}
		}
		b, err := NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, b); err != nil || b.BytesRead() != int64(len(file)) {
			t.Errorf("%d bytes: size %d of %d: %v", n, b.BytesRead(), len(file), err)
		}
	}
}

// A backup that ends anywhere before its end is rejected, and the error names the offset.
func TestCutAnywhere(t *testing.T) {
	file := framed(t, someHead(), someState(300))
	for n := range file {
		_, _, err := unframed(bytes.NewReader(file[:n]))
		want := fmt.Sprintf("at byte %d,", n)
		if n == 0 {
			want = "does not begin with a head"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("cut to %d of %d bytes: %v, want %q", n, len(file), err, want)
		}
		if n > 0 && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v is no ErrCorrupt", n, err)
		}
	}
}

// A backup with a flipped bit is rejected.
func TestChangedAnywhere(t *testing.T) {
	file := framed(t, someHead(), someState(200))
	for i := range file {
		for _, bit := range []int{i % 8, 5} { // bit 5 makes a capital of a letter
			file[i] ^= 1 << bit
			if _, _, err := unframed(bytes.NewReader(file)); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotBackup) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
			file[i] ^= 1 << bit
		}
	}
}

// Complete chunks that are missing, swapped or of another backup are noticed, and so are bytes after the end.
func TestChunksOutOfPlace(t *testing.T) {
	head, _ := someHead().encodeLine()
	const chunk = 4 + maxChunkBytes + 4
	file := framed(t, someHead(), someState(3*maxChunkBytes+5))
	part := func(i, n int) []byte { return file[len(head)+i*chunk : len(head)+(i+n)*chunk] }
	rest := file[len(head)+3*chunk:]
	other := someHead()
	other.Index++
	line, _ := other.encodeLine()
	for name, parts := range map[string][][]byte{
		"missing":       {head, part(0, 1), part(2, 1), rest},
		"swapped":       {head, part(1, 1), part(0, 1), part(2, 1), rest},
		"twice":         {head, part(0, 1), part(0, 1), part(1, 2), rest},
		"of another":    {line, part(0, 3), rest},
		"two backups":   {file, file},
		"a byte behind": {file, {0}},
	} {
		if _, _, err := unframed(bytes.NewReader(bytes.Join(parts, nil))); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "byte") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A head that cannot be used is rejected with the reason.
func TestHeads(t *testing.T) {
	sealed := func(old, text string) string {
		h := someHead()
		line, err := h.encodeLine()
		if err != nil {
			t.Fatal(err)
		}
		whole, _, _ := splitChecksum(line)
		text = strings.Replace(string(whole), old, text, 1)
		return fmt.Sprintf("%s %08x\n", text, crc32.Checksum([]byte(text), castagnoliTable))
	}
	for _, tt := range []struct {
		name, file, want string
		is               error
	}{
		{"empty", "", "does not begin", ErrNotBackup},
		{"a dump", `{"format":"rollcall-dump"}`, "rollcall backup save", ErrNotBackup},
		{"a long line", `{"format":"rollcall-backup"` + strings.Repeat(" ", maxHeadBytes), "more than 262144 bytes", ErrCorrupt},
		{"newer", sealed(`"version":1`, `"version":2`), "its format is 2, and this program reads 1 to 1", ErrNewerFormat},
		{"newer, with new fields", sealed(`"version":1`, `"version":2,"wings":true`), "its format is 2", ErrNewerFormat},
		{"unknown field", sealed(`"version":1`, `"version":1,"wings":true`), `unknown field "wings"`, ErrCorrupt},
		{"no version", sealed(`"version":1`, `"version":0`), "no version", ErrCorrupt},
		{"negative", sealed(`"nodes":4`, `"nodes":-1`), "below 0", ErrCorrupt},
	} {
		_, _, err := unframed(strings.NewReader(tt.file))
		if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %v with %q", tt.name, err, tt.is, tt.want)
		}
	}
	h := someHead()
	h.Program = strings.Repeat("x", maxHeadBytes)
	if _, err := NewWriter(io.Discard, h); err == nil || !strings.Contains(err.Error(), "at most 262144") {
		t.Errorf("a head that is too long: %v", err)
	}
}

// An error of the file is neither hidden nor taken for damage, on both sides.
func TestFileErrors(t *testing.T) {
	broken := errors.New("input/output error")
	file := framed(t, someHead(), someState(2*maxChunkBytes))
	for _, n := range []int{0, 40, len(file) / 2, len(file) - 3, len(file)} {
		_, _, err := unframed(io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) || errors.Is(err, ErrCorrupt) {
			t.Errorf("reading fails at byte %d: %v", n, err)
		}
	}
	for n := range 3 {
		w, err := NewWriter(&failing{after: n, err: broken}, someHead())
		if err == nil {
			_, err = w.Write(someState(maxChunkBytes))
			err = errors.Join(err, w.Close())
		}
		if !errors.Is(err, broken) {
			t.Errorf("write %d fails: %v", n, err)
		}
	}
}

// failing fails after some writes.
type failing struct {
	after int
	err   error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, f.err
	}
	return len(p), nil
}

// Whatever is read as a backup is one: written again, it is read as the same.
func FuzzReader(f *testing.F) {
	f.Add(framed(f, someHead(), nil))
	f.Add(framed(f, someHead(), someState(100)))
	f.Add([]byte(`{"format":"rollcall-backup","version":1} 00000000` + "\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, state, err := unframed(bytes.NewReader(file))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotBackup) && !errors.Is(err, ErrNewerFormat) {
				t.Errorf("%v is none of the errors", err)
			}
			return
		}
		again, state2, err := unframed(bytes.NewReader(framed(t, h, state)))
		if err != nil || !bytes.Equal(state, state2) || again.Index != h.Index || again.Digest != h.Digest {
			t.Errorf("written again: %+v: %v", again, err)
		}
	})
}

// A backup whose checksums are right and whose chunks or end could not have been written is rejected.
func TestImpossibleChunks(t *testing.T) {
	line, err := someHead().encodeLine()
	if err != nil {
		t.Fatal(err)
	}
	short := []byte{0, 0, 0, 1, 'x'}
	end := func(n byte) []byte { return []byte{11: n} }
	for name, tt := range map[string]struct {
		parts [][]byte
		want  string
	}{
		"as written":                {[][]byte{short, end(1)}, ""},
		"two chunks that are short": {[][]byte{short, short, end(2)}, "a chunk of 1 bytes, which cannot be there"},
		"an end of another length":  {[][]byte{short, end(2)}, "the end at byte"},
	} {
		file, sum := line, crc32.Checksum(line, castagnoliTable)
		for _, p := range tt.parts {
			sum = crc32.Update(sum, castagnoliTable, p)
			file = binary.BigEndian.AppendUint32(append(file[:len(file):len(file)], p...), sum)
		}
		_, _, err := unframed(bytes.NewReader(file))
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
