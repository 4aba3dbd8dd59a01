package recipes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/queue"
	"rollcall/rollcalltest"
)

const queueFolder = "/app/jobs"

// jobs returns the queue of a client.
func (s *scene) jobs(c *client.Client) *queue.Queue { return queue.New(c, queueFolder, queue.Config{}) }

// putAndTake puts an element and takes it.
func (s *scene) putAndTake(q *queue.Queue) *queue.Element {
	s.t.Helper()
	s.check(errorOf(q.Put(s.ctx, []byte("x"))))
	e, err := q.Take(s.ctx)
	s.check(err)
	return e
}

// nothingLeft fails the test if elements or locks are left.
func (s *scene) nothingLeft() {
	s.t.Helper()
	s.awaitSettled()
	if names := s.children(queueFolder); len(names) != 0 {
		s.t.Errorf("elements %q are left", names)
	}
	for _, name := range s.children(queueFolder + "-locks") {
		if strings.HasPrefix(name, "queue-") {
			s.t.Errorf("the lock %s is left", name)
		}
	}
}

// Each element is put once and done once, in order, whatever request the connection breaks at.
func TestQueue(t *testing.T) {
	atEachRequest(t, func(s *scene, c *client.Client) {
		q := s.jobs(c)
		witness := s.client()
		s.check(witness.CreateAll(s.ctx, "/results", client.Persistent))
		for i := range 3 {
			path, err := q.Put(s.ctx, fmt.Append(nil, i))
			s.check(err)
			if _, exists, err := witness.Exists(s.ctx, path); err != nil || !exists {
				s.t.Errorf("Put returned %q, which does not exist: %v", path, err)
			}
		}
		for i := range 3 {
			e, err := q.Take(s.ctx)
			s.check(err)
			if string(e.Data) != fmt.Sprint(i) || e.Attempt != 1 || !e.Held() {
				s.t.Errorf("took %q, attempt %d, held %t, want %d", e.Data, e.Attempt, e.Held(), i)
			}
			_, err = e.Done(s.ctx, client.CreateOp("/results/"+string(e.Data), nil, client.Persistent))
			s.check(err)
			if e.Held() {
				s.t.Error("an element that is done is held")
			}
		}
		_, err := q.TryTake(s.ctx)
		s.want(err, queue.ErrEmpty)
		if names := s.children("/results"); len(names) != 3 {
			s.t.Errorf("results %q, want 3", names)
		}
		s.nothingLeft()
	})
}

// A Put whose reply is lost finds its element among many, or none if that is done.
func TestQueuePutFindsElement(t *testing.T) {
	for _, isDone := range []bool{false, true} {
		inScene(t, func(s *scene) {
			c, other := s.client(), s.jobs(s.client())
			fill := func(elements int) {
				for range elements {
					_, err := other.Put(s.ctx, []byte("other"))
					s.check(err)
				}
			}
			s.check(c.CreateAll(s.ctx, queueFolder, client.Persistent))
			if !isDone {
				fill(20)
			}
			release := make(chan struct{})
			s.srv.OnRequest(breakAndHold(c, lostReply, release, func(r rollcalltest.Request) bool { return r.Op == "multi" }))
			put := make(chan string)
			go func() {
				path, err := s.jobs(c).Put(s.ctx, []byte("mine"))
				s.check(err)
				put <- path
			}()
			s.awaitSettled()
			if isDone {
				e, err := other.Take(s.ctx)
				s.check(err)
				_, err = e.Done(s.ctx)
				s.check(err)
			}
			fill(7)
			close(release)
			path := <-put
			if isDone {
				if path != "" {
					s.t.Errorf("Put = %q, want none: the element is done", path)
				}
				return
			}
			if data, _, err := c.Get(s.ctx, path); err != nil || !strings.Contains(string(data), "mine") {
				s.t.Errorf("Put = %q, which has %q, %v", path, data, err)
			}
		})
	}
}

