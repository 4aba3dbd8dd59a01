package recipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/shared"
	"rollcall/rollcalltest"
	"rollcall/zk/jute"
)

// A counter counts each Add once, whatever request the connection breaks at.
func TestCounterAddsOnce(t *testing.T) {
	atEachRequest(t, func(s *scene, c *client.Client) {
		ctx := s.ctx
		k := shared.NewCounter(c, "/a/counter", shared.CounterConfig{Initial: 40})
		for want := int64(41); want <= 43; want++ {
			got, err := k.Add(ctx, 1)
			if err != nil || got != want {
				s.t.Fatalf("Add = %d, %v, want %d", got, err, want)
			}
		}
		s.wantCount("/a/counter", 43)
	})
}

// Without receipts, an Add that says nothing else was carried out or was not.
func TestCounterAddsOnceWithoutReceipts(t *testing.T) {
	atEachRequest(t, func(s *scene, c *client.Client) {
		k := shared.NewCounter(c, "/a/counter", shared.CounterConfig{NoReceipts: true})
		added := int64(0)
		for range 3 {
			_, err := k.Add(s.ctx, 1)
			if client.MayHaveHappened(err) {
				s.srv.OnRequest(nil)
				n, err := k.Get(s.ctx)
				s.check(err)
				added = max(added, n)
				continue
			}
			s.check(err)
			added++
		}
		s.wantCount("/a/counter", added)
	})
}

// Without receipts, a write that was not carried out is sent again.
func TestValueSendsAgain(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		v := shared.NewValue(c, "/value", shared.Config{NoReceipts: true})
		s.breakAt(1, lostRequest, opAt("setData", "/value"))
		if r, err := v.Set(s.ctx, []byte("x")); err != nil || r.Stat.Version != 1 {
			s.t.Errorf("Set = %+v, %v, want version 1", r, err)
		}
	})
}

// wantCount fails the test if a counter has another number, as another client sees it.
func (s *scene) wantCount(path string, want int64) {
	s.t.Helper()
	k := shared.NewCounter(s.client(), path, shared.CounterConfig{})
	if got, err := k.Get(s.ctx); err != nil || got != want {
		s.t.Errorf("Get = %d, %v, want %d", got, err, want)
	}
}

// If another client adds before the one with a lost reply can read the counter, only a receipt shows the outcome of its
// Add. Without one, the error reports an unknown outcome.
func TestCounterAddOutcome(t *testing.T) {
	for _, tt := range []struct {
		fault      fault
		noReceipts bool
		total      int64
	}{{lostReply, false, 7}, {lostRequest, false, 7}, {lostReply, true, 7}, {lostRequest, true, 6}} {
		t.Run(fmt.Sprintf("%s, no receipts %t", tt.fault.name, tt.noReceipts), func(t *testing.T) {
			inScene(t, func(s *scene) {
				err := s.addDuringOutage(tt.fault, tt.noReceipts)
				if client.MayHaveHappened(err) != tt.noReceipts || err != nil != tt.noReceipts {
					s.t.Errorf("Add: %v", err)
				}
				s.wantCount("/counter", tt.total)
			})
		})
	}
}

// addDuringOutage adds to a counter, whose connection breaks. Another client adds meanwhile.
func (s *scene) addDuringOutage(f fault, noReceipts bool) error {
	ctx := s.ctx
	c, other := s.client(), s.client()
	k := shared.NewCounter(c, "/counter", shared.CounterConfig{NoReceipts: noReceipts})
	s.check(k.Set(ctx, 5))
	var others sync.WaitGroup
	raced := make(chan struct{})
	isWrite := func(r rollcalltest.Request) bool { return r.Op == "setData" || r.Op == "multi" }
	s.srv.OnRequest(breakAndHold(c, f, raced, isWrite))
	others.Go(func() {
		synctest.Wait() // until the connection is broken and the client waits to resume
		_, err := shared.NewCounter(other, "/counter", shared.CounterConfig{}).Add(ctx, 1)
		s.check(err)
		close(raced)
	})
	_, err := k.Add(ctx, 1)
	others.Wait()
	return err
}

