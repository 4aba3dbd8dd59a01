package recipes

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/barrier"
	"rollcall/rollcalltest"
	"rollcall/zk/jute"
)

// All clients that wait at a barrier continue when it is removed, and not before, whatever request the connection breaks
// at.
func TestBarrier(t *testing.T) {
	atEachRequest(t, func(s *scene, c *client.Client) {
		ctx := s.ctx
		b := barrier.New(c, "/jobs/barrier")
		s.check(b.Wait(ctx)) // it is not up
		s.check(b.Set(ctx))
		s.check(b.Set(ctx))
		var passed atomic.Int32
		var waiting sync.WaitGroup
		for _, waiter := range []*client.Client{c, s.client(), s.client()} {
			waiting.Go(func() {
				s.check(barrier.New(waiter, "/jobs/barrier").Wait(ctx))
				passed.Add(1)
			})
		}
		s.awaitSettled()
		if n := passed.Load(); n != 0 {
			s.t.Errorf("%d passed a barrier that is up", n)
		}
		s.check(b.Remove(ctx))
		waiting.Wait()
		s.check(b.Remove(ctx))
	})
}

// awaitSettled waits until broken connections are replaced and all other goroutines are blocked.
func (s *scene) awaitSettled() {
	time.Sleep(sessionTimeout / 2) // in the bubble's time
	synctest.Wait()
}

// A wait ends with its context, and with the session.
func TestBarrierWaitEnds(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		b := barrier.New(c, "/barrier")
		s.check(b.Set(s.ctx))
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		defer cancel()
		s.want(b.Wait(ctx), context.DeadlineExceeded)
		time.AfterFunc(time.Second, func() { s.check(s.srv.ExpireSession(sessionOf(c))) })
		s.want(b.Wait(s.ctx), client.ErrExpired)
	})
}

// attendance counts who is inside a double barrier.
type attendance struct{ entered, left atomic.Int32 }

// enterAndLeave enters a double barrier and leaves it, some times. No client may leave before all of a round have entered, and
// none may enter before all of the round before have left.
func (s *scene) enterAndLeave(d *barrier.DoubleBarrier, count, rounds int, seen *attendance) {
	ctx := s.ctx
	for round := range int32(rounds) {
		all := int32(count)
		if left := seen.left.Load(); left < round*all {
			s.t.Errorf("round %d begins after %d have left, want %d", round, left, round*all)
		}
		seen.entered.Add(1)
		m, err := d.Enter(ctx)
		s.check(err)
		if entered := seen.entered.Load(); entered < (round+1)*all {
			s.t.Errorf("entered round %d after %d, want %d", round, entered, (round+1)*all)
		}
		seen.left.Add(1)
		s.check(m.Leave(ctx))
		if m.Held() {
			s.t.Error("a member that has left holds its right")
		}
		if left := seen.left.Load(); left < (round+1)*all {
			s.t.Errorf("left round %d after %d, want %d", round, left, (round+1)*all)
		}
	}
}

// Rounds follow each other without a pause, whatever request of a member the connection breaks at.
func TestDoubleBarrier(t *testing.T) {
	atEachRequest(t, func(s *scene, c *client.Client) {
		const count, rounds = 3, 3
		var seen attendance
		var all sync.WaitGroup
		for _, member := range []*client.Client{c, s.client(), s.client()} {
			d := barrier.NewDouble(member, "/jobs/double", barrier.DoubleConfig{Count: count})
			all.Go(func() { s.enterAndLeave(d, count, rounds, &seen) })
		}
		all.Wait()
		synctest.Wait()
		if names := s.children("/jobs/double"); len(names) != 0 {
			s.t.Errorf("%q are left", names)
		}
	})
}

func (s *scene) double(c *client.Client, count int) *barrier.DoubleBarrier {
	return barrier.NewDouble(c, "/double", barrier.DoubleConfig{Count: count})
}

// enterAll enters with each client.
func (s *scene) enterAll(clients ...*client.Client) []*barrier.Member {
	s.t.Helper()
	members := make([]*barrier.Member, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			var err error
			members[i], err = s.double(c, len(clients)).Enter(s.ctx)
			s.check(err)
		})
	}
	all.Wait()
	return members
}