// closed returns a channel that is closed.
func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// If an operator sets an element, its taker cannot end it, and does not have it any more.
func TestQueueElementSet(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		q := s.jobs(c)
		e := s.putAndTake(q)
		_, err := c.Set(s.ctx, e.Path(), []byte("y"), client.AnyVersion)
		s.check(err)
		_, err = e.Done(s.ctx)
		s.want(err, client.ErrNotHeld)
		if e.Held() {
			s.t.Error("the element is held")
		}
		s.check(e.Release(s.ctx))
		again, err := q.Take(s.ctx)
		s.check(err)
		if string(again.Raw) != "y" {
			s.t.Errorf("took %q, want y", again.Raw)
		}
	})
}

// A taker whose place in the line an operator deletes gets an element all the same.
func TestQueuePlaceDeleted(t *testing.T) {
	inScene(t, func(s *scene) {
		operator, putter := s.client(), s.jobs(s.client())
		taken := make(chan error, 2)
		for range 2 {
			q := s.jobs(s.client())
			go func() { taken <- errorOf(q.Take(s.ctx)) }()
			s.awaitSettled()
		}
		names := s.children(queueFolder + "-locks/line")
		if len(names) != 2 {
			s.t.Fatalf("the line is %q", names)
		}
		number := func(name string) string { return name[len(name)-10:] }
		slices.SortFunc(names, func(a, b string) int { return strings.Compare(number(b), number(a)) })
		for _, name := range names { // the one that waits loses its place before the other one
			s.check(operator.Delete(s.ctx, queueFolder+"-locks/line/"+name, client.AnyVersion))
			synctest.Wait()
		}
		for range 2 {
			s.check(errorOf(putter.Put(s.ctx, nil)))
		}
		s.check(<-taken)
		s.check(<-taken)
	})
}

// A taker that has not used its session for long has the right to its element at once.
func TestQueueIdleTaker(t *testing.T) {
	inScene(t, func(s *scene) {
		q := s.jobs(s.client())
		for range 3 {
			_, err := q.Put(s.ctx, []byte("x"))
			s.check(err)
			time.Sleep(time.Minute) // in the bubble
			e, err := q.Take(s.ctx)
			s.check(err)
			synctest.Wait()
			if !e.Held() {
				s.t.Error("the element is not held")
			}
			time.Sleep(time.Minute)
			if !e.Held() {
				s.t.Error("the element is not held after a minute")
			}
			_, err = e.Done(s.ctx)
			s.check(err)
		}
	})
}

// A taker waits for an element, whatever request the connection breaks at.
func TestQueueWait(t *testing.T) {
	atEachRequest(t, func(s *scene, c *client.Client) {
		other := s.jobs(s.client())
		time.AfterFunc(time.Second, func() {
			_, err := other.Put(s.ctx, []byte("x"))
			s.check(err)
		})
		e, err := s.jobs(c).Take(s.ctx)
		s.check(err)
		_, err = e.Done(s.ctx)
		s.check(err)
		s.nothingLeft()
	})
}

// TryTake takes an element that is there, and otherwise does not wait.
func TestQueueTryTake(t *testing.T) {
	inScene(t, func(s *scene) {
		q := s.jobs(s.client())
		requests := 0
		s.srv.OnRequest(countRequests(func() { requests++ }))
		if e, err := q.TryTake(s.ctx); e != nil || !errors.Is(err, queue.ErrEmpty) {
			s.t.Errorf("from an empty queue: %v, %v", e, err)
		}
		if requests != 1 {
			s.t.Errorf("to see that a queue is empty took %d requests, want 1", requests)
		}
		_, err := q.Put(s.ctx, []byte("x"))
		s.check(err)
		e, err := q.TryTake(s.ctx)
		s.check(err)
		_, err = e.Done(s.ctx)
		s.check(err)
		s.nothingLeft()
	})
}

