package contender

import (
	"context"
	"slices"

	"rollcall/client/internal/reconnect"
)

// ID returns the protection id in the name of the contender's node.
func (x *Contender) ID() string { return x.id }

// ListAhead returns the contenders before this one, in no order. If it returns an error, the contender has left.
func (x *Contender) ListAhead(ctx context.Context) ([]Name, error) {
	children, err := reconnect.Children(ctx, x.c, x.cfg.Parent)
	if err == nil {
		_, err = x.positionAmong(ctx, children)
	}
	if err != nil {
		_ = x.Leave(ctx)
		return nil, err
	}
	names, _ := x.cfg.Layout.splitChildren(children)
	return slices.DeleteFunc(names, func(n Name) bool { return n.ID == x.id || compareNames(n, x.name) > 0 }), nil
}
