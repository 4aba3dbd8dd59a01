package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"rollcall/jute"
)

// A session opens, requests are answered with what the server says, and Close closes it.
func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			if req := p.accept(); req.SessionID != 0 || req.TimeOut != 30000 || len(req.Passwd) != 16 || req.ReadOnly {
				t.Errorf("handshake: %+v", req)
			}
		})
		if id, timeout := c.Session(); id != fakeSession || timeout.Seconds() != 30 || c.Server() != "a" {
			t.Errorf("session %v, timeout %v, server %s", id, timeout, c.Server())
		}
		go func() {
			r := p.want(jute.OpSetData)
			p.reply(r.Xid, 7, jute.OK, jute.SetDataResponse{Stat: jute.Stat{Version: 3}})
			r = p.want(jute.OpGetData)
			p.reply(r.Xid, 7, jute.NoNode, nil)
			r = p.want(jute.OpCloseSession)
			p.reply(r.Xid, 8, jute.OK, nil)
			p.ended()
		}()
		if stat, err := c.Set(context.Background(), "/a", nil, -1); err != nil || stat.Version != 3 {
			t.Errorf("set: %+v, %v", stat, err)
		}
		if _, _, err := c.Get(context.Background(), "/a", false); !errors.Is(err, jute.NoNode) {
			t.Errorf("get: %v", err)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		if _, err := c.Exists(context.Background(), "/a", false); !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	})
}
