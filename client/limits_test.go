package client

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// A chroot begins all paths, and is cut off again.
func TestChroot(t *testing.T) {
	for _, tt := range []struct {
		root        chroot
		path, there string
	}{{"", "/", "/"}, {"", "/a", "/a"}, {"/app", "/", "/app"}, {"/app", "/a/b", "/app/a/b"}, {"", "", ""}} {
		if got := tt.root.serverPath(tt.path); got != tt.there {
			t.Errorf("%q of %q is %q", tt.path, tt.root, got)
		}
		if got := tt.root.callerPath(tt.there); got != tt.path {
			t.Errorf("%q below %q is %q", tt.there, tt.root, got)
		}
		if got := jute.NewDecoder(tt.root.appendPath(nil, tt.path)); string((&got).ReadBytes()) != tt.there {
			t.Errorf("%q of %q is sent otherwise", tt.path, tt.root)
		}
	}
}

// CreateAll gives up if the parent of a node vanishes each time, and at once if the chroot is missing.
func TestCreateAllGivesUp(t *testing.T) {
	for path, want := range map[string]map[string]int{
		"/a/b": {"/a/b": 1 + maxContainerTries, "/a": maxContainerTries},
		"/c":   {"/c": 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			creates := map[string]int{}
			c := dialServed(t, func(conn net.Conn) { serveVanishing(conn, creates) })
			wantError(t, c.CreateAll(t.Context(), path, Persistent), ErrNoNode)
			for created, n := range want {
				if creates[created] != n {
					t.Errorf("%s was created %d times, want %d", created, creates[created], n)
				}
			}
		})
	}
}

// CreateAll rejects modes that nodes on the way cannot have, before it sends anything.
func TestCreateAllRejectsModes(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
		for _, mode := range []Mode{Ephemeral, EphemeralSequential, PersistentSequential, PersistentSequential.WithTTL(time.Second)} {
			wantError(t, c.CreateAll(t.Context(), "/a/b", mode), ErrBadArguments)
		}
		for _, op := range []jute.Op{jute.OpCreate2, jute.OpCreateTTL} {
			if n := s.RequestCount(op); n > 0 {
				t.Errorf("%d requests %v were sent", n, op)
			}
		}
	})
}

// serveVanishing lets /a be created, and says that no other node has a parent. It counts the creates.
func serveVanishing(conn net.Conn, creates map[string]int) {
	serveReplies(conn, func(h jute.RequestHeader, body *jute.Decoder) []byte {
		header := jute.ReplyHeader{Xid: h.Xid, Zxid: 9}
		path := string(body.ReadBytes())
		creates[path]++
		if path != "/a" {
			header.Err = jute.NoNode
			return header.Append(nil)
		}
		return jute.Create2Response{Path: []byte(path)}.Append(header.Append(nil))
	})
}

// A mode has a number, and determines whether its node ends with the session. A node with a TTL is persistent, or it has
// a mode that servers reject.
func TestModes(t *testing.T) {
	for _, tt := range []struct {
		mode                  Mode
		sent                  jute.CreateMode
		ephemeral, sequential bool
	}{
		{Persistent, jute.Persistent, false, false},
		{PersistentSequential, jute.PersistentSequential, false, true},
		{Ephemeral, jute.Ephemeral, true, false},
		{EphemeralSequential, jute.EphemeralSequential, true, true},
		{Persistent.WithTTL(time.Second), jute.PersistentWithTTL, false, false},
		{PersistentSequential.WithTTL(time.Second), jute.PersistentSequentialWithTTL, false, true},
		{Ephemeral.WithTTL(time.Second), badMode, false, false},
		{Container.WithTTL(time.Second), badMode, false, false},
	} {
		if m := tt.mode; m.mode != tt.sent || m.IsEphemeral() != tt.ephemeral || m.IsSequential() != tt.sequential {
			t.Errorf("%+v: ephemeral %t, sequential %t; want %+v", m, m.IsEphemeral(), m.IsSequential(), tt)
		}
	}
}

// The times of a Stat are in milliseconds.
func TestTimesOfStat(t *testing.T) {
	s := statOf(jute.Stat{Ctime: 1_500, Mtime: 2_500})
	if !s.CreatedAt().Equal(time.Unix(1, 5e8)) || !s.ChangedAt().Equal(time.Unix(2, 5e8)) {
		t.Errorf("created at %v, changed at %v", s.CreatedAt(), s.ChangedAt())
	}
}

// A Watch has one of three modes.
func TestWatchModes(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, _ *fakezk.Server, c *Client) {
		for mode, ok := range map[WatchMode]bool{Node - 1: false, Node: true, Tree: true, TreeWithoutState: true, TreeWithoutState + 1: false} {
			w, err := c.NewWatcher("/a", mode)
			if (err == nil) != ok || (w != nil) != ok || err != nil && !strings.Contains(err.Error(), "watch /a: mode") {
				t.Errorf("mode %d: %v", mode, err)
			}
			pairs := 0
			for _, err := range c.Watch(t.Context(), "/a", mode) {
				if pairs++; (err == nil) != ok {
					t.Errorf("a loop with mode %d: %v", mode, err)
				}
				if ok {
					break
				}
			}
			if pairs != 1 {
				t.Errorf("a loop with mode %d gets %d pairs", mode, pairs)
			}
			if w != nil {
				w.Close()
				if zxid, complete := w.AsOf(); complete {
					t.Errorf("a Watch that is closed is complete as of %d", zxid)
				}
			}
		}
	})
}

// A Watch that has ended with the session has all events of before, and is not complete.
func TestAsOfEndedWatch(t *testing.T) {
	for _, mode := range []WatchMode{Node, Tree, TreeWithoutState} {
		bubble(t, Config{}, func(t *testing.T, s *fakezk.Server, c *Client) {
			s.CreateNode("/a")
			w, err := c.NewWatcher("/a", mode)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if e, err := w.Next(t.Context()); err != nil || e.Type != Gap {
				t.Errorf("%+v, %v", e, err)
			}
			if zxid, complete := w.AsOf(); zxid != 1 || !complete {
				t.Errorf("as of %d, complete %t; want 1, true", zxid, complete)
			}
			s.ExpireSession()
			time.Sleep(time.Minute)
			synctest.Wait()
			if zxid, complete := w.AsOf(); zxid != 1 || complete {
				t.Errorf("mode %d, after the session: as of %d, complete %t; want 1, false", mode, zxid, complete)
			}
			w.Close()
		})
	}
}

// Keep begins with a new session only if the one that it should resume has expired.
func TestKeepResumesNothingGiven(t *testing.T) {
	err := Keep(t.Context(), "fake:1", Config{
		Resume:   &Handover{},
		DialConn: func(context.Context, string, string) (net.Conn, error) { t.Error("dialed"); return nil, net.ErrClosed },
	}, func(context.Context, *Client) error { t.Error("there is a session"); return nil })
	wantError(t, err, ErrHandoverGiven)
}
