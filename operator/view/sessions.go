package view

import (
	"context"
	"errors"
	"slices"
	"time"

	"rollcall/operator/api"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// maxRounds is how many parts of the state one page of sessions is put together from at most. A filter
// that lets few sessions through leaves pages short instead of holding up their reader.
const maxRounds = 16

// session is the row of a session while it is put together.
type session struct {
	id uint64
	api.Session
}

// sessionPage is a page while it is put together.
type sessionPage struct {
	rows   []session
	next   string
	silent []api.Silence
}

func (p *sessionPage) toList() api.List[api.Session] {
	a := api.List[api.Session]{Items: make([]api.Session, len(p.rows)), NextCursor: p.next, Silent: p.silent}
	for i := range p.rows {
		a.Items[i] = p.rows[i].Session
	}
	return withoutNil(a)
}

// withoutNil returns a list as it is sent: its slices are never nil.
func withoutNil[T any](a api.List[T]) api.List[T] {
	if a.Items == nil {
		a.Items = []T{}
	}
	if a.Silent == nil {
		a.Silent = []api.Silence{}
	}
	return a
}

// Sessions returns a page of the sessions that a filter selects, in the order of their ids. The page may
// be shorter than its limit although others follow.
func (c *Collector) Sessions(ctx context.Context, f SessionFilter, p Page) (a api.List[api.Session], err error) {
	limit, err := p.rowLimit()
	if err != nil {
		return a, err
	}
	from, err := decodeCursor(p.Cursor, sessionList)
	if err != nil {
		return a, err
	}
	if f.ID != 0 {
		from.ID, limit = uint64(f.ID), 1
	}
	page := sessionPage{silent: from.skippedMembers()}
	if err = c.runQuery(ctx, func(ctx context.Context) error { return c.fillSessions(ctx, f, from.ID, limit, &page) }); err != nil {
		return a, err
	}
	return page.toList(), nil
}

// SessionByID returns one session, and no row if there is no such session.
func (c *Collector) SessionByID(ctx context.Context, id jute.SessionID) (api.List[api.Session], error) {
	if id == 0 {
		return api.List[api.Session]{}, errors.New("view: 0 is not the id of a session")
	}
	return c.Sessions(ctx, SessionFilter{ID: id}, Page{})
}

// fillSessions adds rows to a page until it has limit of them, the state has no more, or half of the time is over.
func (c *Collector) fillSessions(ctx context.Context, f SessionFilter, first uint64, limit int, p *sessionPage) error {
	half := time.Now().Add(c.cfg.Deadline / 2)
	for round := 0; round < maxRounds && (round == 0 || time.Now().Before(half)); round++ {
		rows, next, err := c.sessionRecords(ctx, f, first, limit)
		switch {
		case err != nil && round > 0:
			sortByMember(p.silent)
			return nil // the page ends where this part would have begun
		case err != nil:
			return err
		}
		p.silent = append(p.silent, c.fillFacts(ctx, rows, allFacts, p.silent)...)
		if rows = f.keepInState(rows); len(p.rows) == 0 {
			p.rows = rows // in most cases, these are all
		} else {
			p.rows = append(p.rows, rows...)
		}
		if len(p.rows) > limit {
			p.next = position{ID: p.rows[limit].id}.encodeCursor(sessionList, p.silent)
			p.rows = p.rows[:limit]
			return nil
		}
		if p.next = ""; next == 0 || f.ID != 0 {
			break
		}
		p.next = position{ID: next}.encodeCursor(sessionList, p.silent)
		if first = next; len(p.rows) == limit {
			break
		}
	}
	sortByMember(p.silent)
	return nil
}

// sessionRecords returns sessions of this member's state whose ids are at least first, and the id from which on
// there may be more, or 0.
func (c *Collector) sessionRecords(ctx context.Context, f SessionFilter, first uint64, limit int) (rows []session, next uint64, err error) {
	request := &proto.ViewRequest{About: &proto.ViewRequest_Sessions{Sessions: &proto.ViewSessions{
		First: first, Limit: uint32(limit), Member: f.Member, Address: []byte(f.Address),
	}}}
	err = c.querySelf(ctx, request, func(a memberReply) (err error) {
		rows, next, err = parseSessionRows(a.reply.GetSessions(), first, limit)
		return err
	})
	if f.ID != 0 {
		rows = slices.DeleteFunc(rows, func(s session) bool { return s.id != uint64(f.ID) })
	}
	return rows, next, err
}

// factSet is what only some members know of a session.
type factSet struct {
	connections bool // the member that serves the session: its connection and its watches
	times       bool // the leader: when it was heard, and how much time it has left
}

var allFacts = factSet{connections: true, times: true}

// fillFacts fills in what is needed of what only the members that serve the sessions, and the leader, know. It does not ask
// members that have been silent, and returns those that are silent now. What they have said about a row before stays. The rows are in
// the order of their ids.
func (c *Collector) fillFacts(ctx context.Context, rows []session, need factSet, silent []api.Silence) []api.Silence {
	requests := map[uint32]*proto.ViewRequest{}
	want := func(member uint32, id uint64) {
		if member == 0 || isSilent(silent, member) {
			return
		}
		if requests[member] == nil {
			requests[member] = &proto.ViewRequest{About: &proto.ViewRequest_Facts{Facts: &proto.ViewFacts{Ids: make([]uint64, 0, len(rows))}}}
		}
		ids := &requests[member].GetFacts().Ids
		*ids = append(*ids, id)
	}
	leader := c.cfg.Leader()
	for i := range rows {
		row := &rows[i]
		switch {
		case row.MemberID == 0:
			row.State = StateDisconnected
		case row.State == "":
			row.State = StateUnknown
		}
		if need.connections {
			want(row.MemberID, row.id)
		}
		if need.times && !(need.connections && leader == row.MemberID) {
			want(leader, row.id)
		}
	}
	return c.queryMembers(ctx, requests, func(a memberReply) error {
		facts := a.reply.GetFacts()
		if facts == nil {
			return errUnrelatedReply
		}
		if err := checkFacts(facts.Rows, requests[a.member].GetFacts().Ids); err != nil {
			return err
		}
		applyFacts(a.member, leader, facts.Rows, rows)
		return nil
	})
}

// applyFacts adds what a member has said to the sessions, in place of what it said before. Both are in the order of their ids.
func applyFacts(member, leader uint32, facts []*proto.FactRow, rows []session) {
	for i := range rows {
		row := &rows[i]
		var fact *proto.FactRow
		if len(facts) > 0 && facts[0].Id == row.id {
			fact, facts = facts[0], facts[1:]
		}
		if member == row.MemberID {
			row.State, row.WatchCount, row.Connection = StateDisconnected, 0, nil
		}
		if member == leader {
			row.HeardMs, row.LeftMs = nil, nil
		}
		if fact == nil {
			continue
		}
		if member == row.MemberID && fact.Connection != nil {
			c := apiConnection(member, fact.Connection)
			row.State, row.WatchCount, row.Connection = StateConnected, int(fact.Watches), &c
		}
		if member == leader && fact.Timed {
			heard, left := clampMillis(fact.HeardMs).Milliseconds(), clampMillis(fact.LeftMs).Milliseconds()
			row.HeardMs, row.LeftMs = &heard, &left
		}
	}
}
