package barrier

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/internal/recipetest"
	"rollcall/zk/jute"
)

// A server that lags does not let a client through a barrier that was set before the call.
func TestWaitAtServerThatLags(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		waiter, setter := b.Clients[0], New(b.Clients[1], "/b")
		b.Lag(recipetest.ID(waiter))
		b.Must(setter.Set(b.Ctx))
		began := time.Now()
		go func() {
			time.Sleep(time.Minute)
			_ = setter.Remove(b.Ctx)
		}()
		b.Must(New(waiter, "/b").Wait(b.Ctx))
		if waited := time.Since(began); waited != time.Minute {
			b.Errorf("waited %v, want until the barrier is removed", waited)
		}
	})
}

// Set and Remove are carried out although their replies are lost, and are no error if there is nothing to do.
func TestSetAndRemove(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		barrier := New(b.Clients[0], "/a/b")
		for range 2 {
			b.LoseReply(jute.OpCreate2)
			b.Must(barrier.Set(b.Ctx))
			if !b.HasNode("/a/b") {
				b.Error("Set has not set the barrier")
			}
		}
		for range 2 {
			b.LoseReply(jute.OpDelete)
			b.Must(barrier.Remove(b.Ctx))
			if b.HasNode("/a/b") {
				b.Error("Remove has not removed the barrier")
			}
		}
	})
}

// enterAll makes clients enter a double barrier at the same time.
func enterAll(b *recipetest.Bed, clients []*client.Client) []*Member {
	b.Helper()
	members := make([]*Member, len(clients))
	errs := make(chan error)
	for i, c := range clients {
		go func() {
			var err error
			members[i], err = NewDouble(c, "/d", DoubleConfig{Count: len(clients)}).Enter(b.Ctx)
			errs <- err
		}()
	}
	for range clients {
		b.Must(<-errs)
	}
	return members
}

// All clients of a round enter when the last of them comes, and leave when the last of them leaves. Then comes the next
// round.
func TestDoubleBarrierRounds(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		for range 2 {
			began := time.Now()
			entered := make(chan []*Member)
			go func() {
				time.Sleep(time.Minute)
				last, err := NewDouble(b.Clients[2], "/d", DoubleConfig{Count: 3}).Enter(b.Ctx)
				if err != nil {
					b.Error(err)
				}
				entered <- []*Member{last}
			}()
			for _, c := range b.Clients[:2] {
				go func() {
					m, err := NewDouble(c, "/d", DoubleConfig{Count: 3}).Enter(b.Ctx)
					if err != nil || time.Since(began) != time.Minute {
						b.Errorf("entered after %v, %v, want 1m0s", time.Since(began), err)
					}
					entered <- []*Member{m}
				}()
			}
			members := slices.Concat(<-entered, <-entered, <-entered)
			left := make(chan time.Duration)
			for i, m := range members {
				go func() {
					time.Sleep(time.Duration(i) * time.Minute)
					if err := m.Leave(b.Ctx); err != nil {
						b.Error(err)
					}
					left <- time.Since(began)
				}()
			}
			for range members {
				if after := <-left; after != 3*time.Minute {
					b.Errorf("a member left after %v, want when the last one leaves", after)
				}
			}
			if names := b.Children("/d"); len(names) > 0 {
				b.Errorf("left behind: %q", names)
			}
		}
	})
}

// A client that gives up leaves no watch and no node.
func TestGivesUp(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		c := b.Clients[0]
		ctx, cancel := context.WithTimeout(b.Ctx, time.Minute)
		defer cancel()
		b.CreateNode("/b")
		if err := New(c, "/b").Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("Wait: %v", err)
		}
		ctx, cancel = context.WithTimeout(b.Ctx, time.Minute)
		defer cancel()
		if _, err := NewDouble(c, "/d", DoubleConfig{Count: 2}).Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("Enter: %v", err)
		}
		synctest.Wait()
		if watches, names := b.Watches(recipetest.ID(c)), b.Children("/d"); len(watches)+len(names) > 0 {
			b.Errorf("left behind: the watches %q, the nodes %q", watches, names)
		}
	})
}

// A client enters although the reply to its create is lost.
func TestEnterOverLostReply(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		b.CreateNode("/d")
		b.LoseReply(jute.OpCreate2)
		m, err := NewDouble(b.Clients[0], "/d", DoubleConfig{Count: 1}).Enter(b.Ctx)
		b.Must(err)
		if !m.Held() {
			b.Error("the member does not hold its right")
		}
		b.Must(m.Leave(b.Ctx))
		if names := b.Children("/d"); len(names) > 0 {
			b.Errorf("left behind: %q", names)
		}
	})
}

