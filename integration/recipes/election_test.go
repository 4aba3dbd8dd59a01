package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/election"
	"rollcall/rollcalltest"
)

const electionFolder = "/app/leader"

// candidate returns the election of a client, whose data are name.
func (s *scene) candidate(c *client.Client, name string) *election.Election {
	return election.New(c, electionFolder, election.Config{Data: []byte(name)})
}

// One leads at a time, with growing tokens, whatever request of a candidate the connection breaks at.
func TestElectionOneLeads(t *testing.T) {
	atEachRequest(t, func(s *scene, c *client.Client) {
		var leading, led atomic.Int32
		var last atomic.Int64
		var all sync.WaitGroup
		for i, candidate := range []*client.Client{c, s.client(), s.client()} {
			e := s.candidate(candidate, fmt.Sprint(i))
			all.Go(func() {
				for range 2 {
					s.check(e.Run(s.ctx, func(_ context.Context, l *election.Leadership) error {
						if n := leading.Add(1); n != 1 {
							s.t.Errorf("%d lead", n)
						}
						if before := last.Swap(int64(l.Token())); before >= int64(l.Token()) {
							s.t.Errorf("token %d after %d", l.Token(), before)
						}
						_, err := l.Guard(s.ctx, client.CheckOp("/", client.AnyVersion))
						notSent := candidate == c && s.policy == client.Fail && errors.Is(err, client.ErrSuspended)
						if err != nil && !client.MayHaveHappened(err) && !notSent {
							s.t.Errorf("Guard of a leader: %v", err)
						}
						time.Sleep(10 * time.Millisecond) // in the bubble
						led.Add(1)
						leading.Add(-1)
						return nil
					}))
				}
			})
		}
		all.Wait()
		s.awaitSettled()
		if names := s.children(electionFolder); led.Load() != 6 || len(names) != 0 {
			s.t.Errorf("%d terms and %q are left, want 6 and none", led.Load(), names)
		}
	})
}

// The context of Run's function ends with the leadership, Run reports it, and a function that hangs is stopped hard
// before another client can lead.
func TestElectionRunLosesLeadership(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprintf("hangs %t", hangs), func(t *testing.T) {
			inScene(t, func(s *scene) {
				c, other := s.client(), s.client()
				release := make(chan struct{})
				hung := make(chan time.Time, 1)
				e := election.New(c, electionFolder, election.Config{OnHang: func() {
					hung <- time.Now()
					close(release)
				}})
				var led time.Time
				campaignOther := func() {
					_, err := s.candidate(other, "other").Campaign(s.ctx)
					s.check(err)
					led = time.Now()
				}
				reason := errors.New("stopped")
				err := e.Run(s.ctx, func(ctx context.Context, l *election.Leadership) error {
					go campaignOther()
					s.awaitSettled()
					s.srv.OnRequest(dropAllOf(c))
					s.srv.DropConnections(sessionOf(c))
					<-ctx.Done()
					if l.Held() || !errors.Is(context.Cause(ctx), client.ErrNotHeld) {
						s.t.Errorf("the context ended because of %v, and Held = %t", context.Cause(ctx), l.Held())
					}
					if hangs {
						<-release
					}
					return reason
				})
				s.want(err, client.ErrNotHeld)
				s.want(err, reason)
				time.Sleep(2 * sessionTimeout)
				synctest.Wait()
				select {
				case at := <-hung:
					if !hangs || !at.Before(led) {
						s.t.Errorf("OnHang was called at %v; the other led at %v", at, led)
					}
				default:
					if hangs {
						s.t.Error("OnHang was not called")
					}
				}
			})
		})
	}
}

// dropAllOf keeps a client away.
func dropAllOf(c *client.Client) func(rollcalltest.Request) rollcalltest.Verdict {
	return func(r rollcalltest.Request) rollcalltest.Verdict {
		return rollcalltest.Verdict{LoseRequest: r.Session == sessionOf(c)}
	}
}

