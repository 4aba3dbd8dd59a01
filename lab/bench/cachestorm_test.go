package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

// Clients that lose their connection read everything again, one whose session is lost does so in a new one, and the others read what has
// changed. The storm ends with the last client that knows the write after the hook.
func TestCacheStorm(t *testing.T) {
	const control, bystanders, clients = 1, 1, 5
	for name, tt := range map[string]struct {
		drop, lost     int // clients whose connection, or session, is lost
		reads, dropped float64
		later          time.Duration // they are lost so long after the write
	}{
		"nothing is lost":     {0, 0, 5, 0, 0},
		"connections":         {2, 0, 2*(3+1) + 3, 2, 0},
		"a session":           {2, 1, 2*(3+1) + 3, 2, 0},
		"all lose everything": {5, 5, 5 * (3 + 1), 5, 0},
		"late":                {2, 0, 5 + 2*(3+1), 2, cacheSettle / 2}, // all knew the write before
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeEnsemble{delay: time.Millisecond, lost: map[jute.SessionID]bool{}}
				struck := false
				f.onWrite = func(path string) {
					if struck || !strings.HasSuffix(path, "/cached/0000000000") {
						return
					}
					struck = true
					strike := func() {
						for i, c := range f.all[control+bystanders:][:tt.drop] {
							f.lost[c.id] = i < tt.lost
							f.forget(c)
							_ = c.conn.Close()
						}
					}
					if tt.later == 0 {
						strike()
						return
					}
					time.AfterFunc(tt.later, func() {
						f.mu.Lock()
						defer f.mu.Unlock()
						strike()
					})
				}
				base := quickParams()
				base.Hook, base.Timeout = "true", time.Minute
				r, _ := f.runCase(t, "cachestorm:conns=5,watches=3", base)
				extra := extraOf(r)
				if r.Ops != clients || len(r.Errors) > 0 || r.Latency.Max < 2000 || extra["last client current after"] != r.Latency.Max/1000 {
					t.Errorf("%+v", r)
				}
				if extra["reads"] != tt.reads || extra["clients that lost their connection"] != tt.dropped ||
					extra["sessions lost"] != float64(tt.lost) {
					t.Errorf("%v, want %v reads", extra, tt.reads)
				}
				if extra["others p50"] != 1 || extra["others before p50"] != 1 {
					t.Errorf("%v", extra)
				}
			})
		})
	}
}

// A run fails if clients are late, before the hook or after it, and if a server replies to a read with an error.
func TestCacheStormFails(t *testing.T) {
	const deaf = "clients did not become current within 3m0s"
	for name, tt := range map[string]struct {
		struck bool      // it goes wrong with the write after the hook
		code   jute.Code // of reads; OK: their connection breaks instead
		want   string
	}{
		"late before the hook": {false, jute.OK, "before the hook: 5 of 5 " + deaf},
		"late after the hook":  {true, jute.OK, "5 of 5 " + deaf},
		"a read fails before":  {false, jute.NoAuth, "reads failed on live connections, the first one: client "},
		"a read fails after":   {true, jute.NoAuth, "reads failed on live connections, the first one: client "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeEnsemble{delay: time.Millisecond}
				struck := !tt.struck
				f.onWrite = func(path string) { struck = struck || strings.HasSuffix(path, "/cached/0000000000") }
				f.reject = func(op jute.Op, _ string) jute.Code {
					if !struck || op != jute.OpGetData {
						return jute.OK
					}
					if tt.code == jute.OK {
						for _, c := range f.all[2:] { // those of the cases' clients
							_ = c.conn.Close()
						}
					}
					return tt.code
				}
				base := quickParams()
				base.Hook, base.Timeout = "true", time.Minute
				if r, _, err := f.tryCase(t, "cachestorm:conns=5,watches=3", base); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, %+v; want %q", err, r, tt.want)
				}
			})
		})
	}
}

// A connection that comes back before the session is known to its client is no reason to read: the opener does.
func TestCacheClientBeforeItsSession(t *testing.T) {
	c := &cacheClient{storm: &cacheStorm{parent: &parent{path: "/a"}}}
	c.onState(client.StateChange{State: client.Reconnected})
	c.onEvent(client.Event{Type: client.DataChanged, Path: "/a/0000000000"})
	c.onEvent(client.Event{Type: client.ChildrenChanged, Path: "/a"})
	if _, ok := c.current(0); ok || c.pending != 0 || c.storm.reads.Load() != 0 {
		t.Errorf("current is %t with %d of %d reads", ok, c.pending, c.storm.reads.Load())
	}
}

// A client is not current while it has no connection, reads, or does not know the marker.
func TestCacheClientCurrent(t *testing.T) {
	c := &cacheClient{connected: true, marker: 1, pending: 1}
	check := func(what string, want bool) {
		t.Helper()
		if _, ok := c.current(1); ok != want {
			t.Errorf("%s: current is %t", what, ok)
		}
	}
	check("it reads", false)
	c.finish(0)
	check("it knows the marker", true)
	c.connected = false
	check("no connection", false)
	c.connected, c.marker = true, 0
	check("an older marker", false)
}

// A session that is opened after the end of the storm is given up: no client would close it.
func TestCacheClientEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEnsemble{nodes: map[string]*fakeNode{}, requests: map[jute.Op]int{}, watchers: map[string][]*fakeConn{}}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		r := &caseRun{ctx: t.Context(), target: Target{Dial: f.dial}, chosenServers: []string{"fake:1"}, params: Params{Timeout: time.Minute}}
		c := &cacheClient{storm: &cacheStorm{run: r, ctx: ctx, parent: &parent{path: "/a"}}}
		if err := c.open(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		f.serving.Wait() // the connection ends
	})
}
