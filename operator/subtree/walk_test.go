package subtree_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

// A walk visits every node once, parents first and then by name, with the depth and the last child marked, whatever the
// shape of the tree. The shapes are larger than one batch of requests.
func TestWalkVisitsInOrder(t *testing.T) {
	s := newSpace(t)
	want := []string{"/"}
	var add func(path string, widths ...int)
	add = func(path string, widths ...int) {
		if len(widths) == 0 {
			return
		}
		for i := range widths[0] {
			child := subtree.Join(path, fmt.Sprintf("n%03d", i))
			want = append(want, child)
			add(child, widths[1:]...)
		}
	}
	add("/", 3, 1, 40, 2)
	want = append(want, "/wide")
	add("/wide", 2*subtree.MaxAhead)
	want = append(want, "/wide.x") // after what is below /wide, though '.' is before '/'
	shuffled := slices.Clone(want[1:])
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	slices.SortStableFunc(shuffled, func(a, b string) int { return len(a) - len(b) })
	s.create(t, shuffled...)

	var got []string
	for n, err := range s.Walk(t.Context(), "/", subtree.WalkOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n.Path)
		if i := len(got); i > 1 && subtree.ComparePaths(got[i-2], n.Path) >= 0 {
			t.Errorf("%s before %s", got[i-2], n.Path)
		}
	}
	wantLines(t, got, want...)

	var last, shallow []string
	for n, err := range s.Walk(t.Context(), "/", subtree.WalkOptions{MaxDepth: 2, Skip: func(path string) bool { return path == "/wide" }}) {
		if err != nil {
			t.Fatal(err)
		}
		shallow = append(shallow, fmt.Sprint(n.Depth, n.Path))
		if n.IsLastChild {
			last = append(last, n.Path)
		}
	}
	wantLines(t, shallow, "0/", "1/n000", "2/n000/n000", "1/n001", "2/n001/n000", "1/n002", "2/n002/n000", "1/wide.x")
	wantLines(t, last, "/", "/n000/n000", "/n001/n000", "/n002/n000", "/wide.x")
}

// A walk that its caller leaves, whose context ends or whose top does not exist ends with all its requests.
func TestWalkEnds(t *testing.T) {
	s := newSpace(t)
	for i := range 100 {
		s.create(t, fmt.Sprintf("/n%d", i))
	}
	for n, err := range s.Walk(t.Context(), "/", subtree.WalkOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n.Depth == 1 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range s.Walk(ctx, "/", subtree.WalkOptions{}) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("a walk whose context has ended ended with %v", last)
	}
	for _, err := range s.Walk(t.Context(), "/none", subtree.WalkOptions{}) {
		if !errors.Is(err, client.ErrNoNode) {
			t.Errorf("a walk at a node that does not exist: %v", err)
		}
	}
}

// A node that vanishes between the list of its parent and its turn is left out, and so is all below it.
func TestWalkLeavesOutVanished(t *testing.T) {
	s := newSpace(t)
	s.create(t, "/a", "/b", "/b/c", "/d")
	for _, whole := range []bool{false, true} {
		vanishing := testSpace{nodes.New(s.Client, s.Root)}
		var got []string
		for n, err := range vanishing.Walk(t.Context(), "/", subtree.WalkOptions{ReadContent: whole, Skip: func(path string) bool {
			if path == "/b/c" { // the walk has just heard of it
				if err := s.Client.Delete(context.Background(), s.FullPath(path), -1); err != nil {
					t.Error(err)
				}
			}
			return false
		}}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, n.Path)
		}
		wantLines(t, got, "/", "/a", "/b", "/d")
		s.create(t, "/b/c")
	}
}

// A node that may not be read is visited with its error, and the walk continues.
func TestWalkOfUnreadable(t *testing.T) {
	s := newSpace(t)
	s.create(t, "/a", "/b", "/b/c", "/d")
	nobody := []client.ACL{{Permissions: client.PermAll, Identity: client.Identity{Scheme: "digest", ID: "x:y"}}}
	if _, err := s.Client.SetACL(t.Context(), s.FullPath("/b"), nobody, -1); err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{false, true} {
		var got []string
		for n, err := range s.Walk(t.Context(), "/", subtree.WalkOptions{ReadContent: whole}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(n.Path, " ", errors.Is(n.Err, jute.NoAuth)))
		}
		wantLines(t, got, "/ false", "/a false", "/b true", "/d false")
	}
}

// noChildren does not list the children of a node.
type noChildren struct{ subtree.NodeClient }

func (noChildren) Children(context.Context, string) ([]string, jute.Stat, error) {
	return nil, jute.Stat{}, jute.SystemError
}

// A walk ends with an error if the children of a node cannot be listed, also when it has the content.
func TestWalkWithoutChildren(t *testing.T) {
	s := newSpace(t)
	s.create(t, "/a", "/b")
	s.Nodes = noChildren{s.Nodes}
	for _, whole := range []bool{false, true} {
		var last error
		for _, err := range s.Walk(t.Context(), "/", subtree.WalkOptions{ReadContent: whole}) {
			last = err
		}
		if !errors.Is(last, jute.SystemError) {
			t.Errorf("with the content %t: %v", whole, last)
		}
	}
}

// Reads that broken connections interrupt are repeated, so that the walk is whole. If the connection breaks
// at the same request each time, the walk ends with an error.
func TestWalkOutlivesConnections(t *testing.T) {
	s := newSpace(t)
	want := []string{"/"}
	for i := range 50 {
		want = append(want, fmt.Sprintf("/n%02d", i))
		s.create(t, want[i+1])
	}
	w := new(cuttableDialer)
	s.Space = nodes.New(openClient(t, client.Config{DialConn: w.dial, Timeout: 2 * time.Second}), s.Root) // pauses grow with the timeout
	w.mu.Lock()
	w.after, w.only = 3, 4
	w.mu.Unlock()
	var got []string
	for n, err := range s.Walk(t.Context(), "/", subtree.WalkOptions{ReadContent: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n.Path)
	}
	wantLines(t, got, want...)
	w.mu.Lock()
	if len(w.conns) < 4 {
		t.Errorf("%d connections were used; the test wants more to break", len(w.conns))
	}
	w.after, w.only = 2, 0 // the handshake passes
	w.mu.Unlock()
	var last error
	for _, err := range s.Walk(t.Context(), "/", subtree.WalkOptions{}) {
		last = err
	}
	if !errors.Is(last, client.ErrConnectionLost) {
		t.Errorf("over connections that all break: %v", last)
	}
	w.mu.Lock()
	w.after = 0 // so that the session can be closed
	w.mu.Unlock()
}
