package admin

import "time"

// diskTime is the longest that a scrape waits for the disk. A disk that takes longer hangs, or nearly so; the
// scrape then continues without its metrics.
const diskTime = 500 * time.Millisecond

// diskSpace queries the space on the disk, and does not hang when the disk does.
type diskSpace struct {
	source Source
	asking chan struct{} // has room for one question
}

func newDiskSpace(source Source) *diskSpace {
	return &diskSpace{source, make(chan struct{}, 1)}
}

// look fills in the fields of d about the disk. It sets nothing if the disk does not reply in time. The goroutine
// that queries the disk ends when the disk replies, and there is at most one.
func (s *diskSpace) look(d *Details) {
	timer := time.NewTimer(diskTime)
	defer timer.Stop()
	select {
	case s.asking <- struct{}{}:
	case <-timer.C:
		return
	}
	answer := make(chan DiskSpace, 1)
	go func() {
		defer func() { <-s.asking }()
		if space, err := s.source.DiskSpace(); err == nil {
			answer <- space
		}
		close(answer)
	}()
	select {
	case space, ok := <-answer:
		if ok {
			d.DiskUsed, d.DiskFree = map[string]int64{"log": space.Log, "data": space.Data}, map[string]int64{"log": space.LogFree, "data": space.DataFree}
		}
	case <-timer.C:
	}
}