// An element whose taker ends is given again, to one that waits, with the next attempt and a greater token. The first
// taker cannot end it.
func TestQueueTakerDies(t *testing.T) {
	inScene(t, func(s *scene) {
		dying := s.client()
		_, err := s.jobs(dying).Put(s.ctx, []byte("x"))
		s.check(err)
		first, err := s.jobs(dying).Take(s.ctx)
		s.check(err)
		time.AfterFunc(time.Second, func() { s.check(s.srv.ExpireSession(sessionOf(dying))) })
		second, err := s.jobs(s.client()).Take(s.ctx)
		s.check(err)
		s.awaitSettled()
		if string(second.Data) != "x" || second.Attempt != 2 || second.Token() <= first.Token() || first.Held() {
			s.t.Errorf("given again: %q, attempt %d, token %d after %d, the first is held: %t", second.Data, second.Attempt,
				second.Token(), first.Token(), first.Held())
		}
		_, err = first.Done(s.ctx)
		s.want(err, client.ErrNotHeld)
		_, err = second.Done(s.ctx)
		s.check(err)
		s.nothingLeft()
	})
}

// An element that is given back is given again.
func TestQueueRelease(t *testing.T) {
	inScene(t, func(s *scene) {
		q := s.jobs(s.client())
		_, err := q.Put(s.ctx, []byte("x"))
		s.check(err)
		for attempt := 1; attempt <= 3; attempt++ {
			e, err := q.Take(s.ctx)
			s.check(err)
			if e.Attempt != attempt {
				s.t.Errorf("attempt %d, want %d", e.Attempt, attempt)
			}
			s.check(e.Release(s.ctx))
		}
	})
}

// If an operator deletes a lock, and another taker gets the element, only that one can end it.
func TestQueueLockDeleted(t *testing.T) {
	inScene(t, func(s *scene) {
		a, b := s.client(), s.client()
		_, err := s.jobs(a).Put(s.ctx, []byte("x"))
		s.check(err)
		first, err := s.jobs(a).Take(s.ctx)
		s.check(err)
		release := make(chan struct{})
		s.srv.OnRequest(breakAndHold(a, lostRequest, release, func(r rollcalltest.Request) bool { return r.Op == "multi" }))
		ended := make(chan error)
		go func() {
			_, err := first.Done(s.ctx)
			ended <- err
		}()
		synctest.Wait()
		s.check(b.Delete(s.ctx, first.Right.Path(), client.AnyVersion))
		second, err := s.jobs(b).Take(s.ctx)
		s.check(err)
		close(release)
		s.want(<-ended, client.ErrNotHeld)
		_, err = second.Done(s.ctx)
		s.check(err)
	})
}

// Operations that fail leave the element to its taker.
func TestQueueDoneFails(t *testing.T) {
	inScene(t, func(s *scene) {
		q := s.jobs(s.client())
		_, err := q.Put(s.ctx, []byte("x"))
		s.check(err)
		e, err := q.Take(s.ctx)
		s.check(err)
		_, err = e.Done(s.ctx, client.CheckOp("/no", client.AnyVersion))
		s.want(err, client.ErrNoNode)
		if !e.Held() {
			s.t.Error("the element is not held")
		}
		results, err := e.Done(s.ctx, client.CreateOp("/result-", nil, client.PersistentSequential))
		if err != nil || len(results) != 1 || !strings.HasPrefix(results[0].Path, "/result-") {
			s.t.Errorf("Done = %+v, %v", results, err)
		}
		_, err = e.Done(s.ctx)
		s.want(err, client.ErrNotHeld)
	})
}

