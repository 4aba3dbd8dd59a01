package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
	"rollcall/client/internal/roster"
)

// ErrNotEphemeral says that there is a node at the path of a Presence that belongs to no session.
var ErrNotEphemeral = errors.New("the node is not ephemeral")

// PresenceConfig describes the node of a Presence. The zero value is a node without data at the path itself.
type PresenceConfig struct {
	Data       []byte
	ACL        []client.ACL // nil: everyone has every permission
	Sequential bool         // a random id of 20 digits and the servers' number of 10 are appended to the path
}

// Presence is an ephemeral node that comes back. See the package's comment. It is safe for concurrent use.
type Presence struct {
	c      *client.Client
	prefix string // the path, or for a sequential node what the id and the number are appended to
	id     string // of a sequential node
	unsure bool   // a create may have been carried out: look for its node. Only one goroutine uses it at a time
	mode   client.Mode

	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
	err    error         // the reason; set before done is closed

	mu   sync.Mutex
	path string // of the node; "" while there is none
	data []byte
}

// Announce creates an ephemeral node, and the containers on the way to it, and creates it again whenever it has been
// deleted, until Leave or until the session ends. It returns when the node is there.
//
// If another session has a node at the path, Announce waits until that is gone: it is often the former session of the
// same program, which ends by its timeout. If it belongs to no session, the error is ErrNotEphemeral. If the node is
// the Client's own, such as one of a session that was handed over, it is taken as it is. A sequential node that a
// session was handed over with is taken if its path and its data are those of the Presence; servers before ZooKeeper
// 3.6 do not list such nodes, and then it stays beside the new one until the session ends.
//
// If ctx ends first, no node is left; if that needs a connection, the deletion goes on in the background.
func Announce(ctx context.Context, c *client.Client, path string, cfg PresenceConfig) (*Presence, error) {
	mode := client.Ephemeral
	if cfg.Sequential {
		mode = client.EphemeralSequential
	}
	if cfg.ACL != nil {
		mode = mode.WithACL(cfg.ACL...)
	}
	p := &Presence{c: c, prefix: path, mode: mode, data: cfg.Data, done: make(chan struct{})}
	err := p.begin(ctx)
	if err == nil {
		err = p.create(ctx)
	}
	if err != nil {
		go func() { _ = p.remove() }() // a create without a reply may have been carried out
		return nil, fmt.Errorf("group: announce %s: %w", path, err)
	}
	keepCtx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go p.keep(keepCtx)
	return p, nil
}

// Path returns the path of the node, or "" while it has been deleted and is not back. A sequential node comes back with
// the same id and another number.
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
		return nil
	}
}

// Set sets the node's data, now and whenever it comes back. It waits for the reply. If it returns an error, the data
// may be set later, if the node comes back.
func (p *Presence) Set(ctx context.Context, data []byte) error {
	p.mu.Lock()
	p.data = data
	path := p.path
	p.mu.Unlock()
	if path == "" {
		return nil // it comes back with the data
	}
	if err := p.update(ctx, path); err != nil {
		return fmt.Errorf("group: set %s: %w", path, err)
	}
	return nil
}

// Leave deletes the node and waits until it is gone. If ctx ends first, the deletion goes on in the background until
// the session ends. The Presence has ended in any case.
func (p *Presence) Leave(ctx context.Context) error {
	p.cancel()
	<-p.done
	left := make(chan error, 1)
	go func() { left <- p.remove() }()
	select {
	case err := <-left:
		return err
	case <-ctx.Done():
		return fmt.Errorf("group: leave %s: %w; it is tried again until the session ends", p.prefix, ctx.Err())
	}
}

