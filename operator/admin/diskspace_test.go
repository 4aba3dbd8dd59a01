package admin

import (
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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

// The space on the disk is shown by the purpose of the files. If the disk hangs, a scrape leaves it out and does not
// hang, and no second goroutine reads it.
func TestDiskSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &diskSource{space: DiskSpace{Log: 1, Data: 2, LogFree: 3, DataFree: 4, History: 5, HistoryOldest: time.Now().Add(-time.Hour)}, hangs: make(chan struct{})}
		s := newDiskSpaceReader(source)
		collect := func() (shown map[string]float64, took time.Duration) {
			begun := time.Now()
			return collected(t, s), time.Since(begun)
		}
		for range 3 {
			if shown, took := collect(); len(shown) != 0 || took != diskTimeout {
				t.Errorf("a disk that hangs says %v after %v", shown, took)
			}
		}
		if n := source.asked.Load(); n != 1 {
			t.Errorf("asked %d times while the disk hangs, want once", n)
		}
		close(source.hangs)
		synctest.Wait()
		want := map[string]float64{"used log": 1, "used data": 2, "used history": 5, "history": 3601.5, "free log": 3, "free data": 4}
		if shown, took := collect(); !maps.Equal(shown, want) || took != 0 {
			t.Errorf("%v after %v, want %v", shown, took, want)
		}
		synctest.Wait() // the goroutine that asked has ended
		source.err = errors.New("unreadable")
		if shown, _ := collect(); len(shown) != 0 {
			t.Errorf("a disk that fails says %v", shown)
		}
	})
}

// collected returns the space that Prometheus gets.
func collected(t *testing.T, s *diskSpaceReader) map[string]float64 {
	t.Helper()
	out := make(chan prometheus.Metric, 6)
	s.Collect(out)
	close(out)
	shown := map[string]float64{}
	for m := range out {
		var sample dto.Metric
		if err := m.Write(&sample); err != nil {
			t.Fatal(err)
		}
		name := map[*prometheus.Desc]string{diskUsed: "used ", diskFree: "free ", historySpan: "history"}[m.Desc()]
		for _, label := range sample.GetLabel() {
			name += label.GetValue()
		}
		shown[name] = sample.GetGauge().GetValue()
	}
	return shown
}
