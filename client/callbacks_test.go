package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client/internal/fakezk"
)

// OnState may call the Client, even Close, and gets the states in order.
func TestOnStateCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		clients := make(chan *Client, 1)
		var c *Client
		var states []State
		var calls []error
		cfg := Config{OnState: func(change StateChange) {
			if states = append(states, change.State); !change.State.IsConnected() {
				return
			}
			c = <-clients
			_, _, err := c.Exists(t.Context(), "/")
			calls = append(calls, err, c.Close(t.Context()))
		}}
		clients <- dialFake(t, s, cfg)
		synctest.Wait()
		if !slices.Equal(states, []State{Connecting, Connected, Closed}) {
			t.Errorf("the states are %v", states)
		}
		if !slices.Equal(calls, []error{nil, nil}) {
			t.Errorf("the calls inside OnState: %v", calls)
		}
	})
}

// Close ends with its context although OnState does not return. Keep ends with its session.
func TestOnStateBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		release := make(chan struct{})
		defer close(release)
		c := dialFake(t, s, Config{OnState: func(StateChange) { <-release }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("Close returns %v after %v", err, time.Since(begin))
		}
		if c.State().State != Closed {
			t.Errorf("the state is %v", c.State().State)
		}
	})
}

// The functions that f gets from Keep end with the session, whatever OnState does.
func TestKeepBesideOnState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		defer s.AwaitConnectionsEnd()
		release := make(chan struct{})
		defer close(release)
		cfg := Config{
			OnState:  func(StateChange) { <-release },
			DialConn: fakeDial(s),
		}
		err := Keep(t.Context(), "fake:1", cfg, func(ctx context.Context, c *Client) error {
			go c.Abandon()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, ErrClosed) {
			t.Errorf("Keep returns %v", err)
		}
	})
}

// A call inside OnEvent or OnPong fails at once; one of another goroutine at the same time succeeds.
func TestCallsOnReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		var c *Client
		var errs []error
		call := func() {
			_, _, err := c.Get(t.Context(), "/a")
			_, _, _, err2 := c.GetWatch(t.Context(), "/a")
			errs = append(errs, err, err2, c.AwaitConnected(t.Context()), c.AddAuth(t.Context(), Auth{}), c.Close(t.Context()))
		}
		other := make(chan error, 1)
		c = dialFake(t, s, Config{
			OnEvent: func(Event) {
				call()
				go func() { other <- c.Sync(t.Context()) }()
			},
			OnPong: func(time.Duration) {
				call()
				c.Abandon()
			},
		})
		s.CreateNode("/a")
		if _, _, _, err := c.GetWatch(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		s.SetData("/a", "x")
		if err := <-other; err != nil {
			t.Errorf("beside OnEvent: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(errs) != 10 || slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, ErrInCallback) }) {
			t.Errorf("the calls return %v", errs)
		}
		if c.State().State != Closed {
			t.Errorf("after Abandon inside OnPong the state is %v", c.State().State)
		}
	})
}

// A slow OnState misses the oldest changes if too many wait, and gets the latest ones in order.
func TestOnStateFarBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var got []time.Time
		b := &callbacks{onState: func(change StateChange) {
			<-release
			got = append(got, change.At)
		}}
		begin := time.Now()
		at := func(i int) time.Time { return begin.Add(time.Duration(i)) }
		b.reportState(StateChange{At: at(0)})
		synctest.Wait()
		for i := range maxWaitingStates + 10 {
			b.reportState(StateChange{At: at(i + 1)})
		}
		close(release)
		if err := b.awaitOnState(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []time.Time{at(0)}
		for i := range maxWaitingStates {
			want = append(want, at(i+11))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d changes came: %v", len(got), got)
		}
	})
}
