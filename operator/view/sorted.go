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
	// scanPause is the wait between two parts of a scan. Without it, the scan would delay the members' clients.
	scanPause = 5 * time.Millisecond
	// maxScans limits the concurrent scans of a Collector. Others wait without taking a query slot.
	maxScans = 1
	// scanWaitDivisor sets the share of the deadline, 1/scanWaitDivisor, for one query of a scan. A member that
	// hangs is queried once, so it costs no more than that.
	scanWaitDivisor = 4
	// scanReserveDivisor sets the share of the deadline, 1/scanReserveDivisor, that a scan leaves for the rows
	// of the page.
	scanReserveDivisor = 4
)

// SessionOrder is an order of sessions. Equal sessions are in the order of their ids.
type SessionOrder int

const (
	ByTimeLeft   SessionOrder = iota + 1 // least time left first; sessions without a time from the leader come last
	ByWatches                            // most watches first
	ByEphemerals                         // most ephemeral nodes first
)

var orderNames = map[SessionOrder]string{ByTimeLeft: "left", ByWatches: "watches", ByEphemerals: "ephemerals"}

// String returns the order as operators write it.
func (o SessionOrder) String() string { return orderNames[o] }

// SessionsBy returns the first sessions, in an order, among those that a filter selects. There is one page,
// because the order changes all the time: p.Cursor must be empty.
//
// It scans all sessions that the filter selects, MaxRows at a time. If there are too many of them for the
// deadline, it returns an error. One call scans at a time; the others wait, and return ErrBusy if too little of
// their deadline remains.
//
// It queries the members once more about the rows of the page. If a member does not reply then, its rows keep
// their earlier facts. Rows that no longer match the filter's state are omitted.
func (c *Collector) SessionsBy(ctx context.Context, f SessionFilter, by SessionOrder, p Page) (a api.List[api.Session],
	err error,
) {
	limit, err := p.rowLimit()
	if err != nil {
		return a, err
	}
	if p.Cursor != "" {
		return a, ErrBadCursor
	}
	var page sessionPage
	return page.toList(c.runQuery(ctx,
		func(ctx context.Context) error { return c.querySortedPage(ctx, f, by, limit, &page) },
		c.scanSlot))
}

func (c *Collector) querySortedPage(ctx context.Context, f SessionFilter, by SessionOrder, limit int,
	p *sessionPage,
) error {
	if err := c.scanSessions(ctx, f, by, limit, p); err != nil {
		return err
	}
	slices.SortFunc(p.rows, compareIDs) // as facts needs them
	p.silent = sortByMember(append(p.silent, c.queryFacts(ctx, p.rows, allFacts, p.silent)...))
	p.rows = firstInOrder(by, f.keepInState(p.rows), limit)
	return nil
}

// scanSessions sets the rows of p to the first sessions of the order, with the facts that the order and the
// filter need. ctx has a deadline.
func (c *Collector) scanSessions(ctx context.Context, f SessionFilter, by SessionOrder, limit int,
	p *sessionPage,
) error {
	need := factSet{connections: by == ByWatches || f.State != "", times: by == ByTimeLeft}
	begun, looked := time.Now(), 0
	end, _ := ctx.Deadline()
	last := end.Add(-c.cfg.Deadline / scanReserveDivisor)
	if begun.After(last) {
		return ErrBusy
	}
	for first := uint64(f.ID); ; {
		rows, next, err := c.querySessionRecords(ctx, f, first, MaxRows)
		if err != nil {
			return err
		}
		p.silent = append(p.silent, c.queryFactsForScan(ctx, rows, need, p.silent)...)
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
		return fmt.Errorf("view: there are too many sessions to sort: %d of them took %v, and there are more; choose "+
			"those of one member or of one address", looked, took.Round(time.Millisecond))
	}
}

// queryFactsForScan is queryFacts with the shorter timeout of a scan.
func (c *Collector) queryFactsForScan(ctx context.Context, rows []session, need factSet,
	silent []api.Silence,
) []api.Silence {
	wait := c.cfg.Deadline / scanWaitDivisor
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	more := c.queryFacts(ctx, rows, need, silent)
	for i, s := range more {
		if s.Reason == ReasonLate {
			more[i] = lateSilenceAfter(s.MemberID, wait)
		}
	}
	return more
}

// keepInState removes the rows in other states, in place.
func (f SessionFilter) keepInState(rows []session) []session {
	if f.State == "" {
		return rows
	}
	return slices.DeleteFunc(rows, func(s session) bool { return s.State != f.State })
}

// firstInOrder sorts rows, and returns at most limit of them.
func firstInOrder(by SessionOrder, rows []session, limit int) []session {
	slices.SortFunc(rows, func(a, b session) int { return cmp.Or(by.compare(&a, &b), compareIDs(a, b)) })
	return rows[:min(limit, len(rows))]
}

// compare returns a negative number if a comes before b, and 0 if they are equal.
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