// A function that resigns, or whose node an operator deletes.
func TestElectionRunEnds(t *testing.T) {
	inScene(t, func(s *scene) {
		e := s.candidate(s.client(), "a")
		s.check(e.Run(s.ctx, func(ctx context.Context, l *election.Leadership) error { return l.Resign(ctx) }))
		s.check(e.Run(s.ctx, func(ctx context.Context, l *election.Leadership) error {
			g := s.campaign("b")
			if err := l.HandOver(ctx, []byte("b")); err != nil { // with the context that ends with the leadership
				return err
			}
			<-g.leads
			return (<-g.terms["b"]).Resign(s.ctx)
		}))
		operator := s.client()
		s.want(e.Run(s.ctx, func(ctx context.Context, l *election.Leadership) error {
			s.check(operator.Delete(s.ctx, l.Path(), client.AnyVersion))
			<-ctx.Done()
			return nil
		}), client.ErrNotHeld)
		func() {
			defer func() { _ = recover() }()
			_ = election.Run(s.ctx, s.clients[0], electionFolder, func(context.Context, *election.Leadership) error {
				panic("lead")
			})
		}()
		synctest.Wait()
		if names := s.children(electionFolder); len(names) != 0 {
			s.t.Errorf("%q are left", names)
		}
	})
}

// campaign has candidates. leads gets the name of each that leads, and terms has its leadership.
type campaign struct {
	leads chan string
	terms map[string]chan *election.Leadership
}

// campaign starts candidates, one after the other.
func (s *scene) campaign(names ...string) *campaign {
	g := &campaign{leads: make(chan string, len(names)), terms: map[string]chan *election.Leadership{}}
	for _, name := range names {
		e, terms := s.candidate(s.client(), name), make(chan *election.Leadership, 1)
		g.terms[name] = terms
		go func() {
			if l, err := e.Campaign(s.ctx); err == nil { // else the scene has ended
				terms <- l
				g.leads <- name
			}
		}()
		synctest.Wait()
	}
	return g
}

// A hand-over makes the named candidate the leader, whatever request the connection breaks at. No other candidate
// leads in between, and those that are passed over stay candidates.
func TestElectionHandOver(t *testing.T) {
	atEachRequest(t, func(s *scene, c *client.Client) {
		ctx, cancel := context.WithCancel(s.ctx)
		defer func() {
			cancel()
			synctest.Wait()
		}()
		s.ctx = ctx
		l, err := s.candidate(c, "a").Campaign(ctx)
		s.check(err)
		g := s.campaign("b", "c", "d", "e")
		s.want(l.HandOver(ctx, []byte("nobody")), election.ErrNoCandidate)
		s.want(l.HandOver(ctx, []byte("a")), election.ErrNoCandidate) // it leads already
		if !l.Held() {
			s.t.Error("the leadership ended although there is no such candidate")
		}
		s.check(l.HandOver(ctx, []byte("d")))
		if l.Held() {
			s.t.Error("the leadership is held after the hand-over")
		}
		if name := <-g.leads; name != "d" {
			s.t.Fatalf("%s leads, want d", name)
		}
		next := <-g.terms["d"]
		if next.Token() <= l.Token() {
			s.t.Errorf("token %d after %d", next.Token(), l.Token())
		}
		s.awaitSettled()
		candidates, err := s.candidate(s.client(), "").Candidates(ctx)
		s.check(err)
		var order []string
		for _, candidate := range candidates {
			order = append(order, string(candidate.Data))
		}
		slices.Sort(order[min(2, len(order)):]) // those that are passed over enter again in any order
		if !slices.Equal(order, []string{"d", "e", "b", "c"}) {
			s.t.Errorf("candidates %q, want d, e, and b and c", order)
		}
		s.check(next.Resign(ctx))
		if name := <-g.leads; name != "e" {
			s.t.Errorf("%s leads after d, want e", name)
		}
		s.want(l.HandOver(ctx, []byte("b")), client.ErrNotHeld)
	})
}