// Without receipts, a TrySet without a reply knows that it has failed if the next revision has other data. It does not
// know that if the value is another one: the old one may have been set before its deletion.
func TestTrySetOutcome(t *testing.T) {
	for _, f := range []fault{lostRequest, lostReply} {
		for _, deleted := range []bool{false, true} {
			inScene(t, func(s *scene) {
				set, err := s.trySetDuringOutage(f, deleted)
				isUnknown := deleted || f == lostReply
				if set || client.MayHaveHappened(err) != isUnknown || (err != nil) != isUnknown {
					s.t.Errorf("%s, the value was deleted %t: TrySet = %t, %v", f.name, deleted, set, err)
				}
			})
		}
	}
}

// trySetDuringOutage sets a value, and the connection breaks. Another client sets it meanwhile; if deleted is set, it
// deletes it before, and creates it again.
func (s *scene) trySetDuringOutage(f fault, deleted bool) (set bool, err error) {
	c, other := s.client(), s.client()
	v := shared.NewValue(c, "/value", shared.Config{NoReceipts: true})
	s.create(c, "/value")
	seen, err := v.Get(s.ctx)
	s.check(err)
	raced := make(chan struct{})
	s.srv.OnRequest(breakAndHold(c, f, raced, opAt("setData", "/value")))
	done := async(func() (err error) { _, set, err = v.TrySet(s.ctx, seen, []byte("ours")); return err })
	synctest.Wait() // until the connection is broken and the client waits to resume
	if deleted {
		s.check(other.Delete(s.ctx, "/value", client.AnyVersion))
		s.create(other, "/value")
	}
	s.check(errorOf(other.Set(s.ctx, "/value", []byte("theirs"), client.AnyVersion)))
	close(raced)
	err = <-done
	return set, err
}

// create creates a node.
func (s *scene) create(c *client.Client, path string) {
	s.t.Helper()
	_, _, err := c.Create(s.ctx, path, nil, client.Persistent)
	s.check(err)
}

// Many clients add to one counter at once.
func TestCounterContended(t *testing.T) {
	inScene(t, func(s *scene) {
		const clients, each = 10, 20
		var all sync.WaitGroup
		for range clients {
			k := shared.NewCounter(s.client(), "/counter", shared.CounterConfig{})
			all.Go(func() {
				for range each {
					_, err := k.Add(s.ctx, -3)
					s.check(err)
				}
			})
		}
		all.Wait()
		s.wantCount("/counter", -3*clients*each)
	})
}

// The counters of other libraries are read as they are written.
func TestCounterEncodings(t *testing.T) {
	inScene(t, func(s *scene) {
		ctx, c := s.ctx, s.client()
		for _, tt := range []struct {
			encoding shared.Encoding
			n        int64
			data     string
		}{
			{shared.Int32, 7, "\x00\x00\x00\x07"},
			{shared.Int32, -2, "\xff\xff\xff\xfe"},
			{shared.Int64, -2, "\xff\xff\xff\xff\xff\xff\xff\xfe"},
			{shared.Decimal, -7, "-7"},
		} {
			k := shared.NewCounter(c, "/counter", shared.CounterConfig{Encoding: tt.encoding, Initial: tt.n})
			if got, err := k.Get(ctx); err != nil || got != tt.n {
				s.t.Errorf("Get without a node = %d, %v, want %d", got, err, tt.n)
			}
			s.check(k.Set(ctx, tt.n))
			data, _, err := c.Get(ctx, "/counter")
			s.check(err)
			if got, err := k.Get(ctx); string(data) != tt.data || got != tt.n || err != nil {
				s.t.Errorf("data %q and Get = %d, %v, want %q and %d", data, got, err, tt.data, tt.n)
			}
			s.check(c.Delete(ctx, "/counter", client.AnyVersion))
		}
		k := shared.NewCounter(c, "/counter", shared.CounterConfig{})
		_, _, err := c.Create(ctx, "/counter", []byte("3.5"), client.Persistent)
		s.check(err)
		_, err = k.Add(ctx, 1)
		s.want(err, shared.ErrNoNumber)
		_, err = k.CompareAndSet(ctx, 0, 1)
		s.want(err, shared.ErrNoNumber)
		if data, _, err := c.Get(ctx, "/counter"); string(data) != "3.5" || err != nil {
			s.t.Errorf("data that are no number became %q, %v", data, err)
		}
	})
}

