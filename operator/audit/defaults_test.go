package audit

import (
	"fmt"
	"path/filepath"
	"testing"
)

// Without further settings, ten full files of 10 MiB are kept beside the one that is written.
func TestDefaultFiles(t *testing.T) {
	if DefaultKeptFiles != 10 || DefaultMaxFileSize != 10<<20 {
		t.Fatalf("%d files of %d bytes", DefaultKeptFiles, DefaultMaxFileSize)
	}
	path := filepath.Join(t.TempDir(), "audit")
	l, err := Open(Config{Settings: Settings{Enable: true, File: path, MaxFileSize: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 * DefaultKeptFiles {
		if err := l.lineSink.(*fileSink).write([]byte(jsonPrefix + fmt.Sprintf("%0100d\n", i))); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	names, err := filepath.Glob(path + ".*")
	if err != nil || len(names) != DefaultKeptFiles {
		t.Errorf("%d full files are kept, %v; want %d", len(names), err, DefaultKeptFiles)
	}
	l, err = Open(Config{Settings: Settings{Enable: true, File: path}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if f := l.lineSink.(*fileSink); f.maxSize != DefaultMaxFileSize || f.keptFiles != DefaultKeptFiles {
		t.Errorf("a file of %d bytes, %d kept", f.maxSize, f.keptFiles)
	}
}
