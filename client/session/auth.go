package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/zk/jute"
	"rollcall/zk/sasl"
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
	if err := c.lockConnected(ctx); err != nil {
		return err
	}
	known := func(b Auth) bool { return b.Scheme == a.Scheme && bytes.Equal(b.Auth, a.Auth) }
	if !slices.ContainsFunc(c.cfg.Auth, known) {
		if len(c.cfg.Auth) >= MaxIdentities {
			c.mu.Unlock()
			return ErrTooManyIdentities
		}
		c.cfg.Auth = append(c.cfg.Auth, a)
	}
	l, answer := c.link, make(chan error, 1)
	l.out = appendRequest(l.output(), jute.XidAuth, jute.OpAuth, a.packet())
	l.pendingAuths = append(l.pendingAuths, answer)
	write := l.claimWrite()
	c.mu.Unlock()
	if write {
		l.writeOutput(false)
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lockConnected waits for a connection. Unless it returns an error, it has taken the lock.
func (c *Session) lockConnected(ctx context.Context) error {
	for {
		if err := c.AwaitReady(ctx); err != nil {
			return err
		}
		c.mu.Lock()
		err := c.checkCanSend(false)
		if err == nil {
			return nil
		}
		c.mu.Unlock()
		if !errors.Is(err, ErrNotConnected) {
			return err
		}
	}
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

// Mechanism is a way to log in by SASL: Login, or one of another package, such as rollcall/zk/kerberos/credentials. It is safe for
// concurrent use.
type Mechanism interface {
	// Begin begins a login at a server, whose address is that of Config.Servers. step takes the server's reply to the last token, nil at
	// first, and returns the next token. If done, the server has accepted the login, and there is no next token. An error of step ends
	// the login for good, and one of Begin leaves it to the next connection. Begin returns when ctx ends.
	Begin(ctx context.Context, server string) (step func(answer []byte) (token []byte, done bool, err error), err error)
	// String describes who logs in, for errors. It has no secret.
	String() string
}

// Login is a user who logs in by SASL with the mechanism DIGEST-MD5.
type Login struct{ User, Password string }

func (who *Login) String() string { return "user " + who.User }

// Begin implements Mechanism.
func (who *Login) Begin(context.Context, string) (step func(answer []byte) (token []byte, done bool, err error), err error) {
	login, hasBegun := sasl.NewLogin(who.User, who.Password), false
	return func(answer []byte) ([]byte, bool, error) {
		if !hasBegun { // the server speaks first
			hasBegun = true
			return []byte{}, false, nil
		}
		return login.Step(answer)
	}, nil
}

// logIn logs in, if there is a login. The session exists, and the connection carries nothing else yet. If the
// server rejects the user, or does not prove that it knows the password, the error is jute.AuthFailed.
func (l *link) logIn() error {
	who := l.c.cfg.Login
	if who == nil {
		return nil
	}
	l.c.mu.Lock()
	timeout := l.c.timeout
	l.c.mu.Unlock()
	ctx, stop := context.WithTimeout(l.c.ctx, timeout) // the session ends without a connection that is served
	defer stop()
	step, err := who.Begin(ctx, l.server.addr)
	if err != nil {
		return fmt.Errorf("client: login of %v: %w", who, err)
	}
	for answer := []byte(nil); ; {
		token, done, err := step(answer)
		switch {
		case err != nil:
			return fmt.Errorf("client: login: %w: %w", err, jute.AuthFailed)
		case done:
			return nil
		}
		if answer, err = l.exchangeToken(token); err != nil {
			return err
		}
	}
}

// exchangeToken sends a token and returns the server's, which is valid until the next frame is read.
func (l *link) exchangeToken(token []byte) ([]byte, error) {
	frame := jute.SASLToken{Token: token}.Append(jute.RequestHeader{Op: jute.OpSASL}.Append(nil))
	if err := jute.WriteFrame(l.conn, frame); err != nil {
		return nil, err
	}
	frame, err := l.nextFrame(maxHandshake)
	if err != nil {
		return nil, err
	}
	d := jute.NewDecoder(frame)
	var header jute.ReplyHeader
	if header.Decode(&d); d.Err() == nil && header.Err != jute.OK {
		return nil, fmt.Errorf("client: the server rejects the login of %v: %w", l.c.cfg.Login, jute.AuthFailed)
	}
	var answer jute.SASLToken
	if answer.Decode(&d); d.Err() != nil {
		return nil, fmt.Errorf("%w: no reply to a login", ErrProtocol)
	}
	return answer.Token, nil
}
