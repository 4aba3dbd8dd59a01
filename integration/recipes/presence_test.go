package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/group"
	"rollcall/client/lock"
	"rollcall/rollcalltest"
)

// hasData reports whether there is a node with these data. It reads what has been applied anywhere.
func (g *groupServers) hasData(c *client.Client, path, want string) bool {
	g.Helper()
	g.must(c.Sync(g.ctx))
	data, _, err := c.Get(g.ctx, path)
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		g.Fatal(err)
	}
	return err == nil && string(data) == want
}

// children returns the number of children of a parent.
func (g *groupServers) children(c *client.Client, folder string) int {
	g.Helper()
	g.must(c.Sync(g.ctx))
	names, _, err := c.Children(g.ctx, folder)
	if errors.Is(err, client.ErrNoNode) {
		return 0
	}
	g.must(err)
	return len(names)
}

// A Presence comes back with its last data after an operator has deleted it and its parent, and goes with Leave.
func TestPresenceComesBack(t *testing.T) {
	withServers(t, 3, func(g *groupServers) {
		c, operator := g.client(), g.client()
		p, err := group.Announce(g.ctx, c, "/a/b/node", group.PresenceConfig{Data: []byte("one")})
		g.must(err)
		if p.Path() != "/a/b/node" || !g.hasData(operator, "/a/b/node", "one") {
			t.Error("no node")
		}
		g.must(p.Set(g.ctx, []byte("two")))
		if !g.hasData(operator, "/a/b/node", "two") {
			t.Error("the data were not set")
		}
		for range 3 {
			g.must(operator.Delete(g.ctx, "/a/b/node", client.AnyVersion))
			err := operator.Delete(g.ctx, "/a/b", client.AnyVersion)
			if err != nil && !errors.Is(err, client.ErrNotEmpty) { // the node may be back already
				t.Fatal(err)
			}
			g.await("the node is back", func() bool { return g.hasData(operator, "/a/b/node", "two") })
		}
		g.must(p.Leave(g.ctx))
		if g.children(operator, "/a/b") != 0 {
			t.Error("a node is left")
		}
		g.wantError(p.Err(), client.ErrClosed)
	})
}

// A Presence waits while another session has the node, takes it when that is gone, and never touches the other's.
func TestPresenceOccupied(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		first, second := g.client(), g.client()
		_, err := group.Announce(g.ctx, first, "/node", group.PresenceConfig{Data: []byte("first")})
		g.must(err)
		ctx, cancel := context.WithTimeout(g.ctx, time.Minute)
		defer cancel()
		_, err = group.Announce(ctx, second, "/node", group.PresenceConfig{})
		g.wantError(err, context.DeadlineExceeded)
		synctest.Wait()
		if !g.hasData(second, "/node", "first") {
			t.Error("the first one's node is gone")
		}
		done := make(chan error, 1)
		go func() {
			_, err := group.Announce(g.ctx, second, "/node", group.PresenceConfig{Data: []byte("second")})
			done <- err
		}()
		synctest.Wait()
		first.Abandon()
		g.must(<-done)
		if !g.hasData(second, "/node", "second") {
			t.Error("no node")
		}
		_, _, err = second.Create(g.ctx, "/fixed", nil, client.Persistent)
		g.must(err)
		_, err = group.Announce(g.ctx, second, "/fixed", group.PresenceConfig{})
		g.wantError(err, group.ErrNotEphemeral)
	})
}

// A Presence whose node another session has taken has no path, and does not set that session's node.
func TestPresenceTaken(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		c, thief := g.client(), g.client()
		p, err := group.Announce(g.ctx, c, "/node", group.PresenceConfig{Data: []byte("mine")})
		g.must(err)
		_, err = thief.Multi(g.ctx, client.DeleteOp("/node", client.AnyVersion),
			client.CreateOp("/node", []byte("other"), client.Ephemeral))
		g.must(err)
		synctest.Wait()
		if path := p.Path(); path != "" {
			t.Errorf("the path is %s", path)
		}
		g.must(p.Set(g.ctx, []byte("new")))
		if !g.hasData(c, "/node", "other") {
			t.Error("the node of another session was set")
		}
		g.must(thief.Delete(g.ctx, "/node", client.AnyVersion))
		synctest.Wait()
		if path := p.Path(); path != "/node" || !g.hasData(c, "/node", "new") {
			t.Errorf("the path is %q", path)
		}
	})
}

