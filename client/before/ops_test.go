package before

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// Each call sends the request that its arguments describe, and its error names the request and the path.
func TestRequestsOfCalls(t *testing.T) {
	data, acl := []byte("data"), []jute.ACL{{Perms: jute.PermRead, ID: jute.ID{Scheme: []byte("world"), ID: []byte("anyone")}}}
	create := func(mode jute.CreateMode, list []jute.ACL) jute.CreateRequest {
		return jute.CreateRequest{Path: []byte("/a"), Data: data, ACL: list, Flags: mode}
	}
	for _, tt := range []struct {
		op   jute.Op
		want Record
		call func(ctx context.Context, c *Client) error
	}{
		{jute.OpCreate, create(jute.EphemeralSequential, acl), func(ctx context.Context, c *Client) error {
			_, err := c.Create(ctx, "/a", data, jute.EphemeralSequential, acl)
			return err
		}},
		{jute.OpCreate, create(jute.Persistent, jute.OpenACL), func(ctx context.Context, c *Client) error {
			_, err := c.Create(ctx, "/a", data, jute.Persistent, nil)
			return err
		}},
		{jute.OpCreateContainer, create(jute.Container, acl), func(ctx context.Context, c *Client) error {
			_, err := c.Create(ctx, "/a", data, jute.Container, acl)
			return err
		}},
		{jute.OpCreateTTL, jute.CreateTTLRequest{CreateRequest: create(jute.PersistentWithTTL, acl), TTL: 1500}, func(ctx context.Context, c *Client) error {
			_, err := c.CreateTTL(ctx, "/a", data, jute.PersistentWithTTL, acl, 1500*time.Millisecond)
			return err
		}},
		{jute.OpSetData, jute.SetDataRequest{Path: []byte("/a"), Data: data, Version: 7}, func(ctx context.Context, c *Client) error {
			_, err := c.Set(ctx, "/a", data, 7)
			return err
		}},
		{jute.OpGetData, jute.GetDataRequest{Path: []byte("/a"), Watch: true}, func(ctx context.Context, c *Client) error {
			_, _, err := c.Get(ctx, "/a", true)
			return err
		}},
		{jute.OpExists, jute.ExistsRequest{Path: []byte("/a"), Watch: true}, func(ctx context.Context, c *Client) error {
			_, err := c.Exists(ctx, "/a", true)
			return err
		}},
		{jute.OpGetChildren2, jute.GetChildrenRequest{Path: []byte("/a"), Watch: true}, func(ctx context.Context, c *Client) error {
			_, _, err := c.Children(ctx, "/a", true)
			return err
		}},
		{jute.OpDelete, jute.DeleteRequest{Path: []byte("/a"), Version: 7}, func(ctx context.Context, c *Client) error { return c.Delete(ctx, "/a", 7) }},
		{jute.OpSync, jute.SyncRequest{Path: []byte("/a")}, func(ctx context.Context, c *Client) error { return c.Sync(ctx, "/a") }},
		{jute.OpGetACL, jute.GetACLRequest{Path: []byte("/a")}, func(ctx context.Context, c *Client) error {
			_, _, err := c.GetACL(ctx, "/a")
			return err
		}},
		{jute.OpSetACL, jute.SetACLRequest{Path: []byte("/a"), ACL: acl, Version: 7}, func(ctx context.Context, c *Client) error {
			_, err := c.SetACL(ctx, "/a", acl, 7)
			return err
		}},
		{jute.OpAddWatch, jute.AddWatchRequest{Path: []byte("/a"), Mode: jute.AddWatchPersistentRecursive}, func(ctx context.Context, c *Client) error {
			return c.AddWatch(ctx, "/a", jute.AddWatchPersistentRecursive)
		}},
		{jute.OpRemoveWatches, jute.RemoveWatchesRequest{Path: []byte("/a"), Type: jute.WatcherData}, func(ctx context.Context, c *Client) error {
			return c.RemoveWatches(ctx, "/a", jute.WatcherData)
		}},
	} {
		within(t, func(t *testing.T, f *fake) {
			var p *peer
			c := f.open(Config{OnEvent: func(jute.WatcherEvent, int64) {}}, func() {
				p = <-f.peers
				p.accept()
			})
			defer c.Abandon()
			done := make(chan error, 1)
			go func() { done <- tt.call(t.Context(), c) }()
			r := p.request()
			if r.Op != tt.op || !bytes.Equal(r.body, tt.want.Append(nil)) {
				t.Errorf("%v %q, want %v %q", r.Op, r.body, tt.op, tt.want.Append(nil))
			}
			p.reply(r.Xid, 1, jute.NoAuth, nil)
			err := <-done
			failed, ok := errors.AsType[*Error](err)
			if !ok || failed.Op != tt.op || failed.Path != "/a" || !errors.Is(err, jute.NoAuth) {
				t.Errorf("%v: %#v", tt.op, err)
			}
		})
	}
}

// A caller that gives up gets the reason, whatever it waits for.
func TestCallersGiveUp(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		defer c.Abandon()
		go func() {
			for {
				if _, err := jute.ReadFrame(p.r, nil, 1<<20); err != nil {
					return
				}
			}
		}()
		for name, call := range map[string]func(ctx context.Context) error{
			"addAuth": func(ctx context.Context) error { return c.AddAuth(ctx, Auth{Scheme: "digest", Auth: []byte("a:b")}) },
			"get":     func(ctx context.Context) error { _, _, err := c.Get(ctx, "/a", false); return err },
			"create": func(ctx context.Context) error {
				_, err := c.Create(ctx, "/a", nil, jute.Persistent, nil)
				return err
			},
			"delete": func(ctx context.Context) error { return c.Delete(ctx, "/a", -1) },
			"sync":   func(ctx context.Context) error { return c.Sync(ctx, "/a") },
			"multi":  func(ctx context.Context) error { _, err := c.Multi(ctx, nil); return err },
		} {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			stop()
		}
	})
}
