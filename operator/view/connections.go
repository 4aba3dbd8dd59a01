package view

import (
	"context"

	"rollcall/operator/api"
	"rollcall/operator/clients"
	"rollcall/proto"
)

// Connections returns a page of the client connections that a filter selects, by member and for each member in
// the order in which they were made. A page that is not the last may be shorter than its limit.
func (c *Collector) Connections(ctx context.Context, f ConnectionFilter, p Page) (api.List[api.Connection], error) {
	return gatherPage(ctx, c, p, listSource[api.Connection]{
		listKind: connectionList, onlyMember: f.Member,
		request: func(boot uint64, from clients.WatchPlace, limit uint32) *proto.ViewRequest {
			return &proto.ViewRequest{About: &proto.ViewRequest_Connections{Connections: &proto.ViewConnections{
				Incarnation: boot, First: from.Connection, Limit: limit, Address: []byte(f.Address),
			}}}
		},
		read: func(member uint32, reply *proto.ViewReply) (memberPart[api.Connection], error) {
			r := reply.GetConnections()
			if r == nil {
				return memberPart[api.Connection]{}, errUnrelatedReply
			}
			found := memberPart[api.Connection]{incarnation: r.Incarnation, next: clients.WatchPlace{Connection: r.Next}}
			for _, row := range r.Rows {
				found.rows = append(found.rows, apiConnection(member, row))
			}
			return found, nil
		},
		place: func(row api.Connection) clients.WatchPlace { return clients.WatchPlace{Connection: row.Number} },
	})
}

// listSource describes how to query the members for parts of a list, whose rows are in the order of connections.
type listSource[T any] struct {
	listKind   listKind
	onlyMember uint32 // 0: all members
	request    func(boot uint64, from clients.WatchPlace, limit uint32) *proto.ViewRequest
	read       func(member uint32, reply *proto.ViewReply) (memberPart[T], error)
	place      func(T) clients.WatchPlace // of a row
}

// memberPart is one member's part of a page.
type memberPart[T any] struct {
	incarnation uint64 // incarnation of the process that counts the connections
	rows        []T
	next        clients.WatchPlace // start of the rest; zero: there is none
}

// gatherPage builds a page of the parts of all members, by member. It queries all members from the page's first
// one on for a whole page each, so that it waits only once.
func gatherPage[T any](ctx context.Context, c *Collector, p Page, s listSource[T]) (a api.List[T], err error) {
	from, limit, err := p.startAndLimit(s.listKind)
	if err != nil {
		return a, err
	}
	a.Silent = from.skippedMembers()
	began := clients.WatchPlace{Connection: from.First, Path: string(from.Path)}
	requests, members := map[uint32]*proto.ViewRequest{}, c.memberIDs()
	for _, id := range members {
		switch {
		case s.onlyMember != 0 && id != s.onlyMember || id < from.Member || isSilent(a.Silent, id):
		case id == from.Member:
			requests[id] = s.request(from.Boot, began, uint32(limit))
		default:
			requests[id] = s.request(0, clients.WatchPlace{}, uint32(limit))
		}
	}
	parts := map[uint32]memberPart[T]{}
	a.Silent, err = c.runMemberQuery(ctx, requests, a.Silent, func(one memberReply) error {
		found, err := s.read(one.member, one.reply)
		if err != nil {
			return err
		}
		first := clients.WatchPlace{}
		if one.member == from.Member && found.incarnation == from.Boot {
			first = began
		}
		if err := checkPlaces(found.rows, s.place, first, found.next, limit); err != nil {
			return err
		}
		parts[one.member] = found
		return nil
	})
	if err != nil {
		return api.List[T]{}, err
	}
	var end position
	if a.Items, end = joinParts(members, parts, limit, s.place); end.Member != 0 {
		a.NextCursor = end.encodeCursor(s.listKind, a.Silent)
	}
	return withNonNilSlices(a, nil)
}

// joinParts returns the first rows of all parts, by member, and the position of the rest, which is zero if there
// is none.
func joinParts[T any](members []uint32, parts map[uint32]memberPart[T], limit int,
	place func(T) clients.WatchPlace,
) (rows []T, rest position) {
	for _, id := range members {
		one := parts[id]
		if room := limit - len(rows); len(one.rows) > room {
			rows = append(rows, one.rows[:room]...)
			return rows, positionAt(id, one.incarnation, place(one.rows[room]))
		}
		if rows = append(rows, one.rows...); one.next != (clients.WatchPlace{}) {
			return rows, positionAt(id, one.incarnation, one.next)
		}
	}
	return rows, position{}
}

func positionAt(member uint32, boot uint64, p clients.WatchPlace) position {
	return position{Member: member, Boot: boot, First: p.Connection, Path: []byte(p.Path)}
}