// Elements are given by their priority, and in the order of Put within one. Elements without a priority come
// before the others.
func TestQueuePriorities(t *testing.T) {
	inScene(t, func(s *scene) {
		q := queue.New(s.client(), queueFolder, queue.Config{Priorities: true})
		for i, priority := range []int32{5, 0, -1, 1 << 30, 5, -1 << 31, 0} {
			_, err := q.PutWithPriority(s.ctx, fmt.Append(nil, priority, " ", i), priority)
			s.check(err)
		}
		_, err := s.jobs(s.clients[0]).Put(s.ctx, []byte("plain"))
		s.check(err)
		_, err = s.jobs(s.clients[0]).PutWithPriority(s.ctx, nil, 1)
		s.want(err, queue.ErrNoPriorities)
		if !strings.HasPrefix(err.Error(), "queue: put into "+queueFolder+": ") {
			s.t.Errorf("the error is %q", err)
		}
		var order []string
		for range 8 {
			e, err := q.Take(s.ctx)
			s.check(err)
			order = append(order, string(e.Data))
		}
		want := []string{"plain", "-2147483648 5", "-1 2", "0 1", "0 6", "5 0", "5 4", "1073741824 3"}
		if !slices.Equal(order, want) {
			s.t.Errorf("order %q, want %q", order, want)
		}
	})
}

// The nodes have Curator's names and data. Foreign names are not touched, and elements in another form say so.
func TestQueueLayout(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		q := s.jobs(c)
		path, err := q.Put(s.ctx, []byte("ab"))
		s.check(err)
		data, _, err := c.Get(s.ctx, path)
		s.check(err)
		if path != queueFolder+"/queue-0000000000" || string(data) != "\x00\x01\x00\x01\x01\x00\x00\x00\x02ab\x02" {
			s.t.Errorf("Put created %s with %q", path, data)
		}
		for name, data := range map[string]string{
			"queue-0000000001": "\x00\x01\x00\x01\x01\x00\x00\x00\x01c\x01\x00\x00\x00\x00\x02",
			"queue-0000000002": "bad", "foreign": "",
		} {
			_, _, err = c.Create(s.ctx, queueFolder+"/"+name, []byte(data), client.Persistent)
			s.check(err)
		}
		for _, want := range []string{`"ab" ["ab"] <nil>`, `"c" ["c" ""] <nil>`, `"" [] queue`} {
			e, err := q.Take(s.ctx)
			s.check(err)
			got := fmt.Sprintf("%q %q %v", e.Data, e.Items, e.Malformed)
			if want != got && (e.Malformed == nil || string(e.Raw) != "bad") {
				s.t.Errorf("took %s, want %s", got, want)
			}
			if lock := queueFolder + "-locks" + strings.TrimPrefix(e.Path(), queueFolder); e.Right.Path() != lock {
				s.t.Errorf("the lock is %s, want %s", e.Right.Path(), lock)
			}
		}
		_, err = q.TryTake(s.ctx)
		s.want(err, queue.ErrEmpty)
	})
}

// A Put wakes one of many takers that wait. The others do not send a request until it is their turn.
func TestQueueOneWakePerPut(t *testing.T) {
	inScene(t, func(s *scene) {
		const takers = 20
		var all sync.WaitGroup
		for range takers {
			q := s.jobs(s.client())
			all.Go(func() {
				e, err := q.Take(s.ctx)
				s.check(err)
				_, err = e.Done(s.ctx)
				s.check(err)
			})
		}
		s.awaitSettled()
		active := map[int64]bool{}
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.InSession > 0 {
				active[r.Session] = true
			}
			return rollcalltest.Verdict{}
		})
		putter := s.jobs(s.client())
		for range takers {
			clear(active)
			_, err := putter.Put(s.ctx, []byte("x"))
			s.check(err)
			s.awaitSettled()
			if len(active) > 3 { // the putter, the taker, and the next one in the line
				s.t.Errorf("%d clients were active after a Put", len(active))
			}
		}
		all.Wait()
		s.nothingLeft()
	})
}

