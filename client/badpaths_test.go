package client

import (
	"context"
	"iter"
	"testing"

	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// Each call rejects an invalid path before it sends anything. With a chroot, such a path could name another node.
func TestBadPaths(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, server *fakezk.Server, c *Client) {
		c.chroot = "/app"
		ctx, p := t.Context(), c.Pipeline()
		calls := map[string]func(path string) error{
			"create":    func(path string) error { _, _, err := c.Create(ctx, path, nil, Persistent); return err },
			"createAll": func(path string) error { return c.CreateAll(ctx, path, Persistent) },
			"get":       func(path string) error { _, _, err := c.Get(ctx, path); return err },
			"set":       func(path string) error { _, err := c.Set(ctx, path, nil, AnyVersion); return err },
			"delete":    func(path string) error { return c.Delete(ctx, path, AnyVersion) },
			"exists":    func(path string) error { _, _, err := c.Exists(ctx, path); return err },
			"children":  func(path string) error { _, _, err := c.Children(ctx, path); return err },
			"getACL":    func(path string) error { _, _, err := c.GetACL(ctx, path); return err },
			"setACL":    func(path string) error { _, err := c.SetACL(ctx, path, nil, AnyVersion); return err },
			"count":     func(path string) error { _, err := c.CountBelow(ctx, path); return err },
			"own":       func(path string) error { _, err := c.Ephemerals(ctx, path); return err },
			"multi":     func(path string) error { _, err := c.Multi(ctx, DeleteOp("/a", 0), CheckOp(path, 0)); return err },
			"getWatch":  func(path string) error { _, _, _, err := c.GetWatch(ctx, path); return err },
			"addWatch":  func(path string) error { return c.AddWatch(ctx, path, true) },
			"remove":    func(path string) error { return c.RemoveWatches(ctx, path, AllWatches) },
			"watch": func(path string) (err error) {
				for _, err = range c.Watch(ctx, path, Tree) {
				}
				return err
			},
			"p.get":    func(path string) error { return p.Get(ctx, path, nil) },
			"p.set":    func(path string) error { return p.Set(ctx, path, nil, 0, nil) },
			"p.create": func(path string) error { return p.Create(ctx, path, nil, Persistent, nil) },
			"p.multi":  func(path string) error { return p.Multi(ctx, []Operation{DeleteOp(path, 0)}, nil) },
			"p.each": func(path string) error {
				return p.EachChild(ctx, path, func(iter.Seq2[[]byte, error], Stat, error) {})
			},
		}
		for name, call := range calls {
			for _, path := range []string{"", "2", "a/b", "/a/", "//", "/a//b", "/..", "/a\x00"} {
				wantError(t, call(path), ErrBadArguments)
				if t.Failed() {
					t.Fatalf("%s %q", name, path)
				}
			}
		}
		for op := range jute.Op(200) {
			if n := server.RequestCount(op); n > 0 {
				t.Errorf("%d requests %v were sent", n, op)
			}
		}
		// A sequential node may have an empty name before its number.
		if err := p.Create(context.Background(), "/a/", nil, EphemeralSequential, func(string, Stat, error) {}); err != nil {
			t.Error(err)
		}
	})
}

// Ephemerals has only nodes at its prefix and below, although servers compare the text alone.
func TestLocalBelow(t *testing.T) {
	for _, tt := range []struct {
		root         chroot
		path, prefix string
		local        string
		ok           bool
	}{
		{"", "/a", "/", "/a", true},
		{"", "/a/b", "/a", "/a/b", true},
		{"", "/ab", "/a", "", false},
		{"/app", "/app/x", "/", "/x", true},
		{"/app", "/app2", "/", "", false},
		{"/app", "/app/x/y", "/x", "/x/y", true},
	} {
		if local, ok := tt.root.localBelow(tt.path, tt.prefix); local != tt.local || ok != tt.ok {
			t.Errorf("%q, %q below %q: %q, %t", tt.root, tt.path, tt.prefix, local, ok)
		}
	}
}