// A sum without a place in the encoding leaves the counter unchanged.
func TestCounterOverflow(t *testing.T) {
	inScene(t, func(s *scene) {
		ctx, c := s.ctx, s.client()
		for encoding, largest := range map[shared.Encoding]int64{
			shared.Int32: 1<<31 - 1, shared.Int64: 1<<63 - 1, shared.Decimal: 1<<63 - 1,
		} {
			k := shared.NewCounter(c, fmt.Sprintf("/counter%d", encoding), shared.CounterConfig{Encoding: encoding})
			s.check(k.Set(ctx, largest))
			if sum, err := k.Add(ctx, 0); err != nil || sum != largest {
				s.t.Errorf("Add(0) = %d, %v, want %d", sum, err, largest)
			}
			_, err := k.Add(ctx, 1)
			s.want(err, shared.ErrOverflow)
			s.check(k.Set(ctx, -largest-1))
			_, err = k.Add(ctx, -1)
			s.want(err, shared.ErrOverflow)
			if got, err := k.Get(ctx); err != nil || got != -largest-1 {
				s.t.Errorf("Get = %d, %v, want %d", got, err, -largest-1)
			}
		}
		_, err := shared.NewCounter(c, "/other", shared.CounterConfig{Initial: 1 << 40}).Get(ctx)
		s.want(err, shared.ErrOverflow)
	})
}

func TestCounterCompareAndSet(t *testing.T) {
	inScene(t, func(s *scene) {
		ctx := s.ctx
		k := shared.NewCounter(s.client(), "/counter", shared.CounterConfig{Initial: 3})
		for _, tt := range []struct {
			old, n int64
			want   bool
		}{{0, 9, false}, {3, 4, true}, {3, 5, false}, {4, 3, true}} {
			if got, err := k.CompareAndSet(ctx, tt.old, tt.n); err != nil || got != tt.want {
				s.t.Errorf("CompareAndSet(%d, %d) = %t, %v", tt.old, tt.n, got, err)
			}
		}
		if got, err := k.Get(ctx); err != nil || got != 3 {
			s.t.Errorf("Get = %d, %v, want 3", got, err)
		}
	})
}

// TrySet is based on one revision only.
func TestValueTrySet(t *testing.T) {
	for _, noReceipts := range []bool{false, true} {
		inScene(t, func(s *scene) {
			ctx := s.ctx
			cfg := shared.Config{Initial: []byte("first"), NoReceipts: noReceipts}
			v := shared.NewValue(s.client(), "/deep/folder/value", cfg)
			w := shared.NewValue(s.client(), "/deep/folder/value", cfg)
			absent, err := v.Get(ctx)
			s.check(err)
			if absent.Exists || string(absent.Data) != "first" {
				s.t.Errorf("Get without a node = %+v", absent)
			}
			second, set, err := v.TrySet(ctx, absent, []byte("second"))
			if err != nil || !set || second.Stat.Version != 1 {
				s.t.Fatalf("TrySet on the initial value = %+v, %t, %v", second, set, err)
			}
			third, set, err := w.TrySet(ctx, second, []byte("first"))
			if err != nil || !set {
				s.t.Fatalf("TrySet on the present revision = %t, %v", set, err)
			}
			for _, old := range []shared.Revision{absent, second} {
				now, set, err := v.TrySet(ctx, old, []byte("other"))
				if err != nil || set || !bytes.Equal(now.Data, third.Data) || now.Stat.Version != third.Stat.Version {
					s.t.Errorf("TrySet on an old revision = %+v, %t, %v, want %+v", now, set, err, third)
				}
			}
		})
	}
}

// A node that another client has created with other data is not the initial value.
func TestValueOtherInitial(t *testing.T) {
	inScene(t, func(s *scene) {
		ctx, c := s.ctx, s.client()
		v := shared.NewValue(c, "/value", shared.Config{Initial: []byte("first")})
		absent, err := v.Get(ctx)
		s.check(err)
		_, _, err = c.Create(ctx, "/value", []byte("theirs"), client.Persistent)
		s.check(err)
		if now, set, err := v.TrySet(ctx, absent, []byte("mine")); err != nil || set || string(now.Data) != "theirs" {
			s.t.Errorf("TrySet = %q, %t, %v, want theirs", now.Data, set, err)
		}
	})
}

