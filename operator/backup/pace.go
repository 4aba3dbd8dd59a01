package backup

import (
	"context"
	"io"
	"time"
)

// maxPaceLead is how far a writer may be ahead of its rate before it pauses. A busy member needs as long for some
// writes of its clients.
const maxPaceLead = 5 * time.Millisecond

// pacedWriter writes at a bounded rate.
type pacedWriter struct {
	ctx     context.Context
	w       io.Writer
	rate    int64 // bytes in a second
	started time.Time
	written int64 // bytes since begun
}

// NewPacedWriter returns a writer to w that writes at most rate bytes in a second. It pauses when it is ahead of the rate by
// paceEvery. If ctx ends, Write returns early with the error of ctx. rate is positive.
func NewPacedWriter(ctx context.Context, w io.Writer, rate int64) io.Writer {
	return &pacedWriter{ctx: ctx, w: w, rate: rate, started: time.Now()}
}

// Write implements io.Writer.
func (p *pacedWriter) Write(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.w.Write(b)
	if p.written += int64(n); err != nil {
		return n, err
	}
	due := time.Duration(float64(p.written) / float64(p.rate) * float64(time.Second))
	switch ahead := due - time.Since(p.started); {
	case ahead >= maxPaceLead:
		return n, sleepFor(p.ctx, ahead)
	case ahead < 0: // a slow reader gets no burst later
		p.started, p.written = time.Now(), 0
	}
	return n, nil
}

func sleepFor(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