// A Presence does not set the node of another session that has taken its place and that it has not noticed yet.
func TestPresenceTakenUnnoticed(t *testing.T) {
	inScene(t, func(s *scene) {
		c, thief := s.client(), s.client()
		p, err := group.Announce(s.ctx, c, "/node", group.PresenceConfig{Data: []byte("mine")})
		s.check(err)
		s.awaitSettled()
		late := s.breakAt(1, fault{"late", rollcalltest.Verdict{Delay: time.Second}}, func(r rollcalltest.Request) bool {
			return r.Session == sessionOf(c) && r.Op == "exists"
		})
		_, err = thief.Multi(s.ctx, client.DeleteOp("/node", client.AnyVersion), client.CreateOp("/node", []byte("other"), client.Ephemeral))
		s.check(err)
		synctest.Wait()
		if path := p.Path(); path != "/node" || !late() {
			s.t.Fatalf("the path is %q, late: %t: this shows nothing", path, late())
		}
		s.check(p.Set(s.ctx, []byte("new")))
		data, _, err := thief.Get(s.ctx, "/node")
		s.check(err)
		if string(data) != "other" {
			s.t.Errorf("the node of another session has the data %q", data)
		}
	})
}

// A node of the own session that the Client may not read is an error.
func TestPresenceUnreadable(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		c := g.client()
		_, _, err := c.Create(g.ctx, "/node", nil, client.Ephemeral.WithACL(ownersACL...))
		g.must(err)
		_, err = group.Announce(g.ctx, c, "/node", group.PresenceConfig{})
		g.wantError(err, client.ErrNoAuth)
	})
}

// A Presence ends with its session. Under Keep it comes back with the next one.
func TestPresenceKept(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		operator := g.client()
		runs := 0
		err := client.Keep(g.ctx, g.ConnectString(), g.config(), func(ctx context.Context, c *client.Client) error {
			p, err := group.Announce(ctx, c, "/node", group.PresenceConfig{Data: []byte{byte('0' + runs)}})
			g.must(err)
			if !g.hasData(operator, "/node", fmt.Sprint(runs)) {
				t.Errorf("no node in run %d", runs)
			}
			if runs++; runs == 3 {
				return p.Leave(ctx)
			}
			g.expire(c)
			<-p.Done()
			g.wantError(p.Err(), client.ErrExpired)
			return nil
		})
		g.must(err)
		if runs != 3 {
			t.Errorf("%d runs", runs)
		}
	})
}

// groupFault is a fault of the n-th request of a session that a hook sees.
type groupFault struct {
	number  int
	verdict rollcalltest.Verdict
}

func (f groupFault) String() string {
	if f.verdict.LoseReply {
		return fmt.Sprintf("reply %d", f.number)
	}
	return fmt.Sprintf("request %d", f.number)
}

// eachGroupFault runs f in a bubble of its own for a fault at each of the first requests of a session.
func eachGroupFault(t *testing.T, requests int, f func(g *groupServers, c *client.Client)) {
	for number := 1; number <= requests; number++ {
		for _, verdict := range []rollcalltest.Verdict{{LoseReply: true}, {LoseRequest: true}} {
			fault := groupFault{number, verdict}
			t.Run(fault.String(), func(t *testing.T) {
				withServers(t, 1, func(g *groupServers) {
					c := g.client()
					id, _ := c.Session()
					hit := false
					g.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
						if client.SessionID(r.Session) != id || r.InSession != fault.number {
							return rollcalltest.Verdict{}
						}
						hit = true
						return fault.verdict
					})
					f(g, c)
					if !hit {
						g.Error("there were fewer requests: let the test use fewer")
					}
				})
			})
		}
	}
}

// Whatever request or reply is lost, there is one node, and none after Leave.
func TestPresenceFaults(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		t.Run(fmt.Sprintf("sequential=%v", sequential), func(t *testing.T) {
			eachGroupFault(t, 8, func(g *groupServers, c *client.Client) {
				p, err := group.Announce(g.ctx, c, "/f/node", group.PresenceConfig{Sequential: sequential})
				g.must(err)
				operator := g.client()
				if n := g.children(operator, "/f"); n != 1 {
					g.Errorf("%d nodes", n)
				}
				g.must(operator.Delete(g.ctx, p.Path(), client.AnyVersion))
				g.await("the node is back", func() bool { return g.children(operator, "/f") == 1 })
				time.Sleep(time.Second)
				if n := g.children(operator, "/f"); n != 1 {
					g.Errorf("%d nodes", n)
				}
				g.must(p.Leave(g.ctx))
				if n := g.children(operator, "/f"); n != 0 {
					g.Errorf("%d nodes are left", n)
				}
			})
		})
	}
}

