package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/zk/jute"
)

// MaxIdentities limits the identities of a Session. Each connection sends all of them before its first request. Servers
// of Rollcall admit 64 unless they are configured otherwise, and never more than this.
const MaxIdentities = 1000

// ErrTooManyIdentities means that a Session would have more than MaxIdentities. Nothing was sent.
var ErrTooManyIdentities = fmt.Errorf("client: a session has at most %d identities; open another one for more",
	MaxIdentities)

// AddAuth adds an identity to the session and waits for the server's reply. It waits for a connection as long
// as ctx allows. From then on the identity is sent first on every connection, like those in Config.Auth. If
// the server rejects it, the error is jute.AuthFailed, and the Session ends. If the connection breaks before
// the reply, the error is ErrConnectionLost, and the identity is sent on the next connection. If the Session has
// MaxIdentities others, the error is ErrTooManyIdentities, and the Session continues.
func (c *Session) AddAuth(ctx context.Context, a Auth) error {
	l, answer, err := c.queueAuth(ctx, a)
	if err != nil {
		return err
	}
	if l != nil {
		l.writeOutput(false)
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// queueAuth waits for a connection and queues the identity on it. answer gets the server's reply. The caller
// must call write of l, unless that is nil.
func (c *Session) queueAuth(ctx context.Context, a Auth) (l *link, answer chan error, err error) {
	for {
		if err := c.AwaitReady(ctx); err != nil {
			return nil, nil, err
		}
		c.mu.Lock()
		err := c.checkCanSend(false)
		if err == nil {
			break
		}
		c.mu.Unlock()
		if !errors.Is(err, ErrNotConnected) {
			return nil, nil, err
		}
	}
	defer c.mu.Unlock()
	known := func(b Auth) bool { return b.Scheme == a.Scheme && bytes.Equal(b.Auth, a.Auth) }
	if !slices.ContainsFunc(c.cfg.Auth, known) {
		if len(c.cfg.Auth) >= MaxIdentities {
			return nil, nil, ErrTooManyIdentities
		}
		c.cfg.Auth = append(c.cfg.Auth, a)
	}
	l = c.link
	l.out = appendRequest(l.output(), jute.XidAuth, jute.OpAuth, a.packet())
	answer = make(chan error, 1)
	l.pendingAuths = append(l.pendingAuths, answer)
	if !l.claimWrite() {
		return nil, answer, nil
	}
	return l, answer, nil
}

func (a Auth) packet() jute.AuthPacket {
	return jute.AuthPacket{Scheme: []byte(a.Scheme), Auth: a.Auth}
}

// handleAuthReply handles the reply to an identity: one that was sent before requests could pass, or
// the oldest one of AddAuth.
func (l *link) handleAuthReply(code jute.Code) error {
	if code != jute.OK {
		return fmt.Errorf("client: identity rejected: %w", jute.AuthFailed)
	}
	if l.initial.missing > 0 {
		return l.countInitialReply()
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if len(l.pendingAuths) == 0 {
		return fmt.Errorf("%w: a reply to nothing", ErrProtocol)
	}
	l.pendingAuths[0] <- nil
	l.pendingAuths = l.pendingAuths[1:]
	return nil
}

// failPendingAuths ends pending calls of AddAuth because a connection has ended with why. The lock is held.
func (l *link) failPendingAuths(why error) {
	err := ErrConnectionLost
	switch {
	case errors.Is(why, jute.AuthFailed):
		err = why
	case l.c.ctx.Err() != nil:
		err = ErrClosed
	}
	for _, answer := range l.pendingAuths {
		answer <- err
	}
	l.pendingAuths = nil
}
