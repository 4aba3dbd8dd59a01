package view

import (
	"context"
	"errors"
	"slices"
	"time"

	"rollcall/jute"
	"rollcall/proto"
)

// maxRounds is how many parts of the state one page of sessions is put together from at most. A filter
// that lets few sessions through leaves pages short instead of holding up their reader.
const maxRounds = 16

// Sessions returns a page of the sessions that a filter selects, in the order of their ids. The page may
// be shorter than its limit although others follow.
func (c *Collector) Sessions(ctx context.Context, f Filter, p Page) (a Answer[Session], err error) {
	limit, err := p.limit()
	if err != nil {
		return a, err
	}
	from, err := p.From.position(sessionList)
	if err != nil {
		return a, err
	}
	if f.ID != 0 {
		from.ID, limit = uint64(f.ID), 1
	}
	a.Silent = from.skipped()
	err = c.within(ctx, func(ctx context.Context) error { return c.sessions(ctx, f, from.ID, limit, &a) })
	if err != nil {
		return Answer[Session]{}, err
	}
	return a, nil
}

// Session returns one session, and no row if there is no such session.
func (c *Collector) Session(ctx context.Context, id jute.SessionID) (Answer[Session], error) {
	if id == 0 {
		return Answer[Session]{}, errors.New("view: 0 is not the id of a session")
	}
	return c.Sessions(ctx, Filter{ID: id}, Page{})
}

// sessions adds rows to a until it has limit of them, the state has no more, or half of the time is over.
func (c *Collector) sessions(ctx context.Context, f Filter, first uint64, limit int, a *Answer[Session]) error {
	half := time.Now().Add(c.cfg.Deadline / 2)
	for round := 0; round < maxRounds && (round == 0 || time.Now().Before(half)); round++ {
		rows, next, err := c.records(ctx, f, first, limit)
		switch {
		case err != nil && round > 0:
			byMember(a.Silent)
			return nil // the page ends where this part would have begun
		case err != nil:
			return err
		}
		a.Silent = append(a.Silent, c.facts(ctx, rows, everything, a.Silent)...)
		rows = f.inState(rows)
		if len(a.Rows) == 0 {
			a.Rows = rows // in most cases, these are all: a copy would be half of the garbage
		} else {
			a.Rows = append(a.Rows, rows...)
		}
		if len(a.Rows) > limit {
			a.Next = position{ID: uint64(a.Rows[limit].ID)}.cursor(sessionList, a.Silent)
			a.Rows = a.Rows[:limit]
			return nil
		}
		if a.Next = ""; next == 0 || f.ID != 0 {
			break
		}
		a.Next = position{ID: next}.cursor(sessionList, a.Silent)
		if first = next; len(a.Rows) == limit {
			break
		}
	}
	byMember(a.Silent)
	return nil
}

// records returns sessions of this member's state whose ids are at least first, and the id from which on
// there may be more, or 0.
func (c *Collector) records(ctx context.Context, f Filter, first uint64, limit int) (rows []Session, next uint64, err error) {
	request := &proto.ViewRequest{About: &proto.ViewRequest_Sessions{Sessions: &proto.ViewSessions{
		First: first, Limit: uint32(limit), Member: f.Member, Address: []byte(f.Address),
	}}}
	err = c.askSelf(ctx, request, func(a answer) (err error) {
		rows, next, err = sessionRows(a.reply.GetSessions(), first, limit)
		return err
	})
	if f.ID != 0 {
		rows = slices.DeleteFunc(rows, func(s Session) bool { return s.ID != f.ID })
	}
	return rows, next, err
}

// knowledge is what only some members know of a session.
type knowledge struct {
	connections bool // the member that serves the session: its connection and its watches
	times       bool // the leader: when it was heard, and how much time it has left
}

var everything = knowledge{connections: true, times: true}

// facts fills in what is needed of what only the members that serve the sessions, and the leader, know. It does not ask
// members that have been silent, and returns those that are silent now. What they have said about a row before stays. The rows are in
// the order of their ids.
func (c *Collector) facts(ctx context.Context, rows []Session, need knowledge, silent []Silence) []Silence {
	requests := map[uint32]*proto.ViewRequest{}
	want := func(member uint32, id jute.SessionID) {
		if member == 0 || isSilent(silent, member) {
			return
		}
		if requests[member] == nil {
			requests[member] = &proto.ViewRequest{About: &proto.ViewRequest_Facts{Facts: &proto.ViewFacts{Ids: make([]uint64, 0, len(rows))}}}
		}
		ids := &requests[member].GetFacts().Ids
		*ids = append(*ids, uint64(id))
	}
	leader := c.cfg.Leader()
	for i := range rows {
		row := &rows[i]
		switch {
		case row.Member == 0:
			row.State = Disconnected
		case row.State == 0:
			row.State = Unknown
		}
		if need.connections {
			want(row.Member, row.ID)
		}
		if need.times && !(need.connections && leader == row.Member) {
			want(leader, row.ID)
		}
	}
	return c.ask(ctx, requests, func(a answer) error {
		facts := a.reply.GetFacts()
		if facts == nil {
			return errOther
		}
		if err := checkFacts(facts.Rows, requests[a.member].GetFacts().Ids); err != nil {
			return err
		}
		takeFacts(a.member, leader, facts.Rows, rows)
		return nil
	})
}

// takeFacts adds what a member has said to the sessions, in place of what it said before. Both are in the order of their ids.
func takeFacts(member, leader uint32, facts []*proto.FactRow, rows []Session) {
	for i := range rows {
		row := &rows[i]
		var fact *proto.FactRow
		if len(facts) > 0 && facts[0].Id == uint64(row.ID) {
			fact, facts = facts[0], facts[1:]
		}
		if member == row.Member {
			row.State, row.Watches, row.Connection = Disconnected, 0, nil
		}
		if member == leader {
			row.Timed, row.Heard, row.Left = false, 0, 0
		}
		if fact == nil {
			continue
		}
		if member == row.Member && fact.Connection != nil {
			row.State, row.Watches, row.Connection = Connected, int(fact.Watches), connection(fact.Connection)
		}
		if member == leader && fact.Timed {
			row.Timed, row.Heard, row.Left = true, millis(fact.HeardMs), millis(fact.LeftMs)
		}
	}
}
