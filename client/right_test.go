package client

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// The deletion of a right's node fires the watch of the node, so Release does not remove it. A node that is not deleted
// keeps no watch.
func TestReleaseAndTheWatch(t *testing.T) {
	for code, next := range map[jute.Code]jute.Op{jute.OK: jute.OpSetData, jute.NotEmpty: jute.OpRemoveWatches} {
		synctest.Test(t, func(t *testing.T) {
			c, server := dialScripted(t, "a:1", Config{})
			id, _ := c.Session()
			right := newProvenRight(c, "/a", Stat{Created: 3}, Token(3))
			for range 2 { // a sync, to prove that the session lives, and the read that sets the watch
				r := server.next()
				var reply rawRecord
				if r.Op == jute.OpExists {
					reply = jute.Stat{Czxid: 3, EphemeralOwner: jute.SessionID(id)}.Append(nil)
				} else {
					reply = jute.PathRecord{Path: []byte("/")}.Append(nil)
				}
				server.reply(r, jute.OK, reply)
			}
			synctest.Wait()
			released := make(chan error, 1)
			go func() { released <- right.Release(t.Context()) }()
			synctest.Wait()
			r := server.next()
			if code == jute.OK {
				server.event(jute.EventNodeDeleted, "/a", 9)
			}
			server.reply(r, code, nil)
			if err := <-released; r.Op != jute.OpDelete || (err != nil) != (code != jute.OK) || err != nil && !errors.Is(err, code) {
				t.Errorf("%v, and the error %v", r.Op, err)
			}
			synctest.Wait()
			if code == jute.OK { // the next request is this one
				_ = c.Pipeline().Set(t.Context(), "/b", nil, 1, func(Stat, error) {})
			}
			if r := server.next(); r.Op != next {
				t.Errorf("after %v, %v was sent, want %v", code, r.Op, next)
			}
		})
	}
}

// A right that is released while the server is read-only is given up as soon as a server can write.
func TestReleaseAtReadOnlyServer(t *testing.T) {
	bubble(t, Config{AllowReadOnly: true}, func(t *testing.T, s *fakezk.Server, c *Client) {
		s.CreateNode("/lock")
		r := newRight(c, "/lock", 0, 0)
		s.SetReadOnly(true)
		time.Sleep(time.Second)
		if state := c.State().State; state != ReadOnly {
			t.Fatalf("the state is %v", state)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantError(t, r.Release(ctx), context.DeadlineExceeded)
		s.SetReadOnly(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if _, exists, err := c.Exists(t.Context(), "/lock"); err != nil || exists {
			t.Errorf("after the release, the node exists: %t, %v", exists, err)
		}
	})
}

// The context of requests that give a right up outlives the right, and ends with everything else that the caller's
// does.
func TestOutlast(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, _ *fakezk.Server, c *Client) {
		r := newRight(c, "/lock", 0, 0)
		parent, cancelParent := context.WithCancel(t.Context())
		ctx, cancel := r.Context(parent)
		defer cancel()
		apart, end := r.outlast(ctx)
		defer end()
		canceled, endCanceled := r.outlast(parent)
		defer endCanceled()
		soon, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		late, endLate := r.outlast(soon)
		defer endLate()
		short, endShort := r.outlast(ctx)
		endShort()
		if !errors.Is(short.Err(), context.Canceled) {
			t.Errorf("a context that is not needed any more: %v", short.Err())
		}
		r.leaveNode()
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), ErrNotHeld) || apart.Err() != nil || late.Err() != nil {
			t.Errorf("after the right: %v, %v, %v", context.Cause(ctx), apart.Err(), late.Err())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(late.Err(), context.DeadlineExceeded) || apart.Err() != nil {
			t.Errorf("after the deadline: %v, %v", late.Err(), apart.Err())
		}
		cancelParent()
		synctest.Wait()
		if !errors.Is(canceled.Err(), context.Canceled) {
			t.Errorf("after the caller's context: %v", canceled.Err())
		}
	})
}

// A right is not held any more as soon as the client may not act on its session. After a suspend that is so before anything
// else has ended the right. Held then ends it for good.
func TestHeldAfterASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var suspended atomic.Int64
		begun := time.Now()
		c, _ := dialScripted(t, "a:1", Config{Clock: func() time.Duration {
			return time.Second + time.Since(begun) + time.Duration(suspended.Load())
		}})
		r := newRight(c, "/lock", 0, 0)
		left := c.Remaining()
		for _, tt := range []struct {
			suspended time.Duration
			held      bool
		}{{left - 1, true}, {left, false}} {
			suspended.Store(int64(tt.suspended))
			before := r.over.Err()
			if r.Held() != tt.held || before != nil {
				t.Errorf("after a suspend of %v: held %t, ended before %v; want %t, and not ended", tt.suspended, r.Held(), before, tt.held)
			}
		}
		suspended.Store(0)
		if !c.Held() || r.Held() || r.over.Err() == nil {
			t.Errorf("the client may act again: %t; the right is held: %t, ended %v", c.Held(), r.Held(), r.over.Err())
		}
	})
}

// A Guard has the results of the caller's operations, and its errors are about them, or about the right.
func TestGuard(t *testing.T) {
	failures := func(codes ...jute.Code) rawRecord {
		var body []byte
		for _, code := range codes {
			body = result(jute.OpError, code, body, jute.ErrorResponse{Err: code})
		}
		return jute.AppendMultiEnd(body)
	}
	done := result(jute.OpCheck, jute.OK, nil, nil)
	done = result(jute.OpCreate2, jute.OK, done, jute.Create2Response{Path: []byte("/a")})
	for _, tt := range []struct {
		name  string
		reply rawRecord
		held  bool
		err   error
		index int // of the operation in a MultiError; -1: there is none
	}{
		{"done", jute.AppendMultiEnd(done), true, nil, -1},
		{"operation fails", failures(jute.OK, jute.NodeExists), true, ErrNodeExists, 0},
		{"node is gone", failures(jute.NoNode, jute.RuntimeInconsistency), false, ErrNotHeld, -1},
		{"not allowed", failures(jute.NoAuth, jute.RuntimeInconsistency), true, ErrNoAuth, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, server := dialScripted(t, "a:1", Config{})
			r := newRight(c, "/lock", 0, 0)
			var results []Result
			var err error
			go func() { results, err = r.Guard(t.Context(), CreateOp("/a", nil, Persistent)) }()
			server.reply(server.next(), jute.OK, tt.reply)
			synctest.Wait()
			failed, isMulti := errors.AsType[*MultiError](err)
			switch {
			case !errors.Is(err, tt.err) || (tt.err == nil) != (err == nil), r.Held() != tt.held:
				t.Errorf("%s: %v, held %t", tt.name, err, r.Held())
			case isMulti != (tt.index >= 0), isMulti && failed.Index != tt.index:
				t.Errorf("%s: the error is %v", tt.name, err)
			case err == nil && (len(results) != 1 || results[0].Path != "/a"):
				t.Errorf("%s: the results are %+v", tt.name, results)
			}
		})
	}
}
