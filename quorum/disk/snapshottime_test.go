package disk

import (
	"testing"
	"time"
)

// The name of a snapshot says when it was written, of which term it is, and up to which index of the log.
func TestSnapshotName(t *testing.T) {
	at := time.UnixMilli(1_795_563_772_123)
	name := snapshotName(31, 4711, at)
	term, index, ok := parseSnapshotName(name)
	if written := snapshotTime(name); !written.Equal(at) || term != 31 || index != 4711 || !ok {
		t.Errorf("%s: written at %v, of term %d and index %d, %t", name, written, term, index, ok)
	}
	for _, other := range []string{name + tmpSuffix, "31-4711", name + "-1", "x-4711-1", "31-x-1", ""} {
		if _, _, ok := parseSnapshotName(other); ok {
			t.Errorf("%q counts as the name of a snapshot", other)
		}
	}
	if written := snapshotTime("31-4711-x"); !written.IsZero() {
		t.Errorf("a snapshot without a time was written at %v", written)
	}
}
