package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
)

// follow reads Changes in a goroutine until they end. ended waits for that, and returns the changes and the last error.
func follow(ctx context.Context, k *Cache) (ended func() ([]string, error)) {
	var got []string
	var last error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for change, err := range k.Changes(ctx) {
			if last = err; err != nil {
				continue
			}
			text := fmt.Sprint(change.Type, " ", change.Path, "=", string(change.Node.Data))
			switch {
			case errors.Is(change.Err, client.ErrExpired):
				text += " expired"
			case errors.Is(change.Err, ErrTooLarge):
				text += " too large"
			case change.Err != nil:
				text += " " + change.Err.Error()
			}
			got = append(got, text)
		}
	}()
	synctest.Wait()
	return func() ([]string, error) { <-done; return got, last }
}

// awaitPause waits until the Cache stays Stale.
func awaitPause(t *testing.T, k *Cache) {
	t.Helper()
	_ = k.AwaitCondition(t.Context(), func() bool { return false }) // ends with Err
	synctest.Wait()
}

// One loop over Changes continues over sessions, with marks where one ends and where the next one begins, and ends with
// the Cache.
func TestChangesOverSessions(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b")
		k := open(t, c, "/a", Config{})
		ended := follow(t.Context(), k)
		all := []string{"reset /a="}
		for range 2 {
			s.SetData("/a", "before")
			synctest.Wait()
			s.ExpireSession()
			awaitPause(t, k)
			s.ApplyChanges("-/a/b", "=/a", "+/a/b")
			s.AllowSessions()
			if err := k.Attach(t.Context(), dial(t, s)); err != nil {
				t.Fatal(err)
			}
			s.SetData("/a/b", "after")
			synctest.Wait()
			all = append(all, "updated /a=before", "paused /a= expired", "resumed /a=",
				"updated /a=x", "updated /a/b=", "updated /a/b=after")
		}
		k.Close()
		if got, last := ended(); !slices.Equal(got, all) || !errors.Is(last, ErrClosed) {
			t.Errorf("got %q, %v; want %q, %v", got, last, all, ErrClosed)
		}
		if err := k.Err(); !errors.Is(err, ErrClosed) {
			t.Errorf("the reason after Close is %v", err)
		}
	})
}

// A loop that begins while the copy is paused gets the reason, and continues after Attach.
func TestChangesBeginPaused(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.CreateNode("/a")
		k := open(t, c, "/a", Config{})
		s.ExpireSession()
		awaitPause(t, k)
		ended := follow(t.Context(), k)
		s.AllowSessions()
		s.SetData("/a", "x")
		if err := k.Attach(t.Context(), dial(t, s)); err != nil {
			t.Fatal(err)
		}
		k.Close()
		all := []string{"reset /a=", "paused /a= expired", "resumed /a=", "updated /a=x"}
		if got, last := ended(); !slices.Equal(got, all) || !errors.Is(last, ErrClosed) {
			t.Errorf("got %q, %v; want %q", got, last, all)
		}
	})
}

// A tree that is too large, and an Attach that fails, pause a loop, and do not end it.
func TestChangesPausedByOtherReasons(t *testing.T) {
	bubble(t, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.ApplyChanges("+/a", "+/a/b")
		k := open(t, c, "/a", Config{MaxBytes: 3 * nodeBytes})
		ended := follow(t.Context(), k)
		failed := k.Attach(t.Context(), dial(t, fakezk.New(t)))
		reason := k.Err()
		if failed == nil || reason == nil {
			t.Fatalf("Attach to another ensemble: %v; the reason is %v", failed, reason)
		}
		if err := k.Attach(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		s.CreateNode("/a/c")
		awaitPause(t, k)
		k.Close()
		all := []string{
			"reset /a=", "paused /a= " + reason.Error(), "resumed /a=", "added /a/c=", "paused /a= too large",
		}
		if got, last := ended(); !slices.Equal(got, all) || !errors.Is(last, ErrClosed) {
			t.Errorf("got %q, %v; want %q", got, last, all)
		}
	})
}

// If changes are left out, the reader still learns that the copy is paused, or that it is not any more.
func TestChangesLeftOutKeepMark(t *testing.T) {
	for _, mark := range []ChangeType{Paused, Resumed} {
		for _, first := range []bool{true, false} { // the mark, before what has no room
			l := &listener{}
			if first {
				l.add(Change{Type: mark}, "/a")
			}
			for len(l.waiting) < MaxChanges {
				l.add(Change{Type: Added, Path: "/a/b"}, "/a")
			}
			if first {
				l.add(Change{Type: Added, Path: "/a/c"}, "/a")
			} else {
				l.add(Change{Type: mark}, "/a")
			}
			if len(l.waiting) != 2 || l.waiting[0].Type != Reset || l.waiting[0].Path != "/a" || l.waiting[1].Type != mark {
				t.Errorf("%v first %t: %d changes wait, beginning with %+v", mark, first, len(l.waiting), l.waiting[:min(2, len(l.waiting))])
			}
		}
	}
}
