package moves

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"rollcall/client"
)

// dump is every node as the super user sees it, as text, by path.
type dump map[string]string

// configNode has the list of the ensemble's servers, which differs from one ensemble to the next.
const configNode = "/zookeeper/config"

// open opens a session of the super user on some of a site's servers.
func open(t *testing.T, servers ...string) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := client.Dial(ctx, strings.Join(servers, ","), client.Config{Auth: []client.Auth{{Scheme: "digest", Proof: []byte(super)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return c
}

// dumpOf reads all nodes from one server.
func dumpOf(t *testing.T, server string) dump {
	t.Helper()
	c := open(t, server)
	defer closed(t, c)
	d := dump{}
	if err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for unread := []string{"/"}; len(unread) > 0; unread = unread[1:] {
		path := unread[0]
		children, text, err := readNode(t.Context(), c, path)
		if errors.Is(err, client.ErrNoNode) {
			continue // it has ended meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		d[path] = text
		for _, name := range children {
			unread = append(unread, strings.TrimSuffix(path, "/")+"/"+name)
		}
	}
	return d
}

// readNode returns a node's children, and everything else about it as text.
func readNode(ctx context.Context, c *client.Client, path string) (children []string, text string, err error) {
	data, stat, err := c.Get(ctx, path)
	if err != nil {
		return nil, "", err
	}
	acl, _, err := c.GetACL(ctx, path)
	if err != nil {
		return nil, "", err
	}
	children, _, err = c.Children(ctx, path)
	if path == configNode {
		data, stat.Changed, stat.ChangedMs, stat.Version, stat.DataLength = nil, 0, 0, 0, 0
	}
	null := ""
	if data == nil {
		null = " null"
	}
	return children, fmt.Sprintf("%q%s %+v %s", data, null, stat, aclText(acl)), err
}

func aclText(acl []client.ACL) string {
	var b strings.Builder
	for _, e := range acl {
		fmt.Fprintf(&b, "%s:%s:%v ", e.Identity.Scheme, e.Identity.ID, e.Permissions)
	}
	return b.String()
}

// same reports a test's failure for every node that is not the same in both.
func same(t *testing.T, before, after dump) {
	t.Helper()
	differ := 0
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if got, ok := after[path]; got != before[path] {
			if differ++; differ <= mostShown {
				t.Errorf("%s was %s\nis (there: %t) %s", path, before[path], ok, got)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[path]; !ok {
			if differ++; differ <= mostShown {
				t.Errorf("%s is new: %s", path, after[path])
			}
		}
	}
	if differ > mostShown {
		t.Errorf("%d nodes of %d differ", differ, len(before))
	}
}

// mostShown is the number of differences that a failure shows.
const mostShown = 10

func closed(t *testing.T, c *client.Client) {
	t.Helper()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
