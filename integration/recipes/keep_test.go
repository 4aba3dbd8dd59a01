package recipes

import (
	"context"
	"errors"
	"testing"
	"time"

	"rollcall/client"
)

// Keep runs its function again with a new session when the old one has ended, and ends with the function.
func TestKeep(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		want := errors.New("the end")
		sessions := map[client.SessionID]bool{}
		var ended time.Time // of the last session
		err := client.Keep(g.ctx, g.ConnectString(), g.config(), func(ctx context.Context, c *client.Client) error {
			id, timeout := c.Session()
			if pause := time.Since(ended); len(sessions) > 0 && pause > timeout/8+time.Second { // a second to connect
				t.Errorf("the next session comes %v after the last one, whose timeout was %v", pause, timeout)
			}
			sessions[id] = true
			_, _, err := c.Create(ctx, "/node", nil, client.Ephemeral)
			g.must(err)
			if len(sessions) == 3 {
				return want
			}
			g.expire(c)
			<-ctx.Done()
			ended = time.Now()
			g.wantError(context.Cause(ctx), client.ErrExpired)
			return nil
		})
		if !errors.Is(err, want) || len(sessions) != 3 {
			t.Errorf("%v, %d sessions", err, len(sessions))
		}
		if _, exists, err := g.client().Exists(g.ctx, "/node"); err != nil || exists {
			t.Errorf("the last session was not closed: %v, %v", exists, err)
		}
	})
}

// When the context ends, the function ends first, and then its session.
func TestKeepContextEnds(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		ctx, cancel := context.WithCancel(g.ctx)
		returned := false
		err := client.Keep(ctx, g.ConnectString(), g.config(), func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Create(ctx, "/node", nil, client.Ephemeral)
			g.must(err)
			cancel()
			<-ctx.Done()
			time.Sleep(time.Second)
			returned = true
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || !returned {
			t.Error(err, returned)
		}
		if _, exists, err := g.client().Exists(g.ctx, "/node"); err != nil || exists {
			t.Errorf("the session was not closed: %v, %v", exists, err)
		}
	})
}

// Without servers, Keep ends with its context. A session to resume that is gone gives way to a new one.
func TestKeepDials(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		ctx, cancel := context.WithTimeout(g.ctx, time.Second)
		defer cancel()
		err := client.Keep(ctx, "192.0.2.9:1", g.config(), func(context.Context, *client.Client) error {
			t.Error("there is no server")
			return nil
		})
		g.wantError(err, context.DeadlineExceeded)

		c := g.client()
		h, err := c.HandOver(g.ctx)
		g.must(err)
		g.expire(c)
		cfg := g.config()
		cfg.Resume = &h
		runs := 0
		err = client.Keep(g.ctx, g.ConnectString(), cfg, func(_ context.Context, c *client.Client) error {
			runs++
			if id, _ := c.Session(); id == h.Session {
				t.Error("the old session lives")
			}
			c.Abandon()
			return nil
		})
		g.must(err)
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
	})
}

// A function that hands the session over ends Keep, and the session lives on.
func TestKeepHandsOver(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		var h client.Handover
		err := client.Keep(g.ctx, g.ConnectString(), g.config(), func(ctx context.Context, c *client.Client) error {
			_, _, err := c.Create(ctx, "/node", nil, client.Ephemeral)
			g.must(err)
			h, err = c.HandOver(ctx)
			<-ctx.Done()
			g.wantError(context.Cause(ctx), client.ErrClosed)
			return err
		})
		g.must(err)
		cfg := g.config()
		cfg.Resume = &h
		if _, exists, err := g.clientWith(cfg).Exists(g.ctx, "/node"); err != nil || !exists {
			t.Errorf("the session was closed: %v, %v", exists, err)
		}
	})
}
