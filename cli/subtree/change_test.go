package subtree_test

import (
	"errors"
	"testing"
	"time"

	"rollcall/cli/subtree"
	client "rollcall/client/before"
	"rollcall/zk/jute"
)

// The changes of a space are made below its root, and their errors are the servers'.
func TestChanges(t *testing.T) {
	s, ctx := newSpace(t), t.Context()
	made, err := s.Create(ctx, "/a-", []byte("x"), jute.PersistentSequential, jute.OpenACL, 0)
	if err != nil || made != "/a-0000000000" {
		t.Fatalf("created %s, %v", made, err)
	}
	if made, err = s.Create(ctx, "/ttl", nil, jute.PersistentWithTTL, jute.OpenACL, time.Hour); err != nil && !errors.Is(err, jute.Unimplemented) {
		t.Errorf("created %s, %v", made, err)
	}
	if _, err := s.Create(ctx, "/none/a", nil, jute.Persistent, jute.OpenACL, 0); !errors.Is(err, jute.NoNode) {
		t.Errorf("without a parent: %v", err)
	}
	stat, err := s.Set(ctx, "/a-0000000000", []byte("y"), 0)
	if err != nil || stat.Version != 1 {
		t.Errorf("set: %+v, %v", stat, err)
	}
	if _, err := s.Set(ctx, "/a-0000000000", []byte("z"), 0); !errors.Is(err, jute.BadVersion) {
		t.Errorf("set at an old version: %v", err)
	}
	readOnly := []jute.ACL{{ID: jute.ID{Scheme: []byte("world"), ID: []byte("anyone")}, Perms: jute.PermRead | jute.PermAdmin}}
	if stat, err = s.SetACL(ctx, "/a-0000000000", readOnly, 0); err != nil || stat.Aversion != 1 {
		t.Errorf("set the list: %+v, %v", stat, err)
	}
	if acl, stat, err := s.ACLAndStat(ctx, "/a-0000000000"); err != nil || !subtree.SameACL(acl, readOnly) || stat.Aversion != 1 {
		t.Errorf("the list is %v, %+v, %v", acl, stat, err)
	}
	ops := []jute.MultiOp{
		{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte(s.FullPath("/a-0000000000")), Version: -1}},
		{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte(s.FullPath("/none")), Version: -1}},
	}
	if err := s.Multi(ctx, ops); !errors.Is(err, jute.NoNode) {
		t.Errorf("a multi with a failure: %v", err)
	}
	var count jute.GetAllChildrenNumberResponse
	if err := s.Do(ctx, jute.OpGetAllChildrenNumber, jute.GetAllChildrenNumberRequest{Path: []byte(s.FullPath("/"))}, &count); err != nil || count.TotalNumber < 1 {
		t.Errorf("%d nodes, %v", count.TotalNumber, err)
	}
	if err := s.Delete(ctx, "/a-0000000000", -1); err != nil {
		t.Error(err)
	}
	if _, err := s.Stat(ctx, "/a-0000000000"); !errors.Is(err, jute.NoNode) {
		t.Errorf("after the delete: %v", err)
	}
}

// With Watch, reads set watches; without it, they set none.
func TestWatch(t *testing.T) {
	s, ctx := newSpace(t), t.Context()
	s.create(t, "/a x")
	events := make(chan jute.EventType, 10)
	watcher := subtree.Space{Root: s.Root, Client: openClient(t, client.Config{OnEvent: func(e jute.WatcherEvent, _ int64) { events <- e.Type }})}
	for _, tt := range []struct {
		watch bool
		want  []jute.EventType
	}{
		{false, nil},
		{true, []jute.EventType{jute.EventNodeChildrenChanged, jute.EventNodeDataChanged}},
	} {
		watcher.Watch = tt.watch
		if _, _, err := watcher.Get(ctx, "/a"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := watcher.Children(ctx, "/a"); err != nil {
			t.Fatal(err)
		}
		made, err := s.Create(ctx, "/a/b-", nil, jute.EphemeralSequential, jute.OpenACL, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Set(ctx, "/a", nil, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := watcher.Sync(ctx, "/a"); err != nil { // the events come before its reply
			t.Fatal(err)
		}
		if len(events) != len(tt.want) {
			t.Fatalf("watch %t: %d events, want %v", tt.watch, len(events), tt.want)
		}
		for _, want := range tt.want {
			if got := <-events; got != want {
				t.Errorf("watch %t: event %v, want %v", tt.watch, got, want)
			}
		}
		if err := s.Delete(ctx, made, -1); err != nil {
			t.Fatal(err)
		}
	}
}
