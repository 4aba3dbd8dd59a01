package contender

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
)

// Turn reports whether a contender waits for one of a kind that came before it. It waits for the last of them, and has
// its turn when there is none.
type Turn func(before Kind) bool

// Exclusive is the Turn of a contender that is alone when it has its turn: it waits for the one before it.
func Exclusive(Kind) bool { return true }

// AwaitTurn waits for the contender's turn. If it returns an error, the contender has left; if ctx has ended, its
// node is deleted in the background. The error is a *ForeignError if the folder has other nodes than contenders, and
// ErrRemoved if another client has deleted the contender's node.
func (x *Contender) AwaitTurn(ctx context.Context, turn Turn) error {
	for {
		ahead, err := x.ahead(ctx, turn)
		if err != nil {
			_ = x.Leave(ctx)
			return err
		}
		if !ahead.waits() {
			return nil
		}
		if err := AwaitChange(ctx, x.c, x.cfg.PathOf(ahead.last.Text)); err != nil {
			x.Abandon()
			return err
		}
	}
}

// HasTurn reports whether the contender has its turn now. If it returns an error, the contender has left.
func (x *Contender) HasTurn(ctx context.Context, turn Turn) (bool, error) {
	ahead, err := x.ahead(ctx, turn)
	if err != nil {
		_ = x.Leave(ctx)
		return false, err
	}
	return !ahead.waits(), nil
}

// CountAhead returns the number of contenders before this one. If it returns an error, the contender has left.
func (x *Contender) CountAhead(ctx context.Context) (int, error) {
	ahead, err := x.ahead(ctx, Exclusive)
	if err != nil {
		_ = x.Leave(ctx)
	}
	return ahead.count, err
}

// CountAheadWatch is CountAhead, and returns a watch of the children of the folder that fires with the first change
// after that. If it returns an error, the contender has left, and there is no watch.
func (x *Contender) CountAheadWatch(ctx context.Context) (int, *client.OnceWatch, error) {
	var children []string
	var watch *client.OnceWatch
	err := reconnect.Retry(ctx, x.c, func() (err error) {
		children, _, watch, err = x.c.ChildrenWatch(ctx, x.cfg.Folder)
		return err
	})
	if errors.Is(err, client.ErrNoNode) { // another client deleted the last node, and the servers the folder
		err = fmt.Errorf("%s: %w", x.Path(), ErrRemoved)
	}
	if err != nil {
		x.Abandon()
		return 0, nil, err
	}
	ahead, err := x.aheadOf(ctx, children, Exclusive)
	if err != nil {
		watch.Stop()
		_ = x.Leave(ctx)
		return 0, nil, err
	}
	return ahead.count, watch, nil
}

// ahead returns what the folder has before the contender. The server has applied the create of the contender's node, so
// it knows all nodes with smaller numbers.
func (x *Contender) ahead(ctx context.Context, turn Turn) (ahead, error) {
	children, err := childrenOf(ctx, x.c, x.cfg.Folder)
	if err != nil {
		return ahead{}, err
	}
	return x.aheadOf(ctx, children, turn)
}

// ahead is what a folder has before a contender. A contender lists the folder each time it looks, and a thousand of them
// list a thousand names, so the names are neither kept nor sorted.
type ahead struct {
	count      int  // contenders
	last       Name // the last one to wait for; the zero value if there is none
	exists     bool // the contender's node is in the folder
	usedUp     bool // ErrNumbersUsedUp
	duplicates []string
	foreign    []string
}

// waits reports whether there is a contender to wait for.
func (a *ahead) waits() bool { return a.last.Text != "" }

// aheadOf returns what the children of the folder are to the contender. It deletes a second node with the contender's
// id.
func (x *Contender) aheadOf(ctx context.Context, children []string, turn Turn) (ahead, error) {
	var a ahead
	for _, child := range children {
		a.add(child, x, turn)
	}
	switch {
	case len(a.foreign) > 0:
		slices.Sort(a.foreign)
		return a, &ForeignError{Folder: x.cfg.Folder, Names: a.foreign, Layout: x.cfg.Layout}
	case a.usedUp:
		return a, usedUp(x.cfg.Folder)
	}
	for _, duplicate := range a.duplicates {
		if err := x.delete(ctx, duplicate); err != nil {
			return a, err
		}
	}
	if !a.exists {
		return a, fmt.Errorf("%s: %w", x.Path(), ErrRemoved)
	}
	return a, nil
}

func (a *ahead) add(child string, x *Contender, turn Turn) {
	name, ok := x.cfg.Layout.Parse(child)
	switch {
	case !ok:
		a.foreign = append(a.foreign, child)
	case name.isUsedUp():
		a.usedUp = true
	case name == x.name:
		a.exists = true
	case name.ID == x.id:
		a.duplicates = append(a.duplicates, child)
	case compare(name, x.name) < 0:
		a.count++
		if (!a.waits() || compare(name, a.last) > 0) && turn(name.Kind) {
			a.last = name
		}
	}
}

// List returns the contenders in a folder, in order. There are none if there is no folder. The error is a
// *ForeignError if the folder has other nodes.
func List(ctx context.Context, c *client.Client, folder string, layout Layout) ([]Name, error) {
	children, err := childrenOf(ctx, c, folder)
	if err != nil {
		return nil, err
	}
	names, foreign := layout.sorted(children)
	if len(foreign) > 0 {
		return nil, &ForeignError{Folder: folder, Names: foreign, Layout: layout}
	}
	if slices.ContainsFunc(names, Name.isUsedUp) {
		return nil, usedUp(folder)
	}
	return names, nil
}

// childrenOf returns the names of the children of a folder. There are none if there is no folder.
func childrenOf(ctx context.Context, c *client.Client, folder string) ([]string, error) {
	var children []string
	err := reconnect.Retry(ctx, c, func() (err error) {
		children, _, err = c.Children(ctx, folder)
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
