package recipes

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/election"
	"rollcall/client/group"
	"rollcall/client/lock"
)

// pausedClient is a process that was stopped for a session timeout, at the moment at which it runs again: its clock has moved, and
// no timer has fired yet. The servers still have its session.
type pausedClient struct {
	s     *scene
	moved atomic.Int64 // a time.Duration
	atEnd func(op string)
}

func (p *pausedClient) pause() { p.moved.Add(int64(sessionTimeout)) }

// config returns the Config of a client that p pauses.
func (p *pausedClient) config() client.Config {
	return client.Config{
		Timeout: sessionTimeout, DialConn: p.s.srv.Dial, Observer: p,
		Clock: func() time.Duration { return time.Since(p.s.began) + time.Duration(p.moved.Load()) },
	}
}

// Begin implements client.Observer: it calls atEnd, if that is set, at the end of each call.
func (p *pausedClient) Begin(ctx context.Context, op, _ string) (context.Context, func(client.Outcome)) {
	return ctx, func(client.Outcome) {
		if p.atEnd != nil {
			p.atEnd(op)
		}
	}
}

// A right that was found to have ended stays so, although its session is proven before a timer fires.
func TestRightStaysEnded(t *testing.T) {
	inScene(t, func(s *scene) {
		p := &pausedClient{s: s}
		c := s.clientWith(p.config())
		right, err := lock.NewMutex(c, "/lock", lock.Config{}).Lock(s.ctx)
		s.check(err)
		p.pause()
		if right.Held() {
			t.Error("the right is held after a pause of a timeout")
		}
		s.check(c.Sync(s.ctx))
		if !c.Held() || right.Held() {
			t.Errorf("after a proof, the client may act: %t; the right is held again: %t", c.Held(), right.Held())
		}
		select {
		case <-right.Lost():
		default:
			t.Error("the right is not held, and Lost is open")
		}
		s.check(right.Release(s.ctx))
		if names := s.children("/lock"); len(names) != 0 {
			t.Errorf("nodes %q are left", names)
		}
	})
}

// Keep campaigns again after a pause that ends a leadership, whatever lead returns before its context has ended.
func TestElectionKeepAfterPause(t *testing.T) {
	for name, lost := range map[string]error{
		"not held": client.ErrNotHeld, "nil": nil, "another": errors.New("it does not lead any more"),
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				p := &pausedClient{s: s}
				done, times := errors.New("done"), 0
				err := election.Keep(s.ctx, s.srv.ConnectString(), p.config(), "/leader", election.Config{},
					func(_ context.Context, l *election.Leadership) error {
						if times++; times == 3 {
							return done
						}
						p.pause()
						if l.Held() {
							t.Error("it leads after a pause of a timeout")
						}
						return lost
					})
				if !errors.Is(err, done) || times != 3 {
					t.Errorf("%v after %d leaderships, want %v after 3", err, times, done)
				}
			})
		})
	}
}

// Keep campaigns again after a pause between the proof that a candidate's session lives and its leadership.
func TestElectionKeepPausedCandidate(t *testing.T) {
	inScene(t, func(s *scene) {
		p := &pausedClient{s: s}
		pauses := 0
		p.atEnd = func(op string) {
			if op == "getChildren2" && pauses == 0 || op == "sync" && pauses == 1 {
				pauses++
				p.pause()
			}
		}
		led := false
		err := election.Keep(s.ctx, s.srv.ConnectString(), p.config(), "/leader", election.Config{},
			func(context.Context, *election.Leadership) error { led = true; return nil })
		if err != nil || !led || pauses != 2 {
			t.Errorf("%v; it led: %t; %d pauses, want 2", err, led, pauses)
		}
	})
}

// Keep runs its function again if that has lost its right and the session lives, and if it returns an error at a moment at which the
// client may not act on its session. It returns other errors.
func TestKeepAfterPause(t *testing.T) {
	inScene(t, func(s *scene) {
		p := &pausedClient{s: s}
		work := func(ctx context.Context, right *client.Right) error {
			p.pause()
			if right.Held() {
				t.Error("the lock is held after a pause of a timeout")
			}
			_, err := right.Guard(ctx, client.SetOp("/", nil, client.AnyVersion))
			return err
		}
		other := errors.New("another error")
		sessions := map[client.SessionID]bool{}
		err := client.Keep(s.ctx, s.srv.ConnectString(), p.config(), func(ctx context.Context, c *client.Client) error {
			id, _ := c.Session()
			sessions[id] = true
			switch len(sessions) {
			case 1: // as in the guide
				right, err := lock.NewMutex(c, "/app/lock", lock.Config{}).Lock(ctx)
				s.check(err)
				defer func() { _ = right.Release(ctx) }()
				return work(ctx, right)
			case 2:
				p.pause()
			}
			return other
		})
		if !errors.Is(err, other) || len(sessions) != 3 {
			t.Errorf("%v after %d sessions, want %v after 3", err, len(sessions), other)
		}
	})
}

// The end of the context ends Keep also if its function has lost its right.
func TestKeepContextEndsAfterPause(t *testing.T) {
	inScene(t, func(s *scene) {
		p := &pausedClient{s: s}
		ctx, cancel := context.WithCancel(s.ctx)
		runs := 0
		err := client.Keep(ctx, s.srv.ConnectString(), p.config(), func(context.Context, *client.Client) error {
			runs++
			cancel()
			return client.ErrNotHeld
		})
		if err == nil || err.Error() != client.ErrNotHeld.Error() || runs != 1 { // nothing about another session
			t.Errorf("%v after %d runs, want %v after 1", err, runs, client.ErrNotHeld)
		}
	})
}

// A member of a group gets its partitions again after a pause, if work returns that its right has ended.
func TestPartitionsAfterPause(t *testing.T) {
	inScene(t, func(s *scene) {
		p := &pausedClient{s: s}
		c := s.clientWith(p.config())
		done, times := errors.New("done"), 0
		err := group.SharePartitions(s.ctx, c, group.PartitionsConfig{Parent: "/crew", ID: "a", Partitions: 1, Settle: -1},
			func(ctx context.Context, part group.Partition) error {
				if times++; times == 3 {
					return done
				}
				p.pause()
				_, err := part.Guard(ctx, client.SetOp("/", nil, client.AnyVersion))
				return err
			})
		if !errors.Is(err, done) || times != 3 {
			t.Errorf("%v after %d tenures, want %v after 3", err, times, done)
		}
	})
}
