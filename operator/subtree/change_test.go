package subtree_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/operator/subtree"
)

// The changes of a space are made below its root, and their errors are the servers'.
func TestChanges(t *testing.T) {
	s, ctx := newSpace(t), t.Context()
	made, err := s.Create(ctx, "/a-", []byte("x"), client.PersistentSequential)
	if err != nil || made != "/a-0000000000" {
		t.Fatalf("created %s, %v", made, err)
	}
	if made, err = s.Create(ctx, "/ttl", nil, client.Persistent.WithTTL(time.Hour)); err != nil && !errors.Is(err, client.ErrUnimplemented) {
		t.Errorf("created %s, %v", made, err)
	}
	if _, err := s.Create(ctx, "/none/a", nil, client.Persistent); !errors.Is(err, client.ErrNoNode) {
		t.Errorf("without a parent: %v", err)
	}
	stat, err := s.Set(ctx, "/a-0000000000", []byte("y"), 0)
	if err != nil || stat.Version != 1 {
		t.Errorf("set: %+v, %v", stat, err)
	}
	if _, err := s.Set(ctx, "/a-0000000000", []byte("z"), 0); !errors.Is(err, client.ErrBadVersion) {
		t.Errorf("set at an old version: %v", err)
	}
	readOnly := []client.ACL{{Identity: client.Identity{Scheme: "world", ID: "anyone"}, Permissions: client.PermRead | client.PermAdmin}}
	if stat, err = s.SetACL(ctx, "/a-0000000000", readOnly, 0); err != nil || stat.ACLVersion != 1 {
		t.Errorf("set the list: %+v, %v", stat, err)
	}
	if acl, stat, err := s.ACLAndStat(ctx, "/a-0000000000"); err != nil || !slices.Equal(acl, readOnly) || stat.ACLVersion != 1 {
		t.Errorf("the list is %v, %+v, %v", acl, stat, err)
	}
	ops := []client.Operation{
		client.DeleteOp(s.FullPath("/a-0000000000"), client.AnyVersion), client.DeleteOp(s.FullPath("/none"), client.AnyVersion),
	}
	var failed *client.Error
	if err := s.Multi(ctx, ops); !errors.Is(err, client.ErrNoNode) || !errors.As(err, &failed) || failed.Path != s.FullPath("/none") || failed.Op != "delete" {
		t.Errorf("a multi with a failure: %v", err)
	}
	if err := s.Delete(ctx, "/a-0000000000", -1); err != nil {
		t.Error(err)
	}
	if _, err := s.Stat(ctx, "/a-0000000000"); !errors.Is(err, client.ErrNoNode) {
		t.Errorf("after the delete: %v", err)
	}
}

// With Watch, reads set watches; without it, they set none.
func TestWatch(t *testing.T) {
	s, ctx := newSpace(t), t.Context()
	s.create(t, "/a x")
	events := make(chan client.EventType, 10)
	watcher := subtree.Space{Root: s.Root, Client: openClient(t, client.Config{OnEvent: func(e client.Event) { events <- e.Type }})}
	for _, tt := range []struct {
		watch bool
		want  []client.EventType
	}{
		{false, nil},
		{true, []client.EventType{client.ChildrenChanged, client.DataChanged}},
	} {
		watcher.Watch = tt.watch
		if _, _, err := watcher.Get(ctx, "/a"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := watcher.Children(ctx, "/a"); err != nil {
			t.Fatal(err)
		}
		made, err := s.Create(ctx, "/a/b-", nil, client.EphemeralSequential)
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
