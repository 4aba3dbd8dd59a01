package admin

import (
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// diskSource is a member whose disk a test controls.
type diskSource struct {
	*fakeSource
	space DiskSpace
	err   error
	hangs chan struct{} // closed when the disk no longer hangs
	asked atomic.Int64
}

func (s *diskSource) DiskSpace() (DiskSpace, error) {
	s.asked.Add(1)
	<-s.hangs
	return s.space, s.err
}

// The space on the disk is shown by what the files are for. If the disk hangs, a scrape leaves it out
// and does not hang, and no second goroutine asks.
func TestDiskSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &diskSource{space: DiskSpace{Log: 1, Data: 2, LogFree: 3, DataFree: 4}, hangs: make(chan struct{})}
		s := newDiskSpace(source)
		look := func() (d Details, took time.Duration) {
			begun := time.Now()
			s.look(&d)
			return d, time.Since(begun)
		}
		for range 3 {
			if d, took := look(); d.DiskUsed != nil || d.DiskFree != nil || took != diskTime {
				t.Errorf("a disk that hangs says %+v after %v", d, took)
			}
		}
		if n := source.asked.Load(); n != 1 {
			t.Errorf("asked %d times while the disk hangs, want once", n)
		}
		close(source.hangs)
		synctest.Wait()
		d, took := look()
		if !maps.Equal(d.DiskUsed, map[string]int64{"log": 1, "data": 2}) || !maps.Equal(d.DiskFree, map[string]int64{"log": 3, "data": 4}) || took != 0 {
			t.Errorf("used %v and free %v, after %v", d.DiskUsed, d.DiskFree, took)
		}
		synctest.Wait() // the goroutine that asked has ended
		source.err = errors.New("unreadable")
		if d, _ := look(); d.DiskUsed != nil || d.DiskFree != nil {
			t.Errorf("a disk that fails says %+v", d)
		}
	})
}