// A leader that had lost the reply to its create hands over, and loses the request for that. It must not give its
// place up otherwise meanwhile.
func TestElectionHandOverAfterLostReply(t *testing.T) {
	inScene(t, func(s *scene) {
		ctx, cancel := context.WithCancel(s.ctx)
		defer func() {
			cancel()
			synctest.Wait()
		}()
		s.ctx = ctx
		c := s.client()
		s.check(c.CreateAll(ctx, electionFolder, client.Persistent))
		s.breakAt(1, lostReply, func(r rollcalltest.Request) bool { return r.Op == "create2" })
		l, err := s.candidate(c, "a").Campaign(ctx)
		s.check(err)
		g := s.campaign("b", "c")
		s.breakAt(1, lostRequest, func(r rollcalltest.Request) bool { return r.Op == "multi" })
		s.check(l.HandOver(ctx, []byte("c")))
		if name := <-g.leads; name != "c" {
			s.t.Errorf("%s leads, want c", name)
		}
	})
}

// If an operator deletes the leader's node during a hand-over, the next candidate leads, and the hand-over says so.
func TestElectionHandOverNodeDeleted(t *testing.T) {
	for _, isLost := range []bool{false, true} {
		inScene(t, func(s *scene) {
			ctx, cancel := context.WithCancel(s.ctx)
			defer func() {
				cancel()
				synctest.Wait()
			}()
			s.ctx = ctx
			c := s.client()
			l, err := s.candidate(c, "a").Campaign(ctx)
			s.check(err)
			g := s.campaign("b", "c")
			operator, release := s.client(), make(chan struct{})
			if isLost {
				isMulti := func(r rollcalltest.Request) bool { return r.Op == "multi" }
				s.srv.OnRequest(breakAndHold(c, lostRequest, release, isMulti))
			} else { // the last list of candidates is old when it arrives
				isList := func(r rollcalltest.Request) bool { return r.Session == sessionOf(c) && r.Op == "getChildren2" }
				s.breakAt(3, fault{"late", rollcalltest.Verdict{Delay: 2 * time.Second}}, isList)
			}
			time.AfterFunc(time.Second, func() {
				s.check(operator.Delete(ctx, l.Path(), client.AnyVersion))
				close(release)
			})
			s.want(l.HandOver(ctx, []byte("c")), client.ErrNotHeld)
			if name := <-g.leads; name != "b" {
				s.t.Errorf("%s leads, want b", name)
			}
		})
	}
}

// If the successor leaves at that moment, the next candidate leads.
func TestElectionHandOverToOneThatLeaves(t *testing.T) {
	inScene(t, func(s *scene) {
		ctx, cancel := context.WithCancel(s.ctx)
		defer func() {
			cancel()
			synctest.Wait()
		}()
		s.ctx = ctx
		l, err := s.candidate(s.client(), "a").Campaign(ctx)
		s.check(err)
		g := s.campaign("b", "c")
		operator := s.client()
		candidates, err := s.candidate(operator, "").Candidates(ctx)
		s.check(err)
		release := make(chan struct{})
		isMulti := func(r rollcalltest.Request) bool { return r.Op == "multi" && r.Path == candidates[2].Path }
		s.srv.OnRequest(breakAndHold(s.clients[0], lostRequest, release, isMulti))
		time.AfterFunc(time.Second, func() {
			s.check(operator.Delete(ctx, candidates[2].Path, client.AnyVersion))
			close(release)
		})
		s.want(l.HandOver(ctx, []byte("c")), election.ErrNoCandidate)
		if name := <-g.leads; name != "b" {
			s.t.Errorf("%s leads, want b", name)
		}
	})
}