// A long queue is listed once for a batch, in order, by takers that share a Queue.
func TestQueueBatches(t *testing.T) {
	inScene(t, func(s *scene) {
		const elements, size = 100, 10
		q := queue.New(s.client(), queueFolder, queue.Config{Batch: size})
		for i := range elements {
			_, err := q.Put(s.ctx, fmt.Append(nil, i))
			s.check(err)
		}
		lists := 0
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Op == "getChildren2" && r.Path == queueFolder {
				lists++
			}
			return rollcalltest.Verdict{}
		})
		for i := range elements {
			e, err := q.Take(s.ctx)
			s.check(err)
			if string(e.Data) != fmt.Sprint(i) {
				s.t.Errorf("took %q, want %d", e.Data, i)
			}
			if i%2 == 0 { // the others stay taken
				_, err = e.Done(s.ctx)
				s.check(err)
			}
		}
		if lists != elements/size {
			s.t.Errorf("%d lists of %d elements, want %d", lists, elements, elements/size)
		}
	})
}

// Kept names are not used for long, so that an element of higher priority is not held up.
func TestQueueBatchLife(t *testing.T) {
	inScene(t, func(s *scene) {
		q := queue.New(s.client(), queueFolder, queue.Config{Priorities: true})
		for range 3 {
			_, err := q.Put(s.ctx, []byte("later"))
			s.check(err)
		}
		_, err := q.Take(s.ctx)
		s.check(err)
		_, err = q.PutWithPriority(s.ctx, []byte("first"), -1)
		s.check(err)
		time.Sleep(6 * time.Second) // in the bubble: longer than a batch lives
		e, err := q.Take(s.ctx)
		s.check(err)
		if string(e.Data) != "first" {
			s.t.Errorf("took %q, want first", e.Data)
		}
	})
}

// Takers of several processes share the work: each element is done once.
func TestQueueManyTakers(t *testing.T) {
	inScene(t, func(s *scene) {
		const elements, takers = 100, 5
		var mu sync.Mutex
		done := map[string]int{}
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		var all sync.WaitGroup
		for range takers {
			q := s.jobs(s.client())
			all.Go(func() {
				for {
					e, err := q.Take(ctx)
					if err != nil {
						return
					}
					_, err = e.Done(s.ctx)
					s.check(err)
					mu.Lock()
					done[string(e.Data)]++
					if len(done) == elements {
						cancel()
					}
					mu.Unlock()
				}
			})
		}
		putter := s.jobs(s.client())
		for i := range elements {
			all.Go(func() {
				_, err := putter.Put(s.ctx, fmt.Append(nil, i))
				s.check(err)
			})
		}
		all.Wait()
		for element, n := range done {
			if n != 1 {
				s.t.Errorf("element %s was done %d times", element, n)
			}
		}
		s.nothingLeft()
	})
}

// A taker that gives up leaves neither a lock nor a place in the line, whatever it was doing.
func TestQueueTakerGivesUp(t *testing.T) {
	for after := 0; after < 30; after++ {
		inScene(t, func(s *scene) {
			c := s.client()
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			requests := 0
			s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
				if r.Session == sessionOf(c) && r.InSession > 0 {
					if requests++; requests == after {
						cancel()
					}
				}
				return rollcalltest.Verdict{}
			})
			time.AfterFunc(time.Second, func() {
				_, err := s.jobs(s.client()).Put(s.ctx, []byte("x"))
				s.check(err)
			})
			time.AfterFunc(time.Minute, cancel)
			e, err := s.jobs(c).Take(ctx)
			if err == nil {
				s.check(e.Release(s.ctx))
			} else {
				s.want(err, context.Canceled)
			}
			s.awaitSettled()
			again, err := s.jobs(s.client()).Take(s.ctx)
			s.check(err)
			_, err = again.Done(s.ctx)
			s.check(err)
			s.nothingLeft()
			if names := s.children(queueFolder + "-locks/line"); len(names) != 0 {
				s.t.Errorf("canceled at request %d: %q are left in the line", after, names)
			}
		})
	}
}

