package view

import (
	"context"
	"fmt"

	"rollcall/operator/api"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// NodeOwner returns the kind of the node at path and, if it is ephemeral, its session.
func (c *Collector) NodeOwner(ctx context.Context, path string) (o api.Owner, err error) {
	if path == "" {
		return o, errEmptyPath
	}
	o.Path, o.Children, o.Silent = path, []api.OwnedChild{}, []api.Silence{}
	var owner jute.SessionID
	request := &proto.ViewRequest{About: &proto.ViewRequest_Owner{Owner: &proto.ViewOwner{Path: []byte(path)}}}
	err = c.runQuery(ctx, func(ctx context.Context) error {
		err := c.querySelf(ctx, request, func(a memberReply) (err error) {
			r := a.reply.GetOwner()
			if r == nil {
				return errUnrelatedReply
			}
			kind, ok := nodeKindNames[r.Kind]
			if !ok || (kind == KindEphemeral) != (r.Session != 0) {
				return fmt.Errorf("a node of kind %v, of session %v", r.Kind, jute.SessionID(r.Session))
			}
			owner = jute.SessionID(r.Session)
			o.Kind, o.SessionID, o.SessionEnded = kind, SessionText(owner), r.Ended
			o.EphemeralCount, o.ChildrenCut = int(r.Ephemerals), r.Partial
			o.Children, err = ownedChildren(r)
			return err
		})
		if err != nil || owner == 0 || o.SessionEnded {
			return err
		}
		var one sessionPage
		if err := c.queryPage(ctx, SessionFilter{ID: owner}, uint64(owner), 1, &one); err != nil {
			return err
		}
		o.Silent = append([]api.Silence{}, one.silent...)
		if o.SessionEnded = len(one.rows) == 0; !o.SessionEnded {
			o.Session = &one.rows[0].Session
		}
		return nil
	})
	if err != nil {
		return api.Owner{}, err
	}
	return o, nil
}

var nodeKindNames = map[proto.NodeKind]string{
	proto.NodeKind_NODE_KIND_NONE: KindNone, proto.NodeKind_NODE_KIND_PLAIN: KindPersistent,
	proto.NodeKind_NODE_KIND_EPHEMERAL: KindEphemeral,
	proto.NodeKind_NODE_KIND_CONTAINER: KindContainer, proto.NodeKind_NODE_KIND_TTL: KindTTL,
}

// Ephemerals returns a page of the paths of a session's ephemeral nodes, in order.
func (c *Collector) Ephemerals(ctx context.Context, id jute.SessionID, p Page) (a api.List[api.Ephemeral], err error) {
	from, limit, err := p.startAndLimit(ephemeralList)
	if err != nil {
		return a, err
	}
	request := &proto.ViewRequest{About: &proto.ViewRequest_Ephemerals{Ephemerals: &proto.ViewEphemerals{
		Session: uint64(id), First: from.Path, Limit: uint32(limit),
	}}}
	err = c.runQuery(ctx, func(ctx context.Context) error {
		return c.querySelf(ctx, request, func(one memberReply) error {
			r := one.reply.GetEphemerals()
			if r == nil {
				return errUnrelatedReply
			}
			paths := make([]string, len(r.Paths))
			for i, path := range r.Paths {
				paths[i] = string(path)
			}
			if err := checkAscending(paths, string(from.Path), string(r.Next), limit); err != nil {
				return err
			}
			for _, path := range paths {
				a.Items = append(a.Items, api.Ephemeral{Path: path})
			}
			if len(r.Next) > 0 {
				a.NextCursor = position{Path: r.Next}.encodeCursor(ephemeralList, nil)
			}
			return nil
		})
	})
	return withNonNilSlices(a, err)
}
