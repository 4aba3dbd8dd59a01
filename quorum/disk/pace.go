package disk

import (
	"io"
	"sync/atomic"
	"time"
)

const (
	// pauseFactor is the duration of a pause, in units of the time that the piece before it took. So a snapshot
	// takes a quarter of the time of one processor and of the disk.
	pauseFactor = 3
	// maxPause limits a pause, so that a snapshot is finished even on a slow disk or a busy machine.
	maxPause = 50 * time.Millisecond
)

// pacedWriter writes a snapshot in pieces of flushSize bytes, and leaves the machine to the clients between them.
type pacedWriter struct {
	w            io.Writer
	noPauses     *atomic.Bool // while it is set, there are no pauses
	pieceStarted time.Time    // when the piece was begun
	pieceBytes   int          // bytes of the piece
}

// NewPacedWriter returns a writer to w that pauses between pieces of a snapshot, except while noPauses is set.
// begun is the start of the work on the snapshot.
func NewPacedWriter(w io.Writer, noPauses *atomic.Bool, begun time.Time) io.Writer {
	return &pacedWriter{w: w, noPauses: noPauses, pieceStarted: begun}
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if p.pieceBytes += n; p.pieceBytes < flushSize || err != nil || p.noPauses.Load() {
		return n, err
	}
	time.Sleep(min(pauseFactor*time.Since(p.pieceStarted), maxPause))
	p.pieceBytes, p.pieceStarted = 0, time.Now()
	return n, nil
}
