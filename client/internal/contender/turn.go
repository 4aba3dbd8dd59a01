package contender

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
)

// AwaitTurn waits for the contender's turn. If it returns an error, the contender has left. If ctx has ended, the node
// is deleted in the background. The error is a *ForeignError if the parent has children that are not contenders, and
// ErrRemoved if another client has deleted the contender's node.
func (x *Contender) AwaitTurn(ctx context.Context) error {
	for {
		position, err := x.readPosition(ctx)
		if err != nil || !position.mustWait() {
			return err
		}
		if err := awaitChange(ctx, x.c, x.cfg.PathOf(position.predecessor.Text)); err != nil {
			x.Abandon()
			return err
		}
	}
}

// awaitChange waits until a node is set or deleted, or does not exist. It also returns nil after the connection was lost
// and is back, because the children may have changed meanwhile.
func awaitChange(ctx context.Context, c *client.Client, path string) error {
	_, _, watch, err := c.GetWatch(ctx, path) // unlike ExistsWatch, it leaves no watch if there is no node
	switch {
	case errors.Is(err, client.ErrNoNode):
		return nil
	case errors.Is(err, client.ErrConnectionLost), errors.Is(err, client.ErrSuspended):
		return c.AwaitConnected(ctx)
	case err != nil:
		return err
	}
	return reconnect.AwaitEvent(ctx, watch)
}

// HasTurn reports whether the contender has its turn now. If it returns an error, the contender has left.
func (x *Contender) HasTurn(ctx context.Context) (bool, error) {
	position, err := x.readPosition(ctx)
	return err == nil && !position.mustWait(), err
}

// CountAhead returns the number of contenders before this one. If it returns an error, the contender has left.
func (x *Contender) CountAhead(ctx context.Context) (int, error) {
	position, err := x.readPosition(ctx)
	return position.ahead, err
}

// CountAheadWatch is CountAhead with a watch on the parent's children, which fires at the first change after the count.
// If it returns an error, the contender has left, and there is no watch.
func (x *Contender) CountAheadWatch(ctx context.Context) (int, *client.OnceWatch, error) {
	children, _, watch, err := reconnect.Watch(ctx, x.c, x.cfg.Parent, (*client.Client).ChildrenWatch)
	if errors.Is(err, client.ErrNoNode) { // another client deleted the last node, and the servers the parent
		err = fmt.Errorf("%s: %w", x.Path(), ErrRemoved)
	}
	if err != nil {
		x.Abandon()
		return 0, nil, err
	}
	position, err := x.positionAmong(ctx, children)
	if err != nil {
		watch.Stop()
		_ = x.Leave(ctx)
		return 0, nil, err
	}
	return position.ahead, watch, nil
}

// readPosition lists the parent's children and returns the contender's position. The server has applied the create of
// the contender's node, so it knows all nodes with smaller numbers. If readPosition returns an error, the contender has
// left.
func (x *Contender) readPosition(ctx context.Context) (position, error) {
	children, err := reconnect.Children(ctx, x.c, x.cfg.Parent)
	var p position
	if err == nil {
		p, err = x.positionAmong(ctx, children)
	}
	if err != nil {
		_ = x.Leave(ctx)
	}
	return p, err
}

// position is the place of a contender among the parent's children. A thousand contenders list a thousand names each, so
// position neither keeps nor sorts the names.
type position struct {
	ahead       int      // number of contenders before this one
	predecessor Name     // the last of them to wait for; the zero value if there is none
	exists      bool     // the contender's node is one of the children
	usedUp      bool     // a child has a number for which ErrNumbersUsedUp is returned
	duplicates  []Name   // other children with the contender's id
	foreign     []string // children that are not contenders
}

// mustWait reports whether there is a contender to wait for.
func (p *position) mustWait() bool { return p.predecessor.Text != "" }

// positionAmong returns the contender's position among the parent's children. It deletes other nodes with the
// contender's id.
func (x *Contender) positionAmong(ctx context.Context, children []string) (p position, err error) {
	for _, child := range children {
		p.addChild(child, x)
	}
	switch {
	case len(p.foreign) > 0:
		slices.Sort(p.foreign)
		err = &ForeignError{Parent: x.cfg.Parent, Names: p.foreign, Layout: x.cfg.Layout}
	case p.usedUp:
		err = numbersUsedUp(x.cfg.Parent)
	default:
		err = x.deleteEach(ctx, p.duplicates)
	}
	if err == nil && !p.exists {
		err = fmt.Errorf("%s: %w", x.Path(), ErrRemoved)
	}
	return p, err
}

func (p *position) addChild(child string, x *Contender) {
	name, ok := x.cfg.Layout.Parse(child)
	switch {
	case !ok:
		p.foreign = append(p.foreign, child)
	case name.isNumberUsedUp():
		p.usedUp = true
	case name == x.name:
		p.exists = true
	case name.ID == x.id:
		p.duplicates = append(p.duplicates, name)
	case compareNames(name, x.name) < 0:
		p.ahead++
		waits := x.cfg.WaitsFor == nil || x.cfg.WaitsFor(name.Kind)
		if waits && (!p.mustWait() || compareNames(name, p.predecessor) > 0) {
			p.predecessor = name
		}
	}
}

// List returns the contenders under a parent, in order. It returns none if the parent does not exist. The error is a
// *ForeignError if the parent has other children.
func List(ctx context.Context, c *client.Client, parent string, layout Layout) ([]Name, error) {
	children, err := reconnect.Children(ctx, c, parent)
	if err != nil {
		return nil, err
	}
	names, foreign := layout.splitChildren(children)
	if len(foreign) > 0 {
		return nil, &ForeignError{Parent: parent, Names: foreign, Layout: layout}
	}
	if slices.ContainsFunc(names, Name.isNumberUsedUp) {
		return nil, numbersUsedUp(parent)
	}
	return names, nil
}
