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
	// maxScans is the number of scans that a Collector makes at a time. The others wait without a place for a question.
	maxScans = 1
	// scanWaitDivisor is the part of the deadline in which a member must answer one question of a scan: 1/scanWait. A member that hangs
	// is asked once, so it costs the scan no more than that.
	scanWaitDivisor = 4
	// scanReserveDivisor is the part of the deadline that a scan leaves for the rows of the page: 1/scanRest.
	scanReserveDivisor = 4
)

// SessionOrder is an order of sessions.
type SessionOrder int

// These are the orders. Sessions that are equal follow each other by their ids.
const (
	ByTimeLeft   SessionOrder = iota + 1 // the least time left first; the sessions whose time the leader has not said come last
	ByWatches                            // the most watches first
	ByEphemerals                         // the most ephemeral nodes first
)

var orderNames = map[SessionOrder]string{ByTimeLeft: "left", ByWatches: "watches", ByEphemerals: "ephemerals"}

// String returns the order as operators write it.
func (o SessionOrder) String() string { return orderNames[o] }

// SessionsBy returns the first sessions of an order among those that a filter selects. There is one page of them, because their
// order changes all the time: p.From must be empty, and the list's Next is.
//
// It looks at all sessions that the filter selects, MaxRows at a time, and keeps as many as the page has. If there are too many of
// them for the deadline, it returns an error: the first of some would not be the first of all. One call at a time looks at them. The
// others wait, and return ErrBusy if too little of their deadline is left after that.
//
// The members are asked once more about the rows of the page. If a member does not answer then, its rows keep what it said before.
// A row whose state is no longer that of the filter is left out.
func (c *Collector) SessionsBy(ctx context.Context, f SessionFilter, by SessionOrder, p Page) (a api.List[api.Session], err error) {
	limit, err := p.rowLimit()
	if err != nil {
		return a, err
	}
	if p.Cursor != "" {
		return a, ErrBadCursor
	}
	var page sessionPage
	if err = c.runQuery(ctx, func(ctx context.Context) error { return c.fillSorted(ctx, f, by, limit, &page) }, c.scanSlot); err != nil {
		return a, err
	}
	return page.toList(), nil
}

// fillSorted makes the rows of p the first sessions of the order.
func (c *Collector) fillSorted(ctx context.Context, f SessionFilter, by SessionOrder, limit int, p *sessionPage) error {
	if err := c.scanSessions(ctx, f, by, limit, p); err != nil {
		return err
	}
	slices.SortFunc(p.rows, compareIDs) // as facts needs them
	p.silent = sortByMember(append(p.silent, c.fillFacts(ctx, p.rows, allFacts, p.silent)...))
	p.rows = firstInOrder(by, f.keepInState(p.rows), limit)
	return nil
}

// scanSessions makes the rows of p the first sessions of the order, with what the order and the filter depend on. ctx has a deadline.
func (c *Collector) scanSessions(ctx context.Context, f SessionFilter, by SessionOrder, limit int, p *sessionPage) error {
	need := factSet{connections: by == ByWatches || f.State != "", times: by == ByTimeLeft}
	begun, looked := time.Now(), 0
	end, _ := ctx.Deadline()
	last := end.Add(-c.cfg.Deadline / scanReserveDivisor)
	if begun.After(last) {
		return ErrBusy
	}
	for first := uint64(f.ID); ; {
		rows, next, err := c.sessionRecords(ctx, f, first, MaxRows)
		if err != nil {
			return err
		}
		p.silent = append(p.silent, c.scanFacts(ctx, rows, need, p.silent)...)
		looked += len(rows)
		p.rows = firstInOrder(by, append(p.rows, f.keepInState(rows)...), limit)
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
func (c *Collector) scanFacts(ctx context.Context, rows []session, need factSet, silent []api.Silence) []api.Silence {
	wait := c.cfg.Deadline / scanWaitDivisor
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	more := c.fillFacts(ctx, rows, need, silent)
	for i, s := range more {
		if s.Reason == ReasonLate {
			more[i] = lateSilenceAfter(s.MemberID, wait)
		}
	}
	return more
}

// keepInState returns the rows that are in the filter's state. It uses the memory of rows.
func (f SessionFilter) keepInState(rows []session) []session {
	if f.State == "" {
		return rows
	}
	return slices.DeleteFunc(rows, func(s session) bool { return s.State != f.State })
}

// firstInOrder sorts rows, and returns the first of them, at most limit.
func firstInOrder(by SessionOrder, rows []session, limit int) []session {
	slices.SortFunc(rows, func(a, b session) int { return cmp.Or(by.compare(&a, &b), compareIDs(a, b)) })
	return rows[:min(limit, len(rows))]
}

// compare returns less than 0 if a comes before b in the order, and 0 if they are equal.
func (o SessionOrder) compare(a, b *session) int {
	switch {
	case o == ByWatches:
		return cmp.Compare(b.WatchCount, a.WatchCount)
	case o == ByEphemerals:
		return cmp.Compare(b.EphemeralCount, a.EphemeralCount)
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

func compareIDs(a, b session) int { return cmp.Compare(a.id, b.id) }
