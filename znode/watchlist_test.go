package znode

import (
	"fmt"
	"testing"

	"rollcall/zk/jute"
)

// A scan of a watcher's watches sees each watch that exists all the time, whatever is set and removed
// between its parts, and takes no more than watchesPerLock of them at a time. It sees none twice unless all of a part are gone.
func TestScanWatches(t *testing.T) {
	const watches = 3 * watchesPerLock
	path := func(i int) string { return fmt.Sprintf("/%05d", i) }
	tests := []struct {
		name      string
		remove    func(part, i int) bool // whether to remove watch i after this part
		mostParts int
		again     bool // whether the scan must start again
	}{
		{"nothing", func(_, _ int) bool { return false }, 4, false},
		{"the watch that was seen last", func(part, i int) bool { return i == watches-part*watchesPerLock }, 4, false},
		{"the second half of a part", func(part, i int) bool { return part == 1 && i < watches-512 && i >= watches-1024 }, 4, false},
		{"all of a part", func(part, i int) bool { return part == 1 && i >= watches-1024 }, 4, true},
		{"all of the second part", func(part, i int) bool { return part == 2 && i >= watches-2048 && i < watches-1024 }, 5, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			k := w.connect()
			for i := range watches { // a scan begins with the youngest
				_ = k.watchExists(path(i))
			}
			seen, parts, stays := map[string]int{}, 0, map[string]bool{}
			for i := range watches {
				stays[path(i)] = true
			}
			for scan, more := NewWatchScan(k), true; more; {
				if parts++; parts > tt.mostParts {
					t.Fatalf("more than %d parts", tt.mostParts)
				}
				n := 0
				more = w.s().Watches().ScanNext(scan, func(path string) { n++; seen[path]++ })
				if n > watchesPerLock {
					t.Errorf("part %d has %d watches", parts, n)
				}
				for i := range watches {
					if tt.remove(parts, i) {
						_ = k.removeWatches(path(i), jute.WatcherAny)
						delete(stays, path(i))
					}
				}
				_ = k.watchExists(fmt.Sprintf("/new-%d", parts))
			}
			for path := range stays {
				if n := seen[path]; n == 0 || n > 1 && !tt.again {
					t.Fatalf("%s was seen %d times", path, n)
				}
			}
		})
	}
}