// A release whose reply was lost does not delete the lock of the taker that has got the element since.
func TestQueueReleaseWithoutReply(t *testing.T) {
	inScene(t, func(s *scene) {
		a, b := s.client(), s.client()
		_, err := s.jobs(a).Put(s.ctx, []byte("x"))
		s.check(err)
		first, err := s.jobs(a).Take(s.ctx)
		s.check(err)
		release := make(chan struct{})
		broken := false
		s.srv.OnRequest(breakAndHold(a, lostReply, release, func(r rollcalltest.Request) bool {
			broken = broken || r.Op == "multi"
			return broken
		}))
		released := make(chan error)
		go func() { released <- first.Release(s.ctx) }()
		synctest.Wait()
		second, err := s.jobs(b).Take(s.ctx)
		s.check(err)
		close(release)
		s.check(<-released)
		synctest.Wait()
		if !second.Held() {
			s.t.Error("the release of the first taker has ended the right of the second one")
		}
		if !broken {
			s.t.Error("no reply was lost")
		}
		_, err = second.Done(s.ctx)
		s.check(err)
	})
}

// A release reads the element again if the connection breaks there: without the element's version it could delete the lock
// of another taker.
func TestQueueReleaseReadsAgain(t *testing.T) {
	inScene(t, func(s *scene) {
		e := s.putAndTake(s.jobs(s.clientWith(client.Config{WhileSuspended: client.Fail})))
		synctest.Wait()
		var asked []string
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if !slices.Contains([]string{"exists", "delete", "multi"}, r.Op) {
				return rollcalltest.Verdict{}
			}
			asked = append(asked, r.Op)
			return rollcalltest.Verdict{LoseReply: len(asked) == 1}
		})
		s.check(e.Release(s.ctx))
		if !slices.Equal(asked, []string{"exists", "exists", "multi"}) {
			s.t.Errorf("the release asked %v", asked)
		}
	})
}

// A release whose context ends first returns that as its error, and the Client continues.
func TestQueueReleaseGoesOn(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		q := s.jobs(c)
		e := s.putAndTake(q)
		reconnects := make(chan struct{})
		s.srv.OnRequest(breakAndHold(c, lostRequest, reconnects, func(r rollcalltest.Request) bool { return r.Op == "multi" }))
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		defer cancel()
		s.want(e.Release(ctx), context.DeadlineExceeded)
		close(reconnects)
		e, err := q.Take(s.ctx)
		s.check(err)
		if e.Attempt != 2 {
			s.t.Errorf("attempt %d, want 2", e.Attempt)
		}
	})
}

// A guard fails if another taker has got the element, also while the event of that is on its way: the lock has the same
// path.
func TestQueueGuardOfEarlierTaker(t *testing.T) {
	inScene(t, func(s *scene) {
		a, b := s.client(), s.client()
		_, err := s.jobs(a).Put(s.ctx, []byte("x"))
		s.check(err)
		first, err := s.jobs(a).Take(s.ctx)
		s.check(err)
		results, err := first.Guard(s.ctx, client.CreateOp("/first", nil, client.Persistent))
		if err != nil || len(results) != 1 || results[0].Path != "/first" {
			s.t.Fatalf("guard: %v, %v", results, err)
		}
		_, err = first.Guard(s.ctx, client.CreateOp("/first", nil, client.Persistent))
		if failed, ok := errors.AsType[*client.MultiError](err); !ok || failed.Index != 0 {
			s.t.Errorf("guard of a create that fails: %v", err)
		}
		s.check(s.srv.DelayReply(sessionOf(a), 1, time.Second))
		go func() { _, _, _ = a.Exists(s.ctx, "/") }()
		synctest.Wait()
		s.check(b.Delete(s.ctx, first.Right.Path(), client.AnyVersion))
		second, err := s.jobs(b).Take(s.ctx)
		s.check(err)
		if !first.Held() {
			s.t.Fatal("the event has come already")
		}
		_, err = first.Guard(s.ctx, client.CreateOp("/late", nil, client.Persistent))
		s.want(err, client.ErrNotHeld)
		if _, exists, err := b.Exists(s.ctx, "/late"); err != nil || exists {
			s.t.Errorf("/late exists: %t, %v", exists, err)
		}
		s.check(first.Release(s.ctx))
		synctest.Wait()
		if !second.Held() {
			s.t.Error("the release of the first taker has ended the right of the second one")
		}
	})
}

