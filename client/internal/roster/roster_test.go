package roster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unsafe"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
	"rollcall/client/recipe"
)

// withServer runs test with a parent /f in a bubble.
func withServer(t *testing.T, test func(t *testing.T, s *fakezk.Server, c *client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		s.CreateNode("/f")
		c, err := client.Dial(t.Context(), "fake:1", client.Config{
			DialConn: s.DialConn,
		})
		if err != nil {
			t.Fatal(err)
		}
		test(t, s, c)
		c.Abandon()
		s.AwaitConnectionsEnd()
	})
}

// put creates a child, or sets its data.
func put(s *fakezk.Server, name string, length int) {
	if path := recipe.PathOf("/f", name); !s.HasNode(path) {
		s.CreateNode(path)
	}
	s.SetData(recipe.PathOf("/f", name), strings.Repeat("x", length))
}

// shown returns the names of children with the lengths of their data, or "omitted".
func shown(children []Child) (texts []string) {
	for _, child := range children {
		text := fmt.Sprintf("%s %d", child.Name, len(child.Data))
		if child.Omitted {
			text = child.Name + " omitted"
		}
		texts = append(texts, text)
	}
	return texts
}

// bytesOf returns the number of bytes of all data, and the number of children without theirs.
func bytesOf(children []Child) (bytes, omitted int) {
	for _, child := range children {
		bytes += len(child.Data)
		if child.Omitted {
			omitted++
		}
	}
	return bytes, omitted
}

// The children do not keep the memory of the list that their names come from, in which each is right after the length
// of its name.
func TestChildrenKeepNoList(t *testing.T) {
	withServer(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		for i := range 20 {
			put(s, fmt.Sprintf("%040d", i), 1)
		}
		read, err := Read(t.Context(), c, "/f")
		if err != nil || len(read) != 20 {
			t.Fatalf("%q, %v", shown(read), err)
		}
		var followed []Child
		for followed, err = range Follow(t.Context(), c, "/f") {
			break
		}
		if err != nil || len(followed) != 20 {
			t.Fatalf("%q, %v", shown(followed), err)
		}
		for _, children := range [][]Child{read, followed} {
			begins := map[uintptr]bool{}
			for _, child := range children {
				begins[uintptr(unsafe.Pointer(unsafe.StringData(child.Name)))] = true
			}
			for begin := range begins {
				if begins[begin+40+4] {
					t.Error("two names are in the memory of one list")
				}
			}
		}
	})
}

// Read keeps as many bytes as there is room for, and marks the children whose data it leaves out.
func TestReadBoundsData(t *testing.T) {
	withServer(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		for i := range 10 {
			put(s, fmt.Sprint(i), 10)
		}
		for space, want := range map[byteBudget]int{100: 0, 99: 1, 35: 7, 0: 10} {
			children, err := readChildren(t.Context(), c, "/f", space)
			bytes, omitted := bytesOf(children)
			if err != nil || len(children) != 10 || omitted != want || bytes != 10*(10-want) {
				t.Errorf("room for %d: %q, %v; want %d omitted", space, shown(children), err, want)
			}
		}
	})
}

// Follow keeps the bound over all changes, and reads what it has left out as soon as there is room.
func TestFollowBoundsData(t *testing.T) {
	withServer(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		put(s, "a", 60)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		steps := []struct {
			change func()
			want   []string
		}{
			{func() { put(s, "b", 60) }, []string{"a 60", "b omitted"}},
			{func() { put(s, "c", 40) }, []string{"a 60", "b omitted", "c 40"}},
			{func() { put(s, "c", 41) }, []string{"a 60", "b omitted", "c omitted"}},
			{func() { put(s, "a", 40) }, []string{"a 40", "b 60", "c omitted"}},
			{func() { s.DeleteNode("/f/b") }, []string{"a 40", "c 41"}},
			{func() { put(s, "a", 101) }, []string{"a omitted", "c 41"}},
			{func() { put(s, "a", 0) }, []string{"a 0", "c 41"}},
		}
		lists := make(chan []Child)
		go func() {
			defer close(lists)
			for children, err := range followChildren(ctx, c, "/f", 100) {
				if err != nil {
					return
				}
				lists <- children
			}
		}()
		last := <-lists
		for i, step := range steps {
			step.change()
			for changing := true; changing; {
				synctest.Wait()
				select {
				case last = <-lists:
				default:
					changing = false
				}
			}
			if got := shown(last); !slices.Equal(got, step.want) {
				t.Errorf("step %d: %q, want %q", i, got, step.want)
			}
		}
		cancel()
		for range lists { // until the loop has ended
		}
	})
}