// keep creates the node again whenever it is gone. It ends with ctx or with the session.
func (p *Presence) keep(ctx context.Context) {
	defer close(p.done)
	defer p.cancel()
	for {
		err := p.awaitDeletion(ctx, p.Path())
		if err == nil {
			err = p.create(ctx)
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
		stat, exists, watch, err := reconnect.ExistsWatch(ctx, p.c, path)
		if err != nil {
			return err
		}
		if !exists || !owns(p.c, stat) {
			watch.Stop()
			p.setPath("")
			return nil
		}
		if err := reconnect.AwaitEvent(ctx, watch); err != nil {
			return err
		}
	}
}

// create creates the node, or finds it. While there is one of another session, it waits.
func (p *Presence) create(ctx context.Context) error {
	for {
		path, data, err := p.findOrCreate(ctx)
		switch {
		case err == nil:
			p.unsure = false
			if wanted := p.setPath(path); !bytes.Equal(data, wanted) {
				return p.update(ctx, path)
			}
			return nil
		case errors.Is(err, client.ErrNoNode):
			err = reconnect.RetrySettled(ctx, p.c, func() error { return p.c.CreateAll(ctx, parentOf(p.prefix), client.Container) })
		case errors.Is(err, client.ErrNodeExists):
			err = p.awaitFree(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// findOrCreate returns the path and the data of the Client's node. It looks for it before each create: the last create
// may have been carried out although its reply is lost, and a session that was handed over has its node.
func (p *Presence) findOrCreate(ctx context.Context) (path string, data []byte, err error) {
	err = reconnect.RetrySettled(ctx, p.c, func() (err error) {
		path, data, err = p.find(ctx)
		if err != nil || path != "" {
			return err
		}
		data, p.unsure = p.wantedData(), true
		path, _, err = p.c.Create(ctx, p.prefix+p.id, data, p.mode)
		p.unsure = client.MayHaveHappened(err)
		return err
	})
	return path, data, err
}

// find returns the path and the data of the Client's node, or "" if there is none.
func (p *Presence) find(ctx context.Context) (path string, data []byte, err error) {
	path = p.Path()
	if p.unsure {
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
	case errors.Is(err, client.ErrNoNode), err == nil && !owns(p.c, stat):
		return "", nil, nil
	case err != nil:
		return "", nil, err
	}
	return path, data, nil
}

// findByID returns the path of the sequential node with the id of the Presence, or "" if there is none.
func (p *Presence) findByID(ctx context.Context) (path string, err error) {
	names, _, err := p.c.Children(ctx, parentOf(p.prefix))
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return "", err
	}
	for _, name := range names {
		path := roster.PathOf(parentOf(p.prefix), name)
		if id, ok := p.idIn(path); ok && id == p.id {
			return path, nil
		}
	}
	return "", nil
}

// awaitFree waits until the node of another session is gone.
func (p *Presence) awaitFree(ctx context.Context) error {
	stat, exists, watch, err := reconnect.ExistsWatch(ctx, p.c, p.prefix)
	switch {
	case err != nil:
		return err
	case !exists || owns(p.c, stat):
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

// update sets the data of the Client's node to the wanted ones. A node that is gone comes back with them.
func (p *Presence) update(ctx context.Context, path string) error {
	err := reconnect.RetrySettled(ctx, p.c, func() error {
		for {
			data, stat, err := p.c.Get(ctx, path)
			wanted := p.wantedData()
			if err != nil || !owns(p.c, stat) || bytes.Equal(data, wanted) {
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

// remove deletes the Client's node, and tries until the session has ended. A node of another session stays, unless
// that creates it between the look at the node and its deletion.
func (p *Presence) remove() error {
	ctx := context.Background() // the session's end ends all calls
	err := reconnect.RetrySettled(ctx, p.c, func() error {
		path, _, err := p.find(ctx)
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

// setPath records the path of the node and returns the data that are wanted.
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

// owns reports whether a node belongs to the Client's session.
func owns(c *client.Client, stat client.Stat) bool {
	id, _ := c.Session()
	return stat.Owner == id
}

// parentOf returns the path of a node's parent.
func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}
