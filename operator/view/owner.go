package view

import (
	"context"
	"fmt"

	"rollcall/operator/api"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// Owner returns the kind of the node at path and, if it is ephemeral, the session that owns it.
func (c *Collector) Owner(ctx context.Context, path string) (o api.Owner, err error) {
	if path == "" {
		return o, errNoPath
	}
	o.Path, o.Silent = path, []api.Silence{}
	var owner jute.SessionID
	request := &proto.ViewRequest{About: &proto.ViewRequest_Owner{Owner: &proto.ViewOwner{Path: []byte(path)}}}
	err = c.within(ctx, func(ctx context.Context) error {
		err := c.askSelf(ctx, request, func(a answer) error {
			r := a.reply.GetOwner()
			if r == nil {
				return errOther
			}
			kind, ok := kinds[r.Kind]
			if !ok || (kind == Ephemeral) != (r.Session != 0) {
				return fmt.Errorf("a node of kind %v, of session %v", r.Kind, jute.SessionID(r.Session))
			}
			owner = jute.SessionID(r.Session)
			o.Kind, o.ID, o.Ended = kind, SessionText(owner), r.Ended
			return nil
		})
		if err != nil || owner == 0 || o.Ended {
			return err
		}
		var one sessionPage
		if err := c.sessions(ctx, Filter{ID: owner}, uint64(owner), 1, &one); err != nil {
			return err
		}
		o.Silent = append([]api.Silence{}, one.silent...)
		if o.Ended = len(one.rows) == 0; !o.Ended {
			o.Session = &one.rows[0].Session
		}
		return nil
	})
	if err != nil {
		return api.Owner{}, err
	}
	return o, nil
}

var kinds = map[proto.NodeKind]string{
	proto.NodeKind_NODE_KIND_NONE: NoNode, proto.NodeKind_NODE_KIND_PLAIN: Plain, proto.NodeKind_NODE_KIND_EPHEMERAL: Ephemeral,
	proto.NodeKind_NODE_KIND_CONTAINER: Container, proto.NodeKind_NODE_KIND_TTL: TTL,
}

// Ephemerals returns a page of the paths of a session's ephemeral nodes, in order.
func (c *Collector) Ephemerals(ctx context.Context, id jute.SessionID, p Page) (a api.List[api.Ephemeral], err error) {
	limit, err := p.limit()
	if err != nil {
		return a, err
	}
	from, err := positionOf(p.From, ephemeralList)
	if err != nil {
		return a, err
	}
	request := &proto.ViewRequest{About: &proto.ViewRequest_Ephemerals{Ephemerals: &proto.ViewEphemerals{
		Session: uint64(id), First: from.Path, Limit: uint32(limit),
	}}}
	err = c.within(ctx, func(ctx context.Context) error {
		return c.askSelf(ctx, request, func(one answer) error {
			r := one.reply.GetEphemerals()
			if r == nil {
				return errOther
			}
			paths := make([]string, len(r.Paths))
			for i, path := range r.Paths {
				paths[i] = string(path)
			}
			if err := ascending(paths, string(from.Path), string(r.Next), limit); err != nil {
				return err
			}
			for _, path := range paths {
				a.Items = append(a.Items, api.Ephemeral{Path: path})
			}
			if len(r.Next) > 0 {
				a.Next = position{Path: r.Next}.cursor(ephemeralList, nil)
			}
			return nil
		})
	})
	if err != nil {
		return api.List[api.Ephemeral]{}, err
	}
	return complete(a), nil
}
