package server

import (
	"context"
	"time"

	"rollcall/internal/admission"
)

// pacer divides the work of a long read into slices of stepsPerSlice. After each slice the read rests for as long as
// the slice took, at most maxTurnRest, so that others have half of the time, and gives way to shorter reads. A nil
// pacer divides nothing.
type pacer struct {
	ctx        context.Context // of the connection
	turn       *admission.Turn
	left       int // steps of the read, by its estimate
	ofSlice    int // steps of this slice that are left
	sliceBegan time.Time
	err        error // not nil: the connection has ended, and the turn too
}

func newPacer(ctx context.Context, turn *admission.Turn, steps int) *pacer {
	return &pacer{ctx: ctx, turn: turn, left: steps, ofSlice: stepsPerSlice, sliceBegan: time.Now()}
}

// step counts n steps, and rests and gives way after a slice. It returns false if the connection has ended: then the
// result will not be used.
func (p *pacer) step(n int) (more bool) {
	if p == nil {
		return true
	}
	if p.err != nil {
		return false
	}
	p.left -= n
	if p.ofSlice -= n; p.ofSlice > 0 {
		return true
	}
	p.rest()
	p.err = p.turn.GiveWay(p.ctx, p.left)
	p.ofSlice, p.sliceBegan = stepsPerSlice, time.Now()
	return p.err == nil
}

// rest rests for as long as the slice took, at most maxTurnRest.
func (p *pacer) rest() { time.Sleep(min(time.Since(p.sliceBegan), maxTurnRest)) }
