package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// A segment whose header has the right checksum, and numbers that no log has, is rejected when the log is opened, and nothing is
// allocated for it.
func TestImpossibleHeaders(t *testing.T) {
	for name, tt := range map[string]struct {
		header segmentHeader
		want   string
	}{
		"a sparse file of 1 TiB":            {segmentHeader{number: 1, size: 1 << 40}, "a segment has"},
		"a header and nothing else":         {segmentHeader{number: 1, size: segmentHeaderSize - 1}, "does not begin as a segment"},
		"a front in a log that begins anew": {segmentHeader{number: 1, size: 1 << 12, front: 5}, "begins with entry 5"},
		"a front after the first entry":     {segmentHeader{number: 1, size: 1 << 12, base: 5, front: 6}, "begins with entry 6"},
		"no front":                          {segmentHeader{number: 1, size: 1 << 12, base: 5}, "begins with entry 0"},
		"the greatest index":                {segmentHeader{number: 1, size: 1 << 12, base: 1<<64 - 1, front: 1<<64 - 1}, "an index is at most"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, tt.header.name())
		if err := errors.Join(os.WriteFile(path, tt.header.encode(), fileMode), os.Truncate(path, tt.header.size)); err != nil {
			t.Fatal(err)
		}
		l, err := openSegmentLog(dir, maxSegmentBytes, logOpening{}, hclog.NewNullLogger())
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = l.Close()
		}
	}
}

// A record by which the log begins before all its segments is rejected when the log is opened. Reading that first entry made the
// process panic.
func TestFrontBeforeTheLog(t *testing.T) {
	dir := t.TempDir()
	l, err := openSegmentLog(dir, maxSegmentBytes, logOpening{}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	stored := l.StoreLogs([]*raft.Log{{Index: 100, Term: 1, Data: []byte("one")}, {Index: 101, Term: 1, Data: []byte("two")}})
	front := l.writeOnce(func() error { return l.appendBatch([]record{{kind: frontRecord, index: 5}}, nil) })
	if err := errors.Join(stored, front, l.Close()); err != nil {
		t.Fatal(err)
	}
	l, err = openSegmentLog(dir, maxSegmentBytes, logOpening{}, hclog.NewNullLogger())
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "begins with entry 5, and its segments with entry 100") {
		t.Errorf("%v", err)
	}
	if err == nil {
		_ = l.GetLog(5, new(raft.Log))
		_ = l.Close()
	}
}
