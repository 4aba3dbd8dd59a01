package queue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/internal/recipetest"
	"rollcall/zk/jute"
)

// Elements are given in the order in which they were put, each to one taker, and are gone when they are done.
func TestPutAndTake(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		putter, taker := New(b.Clients[0], "/q", Config{}), New(b.Clients[1], "/q", Config{})
		for _, text := range []string{"a", "b"} {
			_, err := putter.Put(b.Ctx, []byte(text))
			b.Must(err)
		}
		for _, text := range []string{"a", "b"} {
			e, err := taker.Take(b.Ctx)
			b.Must(err)
			if string(e.Data) != text || e.Attempt != 1 || !e.Held() {
				b.Errorf("%q, attempt %d, want %q", e.Data, e.Attempt, text)
			}
			_, err = e.Done(b.Ctx, client.CreateOp("/done-"+text, nil, client.Persistent))
			b.Must(err)
			if b.HasNode(e.Path()) || !b.HasNode("/done-"+text) || e.Held() {
				b.Error("the element is not done")
			}
			if _, err := e.Done(b.Ctx); !errors.Is(err, client.ErrNotHeld) {
				b.Errorf("done twice: %v", err)
			}
		}
		if _, err := taker.TryTake(b.Ctx); !errors.Is(err, ErrEmpty) {
			b.Errorf("%v, want %v", err, ErrEmpty)
		}
	})
}

// A Put whose reply is lost puts one element, and finds its path.
func TestPutOnce(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		q := New(b.Clients[0], "/q", Config{})
		for range 3 {
			_, err := q.Put(b.Ctx, nil)
			b.Must(err)
		}
		b.LoseReply(jute.OpMulti)
		path, err := q.Put(b.Ctx, []byte("x"))
		b.Must(err)
		if names := b.Children("/q"); len(names) != 4 || path != "/q/"+names[3] {
			b.Errorf("put %s; the elements are %q", path, names)
		}
	})
}

// An element that is given back, or whose taker has ended, is given again.
func TestGivenAgain(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		_, err := New(b.Clients[0], "/q", Config{}).Put(b.Ctx, []byte("x"))
		b.Must(err)
		first, err := New(b.Clients[0], "/q", Config{}).Take(b.Ctx)
		b.Must(err)
		b.Must(first.Release(b.Ctx))
		second, err := New(b.Clients[1], "/q", Config{}).Take(b.Ctx)
		b.Must(err)
		given := make(chan *Element, 1)
		go func() {
			e, err := New(b.Clients[2], "/q", Config{}).Take(b.Ctx)
			b.Report(err)
			given <- e
		}()
		synctest.Wait()
		if len(given) > 0 {
			b.Fatal("an element is given to two takers")
		}
		b.Expire(b.Clients[1])
		third := <-given
		if second.Attempt != 2 || third.Attempt != 3 || third.Token() <= second.Token() {
			b.Errorf("attempts %d and %d", second.Attempt, third.Attempt)
		}
		if _, err := first.Guard(b.Ctx); !errors.Is(err, client.ErrNotHeld) {
			b.Errorf("Guard of an element that was given back: %v", err)
		}
		if _, err := third.Guard(b.Ctx, client.CreateOp("/guarded", nil, client.Persistent)); err != nil || !b.HasNode("/guarded") {
			b.Errorf("Guard: %v", err)
		}
	})
}

// The right to an element has ended before the servers can give the element to another taker.
func TestReleaseEndsRightFirst(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		q := New(b.Clients[0], "/q", Config{})
		_, err := q.Put(b.Ctx, nil)
		b.Must(err)
		e, err := q.Take(b.Ctx)
		b.Must(err)
		seen, held := false, false
		b.Before(b.Clients[0], jute.OpMulti, 1, func(string) { seen, held = true, e.Held() })
		b.Must(e.Release(b.Ctx))
		if !seen || held {
			b.Errorf("the unlock was sent: %v; the right was still held: %v", seen, held)
		}
	})
}

// Release deletes no lock that another taker has made since, and deletes its own although a reply is lost.
func TestReleaseDeletesOwnLock(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		q := New(b.Clients[0], "/q", Config{})
		_, err := q.Put(b.Ctx, nil)
		b.Must(err)
		lost, err := q.Take(b.Ctx)
		b.Must(err)
		b.DeleteNode(lost.Right.Path())
		other, err := New(b.Clients[1], "/q", Config{}).Take(b.Ctx)
		b.Must(err)
		b.Must(lost.Release(b.Ctx))
		if !b.HasNode(other.Right.Path()) || !other.Held() {
			b.Error("Release has deleted another taker's lock")
		}
		b.LoseReply(jute.OpMulti)
		b.Must(other.Release(b.Ctx))
		if b.HasNode(other.Right.Path()) {
			b.Error("Release has left its lock")
		}
	})
}

