package audit

import (
	"fmt"
	"path/filepath"
	"testing"
)

// Without further settings, ten full files of 10 MiB are kept beside the one that is written.
func TestDefaultFiles(t *testing.T) {
	if DefaultFiles != 10 || DefaultFileSize != 10<<20 {
		t.Fatalf("%d files of %d bytes", DefaultFiles, DefaultFileSize)
	}
	path := filepath.Join(t.TempDir(), "audit")
	l, err := Open(Config{Settings: Settings{Enable: true, File: path, FileSize: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 * DefaultFiles {
		if err := l.out.(*file).write([]byte(jsonBegin + fmt.Sprintf("%0100d\n", i))); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	names, err := filepath.Glob(path + ".*")
	if err != nil || len(names) != DefaultFiles {
		t.Errorf("%d full files are kept, %v; want %d", len(names), err, DefaultFiles)
	}
	l, err = Open(Config{Settings: Settings{Enable: true, File: path}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if f := l.out.(*file); f.most != DefaultFileSize || f.kept != DefaultFiles {
		t.Errorf("a file of %d bytes, %d kept", f.most, f.kept)
	}
}
