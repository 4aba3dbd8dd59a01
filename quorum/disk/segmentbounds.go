package disk

import "fmt"

// A header and a record with the right checksum may still be wrong: somebody may have written them on purpose. Their numbers
// have bounds, so that no memory is allocated, and no entry is sought, by a number that no log can have.
const (
	// maxSegmentFile limits the size of a segment. A batch that is longer than maxSegmentBytes gets a segment of its own. It has at
	// most what waits for a leader's disk, and its records.
	maxSegmentFile = 2 * maxQueuedBytes
	// maxLogIndex limits an index, so that the sum of it and of any number of entries is an index.
	maxLogIndex = 1 << 62
)

// check returns an error for a header that no log writes.
func (h *segmentHeader) check() error {
	switch {
	case h.size < segmentHeaderSize || h.size > maxSegmentFile:
		return fmt.Errorf("%w: its header gives it %d bytes; a segment has %d to %d", ErrDamaged, h.size, segmentHeaderSize, maxSegmentFile)
	case h.base > maxLogIndex:
		return fmt.Errorf("%w: its first entry is %d, and an index is at most %d", ErrDamaged, h.base, uint64(maxLogIndex))
	case (h.front == 0) != (h.base == 0) || h.front > h.base:
		return fmt.Errorf("%w: the log begins with entry %d in its header, and its own first entry is %d", ErrDamaged, h.front, h.base)
	}
	return nil
}

// checkFront returns an error if the log begins before the first entry that its segments have.
func (l *segmentLog) checkFront() error {
	first, last := l.indexRange()
	if has := l.segments[0].first; last != 0 && first < has {
		return fmt.Errorf("%s: %w: the log begins with entry %d, and its segments with entry %d", l.last().path, ErrDamaged, first, has)
	}
	return nil
}
