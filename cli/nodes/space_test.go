package nodes_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

// The changes of a space are made below its root, and their errors are the servers'.
func TestChanges(t *testing.T) {
	s, ctx := newSpace(t, client.Config{}), t.Context()
	made, err := s.Create(ctx, "/a-", []byte("x"), client.PersistentSequential, nil)
	if err != nil || made != "/a-0000000000" {
		t.Fatalf("created %s, %v", made, err)
	}
	if made, err = s.Create(ctx, "/ttl", nil, client.Persistent.WithTTL(time.Hour), nil); err != nil && !errors.Is(err, client.ErrUnimplemented) {
		t.Errorf("created %s, %v", made, err)
	}
	if _, err := s.Create(ctx, "/none/a", nil, client.Persistent, nil); !errors.Is(err, client.ErrNoNode) {
		t.Errorf("without a parent: %v", err)
	}
	stat, err := s.Set(ctx, "/a-0000000000", []byte("y"), 0)
	if err != nil || stat.Version != 1 {
		t.Errorf("set: %+v, %v", stat, err)
	}
	if _, err := s.Set(ctx, "/a-0000000000", []byte("z"), 0); !errors.Is(err, client.ErrBadVersion) {
		t.Errorf("set at an old version: %v", err)
	}
	readOnly := []jute.ACL{{Perms: jute.PermRead | jute.PermAdmin, ID: jute.OpenACL[0].ID}}
	if stat, err = s.SetACL(ctx, "/a-0000000000", readOnly, 0); err != nil || stat.Aversion != 1 {
		t.Errorf("set the list: %+v, %v", stat, err)
	}
	if acl, stat, err := s.ACLAndStat(ctx, "/a-0000000000"); err != nil || !jute.EqualACLs(acl, readOnly) || stat.Aversion != 1 {
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
	s, ctx := newSpace(t, client.Config{}), t.Context()
	if _, err := s.Create(ctx, "/a", nil, client.Persistent, nil); err != nil {
		t.Fatal(err)
	}
	events := make(chan client.EventType, 10)
	watcher := newSpace(t, client.Config{OnEvent: func(e client.Event) { events <- e.Type }})
	watcher.Root = s.Root
	for _, tt := range []struct {
		watch bool
		want  []client.EventType
	}{
		{false, nil},
		{true, []client.EventType{client.ChildrenChanged, client.DataChanged}},
	} {
		if tt.watch {
			watcher = watcher.Watching()
		}
		if _, _, err := watcher.Get(ctx, "/a"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := watcher.Children(ctx, "/a"); err != nil {
			t.Fatal(err)
		}
		made, err := s.Create(ctx, "/a/b-", nil, client.EphemeralSequential, nil)
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

// Without a connection a request waits for one, and fails in a space without retries. A delete does not wait: it has lost
// its connection, as if it had been sent.
func TestWithoutConnection(t *testing.T) {
	conns, suspended := make(chan net.Conn, 2), make(chan struct{}, 1)
	mayDial := make(chan struct{}, 2)
	mayDial <- struct{}{}
	s := newSpace(t, client.Config{
		DialConn: func(ctx context.Context, network, addr string) (net.Conn, error) {
			select {
			case <-mayDial:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			conns <- conn
			return conn, err
		},
		OnState: func(change client.StateChange) {
			if change.State == client.Suspended {
				suspended <- struct{}{}
			}
		},
	})
	ctx := t.Context()
	(<-conns).Close()
	<-suspended
	if _, err := s.WithoutRetry().Stat(ctx, "/"); !errors.Is(err, client.ErrSuspended) {
		t.Errorf("a read without retries: %v", err)
	}
	if err := s.Nodes.SendDelete(ctx, s.FullPath("/a"), func(error) {}); !errors.Is(err, jute.ConnectionLoss) {
		t.Errorf("a delete: %v", err)
	}
	calls := 0
	err := s.SendOnce(ctx, func(ctx context.Context) error {
		if calls++; calls == 2 {
			return nil
		}
		_, err := s.Client.Set(ctx, s.Root, nil, -1)
		if !errors.Is(err, client.ErrSuspended) {
			t.Errorf("a change without a connection: %v", err)
		}
		mayDial <- struct{}{}
		return err
	})
	if err != nil || calls != 2 {
		t.Errorf("a change that waits for a connection: %d calls, %v", calls, err)
	}
	if _, err := s.Stat(ctx, "/"); err != nil {
		t.Errorf("a read on the next connection: %v", err)
	}
}
