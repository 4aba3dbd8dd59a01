package roster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
)

// A parent has at most MaxChildren children.
func TestMaxChildren(t *testing.T) {
	withServer(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		for i := range MaxChildren {
			s.CreateNode(fmt.Sprintf("/f/%d", i))
		}
		if children, err := Read(t.Context(), c, "/f"); err != nil || len(children) != MaxChildren {
			t.Errorf("%d children, %v", len(children), err)
		}
		s.CreateNode("/f/more")
		if children, err := Read(t.Context(), c, "/f"); !errors.Is(err, ErrTooMany) || len(children) != 0 {
			t.Errorf("%d children, %v", len(children), err)
		}
		for children, err := range Follow(t.Context(), c, "/f") {
			if !errors.Is(err, ErrTooMany) || len(children) != 0 {
				t.Errorf("followed %d children, %v", len(children), err)
			}
		}
	})
}

// A loop that is left, or ends with its context or an error, leaves no watch.
func TestFollowLeavesNoWatch(t *testing.T) {
	for name, end := range map[string]func(s *fakezk.Server, cancel func()) (leave bool){
		"break":  func(*fakezk.Server, func()) bool { return true },
		"cancel": func(_ *fakezk.Server, cancel func()) bool { cancel(); return false },
		"error":  func(s *fakezk.Server, _ func()) bool { s.DenyRead("/f/a"); s.SetData("/f/a", "y"); return false },
	} {
		withServer(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
			put(s, "a", 1)
			put(s, "b", 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			lists := 0
			var last error
			for _, err := range Follow(ctx, c, "/f") {
				if last = err; err != nil {
					continue
				}
				if lists++; end(s, cancel) {
					break
				}
			}
			if want := map[string]error{"cancel": context.Canceled, "error": client.ErrNoAuth}[name]; !errors.Is(last, want) || lists != 1 {
				t.Errorf("%s: %d lists, and %v", name, lists, last)
			}
			waitForWatches(t, s, name)
		})
	}
}

// waitForWatches waits until all goroutines are blocked, and fails the test if there are watches.
func waitForWatches(t *testing.T, s *fakezk.Server, name string) {
	t.Helper()
	synctest.Wait()
	if n := s.WatchCount(); n != 0 {
		t.Errorf("%s: %d watches are left", name, n)
	}
}