// heldWrites is a connection whose n-th write from Hold on waits until the channel is closed.
type heldWrites struct {
	net.Conn
	holds *hold
}

// hold selects the write of a Client that waits.
type hold struct {
	mu      sync.Mutex
	left    int // writes until the one that waits; 0: none will
	waits   chan struct{}
	release chan struct{}
}

// after lets the n-th write from now wait.
func (h *hold) after(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = n
}

// Write implements net.Conn.
func (c heldWrites) Write(b []byte) (int, error) {
	c.holds.mu.Lock()
	waits := c.holds.left == 1
	c.holds.left = max(c.holds.left-1, 0)
	c.holds.mu.Unlock()
	if waits {
		close(c.holds.waits)
		<-c.holds.release
	}
	return c.Conn.Write(b)
}

// A Release leaves the lock of another taker at the same path, at whatever request it is late.
func TestQueueReleaseLeavesOtherLock(t *testing.T) {
	for n, late := 1, true; late; n++ {
		inScene(t, func(s *scene) {
			h := &hold{waits: make(chan struct{}), release: make(chan struct{})}
			a := s.clientWith(client.Config{DialConn: func(ctx context.Context, _, address string) (net.Conn, error) {
				conn, err := s.srv.Dial(ctx, "tcp", address)
				return heldWrites{conn, h}, err
			}})
			b := s.client()
			_, err := s.jobs(b).Put(s.ctx, []byte("x"))
			s.check(err)
			e, err := s.jobs(a).Take(s.ctx)
			s.check(err)
			synctest.Wait()
			h.after(n)
			released := make(chan error, 1)
			go func() { released <- e.Release(s.ctx) }()
			synctest.Wait()
			select {
			case <-h.waits:
			default:
				late = false
				s.check(<-released)
				if _, exists, err := b.Exists(s.ctx, e.Right.Path()); err != nil || exists || n < 3 {
					t.Errorf("after a Release of %d requests, the lock exists: %t, %v", n-1, exists, err)
				}
				return
			}
			err = b.Delete(s.ctx, e.Right.Path(), client.AnyVersion)
			if !errors.Is(err, client.ErrNoNode) {
				s.check(err)
			}
			other, err := s.jobs(b).Take(s.ctx)
			s.check(err)
			close(h.release)
			s.check(<-released)
			if _, exists, err := b.Exists(s.ctx, other.Right.Path()); err != nil || !exists || !other.Held() {
				t.Errorf("late at request %d: the other taker's lock exists: %t, %v", n, exists, err)
			}
		})
	}
}

// A guard that the client may not carry out is an error, and the element stays the client's.
func TestQueueGuardNotAllowed(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		s.check(errorOf(s.jobs(c).Put(s.ctx, []byte("x"))))
		e, err := s.jobs(c).Take(s.ctx)
		s.check(err)
		s.check(errorOf(c.SetACL(s.ctx, e.Path(), ownersACL, client.AnyVersion)))
		results, err := e.Guard(s.ctx, client.CreateOp("/guarded", nil, client.Persistent))
		s.want(err, client.ErrNoAuth)
		if _, isMulti := errors.AsType[*client.MultiError](err); isMulti || results != nil || !e.Held() {
			s.t.Errorf("guard: %v, %v, held %t; the error must not name an operation of the caller", results, err, e.Held())
		}
	})
}

// A taker that may not read its lock any more cannot give its element back, and Release says so.
func TestQueueReleaseNotAllowed(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		s.check(errorOf(s.jobs(c).Put(s.ctx, []byte("x"))))
		e, err := s.jobs(c).Take(s.ctx)
		s.check(err)
		s.check(errorOf(c.SetACL(s.ctx, e.Right.Path(), ownersACL, client.AnyVersion)))
		s.want(e.Release(s.ctx), client.ErrNoAuth)
	})
}

