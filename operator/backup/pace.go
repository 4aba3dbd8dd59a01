package backup

import (
	"context"
	"io"
	"time"
)

// maxPaceLead is the lead over the rate at which a writer pauses. Some writes of a busy member's clients take as long.
const maxPaceLead = 5 * time.Millisecond

// pacedWriter writes at a bounded rate.
type pacedWriter struct {
	ctx     context.Context
	w       io.Writer
	rate    int64 // bytes in a second
	started time.Time
	written int64 // bytes since begun
}

// NewPacedWriter returns a writer to w that writes at most rate bytes per second. rate must be positive. It
// pauses when it is ahead of the rate by maxPaceLead. If ctx ends, Write returns early with the error of ctx.
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
