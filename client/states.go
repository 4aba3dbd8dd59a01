package client

import (
	"context"
	"iter"
	"sync"
	"time"

	"rollcall/client/session"
)

// State is the state of a session, as the Client knows it.
type State = session.State

// These are all states. Expired, Closed and AuthFailed are final.
const (
	Connecting  = session.Connecting  // there is no session yet
	Connected   = session.Connected   // requests pass, on a new session
	Suspended   = session.Suspended   // there is no connection; the Client tries to connect, and the session may have ended
	Reconnected = session.Reconnected // requests pass again, on the same session
	ReadOnly    = session.ReadOnly    // reads pass: the server has no leader
	Expired     = session.Expired     // the session has ended without Close
	Closed      = session.Closed      // by Close or Abandon
	AuthFailed  = session.AuthFailed  // the servers reject the login or an identity
)

// StateChange is a change of a session's state.
type StateChange = session.Change

// states has the last state of a session.
type states struct {
	onEnd     func(StateChange) // called with the final state
	callbacks *callbacks
	watches   *watchTable // hears of the end of a connection, of the next one, and of the end of the session

	mu      sync.Mutex
	last    StateChange
	changed chan struct{} // closed at the next change
}

// State returns the last change of the session's state.
func (c *Client) State() StateChange {
	last, _ := c.states.latestChange()
	return last
}

func (s *states) latestChange() (last StateChange, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.changed
}

// States returns the present state, and then each change until ctx ends or after a final state. A reader that is
// slower than the changes misses those in between: it always gets the latest one.
func (c *Client) States(ctx context.Context) iter.Seq[StateChange] {
	return func(yield func(StateChange) bool) {
		for {
			last, changed := c.states.latestChange()
			if !yield(last) || last.State.IsFinal() {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// readOnlyPause is the time that awaitWritable waits at least. A server that could write when the connection began, and
// now replies ErrReadOnly, gets few requests.
const readOnlyPause = 100 * time.Millisecond

// awaitWritable is recipe.AwaitWritable.
func awaitWritable(ctx context.Context, c *Client) error {
	select {
	case <-time.After(readOnlyPause):
	case <-ctx.Done():
	}
	for change := range c.States(ctx) {
		if change.State == Connected || change.State == Reconnected || change.State.IsFinal() {
			break
		}
	}
	return c.AwaitConnected(ctx)
}

// handleChange is called by the session with every change of its state.
func (s *states) handleChange(change StateChange) {
	s.mu.Lock()
	s.last = change
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	switch {
	case change.State.IsFinal():
		s.watches.end(change.Err)
	case change.State == Suspended:
		s.watches.disconnected(Zxid(change.LastZxid))
	case change.State.IsConnected():
		s.watches.reconnected()
	}
	if change.State.IsFinal() {
		s.onEnd(change)
	}
	s.callbacks.reportState(change)
}
