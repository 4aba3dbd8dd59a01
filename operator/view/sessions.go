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

// maxRounds limits the parts of the state that one page of sessions combines. A filter that selects few sessions
// leaves pages short instead of delaying them.
const maxRounds = 16

type session struct {
	id uint64
	api.Session
}

// sessionPage is a page under construction.
type sessionPage struct {
	rows   []session
	next   string
	silent []api.Silence
}

func (p *sessionPage) toList(err error) (api.List[api.Session], error) {
	a := api.List[api.Session]{Items: make([]api.Session, len(p.rows)), NextCursor: p.next, Silent: p.silent}
	for i := range p.rows {
		a.Items[i] = p.rows[i].Session
	}
	return withNonNilSlices(a, err)
}

// withNonNilSlices returns a with slices that are not nil, or the error with an empty list.
func withNonNilSlices[T any](a api.List[T], err error) (api.List[T], error) {
	if err != nil {
		return api.List[T]{}, err
	}
	if a.Items == nil {
		a.Items = []T{}
	}
	if a.Silent == nil {
		a.Silent = []api.Silence{}
	}
	return a, nil
}

// Sessions returns a page of the sessions that a filter selects, by id. A page that is not the last may be
// shorter than its limit.
func (c *Collector) Sessions(ctx context.Context, f SessionFilter, p Page) (a api.List[api.Session], err error) {
	from, limit, err := p.startAndLimit(sessionList)
	if err != nil {
		return a, err
	}
	if f.ID != 0 {
		from.ID, limit = uint64(f.ID), 1
	}
	page := sessionPage{silent: from.skippedMembers()}
	return page.toList(c.runQuery(ctx,
		func(ctx context.Context) error { return c.queryPage(ctx, f, from.ID, limit, &page) }))
}

// SessionByID returns one session, or no row if there is none.
func (c *Collector) SessionByID(ctx context.Context, id jute.SessionID) (api.List[api.Session], error) {
	if id == 0 {
		return api.List[api.Session]{}, errors.New("view: 0 is not the id of a session")
	}
	return c.Sessions(ctx, SessionFilter{ID: id}, Page{})
}

// queryPage adds rows to a page until it is full, the state has no more, or half of the deadline has passed.
func (c *Collector) queryPage(ctx context.Context, f SessionFilter, first uint64, limit int, p *sessionPage) error {
	half := time.Now().Add(c.cfg.Deadline / 2)
	for round := 0; round < maxRounds && (round == 0 || time.Now().Before(half)); round++ {
		rows, next, err := c.querySessionRecords(ctx, f, first, limit)
		switch {
		case err != nil && round > 0:
			sortByMember(p.silent)
			return nil // the page ends where this part would have begun
		case err != nil:
			return err
		}
		p.silent = append(p.silent, c.queryFacts(ctx, rows, allFacts, p.silent)...)
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

// querySessionRecords returns sessions of this member's state with ids from first on, and the start of the rest, or
// 0.
func (c *Collector) querySessionRecords(ctx context.Context, f SessionFilter, first uint64, limit int) (rows []session,
	next uint64, err error,
) {
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

// factSet selects facts about sessions that only some members know.
type factSet struct {
	connections bool // the member that serves the session: its connection and its watches
	times       bool // the leader: when it was heard, and how much time it has left
}

var allFacts = factSet{connections: true, times: true}

// queryFacts fills in the facts of need from the members that serve the sessions and from the leader. It skips
// the members in silent, and returns further silent ones. Facts from earlier calls stay. The rows are sorted by
// id.
func (c *Collector) queryFacts(ctx context.Context, rows []session, need factSet, silent []api.Silence) []api.Silence {
	requests := map[uint32]*proto.ViewRequest{}
	want := func(member uint32, id uint64) {
		if member == 0 || isSilent(silent, member) {
			return
		}
		if requests[member] == nil {
			requests[member] = &proto.ViewRequest{About: &proto.ViewRequest_Facts{Facts: &proto.ViewFacts{Ids: make([]uint64, 0,
				len(rows))}}}
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

// applyFacts replaces a member's earlier facts about the sessions. Both lists are sorted by id.
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
