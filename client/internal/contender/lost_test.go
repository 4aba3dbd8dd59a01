package contender

import (
	"context"
	"errors"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// bubble runs a test in virtual time with a server that has the node /f, and a Client of it.
func bubble(t *testing.T, cfg client.Config, test func(t *testing.T, s *fakezk.Server, c *client.Client)) {
	t.Helper()
	fakezk.Run(t, func(s *fakezk.Server) (*client.Client, error) {
		s.CreateNode("/f")
		cfg.DialConn = s.DialConn
		return client.Dial(context.Background(), "fake:1", cfg)
	}, test)
}

// A create without a reply that was not carried out is sent again, whatever the reason is that it has no reply.
func TestCreateIsSentAgain(t *testing.T) {
	for _, reason := range []error{client.ErrConnectionLost, context.DeadlineExceeded} {
		bubble(t, client.Config{}, func(t *testing.T, s *fakezk.Server, c *client.Client) {
			s.OnRequest = func(op jute.Op, _ string, count int) bool { return op == jute.OpSync && count == 1 }
			list := contendersOf("w")
			x := contenderNamed(t, list[0])
			x.c = c
			tries := 0
			err := x.createNode(t.Context(), func() (string, client.Stat, error) {
				if tries++; tries == 1 {
					return "", client.Stat{}, &client.Error{Op: "create2", Err: reason, Unanswered: true}
				}
				return x.Path(), client.Stat{}, nil
			})
			if syncs := s.RequestCount(jute.OpSync); err != nil || tries != 2 || syncs != 2 {
				t.Errorf("%v: %d creates, %d syncs, want 2 of each: %v", reason, tries, syncs, err)
			}
		})
	}
}

// A contender whose connection breaks before its watch is set lists the children again: its node may be gone meanwhile.
func TestTurnAfterLostWatch(t *testing.T) {
	bubble(t, client.Config{WhileSuspended: client.Fail}, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		list := contendersOf("ww")
		for _, name := range list {
			s.CreateNode("/f/" + name)
		}
		x := contenderNamed(t, list[1])
		x.c = c
		s.OnRequest = func(op jute.Op, _ string, _ int) bool { return op == jute.OpGetData }
		s.OnReply = func(op jute.Op, _ string) {
			if op == jute.OpGetData {
				s.DeleteNode(x.Path())
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := x.AwaitTurn(ctx); !errors.Is(err, ErrRemoved) || s.RequestCount(jute.OpGetData) != 1 {
			t.Errorf("%d watches, %v, want 1, %v", s.RequestCount(jute.OpGetData), err, ErrRemoved)
		}
	})
}
