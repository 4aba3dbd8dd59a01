package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/cache"
	"rollcall/client/election"
	"rollcall/client/group"
	"rollcall/client/lock"
	"rollcall/client/registry"
	"rollcall/client/shared"
	"rollcall/rollcalltest"
)

// The last pair of each iterator has the error of its context.
func TestIteratorsEndWithContext(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		s.check(errorOf(shared.NewCounter(c, "/counter", shared.CounterConfig{}).Add(s.ctx, 1)))
		for name, last := range map[string]func(context.Context) error{
			"watch":     func(ctx context.Context) error { return lastOf(c.Watch(ctx, "/", client.Tree)) },
			"members":   func(ctx context.Context) error { return lastOf(group.Watch(ctx, c, "/g")) },
			"instances": func(ctx context.Context) error { return lastOf(registry.Watch(ctx, c, "/r", "x")) },
			"servers":   func(ctx context.Context) error { return lastOf(registry.WatchServers(ctx, c, "/s")) },
			"leader": func(ctx context.Context) error {
				return lastOf(election.New(c, "/e", election.Config{}).Observe(ctx))
			},
			"value": func(ctx context.Context) error { return lastOf(shared.NewValue(c, "/v", shared.Config{}).Watch(ctx)) },
			"counter": func(ctx context.Context) error {
				return lastOf(shared.NewCounter(c, "/counter", shared.CounterConfig{}).Watch(ctx))
			},
			"cache": func(ctx context.Context) error {
				k, err := cache.Open(s.ctx, c, "/", cache.Config{})
				if err != nil {
					return err
				}
				defer k.Close()
				return lastOf(k.Changes(ctx))
			},
		} {
			ctx, cancel := context.WithTimeout(s.ctx, time.Second)
			if err := last(ctx); !errors.Is(err, context.DeadlineExceeded) {
				s.t.Errorf("%s: the last error is %v", name, err)
			}
			cancel()
		}
	})
}

// A member whose work returns early leaves, and SharePartitions returns the result of work.
func TestPartitionsWorkReturns(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
		defer cancel()
		err := group.SharePartitions(ctx, c, group.PartitionsConfig{Parent: "/crew", ID: "a", Partitions: 3},
			func(context.Context, group.Partition) error { return nil })
		members, readErr := group.Members(s.ctx, c, "/crew/members")
		if err != nil || ctx.Err() != nil || len(members) != 0 || readErr != nil {
			s.t.Errorf("%v, %v; the members are %v, %v", err, ctx.Err(), members, readErr)
		}
	})
}

// Keep leads again after the end of a session and of a leadership, and ends with what lead returns while it leads.
func TestElectionKeep(t *testing.T) {
	inScene(t, func(s *scene) {
		operator := s.client()
		reason := fmt.Errorf("another right: %w", client.ErrNotHeld) // not this leadership's
		times := 0
		err := election.Keep(s.ctx, s.srv.ConnectString(), client.Config{Timeout: sessionTimeout, DialConn: s.srv.Dial}, "/leader",
			election.Config{}, func(ctx context.Context, l *election.Leadership) error {
				switch times++; times {
				case 1:
					sessions, err := s.srv.Sessions()
					s.check(err)
					for _, session := range sessions {
						if session != sessionOf(operator) {
							s.check(s.srv.ExpireSession(session))
						}
					}
				case 2:
					s.check(operator.Delete(s.ctx, l.Path(), client.AnyVersion))
				default:
					return reason
				}
				<-ctx.Done()
				return nil
			})
		if !errors.Is(err, reason) || times != 3 {
			s.t.Errorf("%v after %d leaderships, want %v after 3", err, times, reason)
		}
	})
}

// The error of a guard names its right, and the fault of a read.
func TestGuardErrors(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		held, err := lock.NewMutex(c, "/lock", lock.Config{}).Lock(s.ctx)
		s.check(err)
		_, err = held.Guard(s.ctx, client.GetOp("/"))
		if !errors.Is(err, client.ErrBadArguments) || !strings.Contains(err.Error(), "cannot read") ||
			!strings.Contains(err.Error(), held.Path()) {
			s.t.Errorf("a read: %v", err)
		}
		s.breakAt(1, lostReply, func(r rollcalltest.Request) bool { return r.Op == "multi" })
		_, err = held.Guard(s.ctx, client.CreateOp("/x", nil, client.Persistent))
		if !client.MayHaveHappened(err) || !strings.Contains(err.Error(), held.Path()) {
			s.t.Errorf("without a reply: %v", err)
		}
	})
}
