package backup

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A keeper keeps the newest of its member's backups, and touches no other file.
func TestKeeper(t *testing.T) {
	dir := t.TempDir()
	others := []string{
		"member-11-20200102T030405Z-7.backup", "member-2-20200102T030405Z-7.backup.mine", "member-2-notes", "member-21.123.part",
		"rollcall-20200102T030405Z-7.backup", "x.part",
	}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "member-2-20200102T030405Z-8.backup"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "member-2.99.part"), nil, 0o600); err != nil { // left by a crash
		t.Fatal(err)
	}
	k := NewKeeper(dir, 2, 2)
	if last, err := k.LastTime(); err != nil || !last.IsZero() {
		t.Errorf("without one: %v, %v", last, err)
	}
	var made []string
	for i := range 4 {
		at := someHead().Time.Add(time.Duration(i) * time.Hour)
		file := sample(t, func(h *Head) { h.Time = at })
		h, err := headOf(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := k.Save(t.Context(), h, 1000, func(w io.Writer) error {
			_, err := w.Write(file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if last, err := k.LastTime(); err != nil || !last.Equal(at) {
			t.Errorf("the last one was made at %v, want %v: %v", last, at, err)
		}
		made = append(made, name)
	}
	if made[3] != "member-2-20260102T060405Z-7.backup" {
		t.Errorf("made %q", made)
	}
	want := append(slices.Clone(others), "member-2-20200102T030405Z-8.backup", made[2], made[3])
	slices.Sort(want)
	if got := namesIn(t, dir); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func headOf(file []byte) (Head, error) {
	r, err := NewReader(strings.NewReader(string(file)))
	if err != nil {
		return Head{}, err
	}
	return r.Head, nil
}

// A backup that cannot be written, or that is not what was to be written, leaves no file and deletes none.
func TestKeeperFails(t *testing.T) {
	dir, file := t.TempDir(), sample(t, nil)
	h, err := headOf(file)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	put := func(p []byte, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, werr := w.Write(p)
			return errors.Join(werr, err)
		}
	}
	k := NewKeeper(dir, 2, 1)
	first, err := k.Save(t.Context(), h, 1000, put(file, nil))
	if err != nil {
		t.Fatal(err)
	}
	next := h
	next.Time, next.Index = h.Time.Add(time.Hour), h.Index+1
	for name, tt := range map[string]struct {
		size  int64
		write func(io.Writer) error
		want  string
	}{
		"a write that fails": {1000, put(file[:700], full), "no space left on device"},
		"a file that is cut": {1000, put(file[:700], nil), "cut short at byte 700"},
		"another backup":     {1000, put(file, nil), "differs from the written one"},
		"no room":            {1 << 60, put(file, nil), "bytes left, and the backup may take 1152921504606846976"},
	} {
		if _, err := k.Save(t.Context(), next, tt.size, tt.write); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if names := namesIn(t, dir); len(names) != 1 || names[0] != first {
			t.Errorf("%s: there are %q", name, names)
		}
	}
	gone := NewKeeper(filepath.Join(dir, "nosuch"), 2, 1)
	if _, err := gone.Save(t.Context(), h, 1000, put(file, nil)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if _, err := gone.LastTime(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
