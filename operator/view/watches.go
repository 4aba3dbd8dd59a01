package view

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"rollcall/operator/api"
	"rollcall/operator/clients"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// PathWatches returns a page of the watches of all members that cover path: those on path itself, and recursive
// ones on its ancestors. They are ordered by member, connection and path. p.Cursor must come from a page of the
// same path.
func (c *Collector) PathWatches(ctx context.Context, path string, p Page) (api.List[api.Watch], error) {
	if path == "" {
		return api.List[api.Watch]{}, errEmptyPath
	}
	return gatherPage(ctx, c, p, listSource[api.Watch]{
		listKind: pathWatchList,
		request: func(boot uint64, from clients.WatchPlace, limit uint32) *proto.ViewRequest {
			return &proto.ViewRequest{About: &proto.ViewRequest_Watches{Watches: &proto.ViewWatches{
				Path: []byte(path), Incarnation: boot, First: from.Connection, FirstPath: []byte(from.Path), Limit: limit,
			}}}
		},
		read: func(member uint32, reply *proto.ViewReply) (memberPart[api.Watch], error) {
			r := reply.GetWatches()
			if r == nil {
				return memberPart[api.Watch]{}, errUnrelatedReply
			}
			found := memberPart[api.Watch]{
				incarnation: r.Incarnation,
				next:        clients.WatchPlace{Connection: r.Next, Path: string(r.NextPath)},
			}
			for _, row := range r.Rows {
				if on := string(row.Path); on != path && !(row.Recursive && isAncestor(on, path)) {
					return memberPart[api.Watch]{}, fmt.Errorf("a watch on %.100q", on)
				}
				found.rows = append(found.rows, apiWatch(member, row))
			}
			return found, nil
		},
		place: func(row api.Watch) clients.WatchPlace {
			return clients.WatchPlace{Connection: row.Connection, Path: row.Path}
		},
	})
}

// isAncestor reports whether path is below above.
func isAncestor(above, path string) bool {
	return above == "/" && path != "/" || strings.HasPrefix(path, above+"/")
}

var errEmptyPath = errors.New("view: the path is empty")

// SessionWatches returns a page of the watches of a session's connection, by path. It has no rows if the session
// or its connection does not exist.
func (c *Collector) SessionWatches(ctx context.Context, id jute.SessionID, p Page) (a api.List[api.Watch], err error) {
	from, limit, err := p.startAndLimit(sessionWatchList)
	if err != nil {
		return a, err
	}
	err = c.runQuery(ctx, func(ctx context.Context) error {
		records, _, err := c.querySessionRecords(ctx, SessionFilter{ID: id}, uint64(id), 1)
		if err != nil || len(records) == 0 || records[0].MemberID == 0 {
			return err
		}
		c.fillSessionWatches(ctx, id, records[0].MemberID, from, limit, &a)
		return nil
	})
	return withNonNilSlices(a, err)
}

// fillSessionWatches queries the member that the session is attached to.
func (c *Collector) fillSessionWatches(ctx context.Context, id jute.SessionID, member uint32, from position, limit int,
	a *api.List[api.Watch],
) {
	request := &proto.ViewRequest{About: &proto.ViewRequest_Watches{Watches: &proto.ViewWatches{
		Session: uint64(id), FirstPath: from.Path, Limit: uint32(limit),
	}}}
	a.Silent = c.queryMembers(ctx, map[uint32]*proto.ViewRequest{member: request}, func(one memberReply) error {
		r := one.reply.GetWatches()
		if r == nil {
			return errUnrelatedReply
		}
		var rows []api.Watch
		var paths []string
		for _, row := range r.Rows {
			if row.Session != uint64(id) {
				return fmt.Errorf("a watch of session %v", jute.SessionID(row.Session))
			}
			rows, paths = append(rows, apiWatch(one.member, row)), append(paths, string(row.Path))
		}
		if err := checkAscending(paths, string(from.Path), string(r.NextPath), limit); err != nil {
			return err
		}
		if a.Items = rows; len(r.NextPath) > 0 {
			a.NextCursor = position{Path: r.NextPath}.encodeCursor(sessionWatchList, nil)
		}
		return nil
	})
}
