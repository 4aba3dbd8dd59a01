package client

import "testing"

// The connection may break before Dial has the session: the reader of the session begins before that.
func TestConnectionBreaksWhileDialReturns(t *testing.T) {
	c := &Client{}
	c.states = states{changed: make(chan struct{}), callbacks: &c.callbacks, watches: &c.watches}
	c.watches = watchTable{c: c, paths: map[string]*pathWatches{}}
	before := c.watches.history
	c.states.handleChange(StateChange{State: Suspended, LastZxid: 5})
	if want := before.next(5); c.watches.history != want {
		t.Errorf("history %+v, want %+v", c.watches.history, want)
	}
}