// The error of an Update's function ends it, and nothing is set.
func TestValueUpdateFails(t *testing.T) {
	inScene(t, func(s *scene) {
		v := shared.NewValue(s.client(), "/value", shared.Config{})
		reason := errors.New("no")
		_, err := v.Update(s.ctx, func(shared.Revision) ([]byte, error) { return nil, reason })
		s.want(err, reason)
		if r, err := v.Get(s.ctx); err != nil || r.Exists {
			s.t.Errorf("Get = %+v, %v, want no node", r, err)
		}
	})
}

// Watch returns every state that it has the time to see: no node, each revision, the node's deletion; over a broken
// connection; and at last the end of the session.
func TestValueWatch(t *testing.T) {
	inScene(t, func(s *scene) {
		ctx, c, writer := s.ctx, s.client(), s.client()
		seen := make(chan string)
		go func() {
			defer close(seen)
			for r, err := range shared.NewValue(c, "/value", shared.Config{Initial: []byte("none")}).Watch(ctx) {
				if err != nil {
					seen <- fmt.Sprint(errors.Is(err, client.ErrExpired))
					continue
				}
				if r.Exists != (r.Stat.Created != 0) {
					s.t.Errorf("the revision %+v does not say whether there is a node", r)
				}
				seen <- string(r.Data)
			}
		}()
		next := func(want string) {
			s.t.Helper()
			if got := <-seen; got != want {
				s.t.Fatalf("Watch returned %q, want %q", got, want)
			}
		}
		v := shared.NewValue(writer, "/value", shared.Config{})
		set := func(text string) {
			s.t.Helper()
			synctest.Wait() // Watch has its watch
			_, err := v.Set(ctx, []byte(text))
			s.check(err)
		}
		next("none")
		_, _, err := writer.Create(ctx, "/value", []byte("a"), client.Persistent)
		s.check(err)
		next("a")
		set("b")
		next("b")
		synctest.Wait()
		s.srv.DropConnections(sessionOf(c))
		set("c")
		next("c")
		synctest.Wait()
		s.check(writer.Delete(ctx, "/value", client.AnyVersion))
		next("none")
		synctest.Wait()
		_, err = writer.Multi(ctx, client.CreateOp("/value", nil, client.Persistent), client.DeleteOp("/value", 0))
		s.check(err) // Watch sees no node again, and does not return it twice
		synctest.Wait()
		s.expire(c)
		next("true")
		if text, more := <-seen; more {
			s.t.Errorf("Watch goes on with %q", text)
		}
	})
}

// A Watch that its reader leaves, or whose context ends, leaves no goroutine.
func TestValueWatchEnds(t *testing.T) {
	inScene(t, func(s *scene) {
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		v := shared.NewValue(s.client(), "/value", shared.Config{})
		for _, err := range v.Watch(ctx) {
			s.check(err)
			break
		}
		var last error
		for _, last = range v.Watch(ctx) {
			cancel()
		}
		s.want(last, context.Canceled)
	})
}

// A Watch that begins while another client creates the node returns the first revision, and leaves no watch.
func TestValueWatchWhileCreated(t *testing.T) {
	inScene(t, func(s *scene) {
		c, other := s.client(), s.client()
		before := s.watchCount()
		s.breakAt(1, fault{"late", rollcalltest.Verdict{Delay: 2 * time.Second}}, func(r rollcalltest.Request) bool {
			return r.Session == sessionOf(c) && r.Op == "getData"
		})
		time.AfterFunc(time.Second, func() {
			_, _, err := other.Create(s.ctx, "/value", []byte("x"), client.Persistent)
			s.check(err)
		})
		for r, err := range shared.NewValue(c, "/value", shared.Config{Initial: []byte("y")}).Watch(s.ctx) {
			if err != nil || !r.Exists || string(r.Data) != "x" {
				s.t.Errorf("got %q, exists %t, %v", r.Data, r.Exists, err)
			}
			break
		}
		s.awaitSettled()
		if now := s.watchCount(); now != before {
			s.t.Errorf("%s watches are left, want %s", now, before)
		}
	})
}