// Each release wakes one of many candidates: it lists the parent once.
func TestElectionOneWakePerRelease(t *testing.T) {
	inScene(t, func(s *scene) {
		const candidates = 1000
		ctx, cancel := context.WithCancel(s.ctx)
		e := s.candidate(s.client(), "x")
		first, err := e.Campaign(ctx)
		s.check(err)
		var all sync.WaitGroup
		leads := make(chan *election.Leadership)
		for range candidates {
			all.Go(func() {
				if l, err := e.Campaign(ctx); err == nil {
					leads <- l
				}
			})
		}
		s.awaitSettled()
		var lists atomic.Int32
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Op == "getChildren2" {
				lists.Add(1)
			}
			return rollcalltest.Verdict{}
		})
		for range 20 {
			lists.Store(0)
			s.check(first.Resign(ctx))
			first = <-leads
			s.awaitSettled()
			if n := lists.Load(); n != 1 {
				s.t.Errorf("%d candidates listed the folder after a release", n)
			}
		}
		cancel()
		all.Wait()
		s.awaitSettled()
		if names := s.children(electionFolder); len(names) != 1 {
			s.t.Errorf("%d candidates are left, want the leader", len(names))
		}
	})
}

// Observers see each leader, and when there is none; other candidates do not wake them.
func TestElectionObserve(t *testing.T) {
	inScene(t, func(s *scene) {
		observer := s.client()
		ctx, cancel := context.WithCancel(s.ctx)
		seen := make(chan string)
		go func() {
			defer close(seen)
			for leader, err := range s.candidate(observer, "").Observe(ctx) {
				if ctx.Err() != nil {
					s.want(err, context.Canceled)
					return
				}
				s.check(err)
				if leader.Path != "" && leader.Token == 0 {
					s.t.Error("a leader has no token")
				}
				seen <- string(leader.Data)
			}
		}()
		next := func(want string) {
			s.t.Helper()
			synctest.Wait()
			select {
			case got := <-seen:
				if got != want {
					s.t.Fatalf("Observe returned %q, want %q", got, want)
				}
			default:
				s.t.Fatalf("Observe returned nothing, want %q", want)
			}
			synctest.Wait()
		}
		next("") // there is no folder
		a, err := s.candidate(s.client(), "a").Campaign(s.ctx)
		s.check(err)
		next("a")
		requests := 0
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Session == sessionOf(observer) && r.InSession > 0 {
				requests++
			}
			return rollcalltest.Verdict{}
		})
		b := make(chan *election.Leadership)
		go func() {
			l, err := s.candidate(s.client(), "b").Campaign(s.ctx)
			s.check(err)
			b <- l
		}()
		synctest.Wait()
		if requests != 0 {
			s.t.Errorf("a candidate woke the observer: %d requests", requests)
		}
		_, err = s.clients[1].Set(s.ctx, a.Path(), []byte("a2"), client.AnyVersion)
		s.check(err)
		next("a2")
		s.srv.DropConnections(sessionOf(observer))
		s.check(a.Resign(s.ctx))
		s.awaitSettled()
		next("b")
		s.check((<-b).Resign(s.ctx))
		next("") // there is an empty folder
		_, err = s.candidate(s.client(), "c").Campaign(s.ctx)
		s.check(err)
		next("c")
		cancel()
		if text, more := <-seen; more {
			s.t.Errorf("Observe goes on with %q", text)
		}
	})
}

// An observer sees the next leader if one leaves between the list of candidates and the read of the first.
func TestElectionObserveLeaves(t *testing.T) {
	inScene(t, func(s *scene) {
		observer := s.client()
		a, err := s.candidate(s.client(), "a").Campaign(s.ctx)
		s.check(err)
		resigned := false
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Session == sessionOf(observer) && r.Op == "getChildren2" && !resigned {
				resigned = true
				go func() { s.check(a.Resign(s.ctx)) }()
				return rollcalltest.Verdict{Delay: time.Second}
			}
			return rollcalltest.Verdict{}
		})
		for leader, err := range s.candidate(observer, "").Observe(s.ctx) {
			s.check(err)
			if leader.Path != "" {
				s.t.Errorf("%q leads, want none", leader.Data)
			}
			break
		}
	})
}

