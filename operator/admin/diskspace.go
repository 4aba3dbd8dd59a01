package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// diskTimeout is the longest that a scrape waits for the disk. A disk that takes longer hangs, or nearly so; the
// scrape then continues without its metrics.
const diskTimeout = 500 * time.Millisecond

// DiskSpace is the space that a member takes and what is left, in bytes. All of it is zero for a member
// without files.
type DiskSpace struct {
	Log, Data         int64     // taken by the files of the log, and by all others except those of the past
	History           int64     // taken by what is kept of the past
	HistoryOldest     time.Time // about when the oldest state was that the past has; zero: there is none
	LogFree, DataFree int64     // free to this process where these files are
}

var (
	diskUsed = prometheus.NewDesc("rollcall_disk_used_bytes", "space that files of this member take", []string{"files"},
		nil)
	historySpan = prometheus.NewDesc("rollcall_history_seconds",
		"how far back what this member keeps of the past goes; absent if it keeps nothing", nil, nil)
	diskFree = prometheus.NewDesc("rollcall_disk_free_bytes",
		"space that this member can still write where such files are", []string{"files"}, nil)
)

// diskSpaceReader collects the space on the disk, and does not hang when the disk does.
type diskSpaceReader struct {
	source       Source
	queryRunning chan struct{} // has room for one question
}

func newDiskSpaceReader(source Source) *diskSpaceReader {
	return &diskSpaceReader{source, make(chan struct{}, 1)}
}

// Describe implements prometheus.Collector.
func (s *diskSpaceReader) Describe(out chan<- *prometheus.Desc) {
	out <- diskUsed
	out <- diskFree
	out <- historySpan
}

// Collect implements prometheus.Collector.
func (s *diskSpaceReader) Collect(out chan<- prometheus.Metric) {
	space, ok := s.readWithTimeout()
	if !ok {
		return
	}
	put := func(desc *prometheus.Desc, files string, bytes int64) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(bytes), files)
	}
	put(diskUsed, "log", space.Log)
	put(diskUsed, "data", space.Data)
	put(diskUsed, "history", space.History)
	if !space.HistoryOldest.IsZero() {
		age := max(0, time.Since(space.HistoryOldest).Seconds())
		out <- prometheus.MustNewConstMetric(historySpan, prometheus.GaugeValue, age)
	}
	put(diskFree, "log", space.LogFree)
	put(diskFree, "data", space.DataFree)
}

// readWithTimeout returns false if the disk does not reply in time. The goroutine that queries the disk ends
// when the disk replies, and there is at most one.
func (s *diskSpaceReader) readWithTimeout() (space DiskSpace, ok bool) {
	timer := time.NewTimer(diskTimeout)
	defer timer.Stop()
	select {
	case s.queryRunning <- struct{}{}:
	case <-timer.C:
		return DiskSpace{}, false
	}
	reply := make(chan DiskSpace, 1)
	go func() {
		defer func() { <-s.queryRunning }()
		if space, err := s.source.DiskSpace(); err == nil {
			reply <- space
		}
		close(reply)
	}()
	select {
	case space, ok = <-reply:
	case <-timer.C:
	}
	return space, ok
}