// A receipt that an operator has deleted is replaced, and no write is lost or taken for one that came too late.
func TestReceiptDeleted(t *testing.T) {
	inScene(t, func(s *scene) {
		v := shared.NewValue(s.client(), "/value", shared.Config{})
		r, err := v.Set(s.ctx, []byte("a"))
		s.check(err)
		operator := s.client()
		for _, name := range s.children("/value-receipts") {
			s.check(operator.Delete(s.ctx, "/value-receipts/"+name, client.AnyVersion))
		}
		if now, set, err := v.TrySet(s.ctx, r, []byte("b")); err != nil || !set || now.Stat.Version != r.Stat.Version+1 {
			s.t.Errorf("TrySet = %+v, %t, %v", now, set, err)
		}
	})
}

// A write whose receipts are deleted again and again, before it is carried out, gives up at the third. It was not carried
// out.
func TestReceiptsAlwaysDeleted(t *testing.T) {
	inScene(t, func(s *scene) {
		operator := s.client()
		writes := 0
		c := s.clientThat(func(frame []byte) []byte {
			if headerOf(frame).Op != jute.OpMulti {
				return frame
			}
			if writes++; writes <= 3 {
				s.deleteReceipts(operator)
			}
			return frame
		})
		s.create(operator, "/value")
		v := shared.NewValue(c, "/value", shared.Config{})
		err := errorOf(v.Set(s.ctx, []byte("x")))
		if err == nil || client.MayHaveHappened(err) || writes != 3 {
			s.t.Errorf("after %d writes: %v", writes, err)
		}
		s.check(errorOf(v.Set(s.ctx, []byte("y"))))
		if r, err := v.Get(s.ctx); err != nil || r.Stat.Version != 1 {
			s.t.Errorf("the value is of version %d, %v", r.Stat.Version, err)
		}
	})
}

// deleteReceipts deletes the receipts of the value at /value.
func (s *scene) deleteReceipts(c *client.Client) {
	names, _, err := c.Children(s.ctx, "/value-receipts")
	if err != nil {
		s.t.Error(err)
	}
	for _, name := range names {
		if err := c.Delete(s.ctx, "/value-receipts/"+name, client.AnyVersion); err != nil {
			s.t.Error(err)
		}
	}
}

// The outcome of a write is unknown if its reply is lost and its receipt is deleted. It is not sent again.
func TestReceiptDeletedDuringOutage(t *testing.T) {
	inScene(t, func(s *scene) {
		c, operator := s.client(), s.client()
		s.create(operator, "/value")
		v := shared.NewValue(c, "/value", shared.Config{})
		deleted := make(chan struct{})
		s.srv.OnRequest(breakAndHold(c, lostReply, deleted, func(r rollcalltest.Request) bool { return r.Op == "multi" }))
		done := async(func() error { return errorOf(v.Set(s.ctx, []byte("x"))) })
		synctest.Wait() // until the connection is broken
		s.deleteReceipts(operator)
		close(deleted)
		if err := <-done; !client.MayHaveHappened(err) {
			s.t.Errorf("the error is %v, want an unknown outcome", err)
		}
		if r, err := v.Get(s.ctx); err != nil || r.Stat.Version != 1 {
			s.t.Errorf("the value is of version %d, %v", r.Stat.Version, err)
		}
	})
}

// A write whose context ends leaves its receipt usable for the next one.
func TestReceiptAfterContextEnded(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		k := shared.NewCounter(c, "/counter", shared.CounterConfig{})
		s.check(k.Set(s.ctx, 1))
		ctx, cancel := context.WithCancel(s.ctx)
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Op == "multi" {
				cancel()
			}
			return rollcalltest.Verdict{}
		})
		_, err := k.Add(ctx, 1)
		if !client.MayHaveHappened(err) {
			s.t.Fatalf("Add = %v, want an unknown outcome", err)
		}
		s.srv.OnRequest(nil)
		if sum, err := k.Add(s.ctx, 1); err != nil || sum != 3 {
			s.t.Errorf("Add = %d, %v, want 3", sum, err)
		}
		if names := s.children("/counter-receipts"); len(names) != 1 {
			s.t.Errorf("receipts %q, want one", names)
		}
	})
}

// An update that another client overtakes each time gives up after a thousand attempts, and takes time for them.
func TestValueContended(t *testing.T) {
	inScene(t, func(s *scene) {
		c, other := s.client(), s.client()
		v := shared.NewValue(c, "/value", shared.Config{NoReceipts: true})
		_, err := v.Set(s.ctx, nil)
		s.check(err)
		attempts, began := 0, time.Now()
		_, err = v.Update(s.ctx, func(shared.Revision) ([]byte, error) {
			attempts++
			return []byte("mine"), errorOf(other.Set(s.ctx, "/value", nil, client.AnyVersion))
		})
		s.want(err, shared.ErrContended)
		if attempts != 1000 || time.Since(began) < time.Second {
			s.t.Errorf("%d attempts in %v", attempts, time.Since(began))
		}
	})
}

