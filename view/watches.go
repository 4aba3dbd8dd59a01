package view

import (
	"context"
	"errors"
	"fmt"

	"rollcall/jute"
	"rollcall/proto"
)

// Watches returns a page of the watches on path itself, of all members: by member, and for each member
// in the order of its connections. It leaves out recursive watches on nodes above path. p.From must come
// from a page of the same path.
func (c *Collector) Watches(ctx context.Context, path string, p Page) (Answer[Watch], error) {
	if path == "" {
		return Answer[Watch]{}, errNoPath
	}
	return gather(ctx, c, p, source[Watch]{
		list: pathWatchList,
		request: func(boot, first uint64, limit uint32) *proto.ViewRequest {
			return &proto.ViewRequest{About: &proto.ViewRequest_Watches{Watches: &proto.ViewWatches{Path: []byte(path), Boot: boot, First: first, Limit: limit}}}
		},
		read: func(member uint32, reply *proto.ViewReply) (part[Watch], error) {
			r := reply.GetWatches()
			if r == nil {
				return part[Watch]{}, errOther
			}
			found := part[Watch]{boot: r.Boot, next: r.Next}
			for _, row := range r.Rows {
				if string(row.Path) != path {
					return part[Watch]{}, fmt.Errorf("a watch on %.100q", row.Path)
				}
				found.rows = append(found.rows, Watch{member, watch(row)})
			}
			return found, nil
		},
		number: func(row Watch) uint64 { return row.Connection },
	})
}

var errNoPath = errors.New("view: the path is empty")

// SessionWatches returns a page of the watches of a session's connection, in the order of their paths.
// It has no rows if there is no such session, or no connection carries it.
func (c *Collector) SessionWatches(ctx context.Context, id jute.SessionID, p Page) (a Answer[Watch], err error) {
	limit, err := p.limit()
	if err != nil {
		return a, err
	}
	from, err := p.From.position(sessionWatchList)
	if err != nil {
		return a, err
	}
	err = c.within(ctx, func(ctx context.Context) error {
		records, _, err := c.records(ctx, Filter{ID: id}, uint64(id), 1)
		if err != nil || len(records) == 0 || records[0].Member == 0 {
			return err
		}
		c.watchesOf(ctx, records[0], from, limit, &a)
		return nil
	})
	if err != nil {
		return Answer[Watch]{}, err
	}
	return a, nil
}

// watchesOf asks the member that a session is attached to for its watches.
func (c *Collector) watchesOf(ctx context.Context, session Session, from position, limit int, a *Answer[Watch]) {
	request := &proto.ViewRequest{About: &proto.ViewRequest_Watches{Watches: &proto.ViewWatches{
		Session: uint64(session.ID), FirstPath: from.Path, Limit: uint32(limit),
	}}}
	a.Silent = c.ask(ctx, map[uint32]*proto.ViewRequest{session.Member: request}, func(one answer) error {
		r := one.reply.GetWatches()
		if r == nil {
			return errOther
		}
		var rows []Watch
		var paths []string
		for _, row := range r.Rows {
			if row.Session != uint64(session.ID) {
				return fmt.Errorf("a watch of session %v", jute.SessionID(row.Session))
			}
			rows, paths = append(rows, Watch{one.member, watch(row)}), append(paths, string(row.Path))
		}
		if err := ascending(paths, string(from.Path), string(r.NextPath), limit); err != nil {
			return err
		}
		if a.Rows = rows; len(r.NextPath) > 0 {
			a.Next = position{Path: r.NextPath}.cursor(sessionWatchList, nil)
		}
		return nil
	})
}