// A caller that gives up leaves no node, although its create is carried out.
func TestPresenceGivenUp(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		t.Run(fmt.Sprintf("sequential=%v", sequential), func(t *testing.T) {
			withServers(t, 1, func(g *groupServers) {
				c := g.client()
				g.must(c.CreateAll(g.ctx, "/f", client.Persistent))
				ctx, cancel := context.WithCancel(g.ctx)
				g.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
					if r.Op != "create2" {
						return rollcalltest.Verdict{}
					}
					cancel()
					return rollcalltest.Verdict{Delay: time.Second}
				})
				_, err := group.Announce(ctx, c, "/f/node", group.PresenceConfig{Sequential: sequential})
				g.wantError(err, context.Canceled)
				time.Sleep(2 * time.Second)
				if n := g.children(c, "/f"); n != 0 {
					g.Errorf("%d nodes are left", n)
				}
			})
		})
	}
}

// A program that resumes a session that was handed over takes its node as it is.
func TestPresenceHandedOver(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		t.Run(fmt.Sprintf("sequential=%v", sequential), func(t *testing.T) {
			withServers(t, 1, func(g *groupServers) {
				cfg := group.PresenceConfig{Sequential: sequential, Data: []byte("x")}
				first := g.client()
				p, err := group.Announce(g.ctx, first, "/f/node", cfg)
				g.must(err)
				h, err := first.HandOver(g.ctx)
				g.must(err)
				<-p.Done()
				resumed := g.config()
				resumed.Resume = &h
				second := g.clientWith(resumed)
				q, err := group.Announce(g.ctx, second, "/f/node", cfg)
				g.must(err)
				if q.Path() != p.Path() || g.children(second, "/f") != 1 {
					t.Errorf("the node is %s, and was %s", q.Path(), p.Path())
				}
				if sequential {
					return
				}
				_, err = group.Announce(g.ctx, second, "/f/node", group.PresenceConfig{Data: []byte("y")})
				g.must(err)
				if !g.hasData(second, "/f/node", "y") {
					t.Error("the node has the old data")
				}
			})
		})
	}
}

// Set wins over another client that sets the node's data at the same time.
func TestPresenceSetBesideOther(t *testing.T) {
	inScene(t, func(s *scene) {
		c, operator := s.client(), s.client()
		p, err := group.Announce(s.ctx, c, "/me", group.PresenceConfig{Data: []byte("first")})
		s.check(err)
		s.breakAt(1, fault{"late", rollcalltest.Verdict{Delay: 2 * time.Second}}, func(r rollcalltest.Request) bool {
			return r.Session == sessionOf(c) && r.Op == "getData"
		})
		time.AfterFunc(time.Second, func() { s.check(errorOf(operator.Set(s.ctx, "/me", []byte("other"), client.AnyVersion))) })
		s.check(p.Set(s.ctx, []byte("second")))
		data, _, err := operator.Get(s.ctx, "/me")
		s.check(err)
		if string(data) != "second" {
			s.t.Errorf("the data are %q, want those of Set", data)
		}
		s.check(p.Leave(s.ctx))
	})
}

// A Presence that comes back leaves no watch of the time when its node was gone, and none after Leave.
func TestPresenceLeavesNoWatch(t *testing.T) {
	inScene(t, func(s *scene) {
		c, operator := s.client(), s.client()
		before := s.watchCount()
		p, err := group.Announce(s.ctx, c, "/app/me", group.PresenceConfig{Sequential: true})
		s.check(err)
		s.awaitSettled()
		with := s.watchCount()
		for range 3 {
			s.check(operator.Delete(s.ctx, p.Path(), client.AnyVersion))
			s.awaitSettled()
			if now := s.watchCount(); now != with || p.Path() == "" {
				s.t.Errorf("%s watches of %q, want %s", now, p.Path(), with)
			}
		}
		s.check(p.Leave(s.ctx))
		s.awaitSettled()
		if now := s.watchCount(); now != before {
			s.t.Errorf("%s watches are left, want %s", now, before)
		}
	})
}

