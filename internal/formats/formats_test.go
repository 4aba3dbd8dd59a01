package formats

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorder is a test that records how it failed.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, a ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, a...))
}

// releasedFrames writes frames as those of some releases, and leaves the test in the directory above testdata.
func releasedFrames(t *testing.T, frames []Frame, versions ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, version := range versions {
		dir := filepath.Join("testdata", version)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "frames.txt"), encodeFrames(frames), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func someFrames() []Frame {
	return []Frame{{"one", []byte{1}}, {"empty", nil}, {"long", bytes.Repeat([]byte{0xab}, 3*lineBytes+1)}}
}

func TestReleasesAreSorted(t *testing.T) {
	releasedFrames(t, someFrames(), "0.10.0", "0.9.1", "1.0.0", "other")
	if got := Releases(t); !slices.Equal(got, []string{"0.9.1", "0.10.0", "1.0.0"}) || Newest(t) != "1.0.0" {
		t.Errorf("the releases are %q", got)
	}
}

func TestEachReleaseReadsWhatWasWritten(t *testing.T) {
	releasedFrames(t, someFrames(), "0.1.0", "0.2.0")
	n := 0
	EachRelease(t, "frames.txt", func(t *testing.T, frames []Frame) {
		n++
		if !slices.EqualFunc(frames, someFrames(), func(a, b Frame) bool { return a.Name == b.Name && bytes.Equal(a.Bytes, b.Bytes) }) {
			t.Errorf("read %v", frames)
		}
	})
	if n != 2 {
		t.Errorf("%d releases were read, want 2", n)
	}
}

func TestCheckWrittenNamesTheFrame(t *testing.T) {
	releasedFrames(t, someFrames(), "0.1.0")
	for name, tt := range map[string]struct {
		change func([]Frame) []Frame
		want   string // in the only error; "": there is none
	}{
		"the same":      {func(f []Frame) []Frame { return f }, ""},
		"another order": {func(f []Frame) []Frame { slices.Reverse(f); return f }, ""},
		"a new one":     {func(f []Frame) []Frame { return append(f, Frame{"two", nil}) }, `"two" is new`},
		"other bytes":   {func(f []Frame) []Frame { f[0].Bytes[0]++; return f }, `another "one"`},
		"a byte more":   {func(f []Frame) []Frame { f[1].Bytes = []byte{0}; return f }, `another "empty"`},
		"one less":      {func(f []Frame) []Frame { return f[1:] }, `does not write "one"`},
	} {
		r := &recorder{TB: t}
		CheckWritten(r, "frames.txt", tt.change(someFrames()))
		if tt.want == "" && len(r.errors) > 0 || tt.want != "" && (len(r.errors) != 1 || !strings.Contains(r.errors[0], tt.want)) {
			t.Errorf("%s: %q, want %q", name, r.errors, tt.want)
		}
	}
}

func TestSourceVersion(t *testing.T) {
	version, _, err := sourceVersion()
	if _, parseErr := parseVersion(version); err != nil || parseErr != nil {
		t.Errorf("the sources have version %q, %v", version, err)
	}
}

func TestVersionLine(t *testing.T) {
	for line, want := range map[string][]string{
		`const release = "0.1.0-dev"`: {"0.1.0", "-dev"}, `const release = "1.20.3"`: {"1.20.3", ""}, `const release = "0.1"`: nil,
	} {
		found := versionLine.FindStringSubmatch("package main\n" + line + "\n")
		if len(found) > 0 {
			found = found[1:]
		}
		if !slices.Equal(found, want) {
			t.Errorf("%s: %q, want %q", line, found, want)
		}
	}
}
