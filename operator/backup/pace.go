package backup

import (
	"context"
	"io"
	"time"
)

// paceEvery is how far a writer may be ahead of its rate before it pauses. A busy member needs as long for some
// writes of its clients.
const paceEvery = 5 * time.Millisecond

// paced writes at a bounded rate.
type paced struct {
	ctx   context.Context
	w     io.Writer
	rate  int64 // bytes in a second
	begun time.Time
	n     int64 // bytes since begun
}

// Paced returns a writer to w that writes at most rate bytes in a second. It pauses when it is ahead of the rate by
// paceEvery. If ctx ends, Write returns early with the error of ctx. rate is positive.
func Paced(ctx context.Context, w io.Writer, rate int64) io.Writer {
	return &paced{ctx: ctx, w: w, rate: rate, begun: time.Now()}
}

// Write implements io.Writer.
func (p *paced) Write(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.w.Write(b)
	if p.n += int64(n); err != nil {
		return n, err
	}
	due := time.Duration(float64(p.n) / float64(p.rate) * float64(time.Second))
	switch ahead := due - time.Since(p.begun); {
	case ahead >= paceEvery:
		return n, pause(p.ctx, ahead)
	case ahead < 0: // a slow reader gets no burst later
		p.begun, p.n = time.Now(), 0
	}
	return n, nil
}

func pause(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
