package disk

import (
	"io"
	"sync/atomic"
	"time"
)

const (
	// paceRest is how many times as long as a piece of a snapshot took its writer rests
	// behind it: a quarter of the time of one processor and of the disk is the snapshot's.
	paceRest = 3
	// maxRest bounds a rest: what takes long, on a slow disk or a busy machine, must come to
	// its end, too.
	maxRest = 50 * time.Millisecond
)

// pacedWriter writes a snapshot in pieces of writeOut bytes, with rests in between in which
// clients have the machine to themselves.
type pacedWriter struct {
	w     io.Writer
	hurry *atomic.Bool // no rests
	begun time.Time    // of the piece
	n     int          // bytes of it
}

// Paced returns a writer of a snapshot to w that takes rests: see pacedWriter. It takes none
// while hurry is set. begun is when the work on the snapshot began.
func Paced(w io.Writer, hurry *atomic.Bool, begun time.Time) io.Writer {
	return &pacedWriter{w: w, hurry: hurry, begun: begun}
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if p.n += n; p.n < writeOut || err != nil || p.hurry.Load() {
		return n, err
	}
	time.Sleep(min(paceRest*time.Since(p.begun), maxRest))
	p.n, p.begun = 0, time.Now()
	return n, nil
}
