package contender

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
)

// WaitsFor reports whether a contender waits for one of a kind that came before it. It waits for the last of them, and has
// its turn when there is none.
type WaitsFor func(before Kind) bool

// Exclusive is the Turn of a contender that is alone when it has its turn: it waits for the one before it.
func Exclusive(Kind) bool { return true }

// AwaitTurn waits for the contender's turn. If it returns an error, the contender has left; if ctx has ended, its
// node is deleted in the background. The error is a *ForeignError if the parent has other nodes than contenders, and
// ErrRemoved if another client has deleted the contender's node.
func (x *Contender) AwaitTurn(ctx context.Context, waitsFor WaitsFor) error {
	for {
		position, err := x.readPosition(ctx, waitsFor)
		if err != nil {
			_ = x.Leave(ctx)
			return err
		}
		if !position.mustWait() {
			return nil
		}
		if err := AwaitChange(ctx, x.c, x.cfg.PathOf(position.predecessor.Text)); err != nil {
			x.Abandon()
			return err
		}
	}
}

// HasTurn reports whether the contender has its turn now. If it returns an error, the contender has left.
func (x *Contender) HasTurn(ctx context.Context, waitsFor WaitsFor) (bool, error) {
	position, err := x.readPosition(ctx, waitsFor)
	if err != nil {
		_ = x.Leave(ctx)
		return false, err
	}
	return !position.mustWait(), nil
}

// CountAhead returns the number of contenders before this one. If it returns an error, the contender has left.
func (x *Contender) CountAhead(ctx context.Context) (int, error) {
	position, err := x.readPosition(ctx, Exclusive)
	if err != nil {
		_ = x.Leave(ctx)
	}
	return position.ahead, err
}

// CountAheadWatch is CountAhead, and returns a watch of the children of the parent that fires with the first change
// after that. If it returns an error, the contender has left, and there is no watch.
func (x *Contender) CountAheadWatch(ctx context.Context) (int, *client.OnceWatch, error) {
	var children []string
	var watch *client.OnceWatch
	err := reconnect.Retry(ctx, x.c, func() (err error) {
		children, _, watch, err = x.c.ChildrenWatch(ctx, x.cfg.Parent)
		return err
	})
	if errors.Is(err, client.ErrNoNode) { // another client deleted the last node, and the servers the parent
		err = fmt.Errorf("%s: %w", x.Path(), ErrRemoved)
	}
	if err != nil {
		x.Abandon()
		return 0, nil, err
	}
	position, err := x.positionAmong(ctx, children, Exclusive)
	if err != nil {
		watch.Stop()
		_ = x.Leave(ctx)
		return 0, nil, err
	}
	return position.ahead, watch, nil
}

// readPosition returns what the parent has before the contender. The server has applied the create of the contender's node, so
// it knows all nodes with smaller numbers.
func (x *Contender) readPosition(ctx context.Context, waitsFor WaitsFor) (position, error) {
	children, err := listChildren(ctx, x.c, x.cfg.Parent)
	if err != nil {
		return position{}, err
	}
	return x.positionAmong(ctx, children, waitsFor)
}

// position is what a parent has before a contender. A contender lists the parent each time it looks, and a thousand of them
// list a thousand names, so the names are neither kept nor sorted.
type position struct {
	ahead       int  // contenders
	predecessor Name // the last one to wait for; the zero value if there is none
	exists      bool // the contender's node is under the parent
	usedUp      bool // ErrNumbersUsedUp
	duplicates  []string
	foreign     []string
}

// mustWait reports whether there is a contender to wait for.
func (p *position) mustWait() bool { return p.predecessor.Text != "" }

// positionAmong returns what the children of the parent are to the contender. It deletes a second node with the contender's
// id.
func (x *Contender) positionAmong(ctx context.Context, children []string, waitsFor WaitsFor) (position, error) {
	var p position
	for _, child := range children {
		p.addChild(child, x, waitsFor)
	}
	switch {
	case len(p.foreign) > 0:
		slices.Sort(p.foreign)
		return p, &ForeignError{Parent: x.cfg.Parent, Names: p.foreign, Layout: x.cfg.Layout}
	case p.usedUp:
		return p, numbersUsedUp(x.cfg.Parent)
	}
	for _, duplicate := range p.duplicates {
		if err := x.deleteNode(ctx, duplicate); err != nil {
			return p, err
		}
	}
	if !p.exists {
		return p, fmt.Errorf("%s: %w", x.Path(), ErrRemoved)
	}
	return p, nil
}

func (p *position) addChild(child string, x *Contender, waitsFor WaitsFor) {
	name, ok := x.cfg.Layout.Parse(child)
	switch {
	case !ok:
		p.foreign = append(p.foreign, child)
	case name.isNumberUsedUp():
		p.usedUp = true
	case name == x.name:
		p.exists = true
	case name.ID == x.id:
		p.duplicates = append(p.duplicates, child)
	case compareNames(name, x.name) < 0:
		p.ahead++
		if (!p.mustWait() || compareNames(name, p.predecessor) > 0) && waitsFor(name.Kind) {
			p.predecessor = name
		}
	}
}

// List returns the contenders under a parent, in order. There are none if there is no parent. The error is a
// *ForeignError if the parent has other nodes.
func List(ctx context.Context, c *client.Client, parent string, layout Layout) ([]Name, error) {
	children, err := listChildren(ctx, c, parent)
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

// listChildren returns the names of the children of a parent. There are none if there is no parent.
func listChildren(ctx context.Context, c *client.Client, parent string) ([]string, error) {
	var children []string
	err := reconnect.Retry(ctx, c, func() (err error) {
		children, _, err = c.Children(ctx, parent)
		return err
	})
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	return children, err
}

// AwaitChange waits until a node is set or deleted, or does not exist. It returns nil as well when the connection was
// lost and is there again, because the caller has to look again then.
func AwaitChange(ctx context.Context, c *client.Client, path string) error {
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
