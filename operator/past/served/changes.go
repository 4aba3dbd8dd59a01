package served

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/operator/past"
	"rollcall/znode"
)

const (
	// MaxStreams limits the lists of changes that are sent at a time. Each has a connection and a part of the feed in memory.
	MaxStreams = 16
	// pollInterval is the time between two looks for new changes: a person and a script notice no less.
	pollInterval = 100 * time.Millisecond
	// passedInterval is the time between two calls of Sink.Passed at the end of the log.
	passedInterval = 5 * time.Second
)

// Query selects changes. The zero value selects all that the log has.
type Query struct {
	// From is the moment after which the list begins; the zero value is the oldest one of the log or, with Follow, now.
	From past.Moment
	// AfterNumber continues a list that ended within the transaction of From, which is a zxid: after the change with this number in the
	// transaction. 0: after all its changes.
	AfterNumber uint32
	To          past.Moment              // where the list ends; the zero value is the end of the log
	Matches     func(*znode.Change) bool // selects changes; nil: all
	Follow      bool                     // wait at the end of the log for more, until the context ends; To must be zero
}

// Sink receives changes. An error of its methods ends the list.
type Sink interface {
	// Change receives a change of the query, in the order of the log. It is valid during the call.
	Change(c *znode.Change) error
	// Passed is called at the end of the list and, while a list follows the log, where it first waits for more and every
	// passedInterval after that: all changes of the query up to the transaction with this zxid have been sent.
	Passed(zxid int64) error
	// Flush is called before the list waits for more.
	Flush() error
}

// Changes sends the changes that a query selects. It returns nil at the end of the list, or if ctx ends while the list follows the log.
// Its errors are those of At.
func (s *Server) Changes(ctx context.Context, q Query, to Sink) error {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return fmt.Errorf("%w: %d lists of changes are being sent", ErrBusy, MaxStreams)
	}
	now := s.feed.join()
	defer s.feed.leave()
	l := &list{Query: q, server: s, to: to}
	if q.AfterNumber == 0 {
		l.AfterNumber = allChanges
	}
	zxid, exact := q.From.Zxid()
	switch {
	case q.From.IsEnd() && q.Follow:
		l.at = now
	case exact && zxid > now.zxid:
		return fmt.Errorf("%w: %v; this member has applied the log up to zxid 0x%x", past.ErrTooLate, q.From, uint64(now.zxid))
	case exact:
		l.at = position{zxid, l.AfterNumber}
	}
	if l.at == (position{}) || !q.To.IsEnd() || l.at.compare(s.feed.begins()) < 0 {
		if done, err := l.sendOld(ctx); done || err != nil {
			return err
		}
	}
	return l.sendNew(ctx)
}

// list is a list of changes on its way.
type list struct {
	Query
	server *Server
	to     Sink
	at     position // all changes up to here were sent
}

func (l *list) send(c *znode.Change) error {
	p := positionOf(c)
	if p.compare(l.at) <= 0 {
		return nil
	}
	l.at = p
	if l.Matches != nil && !l.Matches(c) {
		return nil
	}
	return l.to.Change(c)
}

// sendOld sends the changes of the past, from a state that it builds and drops again: all of the list, or those before the feed. It
// reports whether the list is done.
func (l *list) sendOld(ctx context.Context) (done bool, err error) {
	ctx, end, err := l.server.takeTurn(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	l.server.kept.clear() // one state at a time
	log, err := l.open(ctx)
	if err != nil {
		return false, err
	}
	defer log.Close()
	defer l.server.warnOfSkipped(log)
	if !l.Follow {
		if err := log.Advance(l.To, l.send); err != nil {
			return false, err
		}
		return true, l.to.Passed(log.State().Zxid())
	}
	for next := l.server.feed.begins(); l.at.compare(next) < 0; next = l.server.feed.begins() {
		if err := log.Advance(past.AtZxid(next.zxid), l.send); err != nil {
			return false, err
		}
		l.at = position{next.zxid, allChanges}
	}
	return false, nil
}

// open builds the state after which the list begins.
func (l *list) open(ctx context.Context) (*past.Log, error) {
	c, err := l.server.chainTo(ctx, l.From, l.Follow)
	if err != nil {
		return nil, err
	}
	pace := &pacer{ctx: ctx}
	budget := past.Budget{MaxBytes: maxImageBytes, Rest: pace.rest, SkipComparisons: true}
	if l.From.IsEnd() {
		return past.OpenOldestWithin(ctx, c, budget)
	}
	log, err := past.OpenBefore(ctx, c, l.From, budget)
	if err != nil {
		return nil, err
	}
	if zxid, exact := l.From.Zxid(); exact && l.AfterNumber != allChanges && log.State().Zxid() == zxid {
		err = fmt.Errorf("%w: the oldest snapshot is after %v, so the rest of its transaction is not known", past.ErrTooEarly, l.From)
	} else if exact {
		err = log.Advance(l.From, l.send) // the rest of the transaction, if the list ended within it
	} else if err = log.Advance(l.From, nil); err == nil {
		l.at = position{log.State().Zxid(), allChanges}
	}
	if err == nil {
		return log, nil
	}
	log.Close()
	if errors.Is(err, past.ErrTooEarly) && c.FirstIndex() <= 1 { // before the first entry of the ensemble nothing was there
		return past.OpenOldestWithin(ctx, c, budget)
	}
	return nil, err
}

// sendNew sends the changes in the feed and, if the list follows, those that come until ctx ends.
func (l *list) sendNew(ctx context.Context) error {
	looks := time.NewTicker(pollInterval)
	defer looks.Stop()
	part := make([]znode.Change, 0, readPart)
	for passed := (time.Time{}); ; {
		last, err := l.server.log.LastIndex()
		if err != nil {
			return err
		}
		for more := true; more; more = len(part) > 0 {
			if part, more = l.server.feed.read(part[:0], l.at, last); !more {
				return fmt.Errorf("%w: this reader is more than %d MiB of changes behind, or a snapshot has replaced the state; continue "+
					"after the last change that came", ErrTooSlow, maxFeedBytes>>20)
			}
			for i := range part {
				if err := l.send(&part[i]); err != nil {
					return err
				}
			}
		}
		if now := time.Now(); !l.Follow || now.Sub(passed) >= passedInterval {
			if err := l.to.Passed(l.at.zxid); err != nil || !l.Follow {
				return err
			}
			passed = now
		}
		if err := l.to.Flush(); err != nil {
			return err
		}
		select {
		case <-looks.C:
		case <-ctx.Done():
			return nil
		}
	}
}
