package contender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/client"
	"rollcall/client/internal/nodepath"
	"rollcall/client/internal/reconnect"
)

// Enter creates the node of a contender. If it returns an error, no node stays: it may be deleted in the background.
// Enter waits for a connection if there is none, whatever WhileSuspended of client.Config is.
func Enter(ctx context.Context, c *client.Client, cfg Config) (*Contender, error) {
	x := &Contender{c: c, cfg: cfg, id: cmp.Or(cfg.ID, cfg.Layout.newID())}
	path, mode := cfg.PathOf(cfg.Layout.namePrefix(x.id, cfg.Kind)), client.EphemeralSequential.WithACL(cfg.ACL...)
	err := x.createNode(ctx, func() (string, client.Stat, error) { return c.Create(ctx, path, cfg.Data, mode) })
	if err != nil {
		return nil, err
	}
	x.token = x.stat.Created
	if x.name.isNumberUsedUp() {
		x.Abandon()
		return nil, numbersUsedUp(cfg.Parent)
	}
	return x, nil
}

// EnterBeside creates the node of a contender of another kind with holder's number, and so with its place and its token.
// right must be holder's right. If it is not held any more, the error is client.ErrNotHeld.
func EnterBeside(ctx context.Context, holder *Contender, right *client.Right, cfg Config) (*Contender, error) {
	x := &Contender{c: holder.c, cfg: cfg, id: cfg.Layout.newID(), token: holder.token}
	number := holder.name.Text[len(holder.cfg.Layout.namePrefix(holder.name.ID, holder.name.Kind)):]
	path := cfg.PathOf(cfg.Layout.namePrefix(x.id, cfg.Kind) + number)
	op := client.CreateOp(path, cfg.Data, client.Ephemeral.WithACL(cfg.ACL...))
	err := x.createNode(ctx, func() (string, client.Stat, error) {
		results, err := right.Guard(ctx, op)
		if err != nil {
			return "", client.Stat{}, err
		}
		return results[0].Path, results[0].Stat, nil
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// createNode creates the contender's node once, by calling request. If it returns an error, no node stays.
func (x *Contender) createNode(ctx context.Context, request func() (string, client.Stat, error)) error {
	err := reconnect.RetryWithSharedParent(ctx, x.c, x.cfg.Parent, func() error {
		path, stat, err := request()
		if client.MayHaveHappened(err) {
			x.mayHaveDuplicates = true
			found, err := x.findCreated(ctx)
			if !found && err == nil {
				return client.ErrConnectionLost // whatever it was: the create is settled, and can be sent again
			}
			return err
		}
		if err != nil {
			return err
		}
		_, name := nodepath.SplitLast(path)
		return x.adoptNode(name, stat)
	})
	if err != nil && x.mayHaveDuplicates {
		x.Abandon()
	}
	return err
}

// adoptNode makes the node with this name the contender's node.
func (x *Contender) adoptNode(text string, stat client.Stat) error {
	name, ok := x.cfg.Layout.Parse(text)
	if !ok {
		return fmt.Errorf("%s: the server named the node %q, which is no name of %v", x.cfg.Parent, text, x.cfg.Layout)
	}
	x.name, x.stat = name, stat
	return nil
}

// findCreated searches for the node of a create without a reply, and adopts it. found is false if the create was not
// carried out, or if another client has deleted the node since.
func (x *Contender) findCreated(ctx context.Context) (found bool, err error) {
	names, err := x.findByID(ctx)
	if err != nil || len(names) == 0 {
		return false, err
	}
	stat, found, err := reconnect.Read(ctx, x.c, x.cfg.PathOf(names[0].Text), (*client.Client).Exists)
	if err != nil || !found {
		return false, err
	}
	if err := x.adoptNode(names[0].Text, stat); err != nil {
		return false, err
	}
	return true, x.deleteEach(ctx, names[1:])
}

// findByID returns the sorted names with the contender's id. It settles earlier creates first: one that is not in the
// result will never be carried out.
func (x *Contender) findByID(ctx context.Context) ([]Name, error) {
	if err := x.c.AwaitConnected(ctx); err != nil {
		return nil, err
	}
	var children []string
	err := reconnect.Retry(ctx, x.c, func() (err error) {
		if err = x.c.Sync(ctx); err == nil {
			children, _, err = x.c.Children(ctx, x.cfg.Parent)
		}
		return err
	})
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil // without a parent there is no node
	}
	names, _ := x.cfg.Layout.splitChildren(children)
	return slices.DeleteFunc(names, func(n Name) bool { return n.ID != x.id }), err
}
