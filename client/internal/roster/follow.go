package roster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// Follow returns the children of parent, sorted by name, and again after each change until ctx ends. A parent that does
// not exist has none. A caller that is slower than the changes misses some of them, but always gets the last one. If
// the data have more than MaxBytes, some are left out until there is space for them.
//
// When ctx or the session ends, or the parent cannot be read, the last pair has the error. After that, and after a
// break out of the loop, no goroutine and no watch is left.
func Follow(ctx context.Context, c *client.Client, parent string) iter.Seq2[[]Child, error] {
	return followChildren(ctx, c, parent, MaxBytes)
}

// FollowAs is Follow with what convert makes of the children. The error begins with the name of the caller's package.
func FollowAs[T any](ctx context.Context, c *client.Client, parent, caller string, convert func([]Child) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for children, err := range Follow(ctx, c, parent) {
			if err != nil {
				var none T
				yield(none, fmt.Errorf("%s: %w", caller, err))
				return
			}
			if !yield(convert(children), nil) {
				return
			}
		}
	}
}

func followChildren(ctx context.Context, c *client.Client, parent string, space byteBudget) iter.Seq2[[]Child, error] {
	return func(yield func([]Child, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		f := follower{c: c, parent: parent, children: map[string]*followed{}, space: space, fired: make(chan *followed)}
		defer func() {
			cancel()
			if f.watch != nil {
				f.watch.Stop()
			}
			f.waiting.Wait()
		}()
		changed := true
		err := f.readList(ctx)
		for err == nil {
			if changed && !yield(f.listChildren(), nil) {
				return
			}
			changed, err = f.awaitChange(ctx)
		}
		yield(nil, fmt.Errorf("follow %s: %w", parent, err))
	}
}

// follower is one loop of Follow. Only the goroutine of that uses it.
type follower struct {
	c        *client.Client
	parent   string
	watch    *client.OnceWatch // on the list of children, or on the parent's creation if it does not exist
	children map[string]*followed
	space    byteBudget     // for the data of more children
	fired    chan *followed // children whose watch has fired
	waiting  sync.WaitGroup // a goroutine for each child
}

// followed is a child with a watch.
type followed struct {
	Child
	watch *client.OnceWatch
	stop  context.CancelFunc // ends the goroutine that waits for the watch
}

func (f *follower) listChildren() []Child {
	children := make(map[string]Child, len(f.children))
	for name, child := range f.children {
		children[name] = child.Child
	}
	return sortChildren(children)
}

// awaitChange waits for a change and reads the changed nodes. changed reports whether the children may have changed.
func (f *follower) awaitChange(ctx context.Context) (changed bool, err error) {
	select {
	case event := <-f.watch.Fired:
		if err := reconnect.EventError(event); err != nil {
			return false, err
		}
		return true, f.readList(ctx)
	case child := <-f.fired:
		if f.children[child.Name] != child {
			return false, nil // it has been replaced
		}
		f.forgetChild(child.Name)
		if err = f.addChildren(ctx, []string{child.Name}); err == nil {
			err = f.readOmitted(ctx)
		}
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// readList reads the list of children, with a watch, and the children that are new.
func (f *follower) readList(ctx context.Context) error {
	names, err := f.readNames(ctx)
	if err != nil {
		return err
	}
	if len(names) > MaxChildren {
		return ErrTooMany
	}
	present := make(map[string]bool, len(names))
	var added []string
	for _, name := range names {
		present[name] = true
		if f.children[name] == nil {
			added = append(added, name)
		}
	}
	for name := range f.children {
		if !present[name] {
			f.forgetChild(name)
		}
	}
	if err := f.addChildren(ctx, added); err != nil {
		return err
	}
	return f.readOmitted(ctx)
}

// readOmitted reads the children again whose data were left out and fit into the budget now, in the order of their
// names.
func (f *follower) readOmitted(ctx context.Context) error {
	var again []string
	space := f.space
	for _, child := range f.listChildren() {
		if length := byteBudget(child.Stat.DataLength); child.Omitted && length <= space {
			space -= length
			again = append(again, child.Name)
			f.forgetChild(child.Name)
		}
	}
	return f.addChildren(ctx, again)
}

// readNames reads the list of children and sets a watch on it. If the parent does not exist, the watch is on its
// creation.
func (f *follower) readNames(ctx context.Context) (names []string, err error) {
	f.watch = nil
	for f.watch == nil {
		names, _, f.watch, err = reconnect.Watch(ctx, f.c, f.parent, (*client.Client).ChildrenWatch)
		if !errors.Is(err, client.ErrNoNode) {
			return names, err
		}
		_, exists, watch, err := reconnect.Watch(ctx, f.c, f.parent, (*client.Client).ExistsWatch)
		if err != nil {
			return nil, err
		}
		if exists { // it has been created meanwhile
			watch.Stop()
			continue
		}
		f.watch = watch
	}
	return nil, nil
}

// addChildren reads children with a watch on each. Children that are gone are left out: the watch on the list has
// fired.
func (f *follower) addChildren(ctx context.Context, names []string) error {
	return readEach(names, func(name string) (*followed, error) {
		data, stat, watch, err := reconnect.Watch(ctx, f.c, recipe.PathOf(f.parent, name), (*client.Client).GetWatch)
		return &followed{Child: *newChild(name, data, stat), watch: watch}, err
	}, func(child *followed) {
		f.space.keepData(&child.Child)
		f.children[child.Name] = child
		waitCtx, stop := context.WithCancel(ctx)
		child.stop = stop
		f.waiting.Go(func() { child.awaitWatch(waitCtx, f.fired) })
	})
}

// forgetChild ends the watch on a child.
func (f *follower) forgetChild(name string) {
	f.children[name].stop()
	f.space.releaseData(f.children[name].Child)
	delete(f.children, name)
}

// awaitWatch reports the child on fired when its watch has fired. It ends with ctx, or when the session has ended.
func (child *followed) awaitWatch(ctx context.Context, fired chan<- *followed) {
	select {
	case event := <-child.watch.Fired:
		if event.Type == client.SessionEnded {
			return // the watch on the list reports it too
		}
		select {
		case fired <- child:
		case <-ctx.Done():
		}
	case <-ctx.Done():
		child.watch.Stop()
	}
}
