package disk

import (
	"errors"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// limitFiles makes each write of a file beyond a size fail. undo ends that.
func limitFiles(t *testing.T, size uint64) (undo func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	}
}

// A log that ends in a torn batch does not open unless it can begin another segment. Otherwise the next batch would be written
// over the torn one. It is not parallel, because the limit holds for the whole process.
func TestTornBatchAndNoNewSegment(t *testing.T) {
	d := &segmentDir{t: t, dir: filepath.Join(t.TempDir(), logDirName)}
	d.store(1, 100)
	d.store(3, 1000)
	d.tear(1)
	undo := limitFiles(t, uint64(d.used())) // less than a segment, and enough for what is there
	l, err := tryOpen(d.dir)
	undo()
	if err == nil {
		l.Close()
	}
	if !errors.Is(err, syscall.EFBIG) || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), d.dir) {
		t.Errorf("without room for a segment: %v", err)
	}
	d.n -= 3
	d.store(2, 1000)
	d.check(1)
}
