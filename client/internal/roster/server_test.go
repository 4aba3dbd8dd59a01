package roster

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/internal/recipetest"
	"rollcall/zk/jute"
)

// The event of a child that was replaced by another one of its name, or is gone, changes nothing.
func TestEventOfReplacedChild(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		recipetest.Run(t, 1, func(b *recipetest.Bed) {
			stale := &followed{Child: Child{Name: "a"}}
			f := follower{
				c: b.Clients[0], parent: "/f", watch: &client.OnceWatch{}, children: map[string]*followed{}, fired: make(chan *followed, 1),
			}
			if replaced {
				f.children["a"] = &followed{Child: Child{Name: "a"}, stop: func() { b.Error("the new child is dropped") }}
			}
			f.fired <- stale
			changed, err := f.awaitChange(b.Ctx)
			if changed || err != nil || b.RequestCount(jute.OpGetData) > 0 {
				b.Errorf("changed %v, %v, %d reads, want nothing", changed, err, b.RequestCount(jute.OpGetData))
			}
		})
	}
}

// Follow sees all children in the end, whatever happens to them and to their parent.
func TestFollowAll(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		c := b.Clients[0]
		var mu sync.Mutex
		var last []string
		go func() {
			for children, err := range Follow(b.Ctx, c, "/f") {
				mu.Lock()
				last = nil
				for _, child := range children {
					last = append(last, child.Name+"="+string(child.Data))
				}
				if err != nil {
					last = []string{err.Error()}
				}
				mu.Unlock()
			}
		}()
		want := func(children ...string) {
			b.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(last, children) {
				b.Errorf("followed %q, want %q", last, children)
			}
		}
		want()
		b.ApplyChanges("+/f", "+/f/a", "+/f/b", "=/f/b")
		want("a=", "b=x")
		for range 20 { // the events of a child and of the list may be handled in either order
			b.ApplyChanges("-/f/b", "+/f/b", "=/f/a")
			want("a=x", "b=")
			b.ApplyChanges("-/f/b", "-/f/a", "+/f/a", "+/f/b", "=/f/b")
			want("a=", "b=x")
		}
		b.ApplyChanges("-/f/a", "-/f/b", "-/f")
		want()
		b.Disconnect(true)
		b.ApplyChanges("+/f", "+/f/c")
		b.AllowConnections()
		b.Reconnect()
		want("c=")
		if watches := b.Watches(recipetest.ID(c)); fmt.Sprint(watches) != "[children /f data /f/c]" {
			b.Errorf("the watches are %q", watches)
		}
	})
}
