package contender

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// bubble runs a test in virtual time with a server that has the node /f, and a Client of it.
func bubble(t *testing.T, cfg client.Config, test func(t *testing.T, s *fakezk.Server, c *client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakezk.New(t)
		s.CreateNode("/f")
		cfg.DialConn = func(context.Context, string, string) (net.Conn, error) { return s.Accept() }
		c, err := client.Dial(t.Context(), "fake:1", cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Abandon()
			s.AwaitConnectionsEnd()
		})
		test(t, s, c)
	})
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
