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
	return gather(ctx, c, p, source[api.Connection]{
		list: connectionList, only: f.Member,
		request: func(boot uint64, from clients.Place, limit uint32) *proto.ViewRequest {
			return &proto.ViewRequest{About: &proto.ViewRequest_Connections{Connections: &proto.ViewConnections{
				Boot: boot, First: from.Connection, Limit: limit, Address: []byte(f.Address),
			}}}
		},
		read: func(member uint32, reply *proto.ViewReply) (part[api.Connection], error) {
			r := reply.GetConnections()
			if r == nil {
				return part[api.Connection]{}, errOther
			}
			found := part[api.Connection]{boot: r.Boot, next: clients.Place{Connection: r.Next}}
			for _, row := range r.Rows {
				found.rows = append(found.rows, connection(member, row))
			}
			return found, nil
		},
		place: func(row api.Connection) clients.Place { return clients.Place{Connection: row.Number} },
	})
}

// source says how to ask the members for parts of a list, whose rows come in the order of connections.
type source[T any] struct {
	list    list
	only    uint32 // the member that is asked; 0: all are
	request func(boot uint64, from clients.Place, limit uint32) *proto.ViewRequest
	read    func(member uint32, reply *proto.ViewReply) (part[T], error)
	place   func(T) clients.Place // of a row
	keep    func(T) bool          // whether a row is wanted; nil: all are
}

// part is what one member adds to a page.
type part[T any] struct {
	boot uint64 // the run of its process that counts the connections
	rows []T
	next clients.Place // from which on it has more; zero: it has no more
}

// gather makes a page of the parts of all members, by member. It asks all members from the page's first
// on for a whole page each: those that follow are few, and none has to be waited for after another.
func gather[T any](ctx context.Context, c *Collector, p Page, s source[T]) (a api.List[T], err error) {
	limit, err := p.limit()
	if err != nil {
		return a, err
	}
	from, err := positionOf(p.From, s.list)
	if err != nil {
		return a, err
	}
	a.Silent = from.skipped()
	began := clients.Place{Connection: from.First, Path: string(from.Path)}
	requests, members := map[uint32]*proto.ViewRequest{}, c.members()
	for _, id := range members {
		switch {
		case s.only != 0 && id != s.only || id < from.Member || isSilent(a.Silent, id):
		case id == from.Member:
			requests[id] = s.request(from.Boot, began, uint32(limit))
		default:
			requests[id] = s.request(0, clients.Place{}, uint32(limit))
		}
	}
	parts := map[uint32]part[T]{}
	err = c.within(ctx, func(ctx context.Context) error {
		a.Silent = byMember(append(a.Silent, c.ask(ctx, requests, func(one answer) error {
			found, err := s.read(one.member, one.reply)
			if err != nil {
				return err
			}
			first := clients.Place{}
			if one.member == from.Member && found.boot == from.Boot {
				first = began
			}
			if err := placed(found.rows, s.place, first, found.next, limit); err != nil {
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
	if a.Items, end = join(members, parts, limit, s.place); end.Member != 0 {
		a.Next = end.cursor(s.list, a.Silent)
	}
	return complete(a), nil
}

// join returns the first rows of all parts, by member, and where the rest begins. It is zero if there is
// no rest.
func join[T any](members []uint32, parts map[uint32]part[T], limit int, place func(T) clients.Place) (rows []T, rest position) {
	for _, id := range members {
		one := parts[id]
		if room := limit - len(rows); len(one.rows) > room {
			rows = append(rows, one.rows[:room]...)
			return rows, positionAt(id, one.boot, place(one.rows[room]))
		}
		if rows = append(rows, one.rows...); one.next != (clients.Place{}) {
			return rows, positionAt(id, one.boot, one.next)
		}
	}
	return rows, position{}
}

// positionAt returns the position of a place in a member's part.
func positionAt(member uint32, boot uint64, p clients.Place) position {
	return position{Member: member, Boot: boot, First: p.Connection, Path: []byte(p.Path)}
}