// A taker knows its lock, although the reply to the request that made it is lost.
func TestTakeOverLostReply(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		q := New(b.Clients[0], "/q", Config{})
		_, err := q.Put(b.Ctx, []byte("x"))
		b.Must(err)
		b.CreateNode("/q-locks/other") // the parent of the locks exists
		b.LoseReply(jute.OpMulti)
		e, err := q.TryTake(b.Ctx)
		b.Must(err)
		if string(e.Data) != "x" || e.Attempt != 1 || !e.Held() {
			b.Errorf("took %q, attempt %d", e.Data, e.Attempt)
		}
	})
}

// Release deletes no lock that another taker makes between the read of the lock and its deletion.
func TestReleaseAsAnotherTakes(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		q := New(b.Clients[0], "/q", Config{})
		_, err := q.Put(b.Ctx, nil)
		b.Must(err)
		former, err := q.Take(b.Ctx)
		b.Must(err)
		var taken *Element
		b.Before(b.Clients[0], jute.OpMulti, 1, func(string) {
			b.DeleteNode(former.Right.Path())
			taken, err = New(b.Clients[1], "/q", Config{}).Take(b.Ctx)
		})
		b.Must(former.Release(b.Ctx))
		b.Must(err)
		if synctest.Wait(); !b.HasNode(taken.Right.Path()) || !taken.Held() {
			b.Error("Release has deleted another taker's lock")
		}
	})
}

// Guard rejects a taker whose element another one has taken since. Both locks have the same path, and the taker has got
// no event yet.
func TestGuardOfElementTakenSince(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		q := New(b.Clients[0], "/q", Config{})
		_, err := q.Put(b.Ctx, nil)
		b.Must(err)
		former, err := q.Take(b.Ctx)
		b.Must(err)
		synctest.Wait()
		b.MuteEvents()
		b.DeleteNode(former.Right.Path())
		_, err = New(b.Clients[1], "/q", Config{}).Take(b.Ctx)
		b.Must(err)
		_, err = former.Guard(b.Ctx, client.CreateOp("/done", nil, client.Persistent))
		if !errors.Is(err, client.ErrNotHeld) || b.HasNode("/done") || former.Held() {
			b.Errorf("%v, held %v, want the end of the right", err, former.Held())
		}
	})
}

// Takers that wait get elements in the order in which they came. One that has got an element watches nothing but its
// lock.
func TestTakersWaitInLine(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		given := make(chan int, 2)
		var elements [2]*Element
		for i, c := range b.Clients[:2] {
			go func() {
				e, err := New(c, "/q", Config{}).Take(b.Ctx)
				b.Report(err)
				elements[i] = e
				given <- i
			}()
			synctest.Wait() // they come in this order
		}
		putter := New(b.Clients[2], "/q", Config{})
		for i := range elements {
			_, err := putter.Put(b.Ctx, nil)
			b.Must(err)
			synctest.Wait()
			if len(given) != 1 || <-given != i {
				b.Fatalf("taker %d is not the one that got the element", i)
			}
			watches := b.Watches(recipetest.ID(b.Clients[i]))
			if want := []string{"data " + elements[i].Right.Path()}; !slices.Equal(watches, want) {
				b.Errorf("a taker that has got its element watches %q, want %q", watches, want)
			}
		}
	})
}

// A taker that gives up as it reads an element leaves no watch, and no place in the line.
func TestTakerGivesUp(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		taker := b.Clients[0]
		ctx, cancel := context.WithCancel(b.Ctx)
		defer cancel()
		failed := make(chan error)
		go func() {
			_, err := New(taker, "/q", Config{}).Take(ctx)
			failed <- err
		}()
		synctest.Wait()
		b.Before(taker, jute.OpGetData, 1, func(string) { cancel() })
		_, err := New(b.Clients[1], "/q", Config{}).Put(b.Ctx, nil)
		b.Must(err)
		if err := <-failed; !errors.Is(err, context.Canceled) {
			b.Errorf("%v, want the end of the context", err)
		}
		synctest.Wait()
		if watches, line := b.Watches(recipetest.ID(taker)), b.Children("/q-locks/line"); len(watches)+len(line) > 0 {
			b.Errorf("left behind: the watches %q, in the line %q", watches, line)
		}
		if _, err := New(b.Clients[1], "/q", Config{}).TryTake(b.Ctx); err != nil {
			b.Errorf("another taker: %v", err)
		}
	})
}