// A member whose session ends inside does not hold the others up, and knows.
func TestDoubleBarrierMemberDies(t *testing.T) {
	inScene(t, func(s *scene) {
		clients := []*client.Client{s.client(), s.client(), s.client()}
		members := s.enterAll(clients...)
		for i := range 2 {
			time.AfterFunc(time.Second*time.Duration(i+1), func() { s.check(s.srv.ExpireSession(sessionOf(clients[i]))) })
		}
		s.check(members[2].Leave(s.ctx))
		for i := range 2 {
			<-members[i].Lost()
			s.want(members[i].Leave(s.ctx), client.ErrExpired)
		}
		synctest.Wait()
		if names := s.children("/double"); len(names) != 0 {
			s.t.Errorf("%q are left", names)
		}
	})
}

// A round whose members have all died is cleared by a client that waits, and by one that comes.
func TestDoubleBarrierRoundDies(t *testing.T) {
	for _, late := range []bool{false, true} {
		inScene(t, func(s *scene) {
			dying := []*client.Client{s.client(), s.client()}
			s.enterAll(dying...)
			if late {
				time.AfterFunc(time.Second, func() {
					for _, c := range dying {
						s.check(s.srv.ExpireSession(sessionOf(c)))
					}
				})
			} else {
				for _, c := range dying {
					s.expire(c)
				}
			}
			for _, m := range s.enterAll(s.client(), s.client()) {
				if !m.Held() {
					s.t.Error("a member of the next round does not hold")
				}
			}
		})
	}
}

// A client that comes during a round waits for the next one, and the round does not wait for it.
func TestDoubleBarrierLateClient(t *testing.T) {
	inScene(t, func(s *scene) {
		ctx := s.ctx
		a, b := s.client(), s.client()
		members := s.enterAll(a, b)
		late := make(chan *barrier.Member)
		go func() {
			m, err := s.double(s.client(), 2).Enter(ctx)
			s.check(err)
			late <- m
		}()
		s.awaitSettled()
		select {
		case <-late:
			s.t.Error("a client has entered during a round")
		default:
		}
		var leaving sync.WaitGroup
		for _, m := range members {
			leaving.Go(func() { s.check(m.Leave(ctx)) })
		}
		leaving.Wait()
		again, err := s.double(a, 2).Enter(ctx)
		s.check(err)
		other := <-late
		leaving.Go(func() { s.check(again.Leave(ctx)) })
		s.check(other.Leave(ctx))
		leaving.Wait()
	})
}

// A client whose node is created after a round began waits for the next one.
func TestDoubleBarrierOvertaken(t *testing.T) {
	inScene(t, func(s *scene) {
		late, release := s.client(), make(chan struct{})
		s.srv.OnRequest(breakAndHold(late, lostRequest, release, func(r rollcalltest.Request) bool {
			return r.Op == "create2"
		}))
		entered := make(chan *barrier.Member)
		go func() {
			m, err := s.double(late, 2).Enter(s.ctx)
			s.check(err)
			entered <- m
		}()
		synctest.Wait()
		members := s.enterAll(s.client(), s.client())
		close(release)
		s.awaitSettled()
		select {
		case <-entered:
			s.t.Error("a client has entered a round that began before")
		default:
		}
		s.leaveAll(members)
		next, err := s.double(s.client(), 2).Enter(s.ctx)
		s.check(err)
		s.leaveAll([]*barrier.Member{next, <-entered})
	})
}

// leaveAll leaves with all members.
func (s *scene) leaveAll(members []*barrier.Member) {
	var all sync.WaitGroup
	for _, m := range members {
		all.Go(func() { s.check(m.Leave(s.ctx)) })
	}
	all.Wait()
}

// A member that is late to see the end of its round does not wait for the next one.
func TestDoubleBarrierNextRound(t *testing.T) {
	for range 8 { // the names decide which of the two leaves last
		inScene(t, func(s *scene) {
			slow, other, release := s.client(), s.client(), make(chan struct{})
			members := s.enterAll(slow, other)
			s.srv.OnRequest(breakAndHold(slow, lostReply, release, func(r rollcalltest.Request) bool {
				return r.Op == "delete"
			}))
			left := make(chan struct{})
			go func() {
				s.check(members[0].Leave(s.ctx)) // is cut off when its node is gone
				close(left)
			}()
			s.check(members[1].Leave(s.ctx))
			s.enterAll(s.client(), s.client())
			close(release)
			<-left
		})
	}
}