// Receipts are at the path in the Config, and a reader of a counter can stop at any time.
func TestCounterReceipts(t *testing.T) {
	inScene(t, func(s *scene) {
		k := shared.NewCounter(s.client(), "/counter", shared.CounterConfig{Receipts: "/receipts", Initial: 3})
		for n, err := range k.Watch(s.ctx) {
			if s.check(err); n != 3 {
				s.t.Errorf("the number is %d", n)
			}
			break
		}
		s.check(errorOf(k.Add(s.ctx, 1)))
		if names := s.children("/receipts"); len(names) != 1 {
			s.t.Errorf("the receipts are %q", names)
		}
		_, err := shared.NewValue(s.client(), "/value", shared.Config{Receipts: "/others"}).Set(s.ctx, nil)
		s.check(err)
		if names := s.children("/others"); len(names) != 1 {
			s.t.Errorf("the receipts are %q", names)
		}
	})
}

// A counter whose initial number has no place in its encoding says so in each call.
func TestCounterInvalid(t *testing.T) {
	inScene(t, func(s *scene) {
		k := shared.NewCounter(s.client(), "/counter", shared.CounterConfig{Encoding: shared.Int32, Initial: 1 << 40})
		set, casErr := k.CompareAndSet(s.ctx, 0, 1)
		if set {
			s.t.Error("CompareAndSet reports that it set the number")
		}
		for _, err := range []error{
			errorOf(k.Get(s.ctx)), k.Set(s.ctx, 1), errorOf(k.Add(s.ctx, 1)), casErr, lastOf(k.Watch(s.ctx)),
		} {
			s.want(err, shared.ErrOverflow)
		}
	})
}

// A write whose reply is lost returns the error of its context if that ends while it searches for its receipt.
func TestReceiptContextEndsDuringLook(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		k := shared.NewCounter(c, "/counter", shared.CounterConfig{})
		s.check(k.Set(s.ctx, 1))
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		held := breakAndHold(c, lostReply, closed(), func(r rollcalltest.Request) bool { return r.Op == "multi" })
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Op == "exists" {
				cancel()
				return rollcalltest.Verdict{Delay: time.Second}
			}
			return held(r)
		})
		_, err := k.Add(ctx, 1)
		s.want(err, context.Canceled)
		if !client.MayHaveHappened(err) {
			s.t.Errorf("%v does not say that the write may have been carried out", err)
		}
	})
}

// The revision that a write returns is the one that is there, whether its reply came or not.
func TestRevisionAfterLostReply(t *testing.T) {
	inScene(t, func(s *scene) {
		v := shared.NewValue(s.client(), "/value", shared.Config{})
		s.check(errorOf(v.Set(s.ctx, []byte("first"))))
		for _, isLost := range []bool{false, true} {
			if isLost {
				s.breakAt(1, lostReply, func(r rollcalltest.Request) bool { return r.Op == "multi" })
			}
			got, err := v.Set(s.ctx, []byte("second one"))
			s.check(err)
			want, err := v.Get(s.ctx)
			s.check(err)
			if isLost {
				want.Stat.ChangedMs = got.Stat.ChangedMs // only a reply says that
			}
			if !reflect.DeepEqual(got, want) {
				s.t.Errorf("the reply is lost: %t; Set returned %+v, and Get %+v", isLost, got, want)
			}
		}
	})
}

// When the outcome of a write is known, the next write with the same receipt does not search for it.
func TestReceiptIsSureAgain(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		k := shared.NewCounter(c, "/counter", shared.CounterConfig{})
		s.check(k.Set(s.ctx, 1))
		ctx, cancel := context.WithCancel(s.ctx)
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Op == "multi" {
				cancel()
			}
			return rollcalltest.Verdict{}
		})
		_, err := k.Add(ctx, 1)
		if !client.MayHaveHappened(err) {
			s.t.Fatalf("Add = %v, want an unknown outcome", err)
		}
		for _, want := range []int{1, 0} { // requests to look for the outcome
			syncs := 0
			s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
				if r.Op == "sync" {
					syncs++
				}
				return rollcalltest.Verdict{}
			})
			s.check(errorOf(k.Add(s.ctx, 1)))
			if syncs != want {
				s.t.Errorf("%d syncs, want %d", syncs, want)
			}
		}
	})
}

