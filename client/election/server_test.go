package election

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/internal/recipetest"
	"rollcall/zk/jute"
)

// candidateName is the name of a candidate's node.
const candidateName = "_c_0f3a5a52-1c5f-4a39-8a8b-1a52b1d7b0aa-latch-0000000000"

// campaign starts the campaign of a client, whose data are its name.
func campaign(b *recipetest.Bed, c *client.Client, name string) <-chan *Leadership {
	leads := make(chan *Leadership, 1)
	go func() {
		l, err := New(c, "/e", Config{Data: []byte(name)}).Campaign(b.Ctx)
		b.Report(err)
		leads <- l
	}()
	synctest.Wait() // candidates come in the order of the calls
	return leads
}

// The candidates lead one after the other, in the order in which they came.
func TestCampaign(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		first, second, third := campaign(b, b.Clients[0], "a"), campaign(b, b.Clients[1], "b"), campaign(b, b.Clients[2], "c")
		if len(first) != 1 || len(second) != 0 || len(third) != 0 {
			b.Fatal("not the first candidate alone leads")
		}
		b.Must((<-first).Resign(b.Ctx))
		synctest.Wait()
		if len(second) != 1 || len(third) != 0 {
			b.Fatal("not the second candidate alone leads")
		}
		l := <-second
		b.Expire(b.Clients[1])
		next := <-third
		if l.Held() || !next.Held() || next.Token() <= l.Token() {
			b.Error("the leadership has not ended with its session")
		}
	})
}

// If the node of a candidate is deleted, the candidate enters again as the last one.
func TestCandidateIsRemoved(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		first, second, third := campaign(b, b.Clients[0], "a"), campaign(b, b.Clients[1], "b"), campaign(b, b.Clients[2], "c")
		candidates, err := New(b.Clients[0], "/e", Config{}).Candidates(b.Ctx)
		b.Must(err)
		b.DeleteNode(candidates[1].Path)
		b.Must((<-first).Resign(b.Ctx))
		synctest.Wait()
		if len(second) != 0 || len(third) != 1 {
			b.Fatal("not the third candidate leads")
		}
		b.Must((<-third).Resign(b.Ctx))
		<-second
	})
}

// A leader hands over to the candidate that it names. The others enter again, also if the reply is lost.
func TestHandOver(t *testing.T) {
	for _, lost := range []bool{false, true} {
		recipetest.Run(t, 3, func(b *recipetest.Bed) {
			leader := <-campaign(b, b.Clients[0], "a")
			second, third := campaign(b, b.Clients[1], "b"), campaign(b, b.Clients[2], "c")
			if err := leader.HandOver(b.Ctx, []byte("none")); !errors.Is(err, ErrNoCandidate) || !leader.Held() {
				b.Errorf("hand-over to nobody: %v, held %v", err, leader.Held())
			}
			if lost {
				b.LoseReply(jute.OpMulti)
			}
			b.Must(leader.HandOver(b.Ctx, []byte("c")))
			successor := <-third
			if leader.Held() || !successor.Held() || len(second) > 0 {
				b.Error("not the successor alone leads")
			}
			b.Must(successor.Resign(b.Ctx))
			<-second
		})
	}
}

// The leadership has ended before the request that hands it over. If the successor leaves at that moment, the next
// candidate leads.
func TestHandOverAsSuccessorLeaves(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		leader := <-campaign(b, b.Clients[0], "a")
		second := campaign(b, b.Clients[1], "b")
		campaign(b, b.Clients[2], "c")
		candidates, err := leader.election.Candidates(b.Ctx)
		b.Must(err)
		held := true
		b.Before(b.Clients[0], jute.OpMulti, 1, func(string) {
			held = leader.Held()
			b.DeleteNode(candidates[2].Path)
		})
		if err := leader.HandOver(b.Ctx, []byte("c")); !errors.Is(err, ErrNoCandidate) || held || leader.Held() {
			b.Errorf("%v, held with the request: %v", err, held)
		}
		if synctest.Wait(); len(second) != 1 {
			b.Error("the next candidate does not lead")
		}
	})
}

// An observer sees a candidate that enters between two of its reads.
func TestObserveAsCandidateEnters(t *testing.T) {
	for name, appear := range map[string]struct {
		op     jute.Op
		count  int
		change func(b *recipetest.Bed)
	}{
		"parent without candidates": {jute.OpGetChildren2, 2, func(*recipetest.Bed) {}},
		"no parent":                 {jute.OpExists, 1, func(b *recipetest.Bed) { b.CreateNode("/e") }},
	} {
		recipetest.Run(t, 2, func(b *recipetest.Bed) {
			if appear.op == jute.OpGetChildren2 {
				b.CreateNode("/e")
			}
			b.Before(b.Clients[0], appear.op, appear.count, func(string) {
				appear.change(b)
				b.CreateEphemeral("/e/"+candidateName, recipetest.ID(b.Clients[1]))
			})
			ctx, cancel := context.WithTimeout(b.Ctx, client.DefaultTimeout)
			defer cancel()
			for leader, err := range New(b.Clients[0], "/e", Config{}).Observe(ctx) {
				if err != nil || leader.Path != "/e/"+candidateName {
					b.Errorf("%s: observed %+v, %v, want the candidate", name, leader, err)
				}
				break
			}
			synctest.Wait()
			if watches := b.Watches(recipetest.ID(b.Clients[0])); len(watches) > 0 {
				b.Errorf("%s: the observer has left the watches %q", name, watches)
			}
		})
	}
}

// An observer sees each leader, and that there is none.
func TestObserve(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		ctx, cancel := context.WithCancel(b.Ctx)
		defer cancel()
		var mu sync.Mutex
		var seen []string
		go func() {
			for leader, err := range New(b.Clients[0], "/e", Config{}).Observe(ctx) {
				mu.Lock()
				if err == nil {
					seen = append(seen, string(leader.Data))
				}
				mu.Unlock()
			}
		}()
		want := func(last string) {
			b.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(seen) == 0 || seen[len(seen)-1] != last {
				b.Errorf("observed %q, want %q at the end", seen, last)
			}
		}
		want("")
		first := <-campaign(b, b.Clients[1], "a")
		want("a")
		second := campaign(b, b.Clients[2], "b")
		want("a")
		b.Must(first.Resign(b.Ctx))
		want("b")
		b.Reconnect()
		b.Must((<-second).Resign(b.Ctx))
		want("")
	})
}

// Run resigns when its function has returned, and returns its error.
func TestRunResigns(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		reason := errors.New("enough")
		err := New(b.Clients[0], "/e", Config{}).Run(b.Ctx, func(context.Context, *Leadership) error { return reason })
		if names := b.Children("/e"); !errors.Is(err, reason) || errors.Is(err, client.ErrNotHeld) || len(names) > 0 {
			b.Errorf("%v, left behind: %q", err, names)
		}
	})
}

// Run ends its function's context when the leadership ends, and says so.
func TestRunLosesLeadership(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		err := New(b.Clients[0], "/e", Config{}).Run(b.Ctx, func(ctx context.Context, l *Leadership) error {
			synctest.Wait()
			b.DeleteNode(l.Path())
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, client.ErrNotHeld) {
			b.Errorf("%v, want %v", err, client.ErrNotHeld)
		}
	})
}