// A client that gives up leaves no node, whatever it was doing.
func TestDoubleBarrierGivesUp(t *testing.T) {
	for after := time.Duration(0); after < 20; after++ {
		inScene(t, func(s *scene) {
			c := s.client()
			ctx, cancel := context.WithCancel(s.ctx)
			defer cancel()
			requests := time.Duration(0)
			s.srv.OnRequest(countRequests(func() {
				if requests++; requests == after {
					cancel()
				}
			}))
			time.AfterFunc(time.Minute, cancel)
			_, err := s.double(c, 2).Enter(ctx)
			s.want(err, context.Canceled)
			s.awaitSettled()
			if names := s.children("/double"); len(names) != 0 {
				s.t.Errorf("canceled at request %d: %q are left", after, names)
			}
		})
	}
}

// A client that may not count the members does not end a round that seems to have none.
func TestDoubleBarrierMembersNotCounted(t *testing.T) {
	inScene(t, func(s *scene) {
		other := s.client()
		s.createSecret(other)
		_, _, err := other.Create(s.ctx, "/double", nil, client.Persistent)
		s.check(err)
		_, _, err = other.Create(s.ctx, "/double/ready", nil, client.Persistent)
		s.check(err)
		lists := 0
		c := s.clientThat(func(frame []byte) []byte {
			h := headerOf(frame)
			if h.Op != jute.OpGetChildren2 {
				return frame
			}
			if lists++; lists != 2 {
				return frame
			}
			return readOfSecret(h.Xid)
		})
		_, err = s.double(c, 1).Enter(s.ctx)
		s.want(err, client.ErrNoAuth)
		if _, exists, err := other.Exists(s.ctx, "/double/ready"); !exists || err != nil {
			s.t.Errorf("the round was ended: %v", err)
		}
	})
}

// A member whose node an operator deletes while it waits does not enter.
func TestDoubleBarrierNodeDeleted(t *testing.T) {
	inScene(t, func(s *scene) {
		ctx, c := s.ctx, s.client()
		time.AfterFunc(time.Second, func() {
			for _, name := range s.children("/double") {
				s.check(s.client().Delete(ctx, "/double/"+name, client.AnyVersion))
			}
		})
		_, err := s.double(c, 2).Enter(ctx)
		s.want(err, client.ErrNotHeld)
	})
}

// The servers may delete the parent between two requests of a member whose node an operator has deleted.
func TestDoubleBarrierFolderDeleted(t *testing.T) {
	inScene(t, func(s *scene) {
		c, operator := s.client(), s.client()
		looks := 0
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Session != sessionOf(c) || r.Op != "exists" || r.Path != "/double/ready" {
				return rollcalltest.Verdict{}
			}
			if looks++; looks != 2 { // the first one comes before the member's node
				return rollcalltest.Verdict{}
			}
			return rollcalltest.Verdict{Delay: time.Second}
		})
		time.AfterFunc(time.Second/2, func() {
			for _, name := range s.children("/double") {
				s.check(operator.Delete(s.ctx, "/double/"+name, client.AnyVersion))
			}
			s.check(operator.Delete(s.ctx, "/double", client.AnyVersion))
		})
		_, err := s.double(c, 2).Enter(s.ctx)
		s.want(err, client.ErrNotHeld)
	})
}

// The last member leaves although an operator has deleted the node ready.
func TestDoubleBarrierReadyDeleted(t *testing.T) {
	inScene(t, func(s *scene) {
		members := s.enterAll(s.client(), s.client())
		s.check(s.clients[0].Delete(s.ctx, "/double/ready", client.AnyVersion))
		var all sync.WaitGroup
		for _, m := range members {
			all.Go(func() { s.check(m.Leave(s.ctx)) })
		}
		all.Wait()
		if names := s.children("/double"); len(names) != 0 {
			s.t.Errorf("%q are left", names)
		}
	})
}

// A leaver whose context ends does not hold the others up.
func TestDoubleBarrierLeaverGivesUp(t *testing.T) {
	inScene(t, func(s *scene) {
		members := s.enterAll(s.client(), s.client())
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		defer cancel()
		s.want(members[0].Leave(ctx), context.DeadlineExceeded)
		s.check(members[1].Leave(s.ctx))
		synctest.Wait()
		if names := s.children("/double"); len(names) != 0 {
			s.t.Errorf("%q are left", names)
		}
	})
}

// A double barrier with a count of zero is an error.
func TestDoubleBarrierWithoutCount(t *testing.T) {
	for _, count := range []int{0, -1} {
		m, err := barrier.NewDouble(nil, "/double", barrier.DoubleConfig{Count: count}).Enter(t.Context())
		if m != nil || err == nil {
			t.Errorf("a barrier for %d: %v, %v", count, m, err)
		}
	}
}
