package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"rollcall/operator/api"
)

const (
	// scanPause is how long a scan of all sessions waits between two parts of them. Without it, the members would work for the scan
	// alone, and clients would wait.
	scanPause = 5 * time.Millisecond
	// scansAtOnce is the number of scans that a Collector makes at a time. The others wait without a place for a question.
	scansAtOnce = 1
	// scanWait is the part of the deadline in which a member must answer one question of a scan: 1/scanWait. A member that hangs
	// is asked once, so it costs the scan no more than that.
	scanWait = 4
	// scanRest is the part of the deadline that a scan leaves for the rows of the page: 1/scanRest.
	scanRest = 4
)

// Order is an order of sessions.
type Order int

// These are the orders. Sessions that are equal follow each other by their ids.
const (
	ByLeft       Order = iota + 1 // the least time left first; the sessions whose time the leader has not said come last
	ByWatches                     // the most watches first
	ByEphemerals                  // the most ephemeral nodes first
)

var orderNames = map[Order]string{ByLeft: "left", ByWatches: "watches", ByEphemerals: "ephemerals"}

// String returns the order as operators write it.
func (o Order) String() string { return orderNames[o] }

// SessionsBy returns the first sessions of an order among those that a filter selects. There is one page of them, because their
// order changes all the time: p.From must be empty, and the list's Next is.
//
// It looks at all sessions that the filter selects, MaxRows at a time, and keeps as many as the page has. If there are too many of
// them for the deadline, it returns an error: the first of some would not be the first of all. One call at a time looks at them. The
// others wait, and return ErrBusy if too little of their deadline is left after that.
//
// The members are asked once more about the rows of the page. If a member does not answer then, its rows keep what it said before.
// A row whose state is no longer that of the filter is left out.
func (c *Collector) SessionsBy(ctx context.Context, f Filter, by Order, p Page) (a api.List[api.Session], err error) {
	limit, err := p.limit()
	if err != nil {
		return a, err
	}
	if p.From != "" {
		return a, ErrCursor
	}
	var page sessionPage
	if err = c.within(ctx, func(ctx context.Context) error { return c.sorted(ctx, f, by, limit, &page) }, c.scans); err != nil {
		return a, err
	}
	return page.list(), nil
}

// sorted makes the rows of p the first sessions of the order.
func (c *Collector) sorted(ctx context.Context, f Filter, by Order, limit int, p *sessionPage) error {
	if err := c.scan(ctx, f, by, limit, p); err != nil {
		return err
	}
	slices.SortFunc(p.rows, byID) // as facts needs them
	p.silent = byMember(append(p.silent, c.facts(ctx, p.rows, everything, p.silent)...))
	p.rows = firstBy(by, f.inState(p.rows), limit)
	return nil
}

// scan makes the rows of p the first sessions of the order, with what the order and the filter depend on. ctx has a deadline.
func (c *Collector) scan(ctx context.Context, f Filter, by Order, limit int, p *sessionPage) error {
	need := knowledge{connections: by == ByWatches || f.State != "", times: by == ByLeft}
	begun, looked := time.Now(), 0
	end, _ := ctx.Deadline()
	last := end.Add(-c.cfg.Deadline / scanRest)
	if begun.After(last) {
		return ErrBusy
	}
	for first := uint64(f.ID); ; {
		rows, next, err := c.records(ctx, f, first, MaxRows)
		if err != nil {
			return err
		}
		p.silent = append(p.silent, c.scanFacts(ctx, rows, need, p.silent)...)
		looked += len(rows)
		p.rows = firstBy(by, append(p.rows, f.inState(rows)...), limit)
		if next == 0 || f.ID != 0 {
			return nil
		}
		select {
		case <-time.After(scanPause):
		case <-ctx.Done():
		}
		if first = next; !time.Now().After(last) {
			continue
		}
		took := time.Since(begun)
		if took < c.cfg.Deadline/2 {
			return ErrBusy // it has waited for others: alone, it may be fast enough
		}
		return fmt.Errorf("view: there are too many sessions to sort: %d of them took %v, and there are more; choose those of one member or of one address", looked, took.Round(time.Millisecond))
	}
}

// scanFacts is facts for a part of a scan, which waits less long.
func (c *Collector) scanFacts(ctx context.Context, rows []session, need knowledge, silent []api.Silence) []api.Silence {
	wait := c.cfg.Deadline / scanWait
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	more := c.facts(ctx, rows, need, silent)
	for i, s := range more {
		if s.Reason == Late {
			more[i] = lateAfter(s.Member, wait)
		}
	}
	return more
}

// inState returns the rows that are in the filter's state. It uses the memory of rows.
func (f Filter) inState(rows []session) []session {
	if f.State == "" {
		return rows
	}
	return slices.DeleteFunc(rows, func(s session) bool { return s.State != f.State })
}

// firstBy sorts rows, and returns the first of them, at most limit.
func firstBy(by Order, rows []session, limit int) []session {
	slices.SortFunc(rows, func(a, b session) int { return cmp.Or(by.compare(&a, &b), byID(a, b)) })
	return rows[:min(limit, len(rows))]
}

// compare returns less than 0 if a comes before b in the order, and 0 if they are equal.
func (o Order) compare(a, b *session) int {
	switch {
	case o == ByWatches:
		return cmp.Compare(b.Watches, a.Watches)
	case o == ByEphemerals:
		return cmp.Compare(b.Ephemerals, a.Ephemerals)
	case (a.LeftMs == nil) != (b.LeftMs == nil):
		if a.LeftMs != nil {
			return -1
		}
		return 1
	}
	if a.LeftMs == nil {
		return 0
	}
	return cmp.Compare(*a.LeftMs, *b.LeftMs)
}

func byID(a, b session) int { return cmp.Compare(a.id, b.id) }
