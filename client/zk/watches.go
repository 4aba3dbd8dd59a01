package zk

import (
	"sync"

	"rollcall/client"
)

// watchKind is the kind of a watch.
type watchKind int

const (
	watchData watchKind = iota
	watchExist
	watchChild
)

// firedBy lists the watches that each type of event uses up.
var firedBy = map[EventType][]watchKind{
	EventNodeCreated:         {watchExist},
	EventNodeDataChanged:     {watchExist, watchData},
	EventNodeChildrenChanged: {watchChild},
	EventNodeDeleted:         {watchExist, watchData, watchChild},
}

type watchKey struct {
	path string
	kind watchKind
}

// watchTable has the watches of a session.
type watchTable struct {
	mu      sync.Mutex
	watches map[watchKey][]chan Event // each with room for its event
}

// add returns a channel that gets the event of a watch, and is closed then. It is called when the reply is read, in the
// order of the connection.
func (t *watchTable) add(path string, kind watchKind) <-chan Event {
	fired := make(chan Event, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watches == nil {
		t.watches = map[watchKey][]chan Event{}
	}
	key := watchKey{path, kind}
	t.watches[key] = append(t.watches[key], fired)
	return fired
}

func (t *watchTable) fire(event Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, kind := range firedBy[event.Type] {
		key := watchKey{event.Path, kind}
		endAll(t.watches[key], event)
		delete(t.watches, key)
	}
}

// endAll ends watches with an event.
func endAll(watches []chan Event, event Event) {
	for _, fired := range watches {
		fired <- event
		close(fired)
	}
}

func (c *Conn) handleEvent(e client.Event) {
	event := Event{Type: EventType(e.Type), State: StateSyncConnected, Path: e.Path}
	c.sendEvent(event)
	c.watches.fire(event)
}

// invalidateWatches ends all watches because of err.
func (c *Conn) invalidateWatches(err error) {
	c.watches.mu.Lock()
	ended := c.watches.watches
	c.watches.watches = nil
	c.watches.mu.Unlock() // the events go to a function of the caller
	for key, watches := range ended {
		event := Event{Type: EventNotWatching, State: StateDisconnected, Path: key.path, Err: err}
		c.sendEvent(event)
		endAll(watches, event)
	}
}
