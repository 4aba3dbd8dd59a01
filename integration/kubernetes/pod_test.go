package kubernetes

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A container that ends again and again is started at once, then after a time that doubles up to the limit. One that has run for long
// begins anew.
func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	p := &pod{}
	var got []time.Duration
	for range 9 {
		p.starts, p.startedAt = p.starts+1, time.Now()
		p.nextBackoff()
		got = append(got, p.backoff/time.Second)
	}
	if want := []time.Duration{0, 10, 20, 40, 80, 160, 300, 300, 300}; !slices.Equal(got, want) {
		t.Errorf("the waits are %d, and not %d seconds", got, want)
	}
	p.startedAt = time.Now().Add(-2*mostBackoff - time.Second)
	if p.nextBackoff(); p.backoff != 0 {
		t.Errorf("a container that has run for long waits for %v", p.backoff)
	}
}

// Files of a Secret are replaced as a whole: a reader that has opened the directory of the old ones sees no new one there.
func TestPublishFilesReplacesAll(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"1", "2", "2"} {
		if err := publishFiles(dir, map[string]string{"key": "key " + version, "certificate": "certificate " + version}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"key", "certificate"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != name+" "+version {
				t.Errorf("%s is %q, %v, and not version %s", name, text, err, version)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 4 { // two links to files, ..data, and the directory that it names
		t.Errorf("the directory has %v", entries)
	}
}
