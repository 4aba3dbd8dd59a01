package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/client"
	"rollcall/client/internal/nodepath"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// readyName is the name of the node that exists during a round.
const readyName = "ready"

// DoubleConfig has the settings of a DoubleBarrier.
type DoubleConfig struct {
	Count int          // the members of a round; required, the same for all clients
	Data  []byte       // of this client's nodes
	ACL   []client.ACL // of the nodes; nil: everyone has every permission
}

// DoubleBarrier is a place where clients begin and end a computation together. It is safe for concurrent use; each call
// of Enter is a member of its own.
type DoubleBarrier struct {
	c      *client.Client
	parent string
	cfg    DoubleConfig
}

// NewDouble returns the DoubleBarrier whose members are children of parent. It does not use the network.
func NewDouble(c *client.Client, parent string, cfg DoubleConfig) *DoubleBarrier {
	return &DoubleBarrier{c: c, parent: parent, cfg: cfg}
}

// Member is a client that has entered a DoubleBarrier. The Right ends when the member leaves or its session ends.
// Right.Release leaves without waiting for the others.
type Member struct {
	*client.Right
	barrier *DoubleBarrier
	name    string
	round   client.Zxid // when ready was created
}

// Enter enters and waits until the barrier is full. If there is a round already, it first waits for the end of that
// round. If it returns an error, the client has not entered. The error is client.ErrNotHeld if the member's node was
// deleted, or if the Client may not act on its session any more.
func (b *DoubleBarrier) Enter(ctx context.Context) (*Member, error) {
	if b.cfg.Count < 1 {
		return nil, wrapError("enter", b.parent, fmt.Errorf("the count is %d; it must be at least 1", b.cfg.Count))
	}
	for {
		m, err := b.tryEnter(ctx)
		if !errors.Is(err, errLate) {
			return m, wrapError("enter", b.parent, err)
		}
	}
}

// errLate means that a round began before the client had entered.
var errLate = errors.New("a round began before")

// tryEnter enters the next round. The error is errLate if that began without the client.
func (b *DoubleBarrier) tryEnter(ctx context.Context) (*Member, error) {
	if err := b.awaitEnd(ctx, anyRound); err != nil {
		return nil, err
	}
	m := &Member{barrier: b, name: nodepath.NewUUID()} // as Curator's names are
	stat, err := reconnect.CreateOwn(ctx, b.c, b.parent, m.name, b.cfg.Data, client.Ephemeral.WithACL(b.cfg.ACL...))
	if err != nil {
		return nil, err
	}
	if err := reconnect.Retry(ctx, b.c, func() error { return recipe.Prove(ctx, b.c) }); err != nil {
		reconnect.DeleteInBackground(b.c, b.pathOf(m.name))
		return nil, err
	}
	m.Right = recipe.NewRight(b.c, b.pathOf(m.name), stat)
	held, cancel := m.Context(ctx)
	defer cancel()
	m.round, err = b.awaitRound(held, stat.Created)
	if err == nil && m.Held() {
		return m, nil
	}
	if cause := context.Cause(held); cause != nil { // leaving ends held as well, so read its cause before
		err = cause
	}
	if err == nil { // by the clock the right has ended, but its timer has not run yet
		err = client.ErrNotHeld
	}
	m.leaveInBackground()
	return nil, err
}

func (b *DoubleBarrier) pathOf(name string) string { return recipe.PathOf(b.parent, name) }

// readyStat returns the Stat of the node ready. exists is false if there is none.
func (b *DoubleBarrier) readyStat(ctx context.Context) (stat client.Stat, exists bool, err error) {
	return reconnect.Read(ctx, b.c, b.pathOf(readyName), (*client.Client).Exists)
}

// listMembers returns the sorted names of the members, or none if the parent does not exist.
func (b *DoubleBarrier) listMembers(ctx context.Context) ([]string, error) {
	names, err := reconnect.Children(ctx, b.c, b.parent)
	names = slices.DeleteFunc(names, func(name string) bool { return name == readyName })
	slices.Sort(names)
	return names, err
}

// anyRound stands for whatever round there is.
const anyRound client.Zxid = 0

