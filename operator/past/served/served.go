// Package served answers queries about the past in a member that has clients: changes since a moment, and the state at a moment.
// It builds states with package past, within limits that keep the clients undisturbed.
//
//   - Server: the queries of a member. One state is built at a time.
//   - Log: what it needs of the member's log. A KeptLog is one, of the member's directories.
//   - Query: selects changes.
//   - Sink: receives them.
//
// # New changes
//
// A stream of changes that begins now, or where another one has just ended, needs no state of the past. While there are streams, and
// for a while after the last one, the member's own state reports each change to a feed, which keeps the latest ones within a bound.
// Apply takes no part in sending them: it adds each change to the feed, and streams read the feed.
//
// # Old changes
//
// The changes since an earlier moment need a state of that moment, because entries have requests, not effects. It is built from a
// snapshot and moved on, reporting each change, up to what the feed has. Then it is dropped.
package served

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"rollcall/operator/past"
	"rollcall/znode"
)

const (
	// maxImageBytes is the size of the largest state that is built, as a snapshot of it has. Such a state takes 1.5 times as much memory
	// if its 800,000 nodes have no data, and as much if they have 1,000 bytes each. So a member needs at most about 100 MiB for it.
	maxImageBytes = 64 << 20
	// buildTimeout limits the time for which a caller may build a state or move it on. At workShare, a state of maxImageBytes takes a few
	// seconds of it, and 200,000 changes about three.
	buildTimeout = 2 * time.Minute
	// turnTimeout limits the wait for the caller that builds before. A queue of callers that wait longer is no use to any of them.
	turnTimeout = 10 * time.Second
	// keepTime is the time for which a built state is kept for the next caller, who often asks about a moment nearby, and for which
	// the feed goes on after the last stream, which often comes back.
	keepTime = time.Minute
)

var (
	// ErrBusy means that other callers have taken all places, or the turn to build a state. It passes.
	ErrBusy = errors.New("other callers read the past of this member")
	// ErrTooSlow means that a reader of changes, or the building of a state, did not keep up.
	ErrTooSlow = errors.New("too slow")
)

// Log is the log of a member. It is safe for concurrent use. Its errors are for callers.
type Log interface {
	// Chains returns the parts of the kept log, the newest first. The newest one ends with the entry of LastIndex or, if follow is
	// set, waits there for more.
	Chains(follow bool) ([]past.Chain, error)
	// LastIndex returns the index of the last entry that the member has applied and has on its disk. It does not wait.
	LastIndex() (uint64, error)
}

// Server answers queries about the past of a member. Make one with New. It is safe for concurrent use.
type Server struct {
	log     Log
	logger  *slog.Logger
	feed    *feed
	streams chan struct{} // capacity MaxStreams
	turn    chan struct{} // capacity 1: the right to build a state, and to use kept
	kept    keptState     // owned by the holder of the turn
}

// keptState is a built state between two callers.
type keptState struct {
	log   *past.Log       // nil: there is none
	ctx   context.Context // of the present caller
	pace  pacer
	since uint64      // counts the uses
	drop  *time.Timer // nil: not in use yet
}

// New returns the Server for a log, and for the state of the member that applies it.
func New(l Log, state *znode.State, logger *slog.Logger) *Server {
	return &Server{
		log: l, logger: logger, feed: &feed{state: state}, streams: make(chan struct{}, MaxStreams), turn: make(chan struct{}, 1),
	}
}

// takeTurn waits for the right to build a state. The caller calls the returned functions: end gives it back.
func (s *Server) takeTurn(ctx context.Context) (inTurn context.Context, end func(), err error) {
	over := time.NewTimer(turnTimeout)
	defer over.Stop()
	select {
	case s.turn <- struct{}{}:
		inTurn, cancel := context.WithTimeoutCause(ctx, buildTimeout, fmt.Errorf("%w: not done in %v", ErrTooSlow, buildTimeout))
		return inTurn, func() { cancel(); <-s.turn }, nil
	case <-over.C:
		return nil, nil, fmt.Errorf("%w: one state is built at a time, and the turn did not come within %v", ErrBusy, turnTimeout)
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// chainTo returns the newest part of the kept log that reaches back to a moment, or else the one that reaches back farthest. The zero
// moment stands for the newest part.
func (s *Server) chainTo(ctx context.Context, m past.Moment, follow bool) (past.Chain, error) {
	all, err := s.log.Chains(follow)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, fmt.Errorf("%w: this member keeps no log of the past", past.ErrTooEarly)
	}
	for _, c := range all {
		if reaches, err := past.Reaches(ctx, c, m); err != nil || reaches {
			return c, err
		}
	}
	return all[len(all)-1], nil
}

// warnOfSkipped logs the snapshots that were left out.
func (s *Server) warnOfSkipped(l *past.Log) {
	for _, err := range l.NewlySkipped() {
		s.logger.Warn("history: a snapshot was left out, and a state of the past was built from an older one", "err", err)
	}
}

// At builds the state at a moment, or moves on to it the one that the last caller has left, and calls use with it and the place of
// the state. While use works, no other state is built, and the state does not change. Its errors are those of package past, of the
// Log and of use, ErrBusy, ErrTooSlow, or that of ctx.
func (s *Server) At(ctx context.Context, m past.Moment, use func(*znode.State, past.Point) error) error {
	ctx, end, err := s.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer end()
	k := &s.kept
	k.ctx, k.pace = ctx, pacer{ctx: ctx}
	err = s.moveTo(ctx, m)
	if k.log != nil {
		s.warnOfSkipped(k.log)
		k.log.Close() // it keeps no file open; the next caller extends it
		k.keep(s)
	}
	if err != nil {
		return err
	}
	return use(k.log.State(), k.log.Point())
}

// moveTo makes the kept state that at a moment.
func (s *Server) moveTo(ctx context.Context, m past.Moment) error {
	c, err := s.chainTo(ctx, m, false)
	if err != nil {
		return err
	}
	k := &s.kept
	if k.log != nil {
		k.log.Extend(c)
		passes, err := k.log.PassesSnapshot(m)
		if err == nil && !passes {
			err = k.log.Advance(m, nil)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx) // the state is between the two moments, and of use to the next caller
		case err == nil && !passes, errors.Is(err, past.ErrTooLate), errors.Is(err, past.ErrNeverGiven):
			return err
		}
		k.clear()
	}
	l, err := past.OpenBefore(context.WithoutCancel(ctx), c, m, past.Budget{MaxBytes: maxImageBytes, Rest: k.rest, SkipComparisons: true})
	if err != nil {
		return err
	}
	k.log = l
	if err := l.Advance(m, nil); err != nil {
		k.clear()
		return err
	}
	return nil
}

// rest is the Budget.Rest of the kept state, for its present caller.
func (k *keptState) rest() error { return k.pace.rest() }

// clear gives the state back. The caller has the turn.
func (k *keptState) clear() {
	if k.log != nil {
		k.log.Close()
	}
	k.log = nil
}

// keep keeps the state for keepTime from now on.
func (k *keptState) keep(s *Server) {
	k.since++
	use := k.since
	if k.drop != nil {
		k.drop.Stop()
	}
	k.drop = time.AfterFunc(keepTime, func() {
		select {
		case s.turn <- struct{}{}:
			if k.since == use {
				k.clear()
			}
			<-s.turn
		default: // it is in use, and its user keeps it anew
		}
	})
}
