package history

import (
	"context"
	"io"
	"time"
)

// Files are compressed with at most a fiftieth of one processor, about 8 MB of a log in a second (BenchmarkCompress), so that clients do
// not notice. What is written faster waits, and takes more of history.bytes meanwhile.
const (
	pauseFactor = 49              // the duration of a pause, in units of the time that the piece before it took
	pieceBytes  = 32 << 10        // of the compressed file, between two pauses
	maxPause    = time.Second / 2 // otherwise a piece during which the machine was busy could delay the next one for minutes
)

// pacedWriter pauses between pieces until ctx ends. Then it fails.
type pacedWriter struct {
	ctx          context.Context
	w            io.Writer
	pieceStarted time.Time
	written      int // bytes of the piece
}

func newPacedWriter(ctx context.Context, w io.Writer) io.Writer {
	return &pacedWriter{ctx: ctx, w: w, pieceStarted: time.Now()}
}

// Write implements io.Writer.
func (p *pacedWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if p.written += n; p.written < pieceBytes || err != nil {
		return n, err
	}
	select {
	case <-time.After(min(pauseFactor*time.Since(p.pieceStarted), maxPause)):
	case <-p.ctx.Done():
		return n, p.ctx.Err()
	}
	p.written, p.pieceStarted = 0, time.Now()
	return n, nil
}
