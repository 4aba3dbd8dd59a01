package subtree_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/subtree"
)

// remove removes a subtree and returns its reports, a deleted node with - and one that was left with =.
func (s testSpace) remove(t *testing.T, top string, how subtree.RemoveOptions) (lines []string, done subtree.RemoveResult) {
	t.Helper()
	how.OnNode = func(path string, deleted bool) {
		lines = append(lines, map[bool]string{true: "-", false: "="}[deleted]+path)
	}
	done, err := s.Remove(t.Context(), top, how)
	if err != nil {
		t.Fatal(err)
	}
	return lines, done
}

// Remove deletes children before their parent and nothing beside the subtree. With the option for it, it leaves
// ephemeral nodes and the nodes above them.
func TestRemove(t *testing.T) {
	s := newSpace(t)
	s.create(t, "/a", "/a/b", "/a/b/c", "/a/d", "/ab")
	if _, _, err := s.Client.Create(t.Context(), s.FullPath("/a/b/e"), nil, client.Ephemeral); err != nil {
		t.Fatal(err)
	}
	told, done := s.remove(t, "/a", subtree.RemoveOptions{DryRun: true})
	wantLines(t, told, "-/a/b/c", "-/a/b/e", "-/a/b", "-/a/d", "-/a")
	if done != (subtree.RemoveResult{Nodes: 5}) {
		t.Errorf("%+v", done)
	}
	wantLines(t, s.tree(t, "/"), "/", "/a", "/a/b", "/a/b/c", "/a/b/e *", "/a/d", "/ab")

	told, done = s.remove(t, "/a", subtree.RemoveOptions{KeepEphemerals: true})
	wantLines(t, told, "=/a/b/e", "-/a/b/c", "=/a/b", "-/a/d", "=/a")
	if done != (subtree.RemoveResult{Nodes: 2, LeftAlone: 3}) {
		t.Errorf("%+v", done)
	}
	wantLines(t, s.tree(t, "/"), "/", "/a", "/a/b", "/a/b/e *", "/ab")

	if told, _ = s.remove(t, "/a", subtree.RemoveOptions{}); len(told) != 3 {
		t.Errorf("told %q", told)
	}
	wantLines(t, s.tree(t, "/"), "/", "/ab")
	if _, err := s.Remove(t.Context(), "/a", subtree.RemoveOptions{}); !errors.Is(err, client.ErrNoNode) {
		t.Errorf("nothing to remove: %v", err)
	}
}

// Deletes are sent again after a connection breaks. Deletes that were carried out before, without a reply, then find no
// node.
func TestDeletesOutliveConnections(t *testing.T) {
	s := newSpace(t)
	paths := make([]string, subtree.MaxDeletes)
	for i := range paths {
		paths[i] = fmt.Sprintf("/n%d", i)
		s.create(t, paths[i])
	}
	w := new(cuttableDialer)
	broken := testSpace{nodes.New(openClient(t, client.Config{DialConn: w.dial, Timeout: 2 * time.Second}), s.Root)}
	w.mu.Lock()
	w.deaf = 1
	w.mu.Unlock()
	errs, lost := make([]error, len(paths)), 0
	if err := broken.DeleteAll(t.Context(), paths, errs); err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		switch {
		case errors.Is(err, client.ErrNoNode):
			lost++
		case err != nil:
			t.Errorf("%s: %v", paths[i], err)
		}
	}
	if lost == 0 {
		t.Error("no answer was lost; the test wants some")
	}
	wantLines(t, s.tree(t, "/"), "/")
	w.mu.Lock()
	w.after = 2 // the handshake passes
	w.mu.Unlock()
	if err := broken.DeleteAll(t.Context(), paths, errs); !errors.Is(err, client.ErrConnectionLost) {
		t.Errorf("over connections that all break: %v", err)
	}
	w.mu.Lock()
	w.after = 0 // so that the session can be closed
	w.mu.Unlock()
}

// Nodes that others delete, and nodes that they create, while a subtree is removed are no error.
func TestRemoveBesideOthers(t *testing.T) {
	s := newSpace(t)
	s.create(t, "/a", "/a/z")
	for i := range subtree.MaxDeletes + 10 {
		s.create(t, fmt.Sprintf("/a/n%d", i))
	}
	told := 0
	done, err := s.Remove(t.Context(), "/a", subtree.RemoveOptions{OnNode: func(string, bool) {
		if told++; told == 1 { // the walk knows of /a/z
			if err := s.Client.Delete(t.Context(), s.FullPath("/a/z"), -1); err != nil {
				t.Error(err)
			}
			s.create(t, "/a/later")
		}
	}})
	if err != nil || done != (subtree.RemoveResult{Nodes: subtree.MaxDeletes + 10, LeftAlone: 1}) {
		t.Errorf("%+v, %v", done, err)
	}
	wantLines(t, s.tree(t, "/"), "/", "/a", "/a/later")
}

// Remove ends with the node that the caller may not delete, or not read.
func TestRemoveRefused(t *testing.T) {
	s := newSpace(t)
	s.create(t, "/a", "/a/b", "/a/b/c")
	noDelete := []client.ACL{{Permissions: client.PermAll &^ client.PermDelete, Identity: client.Anyone}}
	if _, err := s.Client.SetACL(t.Context(), s.FullPath("/a/b"), noDelete, -1); err != nil {
		t.Fatal(err)
	}
	_, err := s.Remove(t.Context(), "/a", subtree.RemoveOptions{OnNode: func(string, bool) {}})
	var named *client.Error
	if !errors.Is(err, client.ErrNoAuth) || !errors.As(err, &named) || named.Path != s.FullPath("/a/b/c") {
		t.Errorf("a node that may not be deleted: %v", err)
	}
	noRead := []client.ACL{{Permissions: client.PermAll &^ client.PermRead, Identity: client.Anyone}}
	if _, err := s.Client.SetACL(t.Context(), s.FullPath("/a/b"), noRead, -1); err != nil {
		t.Fatal(err)
	}
	if _, err = s.Remove(t.Context(), "/a", subtree.RemoveOptions{}); !errors.Is(err, client.ErrNoAuth) ||
		!errors.As(err, &named) || named.Path != s.FullPath("/a/b") {
		t.Errorf("a node that may not be read: %v", err)
	}
}
