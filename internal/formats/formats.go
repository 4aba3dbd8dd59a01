// Package formats compares what this build writes with what releases have written. The files of a release are in
// testdata/VERSION of the package whose formats they have. docs/formats.md says what may change.
//
// Each build reads the files of all releases, and writes the bytes of the newest. If a format changes on purpose,
// "go test PACKAGE -update" writes the files of the release that is being developed. It never changes those of a
// release that is out.
package formats

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files of the formats in testdata anew")

// IsUpdating reports whether the test shall write its files anew.
func IsUpdating() bool { return *update }

// Releases returns the versions whose files are in testdata, the oldest first. There is at least one.
func Releases(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if _, err := parseVersion(e.Name()); err == nil && e.IsDir() {
			all = append(all, e.Name())
		}
	}
	if len(all) == 0 {
		t.Fatal("testdata has files of no release: run the test with -update")
	}
	slices.SortFunc(all, func(a, b string) int {
		left, _ := parseVersion(a)
		right, _ := parseVersion(b)
		return slices.Compare(left, right)
	})
	return all
}

// parseVersion returns the three numbers of a version.
func parseVersion(text string) ([]int, error) {
	numbers := make([]int, 3)
	_, err := fmt.Sscanf(text, "%d.%d.%d", &numbers[0], &numbers[1], &numbers[2])
	return numbers, err
}

// Newest returns the version of the newest files.
func Newest(t testing.TB) string {
	all := Releases(t)
	return all[len(all)-1]
}

// DirectoryToUpdate returns the directory for the files of the release that is being developed, and makes it. The test
// fails if the sources are those of a release.
func DirectoryToUpdate(t testing.TB) string {
	t.Helper()
	version, released, err := sourceVersion()
	if err != nil {
		t.Fatal(err)
	}
	if released {
		t.Fatalf("the formats of %s are frozen, and -update does not change them: see docs/formats.md", version)
	}
	dir := filepath.Join("testdata", version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

var versionLine = regexp.MustCompile(`(?m)^const release = "(\d+\.\d+\.\d+)(-dev)?"$`)

// sourceVersion returns the version that cmd/rollcall has, without "-dev", and whether it is that of a release.
func sourceVersion() (version string, released bool, err error) {
	_, here, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(here), "..", "..", "cmd", "rollcall", "version.go")
	source, err := os.ReadFile(path)
	if err != nil {
		return "", false, err
	}
	found := versionLine.FindSubmatch(source)
	if found == nil {
		return "", false, fmt.Errorf("%s has no line %s", path, versionLine)
	}
	return string(found[1]), len(found[2]) == 0, nil
}

// Frame is the bytes of one message.
type Frame struct {
	Name  string // unique in its file, without a line break
	Bytes []byte
}

// CheckWritten requires that written are the newest frames in a file, or writes them to it.
func CheckWritten(t testing.TB, file string, written []Frame) {
	t.Helper()
	if IsUpdating() {
		if err := os.WriteFile(filepath.Join(DirectoryToUpdate(t), file), encodeFrames(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	newest := readFrames(t, filepath.Join("testdata", Newest(t), file))
	kept := map[string][]byte{}
	for _, f := range newest {
		kept[f.Name] = f.Bytes
	}
	for _, f := range written {
		was, ok := kept[f.Name]
		switch {
		case !ok:
			t.Errorf("%s: %q is new: see docs/formats.md, and run the test with -update", file, f.Name)
		case !bytes.Equal(was, f.Bytes):
			t.Errorf("%s: this build writes another %q than %s: see docs/formats.md\n now %x\nthen %x", file, f.Name, Newest(t), f.Bytes, was)
		}
		delete(kept, f.Name)
	}
	for name := range kept {
		t.Errorf("%s: this build does not write %q any more: see docs/formats.md", file, name)
	}
}

// EachRelease calls check with the frames of a file of each release.
func EachRelease(t *testing.T, file string, check func(t *testing.T, frames []Frame)) {
	for _, version := range Releases(t) {
		t.Run(version, func(t *testing.T) { check(t, readFrames(t, filepath.Join("testdata", version, file))) })
	}
}

// lineBytes is the number of bytes in a line of a file.
const lineBytes = 48

// encodeFrames returns the text of a file: the name of each frame in a line, and its bytes in hexadecimal digits in
// lines that begin with a tab.
func encodeFrames(frames []Frame) []byte {
	var b bytes.Buffer
	for _, f := range frames {
		fmt.Fprintln(&b, f.Name)
		for line := range slices.Chunk(f.Bytes, lineBytes) {
			fmt.Fprintf(&b, "\t%x\n", line)
		}
	}
	return b.Bytes()
}

func readFrames(t testing.TB, path string) (frames []Frame) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		digits, isBytes := strings.CutPrefix(line, "\t")
		if !isBytes {
			frames = append(frames, Frame{Name: line})
			continue
		}
		b, err := hex.DecodeString(digits)
		if err != nil || len(frames) == 0 {
			t.Fatalf("%s: the line %q must be hexadecimal digits below a name: %v", path, line, err)
		}
		last := &frames[len(frames)-1]
		last.Bytes = append(last.Bytes, b...)
	}
	return frames
}