// A hand-over whose request the servers reject resigns, and returns the reason. One that cannot read the candidates does
// not.
func TestElectionHandOverRejected(t *testing.T) {
	inScene(t, func(s *scene) {
		owner, folder := s.folderWith(client.PermRead | client.PermCreate)
		c := s.client()
		l, err := election.New(c, folder, election.Config{Data: []byte("a")}).Campaign(s.ctx)
		s.check(err)
		go func() { _, _ = election.New(s.client(), folder, election.Config{Data: []byte("b")}).Campaign(s.ctx) }()
		s.awaitSettled()
		_, err = owner.SetACL(s.ctx, folder, ownersACL, client.AnyVersion)
		s.check(err)
		s.want(l.HandOver(s.ctx, []byte("b")), client.ErrNoAuth)
		if !l.Held() {
			s.t.Error("a leader that cannot read the candidates does not lead any more")
		}
		acl := append(slices.Clone(ownersACL), client.ACL{Permissions: client.PermRead, Identity: client.Anyone})
		_, err = owner.SetACL(s.ctx, folder, acl, client.AnyVersion)
		s.check(err)
		s.want(l.HandOver(s.ctx, []byte("b")), client.ErrNoAuth)
		if l.Held() {
			s.t.Error("the leader leads on")
		}
	})
}

// A hand-over to the next candidate fails if an operator deletes the leader's node just before: the leader has not handed
// over.
func TestElectionHandOverComesLate(t *testing.T) {
	inScene(t, func(s *scene) {
		c, operator := s.client(), s.client()
		l, err := s.candidate(c, "a").Campaign(s.ctx)
		s.check(err)
		done := make(chan error)
		go func() { done <- errorOf(s.candidate(s.client(), "b").Campaign(s.ctx)) }()
		s.awaitSettled()
		lists := 0
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Session != sessionOf(c) || r.Op != "getChildren2" {
				return rollcalltest.Verdict{}
			}
			if lists++; lists != 3 { // two lists come before the leadership ends
				return rollcalltest.Verdict{}
			}
			time.AfterFunc(time.Second/2, func() { s.check(operator.Delete(s.ctx, l.Path(), client.AnyVersion)) })
			return rollcalltest.Verdict{Delay: time.Second}
		})
		s.want(l.HandOver(s.ctx, []byte("b")), client.ErrNotHeld)
		s.check(<-done)
	})
}

// A candidate whose data may not be read is an error, and no hand-over.
func TestElectionUnreadableCandidate(t *testing.T) {
	inScene(t, func(s *scene) {
		e := s.candidate(s.client(), "a")
		l, err := e.Campaign(s.ctx)
		s.check(err)
		b := election.New(s.client(), electionFolder, election.Config{Data: []byte("b"), ACL: ownersACL})
		ctx, cancel := context.WithCancel(s.ctx)
		done := make(chan error)
		go func() { done <- errorOf(b.Campaign(ctx)) }()
		s.awaitSettled()
		s.want(errorOf(e.Candidates(s.ctx)), client.ErrNoAuth)
		s.want(l.HandOver(s.ctx, []byte("b")), client.ErrNoAuth)
		if !l.Held() {
			s.t.Error("the leader does not lead any more")
		}
		cancel()
		s.want(<-done, context.Canceled)
	})
}

// Observe ends with an error when the session does, and when there are foreign nodes.
func TestElectionObserveFails(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		s.check(c.CreateAll(s.ctx, electionFolder, client.Persistent))
		time.AfterFunc(time.Second, func() { s.check(s.srv.ExpireSession(sessionOf(c))) })
		var last error
		for _, err := range s.candidate(c, "").Observe(s.ctx) {
			last = err
		}
		s.want(last, client.ErrExpired)
		c = s.client()
		_, _, err := c.Create(s.ctx, electionFolder+"/foreign", nil, client.Ephemeral)
		s.check(err)
		for _, err := range s.candidate(c, "").Observe(s.ctx) {
			s.want(err, election.ErrForeignContenders)
		}
		_, err = s.candidate(c, "").Campaign(s.ctx)
		s.want(err, election.ErrForeignContenders)
		synctest.Wait()
		if names := s.children(electionFolder); len(names) != 1 {
			s.t.Errorf("%q are left, want the foreign node", names)
		}
	})
}

