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
	CauseDeleted      = "delete"        // a client's delete
	CauseSessionEnded = "session ended" // the node was ephemeral, and its session ended
	CauseTTL          = "ttl"           // it had a TTL, and was not changed for so long
	CauseContainer    = "container"     // it was a container without children
)

var causeNames = map[proto.RemovalCause]string{
	proto.RemovalCause_REMOVAL_CAUSE_DELETE:        CauseDeleted,
	proto.RemovalCause_REMOVAL_CAUSE_SESSION_ENDED: CauseSessionEnded,
	proto.RemovalCause_REMOVAL_CAUSE_TTL:           CauseTTL, proto.RemovalCause_REMOVAL_CAUSE_CONTAINER: CauseContainer,
}

type removal struct {
	logPlace
	api.Removal
}

// NodeRemovals returns a page of the last removals of the node at path, or of all nodes if path is "", newest
// first. Each member keeps several thousand removals that it has applied since its start or its last snapshot
// from the leader. The query goes to all members, because one that has just started has none. If two members
// contradict each other, the page has both rows.
func (c *Collector) NodeRemovals(ctx context.Context, path string, p Page) (a api.List[api.Removal], err error) {
	from, limit, err := p.startAndLimit(removalList)
	if err != nil {
		return a, err
	}
	a.Silent = from.skippedMembers()
	request := &proto.ViewRequest{About: &proto.ViewRequest_Removals{Removals: &proto.ViewRemovals{
		Path: []byte(path), Zxid: from.Zxid, Part: from.Part, Limit: uint32(limit),
	}}}
	requests := map[uint32]*proto.ViewRequest{}
	for _, id := range c.memberIDs() {
		if !isSilent(a.Silent, id) {
			requests[id] = request
		}
	}
	var known removalPage
	a.Silent, err = c.runMemberQuery(ctx, requests, a.Silent, func(one memberReply) error {
		return known.addReply(one.reply.GetRemovals(), request.GetRemovals())
	})
	if err != nil {
		return api.List[api.Removal]{}, err
	}
	rows, next := known.firstRows(limit)
	for i := range rows {
		a.Items = append(a.Items, rows[i].Removal)
	}
	if next.zxid != 0 {
		a.NextCursor = position{Zxid: next.zxid, Part: next.removalNumber}.encodeCursor(removalList, a.Silent)
	}
	return withNonNilSlices(a, nil)
}

// logPlace is the place of a removal in the log. It is the same on all members.
type logPlace struct {
	zxid          int64
	removalNumber uint32
}

func (p logPlace) compare(q logPlace) int {
	return cmp.Or(cmp.Compare(p.zxid, q.zxid), cmp.Compare(p.removalNumber, q.removalNumber))
}

// removalPage combines the members' replies.
type removalPage struct {
	removals  []removal
	nextPlace logPlace // the latest place before which a member has more; zero: none has
}

func (p *removalPage) addReply(r *proto.RemovalRows, asked *proto.ViewRemovals) error {
	rows, rest, err := parseRemovalRows(r, asked)
	if err != nil {
		return err
	}
	p.removals = append(p.removals, rows...)
	if rest.compare(p.nextPlace) > 0 {
		p.nextPlace = rest
	}
	return nil
}

// firstRows returns the first rows of all members without duplicates, and the place before which the rest
// begins; it is zero if there is no rest. Rows before the end of any member's reply are left to the next page.
func (p *removalPage) firstRows(limit int) (rows []removal, rest logPlace) {
	rows = slices.DeleteFunc(p.removals, func(r removal) bool { return r.logPlace.compare(p.nextPlace) < 0 })
	slices.SortFunc(rows, newestFirst)
	rows = slices.Compact(rows)
	if len(rows) > limit {
		return rows[:limit], rows[limit-1].logPlace
	}
	return rows, p.nextPlace
}

// newestFirst orders removals by place, the latest first, and puts equal ones next to each other.
func newestFirst(a, b removal) int {
	return cmp.Or(b.logPlace.compare(a.logPlace), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Cause, b.Cause),
		cmp.Compare(a.MemberID, b.MemberID),
		cmp.Compare(a.SessionID, b.SessionID), cmp.Compare(a.Address, b.Address), a.RemovedAt.Compare(b.RemovedAt))
}

// parseRemovalRows returns the removals in a reply, and the place before which the member has more.
func parseRemovalRows(r *proto.RemovalRows, asked *proto.ViewRemovals) (rows []removal, rest logPlace, err error) {
	switch {
	case r == nil:
		return nil, logPlace{}, errUnrelatedReply
	case len(r.Rows) > int(asked.Limit):
		return nil, logPlace{}, errTooManyRows(len(r.Rows), int(asked.Limit))
	}
	last := logPlace{asked.Zxid, asked.Part}
	for i, row := range r.Rows {
		at := logPlace{row.Zxid, row.Part}
		cause, known := causeNames[row.Cause]
		switch {
		case row.Zxid <= 0 || row.Part == 0 || (i > 0 || asked.Zxid != 0) && at.compare(last) >= 0:
			return nil, logPlace{}, fmt.Errorf("removal %d of transaction %#x is out of order", row.Part, row.Zxid)
		case len(row.Path) == 0 || len(asked.Path) > 0 && string(row.Path) != string(asked.Path):
			return nil, logPlace{}, fmt.Errorf("a removal of the node %.100q, which was not asked for", row.Path)
		case !known || (cause == CauseSessionEnded) && row.Session == 0 || len(row.Address) > maxTextBytes:
			return nil, logPlace{}, fmt.Errorf("the removal of %.100q by cause %d, session %v", row.Path, row.Cause,
				jute.SessionID(row.Session))
		}
		last = at
		rows = append(rows, removal{at, api.Removal{
			Path: string(row.Path), RemovedAt: time.UnixMilli(row.RemovedMs).UTC(), Zxid: ZxidText(row.Zxid), Cause: cause,
			SessionID: sessionText(row.Session), Address: string(row.Address), MemberID: row.Member,
		}})
	}
	rest = logPlace{r.NextZxid, r.NextPart}
	if rest != (logPlace{}) && (len(rows) == 0 || rest != last) {
		return nil, logPlace{}, fmt.Errorf("the next page would begin before removal %d of transaction %#x, with which "+
			"this one does not end", rest.removalNumber, rest.zxid)
	}
	return rows, rest, nil
}
