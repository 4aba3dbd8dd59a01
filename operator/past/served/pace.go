package served

import (
	"context"
	"time"
)

const (
	// workShare is the part of the time for which a state is built: a quarter of one processor.
	workShare = 4
	// workTime is the time after which building pauses. Go's scheduler lets a goroutine run for as long.
	workTime = 5 * time.Millisecond
)

// pacer makes a goroutine pause so that it works for one part of the time in workShare.
type pacer struct {
	ctx     context.Context
	started time.Time // of the present stretch of work; zero: not yet
}

// rest pauses if it is time to. It returns the cause of the end of the context, as soon as that ends.
func (p *pacer) rest() error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	now := time.Now()
	if p.started.IsZero() {
		p.started = now
	}
	worked := now.Sub(p.started)
	if worked < workTime {
		return nil
	}
	over := time.NewTimer((workShare - 1) * min(worked, 10*workTime)) // it was not at work all the time if the process was paused
	defer over.Stop()
	select {
	case <-over.C:
		p.started = time.Now()
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}