// awaitEnd waits until a round is over. It watches the member that leaves last, unless that ends before, because ready
// alone would stay if all members ended.
func (b *DoubleBarrier) awaitEnd(ctx context.Context, round client.Zxid) error {
	for {
		ready, exists, err := b.readyStat(ctx)
		if err != nil || !exists || round != anyRound && ready.Created != round {
			return err
		}
		names, err := b.listMembers(ctx)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			err = b.awaitMemberOf(ctx, ready.Created, names[0])
		} else {
			err = b.clearRound(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// awaitMemberOf waits until a member leaves or ends. It returns at once if the round is over: the member may be one of
// the next round.
func (b *DoubleBarrier) awaitMemberOf(ctx context.Context, round client.Zxid, name string) error {
	watch, err := reconnect.WatchNode(ctx, b.c, b.pathOf(name))
	if err != nil || watch == nil {
		return err
	}
	ready, exists, err := b.readyStat(ctx)
	if err != nil || !exists || ready.Created != round {
		watch.Stop()
		return err
	}
	return reconnect.AwaitEvent(ctx, watch)
}

// clearRound deletes ready if there are no members. A round that begins meanwhile sets the parent first, so its ready
// is not deleted.
func (b *DoubleBarrier) clearRound(ctx context.Context) error {
	change := client.DeleteOp(b.pathOf(readyName), client.AnyVersion)
	return b.changeRound(ctx, change, func(members int) bool { return members == 0 })
}

// beginRound creates ready if the barrier is full.
func (b *DoubleBarrier) beginRound(ctx context.Context) error {
	change := client.CreateOp(b.pathOf(readyName), b.cfg.Data, client.Persistent.WithACL(b.cfg.ACL...))
	return b.changeRound(ctx, change, func(members int) bool { return members >= b.cfg.Count })
}

// changeRound carries out an operation on ready if wanted returns true for the number of members. It returns nil if
// another client has carried it out.
func (b *DoubleBarrier) changeRound(ctx context.Context, change client.Operation, wanted func(members int) bool) error {
	for {
		err := reconnect.Retry(ctx, b.c, func() error { return b.tryChange(ctx, change, wanted) })
		switch {
		case errors.Is(err, client.ErrBadVersion): // another client was faster: read again
			continue
		case errors.Is(err, client.ErrNoNode), errors.Is(err, client.ErrNodeExists): // of the parent or of ready
			return nil
		}
		return err
	}
}

// tryChange is changeRound, once. The error is client.ErrBadVersion if another client has changed the round after the
// parent was read.
func (b *DoubleBarrier) tryChange(ctx context.Context, change client.Operation, wanted func(members int) bool) error {
	data, parent, err := b.c.Get(ctx, b.parent)
	if err != nil {
		return err
	}
	names, err := b.listMembers(ctx)
	if err == nil && wanted(len(names)) {
		_, err = b.c.Multi(ctx, client.SetOp(b.parent, data, parent.Version), change)
	}
	return err
}

// awaitRound waits until a round begins, and returns its zxid. own is that of the member's node. The error is errLate
// if the round began before.
func (b *DoubleBarrier) awaitRound(ctx context.Context, own client.Zxid) (client.Zxid, error) {
	for {
		ready, exists, err := b.readyStat(ctx)
		switch {
		case err != nil:
			return 0, err
		case exists && ready.Created > own:
			return ready.Created, nil
		case exists:
			return 0, errLate
		}
		_, exists, watch, err := reconnect.Watch(ctx, b.c, b.pathOf(readyName), (*client.Client).ExistsWatch)
		switch {
		case err != nil:
			return 0, err
		case exists:
			watch.Stop()
			continue
		}
		if err := b.beginRound(ctx); err != nil {
			watch.Stop()
			return 0, err
		}
		if err := reconnect.AwaitEvent(ctx, watch); err != nil {
			return 0, err
		}
	}
}

// Leave leaves and waits until all members of the round have left or ended. If ctx ends first, the member leaves
// without waiting for the others, in the background if necessary. Leave may be called once.
func (m *Member) Leave(ctx context.Context) error {
	err := m.leaveRound(ctx)
	m.leaveInBackground() // its node is gone already unless there is an error
	return wrapError("leave", m.barrier.parent, err)
}

// leaveInBackground ends the Right and deletes the node.
func (m *Member) leaveInBackground() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.Release(ended) // continues until the node is gone or the session has ended
}

// leaveRound leaves as Curator's clients do: the member with the first name leaves last, and the others wait for it.
func (m *Member) leaveRound(ctx context.Context) error {
	b := m.barrier
	for {
		names, err := b.listMembers(ctx)
		if err != nil {
			return err
		}
		own := slices.Index(names, m.name)
		switch {
		case own < 0:
			return b.awaitEnd(ctx, m.round)
		case len(names) == 1:
			err = m.leaveLast(ctx)
		case own == 0:
			err = b.awaitMemberOf(ctx, m.round, names[len(names)-1])
		default:
			err = m.Release(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// leaveLast deletes the node and ready in one transaction, so that no member finds ready without its round.
func (m *Member) leaveLast(ctx context.Context) error {
	b := m.barrier
	_, err := b.c.Multi(ctx, client.DeleteOp(b.pathOf(m.name), client.AnyVersion),
		client.DeleteOp(b.pathOf(readyName), client.AnyVersion))
	switch {
	case errors.Is(err, client.ErrConnectionLost), errors.Is(err, client.ErrSuspended):
		return b.c.AwaitConnected(ctx)
	case errors.Is(err, client.ErrNoNode): // an earlier try deleted both, or another client deleted one
		return m.Release(ctx)
	}
	return err
}