// A value that was deleted is another one: what was read before is not written over it.
func TestValueDeleted(t *testing.T) {
	for _, noReceipts := range []bool{false, true} {
		inScene(t, func(s *scene) {
			v := shared.NewValue(s.client(), "/value", shared.Config{NoReceipts: noReceipts})
			r, err := v.Set(s.ctx, []byte("a"))
			s.check(err)
			s.check(s.client().Delete(s.ctx, "/value", client.AnyVersion))
			if _, set, err := v.TrySet(s.ctx, r, []byte("b")); set || err != nil {
				s.t.Errorf("TrySet of a deleted value: %t, %v", set, err)
			}
		})
	}
}

// Counters that are made anew for each Add share their receipt, and a client keeps at most 64 receipts under all
// parents: the ones that were used last.
func TestReceiptsStayFew(t *testing.T) {
	const most = 64
	inScene(t, func(s *scene) {
		c := s.client()
		add := func(path string) {
			_, err := shared.NewCounter(c, path, shared.CounterConfig{}).Add(s.ctx, 1)
			s.check(err)
		}
		for range 10 {
			add("/n")
		}
		if n := len(s.receiptsOf(c)); n != 1 {
			t.Errorf("ten counters of one node leave %d receipts, want 1", n)
		}
		for i := range 2 * most {
			add(fmt.Sprintf("/many/%d", i))
		}
		kept := s.receiptsOf(c)
		if len(kept) != most {
			t.Errorf("many counters leave %d receipts, want %d", len(kept), most)
		}
		for i := most; i < 2*most; i++ {
			add(fmt.Sprintf("/many/%d", i))
		}
		if again := s.receiptsOf(c); !slices.Equal(again, kept) {
			t.Errorf("the counters that were used last have other receipts than before")
		}
		add("/n") // whose receipt was deleted
		s.wantCount("/n", 11)
	})
}

// receiptsOf returns the paths of a client's ephemeral nodes, when those that it deletes in the background are gone.
func (s *scene) receiptsOf(c *client.Client) []string {
	s.t.Helper()
	synctest.Wait()
	own, err := c.Ephemerals(s.ctx, "/")
	s.check(err)
	slices.Sort(own)
	return own
}

// Receipts that another client deletes, and those that cannot be created, take no place for ever.
func TestLostReceiptsLeaveTheirPlaces(t *testing.T) {
	const more = 70 // than a client has
	inScene(t, func(s *scene) {
		c, operator := s.client(), s.client()
		readOnly := client.Persistent.WithACL(client.ACL{Permissions: client.PermRead, Identity: client.Anyone})
		s.check(operator.CreateAll(s.ctx, "/closed-receipts", readOnly))
		for range more {
			_, err := shared.NewCounter(c, "/n", shared.CounterConfig{}).Add(s.ctx, 1)
			s.check(err)
			for _, path := range s.receiptsOf(c) {
				s.check(operator.Delete(s.ctx, path, client.AnyVersion))
			}
		}
		for range more {
			_, err := shared.NewCounter(c, "/closed", shared.CounterConfig{}).Add(s.ctx, 1)
			s.want(err, client.ErrNoAuth)
		}
		s.wantCount("/n", more)
	})
}

// A client has 64 writes with receipts under way, whatever counters they are for. The others wait.
func TestReceiptsOfWritesAtOnce(t *testing.T) {
	const writes, most = 150, 64
	inScene(t, func(s *scene) {
		c := s.client()
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Op == "multi" {
				return rollcalltest.Verdict{Delay: time.Second}
			}
			return rollcalltest.Verdict{}
		})
		var all sync.WaitGroup
		for i := range writes {
			all.Go(func() {
				_, err := shared.NewCounter(c, fmt.Sprintf("/many/%d", i), shared.CounterConfig{}).Add(s.ctx, 1)
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		s.srv.OnRequest(nil)
		if n := len(s.receiptsOf(c)); n != most {
			t.Errorf("%d receipts at the end, want %d", n, most)
		}
	})
}