// A client whose node is created after a round has begun waits for the next one.
func TestEnterTooLate(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		late := b.Clients[0]
		var members []*Member
		b.CreateNode("/d")
		b.Before(late, jute.OpCreate2, 1, func(string) { members = enterAll(b, b.Clients[1:]) })
		entered := make(chan *Member, 1)
		go func() {
			m, err := NewDouble(late, "/d", DoubleConfig{Count: 2}).Enter(b.Ctx)
			b.Report(err)
			entered <- m
		}()
		if synctest.Wait(); len(members) != 2 || len(entered) > 0 {
			b.Fatalf("the late client is in the round of %d others", len(members))
		}
		left := make(chan error, 2)
		for _, m := range members {
			go func() { left <- m.Leave(b.Ctx) }()
		}
		b.Must(<-left)
		b.Must(<-left)
		next, err := NewDouble(b.Clients[1], "/d", DoubleConfig{Count: 2}).Enter(b.Ctx)
		b.Must(err)
		if m := <-entered; m.round != next.round {
			b.Error("the late client is not in the next round")
		}
	})
}

// A client that comes when a round ends does not wait for the members of the next one, which wait for it.
func TestEnterAsRoundEnds(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		other := recipetest.ID(b.Clients[1])
		b.CreateNode("/d")
		b.CreateEphemeral("/d/old", other)
		b.CreateNode("/d/ready")
		b.Before(b.Clients[0], jute.OpGetChildren2, 1, func(string) {
			b.ApplyChanges("-/d/old", "-/d/ready")
			b.CreateEphemeral("/d/next", other)
		})
		began := time.Now()
		if _, err := NewDouble(b.Clients[0], "/d", DoubleConfig{Count: 2}).Enter(b.Ctx); err != nil || time.Since(began) > time.Minute {
			b.Errorf("after %v: %v, want the next round at once", time.Since(began), err)
		}
	})
}

// A member that leaves when its round ends does not wait for the members of the next one.
func TestLeaveAsNextRoundBegins(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		other := recipetest.ID(b.Clients[1])
		b.CreateNode("/d")
		b.CreateEphemeral("/d/!old", other) // before the member's name
		m, err := NewDouble(b.Clients[0], "/d", DoubleConfig{Count: 2}).Enter(b.Ctx)
		b.Must(err)
		b.Before(b.Clients[0], jute.OpGetChildren2, 3, func(string) { // before it awaits the end of the round
			b.ApplyChanges("-/d/!old", "-/d/ready")
			b.CreateEphemeral("/d/next", other)
			b.CreateEphemeral("/d/second", other)
			b.CreateNode("/d/ready")
		})
		began := time.Now()
		if err := m.Leave(b.Ctx); err != nil || time.Since(began) > time.Minute {
			b.Errorf("left after %v: %v, want at once", time.Since(began), err)
		}
		if names := b.Children("/d"); len(names) != 3 {
			b.Errorf("the next round has %q", names)
		}
	})
}

// A client that clears a round whose members have ended does not end a round that has begun since.
func TestClearAsNextRoundBegins(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		b.CreateNode("/d")
		b.CreateNode("/d/ready")
		var members []*Member
		b.Before(b.Clients[0], jute.OpMulti, 1, func(string) { members = enterAll(b, b.Clients[1:]) })
		entered := make(chan error, 1)
		go func() {
			_, err := NewDouble(b.Clients[0], "/d", DoubleConfig{Count: 1}).Enter(b.Ctx)
			entered <- err
		}()
		synctest.Wait()
		ready, _, err := b.Clients[1].Exists(b.Ctx, "/d/ready")
		if err != nil || len(members) != 2 || ready.Created != members[0].round || len(entered) > 0 {
			b.Fatalf("%d members, whose round is not the present one: %v", len(members), err)
		}
		for _, m := range members {
			go func() { _ = m.Leave(b.Ctx) }()
		}
		b.Must(<-entered)
	})
}

// Members leave without one whose session has ended.
func TestLeaveWithoutMemberThatEnds(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		members := enterAll(b, b.Clients)
		left := make(chan error, 2)
		for _, m := range members[:2] {
			go func() { left <- m.Leave(b.Ctx) }()
		}
		time.Sleep(time.Minute)
		if synctest.Wait(); len(left) > 0 {
			b.Fatal("a member has left without the last one")
		}
		b.Expire(b.Clients[2])
		for range 2 {
			b.Must(<-left)
		}
		if members[2].Held() {
			b.Error("the member that has ended still holds its right")
		}
	})
}
