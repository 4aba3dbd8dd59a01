package nodes_test

import (
	"errors"
	"slices"
	"testing"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/past/pasttest"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

// The nodes of a state are read below a root, whatever their access control lists, and with the client's errors. Nothing changes
// them.
func TestOfState(t *testing.T) {
	e := pasttest.New(t, 1000)
	c := e.Connect("10.0.0.7:1")
	c.Create("/app", "", 0)
	c.Create("/app/secret", "data", 0)
	c.Create("/app/secret/a", "", jute.Ephemeral)
	c.Create("/app/b", "", 0)
	e.Apply(c.SetACLTxn("/app/secret", []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("digest"), ID: []byte("u:hash")}}}))
	s, ctx := nodes.OfState(e.State, "/app"), t.Context()
	data, stat, err := s.Get(ctx, "/secret")
	if err != nil || string(data) != "data" || stat.NumChildren != 1 || stat.Aversion != 1 {
		t.Errorf("%q %+v %v", data, stat, err)
	}
	if names, _, err := s.Children(ctx, "/"); err != nil || !slices.Equal(names, []string{"b", "secret"}) {
		t.Errorf("children %q, %v", names, err)
	}
	var walked []string
	for node, err := range s.Walk(ctx, "/", subtree.WalkOptions{}) {
		if err != nil || node.Err != nil {
			t.Fatal(err, node.Err)
		}
		walked = append(walked, node.Path)
	}
	if !slices.Equal(walked, []string{"/", "/b", "/secret", "/secret/a"}) {
		t.Errorf("walked %q", walked)
	}
	var failed *client.Error
	if _, err := s.Stat(ctx, "/none"); !errors.Is(err, client.ErrNoNode) || !errors.As(err, &failed) || failed.Path != "/app/none" {
		t.Errorf("a missing node: %v", err)
	}
	if _, err := s.ACL(ctx, "/secret"); err == nil {
		t.Error("an access control list was shown")
	}
	if _, err := s.SetACL(ctx, "/secret", jute.OpenACL, -1); err == nil {
		t.Error("an access control list was set")
	}
}
