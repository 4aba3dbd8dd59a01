package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"rollcall/zk/jute"
)

const (
	// effectLimit bounds the time for which a member may keep working after the hook that ends it, stops it or cuts it
	// off. A pod that is deleted has 30 seconds to end.
	effectLimit = 45 * time.Second
	// healLimit bounds the wait for sessions of a member after the hook heal. A drill waits as long until an
	// ensemble is well.
	healLimit = time.Minute
	// silentAfter is when a member that does not answer is taken for stopped. One that is well answers in milliseconds. The
	// drill's time begins afterwards, so a short stop must not become a long one. A member that was ended refuses
	// connections at once, or its address is gone: it has queryLimit, so that a busy one is not taken for it.
	silentAfter = 500 * time.Millisecond
	// sessionPause is the time between two sessions that are opened to see whether a member is cut off. Each one is two
	// writes to the ensemble.
	sessionPause = time.Second
	// shortTimeout is requested for these sessions, in ms. Servers raise it to the least that they grant.
	shortTimeout = 1000
)

// awaitEffect returns nil when a fault that a hook made can be seen, and an error if it cannot within effectLimit. Without
// this, a hook that reaches the wrong process would be a drill that the ensemble passes. leader is the member that led
// before the fault, or "" if it is unknown. For a fault that cannot be seen from outside, awaitEffect returns nil at once.
func (t *Hooks) awaitEffect(ctx context.Context, f Fault, leader string) error {
	switch end := endsWith[f.Kind]; {
	case end == Start || end == Cont:
		return t.awaitSilence(ctx, f)
	case f.Kind == Cut:
		return t.awaitCut(ctx, f, leader)
	}
	return nil
}

// awaitSilence returns nil when a member that was ended or stopped does not answer. One that was ended may have been
// started again by a supervisor, and then says that it does not serve yet.
func (t *Hooks) awaitSilence(ctx context.Context, f Fault) error {
	addr := t.clientAddress(f.Member)
	ctx, stop := context.WithTimeoutCause(ctx, effectLimit, fmt.Errorf("the fault had no effect: member %s still answers srvr at %s, %v after "+
		"the script for %s succeeded. Check that the script and its variables name the process of this member", f.Member, addr, effectLimit, f.Kind))
	defer stop()
	end, wait := endsWith[f.Kind], queryLimit
	if end == Cont {
		wait = silentAfter
	}
	return pollUntil(ctx, queryInterval, func() bool {
		asked, stop := context.WithTimeout(ctx, wait)
		defer stop()
		text, err := t.word(asked, addr, "srvr")
		return err != nil || text == "" || end == Start && parseServer(text).mode == ""
	})
}

// awaitCut returns nil when a member opens no session within queryLimit, because a majority has to agree to each. If the
// fault cuts it off from a part of the others, one of these may be the one that opens none, or another member leads now.
func (t *Hooks) awaitCut(ctx context.Context, f Fault, leader string) error {
	cut := t.cutOff(f, leader)
	if len(cut) == 0 {
		return nil
	}
	where := fmt.Sprintf("member %s still opens sessions at %s", f.Member, t.clientAddress(f.Member))
	if len(cut) > 1 {
		where = fmt.Sprintf("members %s still open sessions, and member %s still leads", strings.Join(cut, ", "), leader)
	}
	ctx, stop := context.WithTimeoutCause(ctx, effectLimit, fmt.Errorf("the fault had no effect: %s, %v after the script for cut succeeded. "+
		"Check that the script and its variables name this member and the addresses that the members use among themselves", where, effectLimit))
	defer stop()
	return pollUntil(ctx, sessionPause, func() bool {
		return slices.ContainsFunc(cut, func(name string) bool { return t.isCutOff(ctx, name) }) ||
			len(cut) > 1 && t.leads(ctx, t.members) != leader
	})
}

// isCutOff reports whether a member opens no session within queryLimit. It returns earlier if the member says that it does
// not serve.
func (t *Hooks) isCutOff(ctx context.Context, name string) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	opened := make(chan error, 1)
	go func() { opened <- t.opensSession(ctx, name) }()
	for {
		select {
		case err := <-opened:
			return err != nil
		case <-time.After(queryInterval):
		}
		if text, err := t.word(ctx, t.clientAddress(name), "srvr"); err == nil && text != "" && parseServer(text).mode == "" {
			return true
		}
	}
}

