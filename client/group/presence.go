package group

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"rollcall/client"
	"rollcall/client/internal/nodepath"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// ErrNotEphemeral means that the node at the path of a Presence belongs to no session.
var ErrNotEphemeral = errors.New("the node is not ephemeral")

// PresenceConfig describes the node of a Presence. The zero value is a node without data at the path itself.
type PresenceConfig struct {
	Data       []byte
	ACL        []client.ACL // nil: everyone has every permission
	Sequential bool         // a random id of 20 digits and the servers' number are appended to the path
}

// Presence is an ephemeral node that is created again after each deletion. See the package's comment. It is safe for
// concurrent use.
type Presence struct {
	c           *client.Client
	prefix      string // the path; for a sequential node, without the id and the number
	id          string // of a sequential node
	mayHaveNode bool   // a create may have been carried out: search for its node. Only one goroutine uses it at a time
	mode        client.Mode

	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
	err    error         // the reason; set before done is closed

	mu   sync.Mutex
	path string // of the node; "" while there is none
	data []byte
}

// Announce creates an ephemeral node and its missing ancestors, which are containers. It creates the node again after
// each deletion, until Leave or until the session ends. It returns when the node exists.
//
// If another session has a node at the path, Announce waits until that node is gone. It is often the node of an earlier
// session of the same program, which ends by its timeout. If a node at the path belongs to no session, the error is
// ErrNotEphemeral. A node of the Client's own session, such as one that was handed over, is used as it is. A sequential
// node of a session that was handed over is used if its path and its data are those of the Presence. Servers before
// ZooKeeper 3.6 do not list such nodes: there the old node stays until the session ends.
//
// If ctx ends first, no node stays. The deletion continues in the background if there is no connection.
func Announce(ctx context.Context, c *client.Client, path string, cfg PresenceConfig) (*Presence, error) {
	mode := client.Ephemeral
	if cfg.Sequential {
		mode = client.EphemeralSequential
	}
	p := &Presence{c: c, prefix: path, mode: mode.WithACL(cfg.ACL...), data: cfg.Data, done: make(chan struct{})}
	err := p.chooseID(ctx)
	if err == nil {
		err = p.createNode(ctx)
	}
	if err != nil {
		go func() { _ = p.deleteNode() }() // a create without a reply may have been carried out
		return nil, fmt.Errorf("group: announce %s: %w", path, err)
	}
	keepCtx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go p.keepNode(keepCtx)
	return p, nil
}

// Path returns the path of the node, or "" while the node is deleted. A sequential node is created again with the same
// id and another number.
func (p *Presence) Path() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.path
}

// Done returns a channel that is closed when the Presence has ended: after Leave, with the session, or because the
// servers reject the node.
func (p *Presence) Done() <-chan struct{} { return p.done }

// Err returns the reason why the Presence has ended, or nil while it has not. After Leave it is client.ErrClosed.
func (p *Presence) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	if last := p.c.State(); last.State.IsFinal() { // Done is closed soon
		return cmp.Or(last.Err, client.ErrClosed)
	}
	return nil
}

// Set sets the node's data, also for each time that the node is created again. It waits for the reply. If it returns an
// error, the data may still be set when the node is created again.
func (p *Presence) Set(ctx context.Context, data []byte) error {
	p.mu.Lock()
	p.data = data
	path := p.path
	p.mu.Unlock()
	if path == "" {
		return nil // the node is created again with the data
	}
	if err := p.updateData(ctx, path); err != nil {
		return fmt.Errorf("group: set %s: %w", path, err)
	}
	return nil
}

// Leave deletes the node and waits until it is gone. If ctx ends first, the deletion continues in the background until
// the session ends. The Presence has ended in any case.
func (p *Presence) Leave(ctx context.Context) error {
	p.cancel()
	<-p.done
	err := reconnect.Finish(ctx, p.deleteNode)
	if end := ctx.Err(); end != nil && errors.Is(err, end) {
		return fmt.Errorf("group: leave %s: %w", p.prefix, err)
	}
	return err
}

// keepNode creates the node again whenever it is gone. It ends with ctx or with the session.
func (p *Presence) keepNode(ctx context.Context) {
	defer close(p.done)
	defer p.cancel()
	for {
		err := p.awaitDeletion(ctx, p.Path())
		if err == nil {
			err = p.createNode(ctx)
		}
		switch {
		case ctx.Err() != nil:
			p.err = client.ErrClosed
			return
		case err != nil:
			p.err = fmt.Errorf("group: %s: %w", p.prefix, err)
			return
		}
	}
}

// awaitDeletion waits until the Client has no node at path.
func (p *Presence) awaitDeletion(ctx context.Context, path string) error {
	for {
		stat, exists, watch, err := reconnect.Watch(ctx, p.c, path, (*client.Client).ExistsWatch)
		if err != nil {
			return err
		}
		if !exists || !ownsNode(p.c, stat) {
			watch.Stop()
			p.setPath("")
			return nil
		}
		if err := reconnect.AwaitEvent(ctx, watch); err != nil {
			return err
		}
	}
}