// Release deletes the lock of an element that an operator has deleted.
func TestQueueReleaseOfDeleted(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		s.check(errorOf(s.jobs(c).Put(s.ctx, []byte("x"))))
		e, err := s.jobs(c).Take(s.ctx)
		s.check(err)
		s.check(c.Delete(s.ctx, e.Path(), client.AnyVersion))
		s.check(e.Release(s.ctx))
		s.nothingLeft()
	})
}

// The end of a session gives its elements back: a Release that it overtakes has succeeded.
func TestQueueReleaseWhileSessionEnds(t *testing.T) {
	for _, at := range []string{"exists", "getData", "multi"} {
		inScene(t, func(s *scene) {
			ends := ""
			c := s.clientEndingAt(&ends)
			s.check(errorOf(s.jobs(c).Put(s.ctx, []byte("x"))))
			e, err := s.jobs(c).Take(s.ctx)
			s.check(err)
			synctest.Wait()
			ends = at
			if err := e.Release(s.ctx); err != nil || c.State().State != client.Expired {
				t.Errorf("the session ended at %s, now it is %v: %v", at, c.State().State, err)
			}
			s.check(errorOf(s.jobs(s.client()).Take(s.ctx)))
		})
	}
}

// A take that is given up searches for its lock in the background. It leaves the lock that another taker has made since
// at the same path, whichever request of the take or of the search is late.
func TestQueueTakeGivenUpLeavesOtherLock(t *testing.T) {
	met := 0 // looks that were late with a request
	for take := 1; take <= 6; take++ {
		for look := 1; look <= 4; look++ {
			inScene(t, func(s *scene) {
				taking := &hold{waits: make(chan struct{}), release: make(chan struct{})}
				looking := &hold{waits: make(chan struct{}), release: make(chan struct{})}
				a := s.clientWith(client.Config{DialConn: func(ctx context.Context, _, address string) (net.Conn, error) {
					conn, err := s.srv.Dial(ctx, "tcp", address)
					return heldWrites{heldWrites{conn, looking}, taking}, err
				}})
				b := s.client()
				_, err := s.jobs(b).Put(s.ctx, []byte("x"))
				s.check(err)
				e, err := s.jobs(b).Take(s.ctx)
				s.check(err)
				path := e.Right.Path()
				s.check(e.Release(s.ctx))
				synctest.Wait()
				taking.after(take)
				ctx, giveUp := context.WithCancel(s.ctx)
				defer giveUp()
				taken := make(chan error, 1)
				go func() {
					_, err := s.jobs(a).Take(ctx)
					taken <- err
				}()
				synctest.Wait()
				select {
				case <-taking.waits:
				default:
					return // the take has fewer requests
				}
				looking.after(look + 1) // the first one is that of the take
				giveUp()
				if err := <-taken; err != nil && !errors.Is(err, context.Canceled) { // it may have taken the element by then
					t.Errorf("the take that is given up: %v", err)
				}
				close(taking.release)
				synctest.Wait()
				select {
				case <-looking.waits:
				default:
					return // the look has fewer requests
				}
				met++
				if err = b.Delete(s.ctx, path, client.AnyVersion); !errors.Is(err, client.ErrNoNode) {
					s.check(err)
				}
				other, err := s.jobs(b).Take(s.ctx)
				s.check(err)
				close(looking.release)
				synctest.Wait()
				if _, exists, err := b.Exists(s.ctx, other.Right.Path()); err != nil || !exists || !other.Held() {
					t.Errorf("late at request %d of the take and %d of the look: the other taker's lock exists: %t, %v", take, look, exists, err)
				}
			})
		}
	}
	if met < 3 {
		t.Errorf("%d looks were late, want 3 at least", met)
	}
}
