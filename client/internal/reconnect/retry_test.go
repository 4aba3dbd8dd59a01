package reconnect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// A try waits for a connection, and with RetrySettled also for a sync on it. Other errors end the tries.
func TestRetry(t *testing.T) {
	for name, tt := range map[string]struct {
		retry func(context.Context, *client.Client, func() error) error
		syncs int
	}{"Retry": {Retry, 0}, "RetrySettled": {RetrySettled, 3}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, client.Config{}, func(t *testing.T, s *fakezk.Server, c *client.Client) {
				s.OnRequest = func(op jute.Op, _ string, count int) bool { return op == jute.OpSync && count == 1 }
				reasons := []error{client.ErrConnectionLost, client.ErrSuspended, client.ErrNoNode, nil}
				tries := 0
				err := tt.retry(t.Context(), c, func() error {
					if tries++; tries == 1 {
						s.Disconnect(false)
						synctest.Wait() // the client knows
					}
					if tries > 1 && c.Server() == "" {
						t.Errorf("try %d without a connection", tries)
					}
					return reasons[tries-1]
				})
				// The reply to the first sync is lost, so it is sent again.
				if syncs := s.RequestCount(jute.OpSync); !errors.Is(err, client.ErrNoNode) || tries != 3 || syncs != tt.syncs {
					t.Errorf("%d tries, %d syncs, want 3 and %d: %v", tries, syncs, tt.syncs, err)
				}
			})
		})
	}
}

// A missing parent is created, and create called again. If many clients may find that it is missing, a read comes first.
func TestRetryWithParent(t *testing.T) {
	for name, tt := range map[string]struct {
		retry  func(context.Context, *client.Client, string, func() error) error
		exists int
	}{"RetryWithParent": {RetryWithParent, 0}, "RetryWithSharedParent": {RetryWithSharedParent, 1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, client.Config{}, func(t *testing.T, s *fakezk.Server, c *client.Client) {
				create := func() error {
					if s.HasNode("/parent") {
						return nil
					}
					return client.ErrNoNode
				}
				for range 2 { // the second time, there is a parent
					if err := tt.retry(t.Context(), c, "/parent", create); err != nil {
						t.Error(err)
					}
				}
				if exists, creates := s.RequestCount(jute.OpExists), s.RequestCount(jute.OpCreateContainer); exists != tt.exists || creates != 1 {
					t.Errorf("%d reads, %d creates, want %d and 1", exists, creates, tt.exists)
				}
			})
		})
	}
}

// Delete deletes nothing at a server that has no leader. It deletes the node when the server has one again.
func TestDeleteWaitsForWritableServer(t *testing.T) {
	bubble(t, client.Config{AllowReadOnly: true}, func(t *testing.T, s *fakezk.Server, c *client.Client) {
		s.CreateNode("/own")
		done := beginDelete(t.Context(), t, s, c)
		s.SetReadOnly(false)
		if err := <-done; err != nil || s.HasNode("/own") {
			t.Errorf("the node is there: %t, %v", s.HasNode("/own"), err)
		}
	})
}

// A Delete that waits for a server that can write ends with its context, and with the session.
func TestDeleteGivesUpAtReadOnlyServer(t *testing.T) {
	for reason, end := range map[error]func(s *fakezk.Server, cancel func()){
		context.Canceled:  func(_ *fakezk.Server, cancel func()) { cancel() },
		client.ErrExpired: func(s *fakezk.Server, _ func()) { s.ExpireSession() },
	} {
		bubble(t, client.Config{AllowReadOnly: true}, func(t *testing.T, s *fakezk.Server, c *client.Client) {
			s.CreateNode("/own")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := beginDelete(ctx, t, s, c)
			end(s, cancel)
			if err := <-done; !errors.Is(err, reason) || !s.HasNode("/own") {
				t.Errorf("the node is there: %t, %v, want %v", s.HasNode("/own"), err, reason)
			}
		})
	}
}

// beginDelete makes the server one that has no leader, and calls Delete. When it returns, Delete waits.
func beginDelete(ctx context.Context, t *testing.T, s *fakezk.Server, c *client.Client) <-chan error {
	t.Helper()
	s.SetReadOnly(true)
	for change := range c.States(ctx) {
		if change.State == client.ReadOnly {
			break
		}
	}
	done := make(chan error, 1)
	go func() { done <- Delete(ctx, c, "/own") }()
	synctest.Wait()
	if n := s.RequestCount(jute.OpDelete); n != 1 || len(done) > 0 {
		t.Fatalf("%d deletes, and %d results, want 1 and none", n, len(done))
	}
	return done
}

// bubble runs a test in virtual time with a server and a Client.
func bubble(t *testing.T, cfg client.Config, test func(t *testing.T, s *fakezk.Server, c *client.Client)) {
	t.Helper()
	fakezk.Run(t, func(s *fakezk.Server) (*client.Client, error) {
		cfg.DialConn = s.DialConn
		return client.Dial(context.Background(), "fake:1", cfg)
	}, test)
}
