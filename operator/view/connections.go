package view

import (
	"context"
	"slices"

	"rollcall/operator/api"
	"rollcall/operator/clients"
	"rollcall/proto"
)

// Connections returns a page of the client connections that a filter selects: by member, and for each member
// in the order in which they were made. The page may be shorter than its limit although others follow.
func (c *Collector) Connections(ctx context.Context, f ConnectionFilter, p Page) (api.List[api.Connection], error) {
	return gatherPage(ctx, c, p, listSource[api.Connection]{
		listKind: connectionList, onlyMember: f.Member,
		request: func(boot uint64, from clients.WatchPlace, limit uint32) *proto.ViewRequest {
			return &proto.ViewRequest{About: &proto.ViewRequest_Connections{Connections: &proto.ViewConnections{
				Boot: boot, First: from.Connection, Limit: limit, Address: []byte(f.Address),
			}}}
		},
		read: func(member uint32, reply *proto.ViewReply) (memberPart[api.Connection], error) {
			r := reply.GetConnections()
			if r == nil {
				return memberPart[api.Connection]{}, errUnrelatedReply
			}
			found := memberPart[api.Connection]{incarnation: r.Boot, next: clients.WatchPlace{Connection: r.Next}}
			for _, row := range r.Rows {
				found.rows = append(found.rows, apiConnection(member, row))
			}
			return found, nil
		},
		place: func(row api.Connection) clients.WatchPlace { return clients.WatchPlace{Connection: row.Number} },
	})
}

// listSource says how to ask the members for parts of a list, whose rows come in the order of connections.
type listSource[T any] struct {
	listKind   listKind
	onlyMember uint32 // the member that is asked; 0: all are
	request    func(boot uint64, from clients.WatchPlace, limit uint32) *proto.ViewRequest
	read       func(member uint32, reply *proto.ViewReply) (memberPart[T], error)
	place      func(T) clients.WatchPlace // of a row
	keep       func(T) bool               // whether a row is wanted; nil: all are
}

// memberPart is what one member adds to a page.
type memberPart[T any] struct {
	incarnation uint64 // the run of its process that counts the connections
	rows        []T
	next        clients.WatchPlace // from which on it has more; zero: it has no more
}

// gatherPage makes a page of the parts of all members, by member. It asks all members from the page's first
// on for a whole page each: those that follow are few, and none has to be waited for after another.
func gatherPage[T any](ctx context.Context, c *Collector, p Page, s listSource[T]) (a api.List[T], err error) {
	limit, err := p.rowLimit()
	if err != nil {
		return a, err
	}
	from, err := decodeCursor(p.Cursor, s.listKind)
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
	err = c.runQuery(ctx, func(ctx context.Context) error {
		a.Silent = sortByMember(append(a.Silent, c.queryMembers(ctx, requests, func(one memberReply) error {
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
			if s.keep != nil {
				found.rows = slices.DeleteFunc(found.rows, func(row T) bool { return !s.keep(row) })
			}
			parts[one.member] = found
			return nil
		})...))
		return nil
	})
	if err != nil {
		return api.List[T]{}, err
	}
	var end position
	if a.Items, end = joinParts(members, parts, limit, s.place); end.Member != 0 {
		a.NextCursor = end.encodeCursor(s.listKind, a.Silent)
	}
	return withoutNil(a), nil
}

// joinParts returns the first rows of all parts, by member, and where the rest begins. It is zero if there is
// no rest.
func joinParts[T any](members []uint32, parts map[uint32]memberPart[T], limit int, place func(T) clients.WatchPlace) (rows []T, rest position) {
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

// positionAt returns the position of a place in a member's part.
func positionAt(member uint32, boot uint64, p clients.WatchPlace) position {
	return position{Member: member, Boot: boot, First: p.Connection, Path: []byte(p.Path)}
}