// The names of the candidates match the other libraries.
func TestElectionLayouts(t *testing.T) {
	inScene(t, func(s *scene) {
		for layout, infix := range map[election.Layout]string{
			election.Latch: "-latch-00", election.Selector: "-lock-00", election.Kazoo: "__lock__00",
		} {
			folder := fmt.Sprintf("/election%d", layout)
			l, err := election.New(s.client(), folder, election.Config{Layout: layout}).Campaign(s.ctx)
			s.check(err)
			if !strings.Contains(l.Path(), infix) {
				s.t.Errorf("the candidate is %s, want %q in it", l.Path(), infix)
			}
		}
	})
}

// All candidates are listed once, in order, also if there are more than one request reads.
func TestElectionManyCandidates(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		s.check(c.CreateAll(s.ctx, electionFolder, client.Persistent))
		var want, got []string
		for i := range 250 {
			path := fmt.Sprintf("%s/_c_%08d-0000-4000-8000-000000000000-latch-", electionFolder, i)
			path, _, err := c.Create(s.ctx, path, fmt.Append(nil, i), client.EphemeralSequential)
			s.check(err)
			want = append(want, path)
		}
		candidates, err := s.candidate(c, "").Candidates(s.ctx)
		s.check(err)
		for i, candidate := range candidates {
			got = append(got, candidate.Path)
			if string(candidate.Data) != fmt.Sprint(i) {
				s.t.Errorf("candidate %d has the data %q", i, candidate.Data)
			}
		}
		if !slices.Equal(got, want) {
			s.t.Errorf("the candidates are %q, want %q", got, want)
		}
	})
}

// handOverWhile hands over from a to one of the candidates b and c. When it reads the list of candidates for the n-th
// time, an operator deletes the victim.
func handOverWhile(t *testing.T, n int, victim, to string,
	check func(s *scene, g *campaign, l *election.Leadership, err error),
) {
	inScene(t, func(s *scene) {
		ctx, cancel := context.WithCancel(s.ctx)
		defer func() {
			cancel()
			synctest.Wait()
		}()
		s.ctx = ctx
		c := s.client()
		l, err := s.candidate(c, "a").Campaign(ctx)
		s.check(err)
		g := s.campaign("b", "c")
		operator := s.client()
		candidates, err := s.candidate(operator, "").Candidates(ctx)
		s.check(err)
		i := slices.IndexFunc(candidates, func(x election.Candidate) bool { return string(x.Data) == victim })
		s.breakAt(n, fault{"late", rollcalltest.Verdict{Delay: 2 * time.Second}}, func(r rollcalltest.Request) bool {
			return r.Session == sessionOf(c) && r.Op == "getChildren2"
		})
		time.AfterFunc(time.Second, func() { s.check(operator.Delete(ctx, candidates[i].Path, client.AnyVersion)) })
		check(s, g, l, l.HandOver(ctx, []byte(to)))
	})
}

// A candidate that would be passed over leaves just before the hand-over, which is tried again.
func TestElectionHandOverPastOneThatLeaves(t *testing.T) {
	handOverWhile(t, 3, "b", "c", func(s *scene, g *campaign, l *election.Leadership, err error) {
		s.check(err)
		if name := <-g.leads; name != "c" || l.Held() {
			s.t.Errorf("%s leads, want c", name)
		}
	})
}

// If an operator deletes a leader's node while the leader searches for its successor, the leader does not hand over, and
// its error reports that.
func TestElectionHandOverTooLate(t *testing.T) {
	for n := range 3 {
		handOverWhile(t, n+1, "a", "b", func(s *scene, _ *campaign, l *election.Leadership, err error) {
			s.want(err, client.ErrNotHeld)
			if l.Held() {
				s.t.Error("the leadership is held")
			}
		})
	}
}
