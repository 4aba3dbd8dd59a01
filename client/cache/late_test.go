package cache

import (
	"testing"

	"rollcall/client"
)

// An event can be handled after a reply that came later. It changes nothing then.
func TestLateEvents(t *testing.T) {
	k := &Cache{root: "/a", changed: make(chan struct{})}
	f := &follower{k: k, queued: map[read]bool{}, wake: make(chan struct{}, 1)}
	k.follower = f
	k.tree.setNode("", nil, client.Stat{Created: 5, Changed: 7})
	f.handleEvent(client.Event{Type: client.NodeDeleted, Path: "/a", Zxid: 4})
	f.handleEvent(client.Event{Type: client.NodeCreated, Path: "/a", Zxid: 5})
	f.handleEvent(client.Event{Type: client.DataChanged, Path: "/a", Zxid: 7})
	f.handleEvent(client.Event{Type: client.DataChanged, Path: "/other", Zxid: 9})
	if n, ok := k.Get("/a"); !ok || n.Stat.Created != 5 || f.pendingReads() != 0 {
		t.Errorf("the node is %v, %t, and %d reads are to be sent; want none", n, ok, f.pendingReads())
	}
	f.handleEvent(client.Event{Type: client.NodeDeleted, Path: "/a", Zxid: 8})
	if _, ok := k.Get("/a"); ok {
		t.Error("the node is not deleted")
	}
}

// A reply that is older than the copy changes nothing.
func TestOlderReply(t *testing.T) {
	var tr tree
	tr.setNode("", []byte("new"), client.Stat{Created: 5, Changed: 7})
	for _, older := range []client.Stat{{Created: 5, Changed: 6}, {Created: 4, Changed: 4}} {
		if n, _, changed := tr.setNode("", []byte("old"), older); changed || string(n.Data) != "new" {
			t.Errorf("a reply of %d replaces the copy of 7", older.Changed)
		}
	}
}
