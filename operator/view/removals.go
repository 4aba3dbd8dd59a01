package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"rollcall/operator/api"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// These are the causes of an api.Removal.
const (
	Deleted      = "delete"        // a client's delete
	SessionEnded = "session ended" // the node was ephemeral, and its session ended
	TimeOver     = "ttl"           // it had a TTL, and was not changed for so long
	Unused       = "container"     // it was a container without children
)

var causes = map[proto.RemovalCause]string{
	proto.RemovalCause_REMOVAL_CAUSE_DELETE: Deleted, proto.RemovalCause_REMOVAL_CAUSE_SESSION_ENDED: SessionEnded,
	proto.RemovalCause_REMOVAL_CAUSE_TTL: TimeOver, proto.RemovalCause_REMOVAL_CAUSE_CONTAINER: Unused,
}

// removal is the row of a removal while a page is put together.
type removal struct {
	place
	api.Removal
}

// Removals returns a page of the last removals of the node at path, newest first. If path is "", it returns those
// of all nodes. Each member remembers some thousands of removals that it has applied since it started or received
// a snapshot. All members are asked, so a member that has just started answers as the others do. If two
// members contradict each other, the page has what both say.
func (c *Collector) Removals(ctx context.Context, path string, p Page) (a api.List[api.Removal], err error) {
	limit, err := p.limit()
	if err != nil {
		return a, err
	}
	from, err := positionOf(p.From, removalList)
	if err != nil {
		return a, err
	}
	a.Silent = from.skipped()
	request := &proto.ViewRequest{About: &proto.ViewRequest_Removals{Removals: &proto.ViewRemovals{
		Path: []byte(path), Zxid: from.Zxid, Part: from.Part, Limit: uint32(limit),
	}}}
	requests := map[uint32]*proto.ViewRequest{}
	for _, id := range c.members() {
		if !isSilent(a.Silent, id) {
			requests[id] = request
		}
	}
	var known removalPage
	err = c.within(ctx, func(ctx context.Context) error {
		a.Silent = byMember(append(a.Silent, c.ask(ctx, requests, func(one answer) error {
			return known.add(one.reply.GetRemovals(), request.GetRemovals())
		})...))
		return nil
	})
	if err != nil {
		return api.List[api.Removal]{}, err
	}
	rows, next := known.join(limit)
	for i := range rows {
		a.Items = append(a.Items, rows[i].Removal)
	}
	if next.zxid != 0 {
		a.Next = position{Zxid: next.zxid, Part: next.part}.cursor(removalList, a.Silent)
	}
	return complete(a), nil
}

// place is the place of a removal in the log. It is the same on all members.
type place struct {
	zxid int64
	part uint32
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.zxid, q.zxid), cmp.Compare(p.part, q.part))
}

// removalPage is what the members' answers have together.
type removalPage struct {
	rows []removal
	rest place // the latest place before which a member has more; zero: none has
}

// add adds a member's answer, if it is one.
func (p *removalPage) add(r *proto.RemovalRows, asked *proto.ViewRemovals) error {
	rows, rest, err := removalRows(r, asked)
	if err != nil {
		return err
	}
	p.rows = append(p.rows, rows...)
	if rest.compare(p.rest) > 0 {
		p.rest = rest
	}
	return nil
}

// join returns the first rows of all members, each once, and the place before which the rest begins. It is
// zero if there is no rest. What lies before the place at which a member's answer ends is left to the next
// page, even if others have said it.
func (p *removalPage) join(limit int) (rows []removal, rest place) {
	rows = slices.DeleteFunc(p.rows, func(r removal) bool { return r.place.compare(p.rest) < 0 })
	slices.SortFunc(rows, newestFirst)
	rows = slices.Compact(rows)
	if len(rows) > limit {
		return rows[:limit], rows[limit-1].place
	}
	return rows, p.rest
}

// newestFirst orders removals by their places, the latest first, and equal ones next to each other.
func newestFirst(a, b removal) int {
	return cmp.Or(b.place.compare(a.place), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Member, b.Member),
		cmp.Compare(a.Session, b.Session), cmp.Compare(a.Address, b.Address), a.Removed.Compare(b.Removed))
}

// removalRows returns the removals of a reply, and the place before which the member has more.
func removalRows(r *proto.RemovalRows, asked *proto.ViewRemovals) (rows []removal, rest place, err error) {
	switch {
	case r == nil:
		return nil, place{}, errOther
	case len(r.Rows) > int(asked.Limit):
		return nil, place{}, tooMany(len(r.Rows), int(asked.Limit))
	}
	last := place{asked.Zxid, asked.Part}
	for i, row := range r.Rows {
		at := place{row.Zxid, row.Part}
		cause, known := causes[row.Cause]
		switch {
		case row.Zxid <= 0 || row.Part == 0 || (i > 0 || asked.Zxid != 0) && at.compare(last) >= 0:
			return nil, place{}, fmt.Errorf("removal %d of transaction %#x is out of order", row.Part, row.Zxid)
		case len(row.Path) == 0 || len(asked.Path) > 0 && string(row.Path) != string(asked.Path):
			return nil, place{}, fmt.Errorf("a removal of the node %.100q, which was not asked for", row.Path)
		case !known || (cause == SessionEnded) && row.Session == 0 || len(row.Address) > maxText:
			return nil, place{}, fmt.Errorf("the removal of %.100q by cause %d, session %v", row.Path, row.Cause, jute.SessionID(row.Session))
		}
		last = at
		rows = append(rows, removal{at, api.Removal{
			Path: string(row.Path), Removed: time.UnixMilli(row.RemovedMs).UTC(), Zxid: ZxidText(row.Zxid), Cause: cause,
			Session: sessionText(row.Session), Address: string(row.Address), Member: row.Member,
		}})
	}
	rest = place{r.NextZxid, r.NextPart}
	if rest != (place{}) && (len(rows) == 0 || rest != last) {
		return nil, place{}, fmt.Errorf("the next page would begin before removal %d of transaction %#x, with which this one does not end", rest.part, rest.zxid)
	}
	return rows, rest, nil
}