// createNode creates the node, or finds it. It waits while another session has a node at the path.
func (p *Presence) createNode(ctx context.Context) error {
	for {
		path, data, err := p.findOrCreate(ctx)
		switch {
		case err == nil:
			p.mayHaveNode = false
			if wanted := p.setPath(path); !bytes.Equal(data, wanted) {
				return p.updateData(ctx, path)
			}
			return nil
		case errors.Is(err, client.ErrNoNode):
			err = reconnect.RetrySettled(ctx, p.c, func() error { return p.c.CreateAll(ctx, nodepath.Parent(p.prefix), client.Container) })
		case errors.Is(err, client.ErrNodeExists):
			err = p.awaitOtherSession(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// findOrCreate returns the path and the data of the Client's node. It searches for the node before each create, because
// an earlier create may have been carried out although its reply is lost, and because a session that was handed over
// may have the node.
func (p *Presence) findOrCreate(ctx context.Context) (path string, data []byte, err error) {
	err = reconnect.RetrySettled(ctx, p.c, func() (err error) {
		path, data, err = p.findNode(ctx)
		if err != nil || path != "" {
			return err
		}
		data, p.mayHaveNode = p.wantedData(), true
		path, _, err = p.c.Create(ctx, p.prefix+p.id, data, p.mode)
		p.mayHaveNode = client.MayHaveHappened(err)
		return err
	})
	return path, data, err
}

// findNode returns the path and the data of the Client's node, or "" if there is none.
func (p *Presence) findNode(ctx context.Context) (path string, data []byte, err error) {
	path = p.Path()
	if p.mayHaveNode {
		if err := reconnect.Settle(ctx, p.c); err != nil {
			return "", nil, err
		}
		if p.mode.IsSequential() {
			if path, err = p.findByID(ctx); err != nil {
				return "", nil, err
			}
		}
	}
	if !p.mode.IsSequential() {
		path = p.prefix
	}
	if path == "" {
		return "", nil, nil
	}
	data, stat, err := p.c.Get(ctx, path)
	switch {
	case errors.Is(err, client.ErrNoNode), err == nil && !ownsNode(p.c, stat):
		return "", nil, nil
	case err != nil:
		return "", nil, err
	}
	return path, data, nil
}

// findByID returns the path of the sequential node with the id of the Presence, or "" if there is none.
func (p *Presence) findByID(ctx context.Context) (path string, err error) {
	names, _, err := p.c.Children(ctx, nodepath.Parent(p.prefix))
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return "", err
	}
	for _, name := range names {
		path := recipe.PathOf(nodepath.Parent(p.prefix), name)
		if id, ok := p.idIn(path); ok && id == p.id {
			return path, nil
		}
	}
	return "", nil
}

// awaitOtherSession waits until another session's node at the path is gone.
func (p *Presence) awaitOtherSession(ctx context.Context) error {
	stat, exists, watch, err := reconnect.Watch(ctx, p.c, p.prefix, (*client.Client).ExistsWatch)
	switch {
	case err != nil:
		return err
	case !exists || ownsNode(p.c, stat):
		watch.Stop()
		return nil
	case stat.Owner == 0:
		watch.Stop()
		return ErrNotEphemeral
	}
	if err := reconnect.AwaitEvent(ctx, watch); err != nil {
		return fmt.Errorf("session %v has a node there: %w", stat.Owner, err)
	}
	return nil
}

// updateData sets the data of the Client's node to the wanted data. It returns nil if the node is gone, because it is
// created again with them.
func (p *Presence) updateData(ctx context.Context, path string) error {
	err := reconnect.RetrySettled(ctx, p.c, func() error {
		for {
			data, stat, err := p.c.Get(ctx, path)
			wanted := p.wantedData()
			if err != nil || !ownsNode(p.c, stat) || bytes.Equal(data, wanted) {
				return err
			}
			if _, err = p.c.Set(ctx, path, wanted, stat.Version); !errors.Is(err, client.ErrBadVersion) {
				return err
			}
		}
	})
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	return err
}

// deleteNode deletes the Client's node, and tries until the session has ended. It leaves a node of another session,
// unless that node is created between the read and the deletion.
func (p *Presence) deleteNode() error {
	ctx := context.Background() // the session's end ends all calls
	err := reconnect.RetrySettled(ctx, p.c, func() error {
		path, _, err := p.findNode(ctx)
		if err != nil || path == "" {
			return err
		}
		if err = p.c.Delete(ctx, path, client.AnyVersion); errors.Is(err, client.ErrNoNode) {
			return nil
		}
		return err
	})
	if errors.Is(err, client.ErrExpired) {
		return nil
	}
	return err
}

// setPath records the path of the node and returns the wanted data.
func (p *Presence) setPath(path string) (wanted []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.path = path
	return p.data
}

func (p *Presence) wantedData() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.data
}

// ownsNode reports whether a node belongs to the Client's session.
func ownsNode(c *client.Client, stat client.Stat) bool {
	id, _ := c.Session()
	return stat.Owner == id
}