// cutOff returns the members of which one or all must notice a cut, or nil if none has to: two followers that do not
// reach each other keep working.
func (t *Hooks) cutOff(f Fault, leader string) []string {
	switch {
	case f.Client: // the drill is one
		return []string{f.Member}
	case f.Port == ClientPort || len(t.names) == 1:
		return nil
	case t.isFromAll(f):
		return []string{f.Member}
	case len(f.From) == 0 || leader == "" || leader != f.Member && !slices.Contains(f.From, leader):
		return nil
	}
	return append([]string{f.Member}, f.From...)
}

// isFromAll reports whether a cut is from all other members.
func (t *Hooks) isFromAll(f Fault) bool {
	return f.From == nil || !slices.ContainsFunc(t.names, func(name string) bool {
		return name != f.Member && !slices.Contains(f.From, name)
	})
}

// awaitHealed returns nil when both sides of a cut open sessions again, and an error if they do not within limit. If
// repeated is set, an earlier error already has the advice for the user.
func (t *Hooks) awaitHealed(ctx context.Context, f Fault, limit time.Duration, repeated bool) error {
	ctx, stop := context.WithTimeoutCause(ctx, limit, errNotHealed)
	defer stop()
	left := append([]string{f.Member}, f.From...) // these have opened no session yet
	var last error                                // of the first of them
	err := pollUntil(ctx, queryInterval, func() bool {
		for len(left) > 0 {
			if err := t.opensSession(ctx, left[0]); err != nil {
				if ctx.Err() == nil || last == nil {
					last = err
				}
				return false
			}
			left, last = left[1:], nil
		}
		return true
	})
	switch {
	case len(left) == 0:
		return nil
	case !errors.Is(err, errNotHealed):
		return err
	case repeated:
		return fmt.Errorf("%w: member %s still opens no session at %s", errNotHealed, left[0], t.clientAddress(left[0]))
	}
	return fmt.Errorf("%w: member %s opens no session at %s, %v after the script for heal succeeded (%w). It may still be cut off. Check that "+
		"the script undoes what the script for cut did, and then run `rollcall drill heal`", errNotHealed, left[0], t.clientAddress(left[0]), limit, last)
}

var errNotHealed = errors.New("the repair had no effect")

// opensSession returns nil if a member opens a session within queryLimit.
func (t *Hooks) opensSession(ctx context.Context, name string) error {
	ctx, stop := context.WithTimeoutCause(ctx, queryLimit, fmt.Errorf("it did not reply within %v", queryLimit))
	defer stop()
	return t.session(ctx, t.clientAddress(name))
}

// clientAddress returns the address of a member for clients.
func (t *Hooks) clientAddress(name string) string {
	return t.members[slices.Index(t.names, name)].Clients
}

// pollUntil returns nil as soon as done returns true, and the cause of ctx if that ends before.
func pollUntil(ctx context.Context, pause time.Duration, done func() bool) error {
	for {
		is := done()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if is {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// openSession opens a session at one member, and closes it. It returns an error if it gets none before ctx ends.
func openSession(ctx context.Context, addr string) (err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	connect := jute.ConnectRequest{TimeOut: shortTimeout, Passwd: make([]byte, 16), HasReadOnly: true}
	if err := jute.WriteFrame(conn, connect.Append(nil)); err != nil {
		return err
	}
	frame, err := jute.ReadFrame(conn, nil, maxAnswer)
	if err != nil {
		return err
	}
	var granted jute.ConnectResponse
	d := jute.NewDecoder(frame)
	if granted.Decode(&d); d.Err() != nil {
		return d.Err()
	}
	if granted.SessionID == 0 {
		return errors.New("the member rejected the session")
	}
	// If the session is not closed, it expires.
	if jute.WriteFrame(conn, jute.RequestHeader{Xid: 1, Op: jute.OpCloseSession}.Append(nil)) == nil {
		_, _ = jute.ReadFrame(conn, frame, maxAnswer)
	}
	return nil
}