// A Presence takes no other node of its session for its own, although the name of that begins alike, its data are the
// same, and it is deeper: a held lock of the same Client survives Leave.
func TestPresenceLeavesOthers(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		held, err := lock.NewMutex(c, "/app/locks/x", lock.Config{}).Lock(s.ctx)
		s.check(err)
		sibling, _, err := c.Create(s.ctx, "/app/l", nil, client.EphemeralSequential)
		s.check(err)
		p, err := group.Announce(s.ctx, c, "/app/l", group.PresenceConfig{Sequential: true})
		s.check(err)
		second, err := group.Announce(s.ctx, c, "/app/l", group.PresenceConfig{Sequential: true})
		s.check(err)
		if path := p.Path(); path == sibling || path == held.Path() || path == second.Path() {
			s.t.Errorf("it has taken %s", path)
		}
		s.check(p.Leave(s.ctx))
		s.awaitSettled()
		for _, path := range []string{held.Path(), sibling, second.Path()} {
			if _, exists, err := c.Exists(s.ctx, path); !exists {
				s.t.Errorf("Leave has deleted %s: %v", path, err)
			}
		}
		if !held.Held() {
			s.t.Error("the lock is not held any more")
		}
	})
}

// A create whose reply is lost leaves one node, whatever the Presence does next.
func TestPresenceFindsLostCreate(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		_, _, err := c.Create(s.ctx, "/app", nil, client.Persistent)
		s.check(err)
		s.breakAt(1, lostReply, func(r rollcalltest.Request) bool {
			return r.Session == sessionOf(c) && strings.HasPrefix(r.Path, "/app/me-")
		})
		p, err := group.Announce(s.ctx, c, "/app/me-", group.PresenceConfig{Sequential: true})
		s.check(err)
		if names := s.children("/app"); len(names) != 1 || "/app/"+names[0] != p.Path() {
			s.t.Errorf("%q are there, want %s", names, p.Path())
		}
		s.check(p.Leave(s.ctx))
		if names := s.children("/app"); len(names) != 0 {
			s.t.Errorf("%q are left", names)
		}
	})
}

// The node of a Presence has the ACL of the Config, also when it comes back.
func TestPresenceACL(t *testing.T) {
	inScene(t, func(s *scene) {
		c, operator := s.client(), s.client()
		acl := []client.ACL{{Permissions: client.PermRead, Identity: client.Anyone}}
		p, err := group.Announce(s.ctx, c, "/app/me", group.PresenceConfig{ACL: acl})
		s.check(err)
		for range 2 {
			got, _, err := operator.GetACL(s.ctx, "/app/me")
			if err != nil || !slices.Equal(got, acl) || p.Err() != nil {
				s.t.Errorf("the ACL is %v, %v, want %v; the Presence: %v", got, err, acl, p.Err())
			}
			s.check(operator.Delete(s.ctx, "/app/me", client.AnyVersion))
			s.awaitSettled()
		}
		s.check(p.Leave(s.ctx))
	})
}

// A sequential Presence does not take another node of its session with the same data, but another name.
func TestPresenceBesideOtherName(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		s.check(c.CreateAll(s.ctx, "/app", client.Persistent))
		other, _, err := c.Create(s.ctx, "/app/other-", []byte("x"), client.EphemeralSequential)
		s.check(err)
		p, err := group.Announce(s.ctx, c, "/app/me-", group.PresenceConfig{Sequential: true, Data: []byte("x")})
		s.check(err)
		s.check(p.Leave(s.ctx))
		if names := s.children("/app"); len(names) != 1 || "/app/"+names[0] != other {
			s.t.Errorf("%q are left, want %s", names, other)
		}
	})
}

// The end of the session deletes the node: a Leave that it overtakes has succeeded.
func TestPresenceLeavesWhileSessionEnds(t *testing.T) {
	for _, at := range []string{"getData", "delete"} {
		inScene(t, func(s *scene) {
			ends := ""
			c := s.clientEndingAt(&ends)
			p, err := group.Announce(s.ctx, c, "/node", group.PresenceConfig{})
			s.check(err)
			synctest.Wait()
			ends = at
			if err := p.Leave(s.ctx); err != nil || c.State().State != client.Expired {
				t.Errorf("the session ended at %s, now it is %v: %v", at, c.State().State, err)
			}
		})
	}
}

// Leave succeeds if another client deletes the node after it was read.
func TestPresenceLeavesDeletedNode(t *testing.T) {
	inScene(t, func(s *scene) {
		other := s.client()
		leaving := false
		c := s.clientWith(client.Config{Observer: atCall(func(op, path string) {
			if leaving && op == "delete" {
				leaving = false
				s.check(other.Delete(s.ctx, path, client.AnyVersion))
			}
		})})
		p, err := group.Announce(s.ctx, c, "/node", group.PresenceConfig{})
		s.check(err)
		synctest.Wait()
		leaving = true
		s.check(p.Leave(s.ctx))
		if leaving {
			s.t.Error("nothing was deleted")
		}
	})
}
