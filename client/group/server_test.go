package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/internal/recipetest"
	"rollcall/zk/jute"
)

// announceLater announces a node in a goroutine.
func announceLater(b *recipetest.Bed, c *client.Client, path string, cfg PresenceConfig) <-chan *Presence {
	announced := make(chan *Presence, 1)
	go func() {
		p, err := Announce(b.Ctx, c, path, cfg)
		b.Report(err)
		announced <- p
	}()
	synctest.Wait()
	return announced
}

// A Presence creates its node again, with its present data, and deletes it when it leaves.
func TestPresenceComesBack(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		recipetest.Run(t, 1, func(b *recipetest.Bed) {
			p, err := Announce(b.Ctx, b.Clients[0], "/a/p", PresenceConfig{Data: []byte("1"), Sequential: sequential})
			b.Must(err)
			b.Must(p.Set(b.Ctx, []byte("2")))
			first := p.Path()
			for _, lost := range []bool{false, true} {
				if lost {
					b.LoseReply(jute.OpCreate2)
				}
				synctest.Wait()
				b.DeleteNode(p.Path())
				time.Sleep(time.Minute)
				data, _, err := b.Clients[0].Get(b.Ctx, p.Path())
				if names := b.Children("/a"); err != nil || string(data) != "2" || len(names) != 1 || sequential == (p.Path() == first) {
					b.Errorf("came back as %s with %q, %v; the nodes are %q", p.Path(), data, err, names)
				}
			}
			b.LoseReply(jute.OpDelete)
			b.Must(p.Leave(b.Ctx))
			if names := b.Children("/a"); len(names) > 0 || !errors.Is(p.Err(), client.ErrClosed) {
				b.Errorf("left behind: %q, %v", names, p.Err())
			}
		})
	}
}

// A Presence waits until another session's node is gone, and rejects one of no session.
func TestAnnounceWhereANodeIs(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		_, err := Announce(b.Ctx, b.Clients[0], "/p", PresenceConfig{})
		b.Must(err)
		next := announceLater(b, b.Clients[1], "/p", PresenceConfig{})
		if len(next) > 0 {
			b.Fatal("two sessions have the node")
		}
		b.Expire(b.Clients[0])
		if p := <-next; p.Path() != "/p" || !b.HasNode("/p") {
			b.Error("the node is not there")
		}
		b.CreateNode("/persistent")
		if _, err := Announce(b.Ctx, b.Clients[1], "/persistent", PresenceConfig{}); !errors.Is(err, ErrNotEphemeral) {
			b.Errorf("%v, want %v", err, ErrNotEphemeral)
		}
	})
}

// Another session's node that is deleted just before it is watched is no reason to wait.
func TestAnnounceAsOtherNodeGoes(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		b.CreateEphemeral("/p", recipetest.ID(b.Clients[1]))
		b.Before(b.Clients[0], jute.OpExists, 1, func(path string) { b.DeleteNode(path) })
		began := time.Now()
		_, err := Announce(b.Ctx, b.Clients[0], "/p", PresenceConfig{})
		b.Must(err)
		synctest.Wait()
		watches := b.Watches(recipetest.ID(b.Clients[0]))
		if want := []string{"data /p"}; time.Since(began) > time.Minute || !slices.Equal(watches, want) {
			b.Errorf("announced after %v with the watches %q, want %q", time.Since(began), watches, want)
		}
	})
}

// A Presence whose node is deleted, and whose path another session takes at once, has no node until that one is gone.
func TestPresenceIsReplaced(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		p, err := Announce(b.Ctx, b.Clients[0], "/p", PresenceConfig{})
		b.Must(err)
		synctest.Wait()
		b.Before(b.Clients[0], jute.OpExists, 1, func(string) { b.CreateEphemeral("/p", recipetest.ID(b.Clients[1])) })
		b.DeleteNode("/p")
		if synctest.Wait(); p.Path() != "" {
			b.Errorf("has %s, which is another session's", p.Path())
		}
		b.DeleteNode("/p")
		if synctest.Wait(); p.Path() != "/p" || !b.HasNode("/p") {
			b.Errorf("did not come back, but has %q", p.Path())
		}
	})
}

// A Presence has the data of the last Set, even if the node is created or set by another client meanwhile.
func TestPresenceHasLastData(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		c := b.Clients[0]
		p, err := Announce(b.Ctx, c, "/p", PresenceConfig{})
		b.Must(err)
		want := func(data string) {
			b.Helper()
			synctest.Wait()
			if got, _, err := c.Get(b.Ctx, "/p"); err != nil || string(got) != data {
				b.Errorf("the data are %q, %v, want %q", got, err, data)
			}
		}
		b.Before(c, jute.OpSetData, 1, func(string) { b.SetData("/p", "of another client") })
		b.Must(p.Set(b.Ctx, []byte("1")))
		want("1")
		b.Before(c, jute.OpCreate2, 1, func(string) { b.Report(p.Set(b.Ctx, []byte("2"))) })
		b.DeleteNode("/p")
		want("2")
	})
}

// A Presence that gives up leaves no node, also if the next server does not know yet that it was created.
func TestAnnounceGivesUp(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		recipetest.Run(t, 1, func(b *recipetest.Bed) {
			c := b.Clients[0]
			b.CreateNode("/g")
			b.Before(c, jute.OpCreate2, 1, func(string) {
				b.LagAtNextServer(recipetest.ID(c))
				b.RefuseConnections()
			})
			b.LoseReply(jute.OpCreate2)
			ctx, cancel := context.WithTimeout(b.Ctx, time.Second)
			defer cancel()
			_, err := Announce(ctx, c, "/g/p", PresenceConfig{Sequential: sequential})
			if !errors.Is(err, context.DeadlineExceeded) || len(b.Children("/g")) != 1 {
				b.Fatalf("%v, the nodes are %q", err, b.Children("/g"))
			}
			b.AllowConnections()
			b.Must(c.AwaitConnected(b.Ctx))
			synctest.Wait()
			if names := b.Children("/g"); len(names) > 0 {
				b.Errorf("left behind: %q", names)
			}
		})
	}
}

// Members are those that have joined, and whose sessions live. A Watch follows them and their data.
func TestMembers(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		ctx, cancel := context.WithCancel(b.Ctx)
		defer cancel()
		var mu sync.Mutex
		var last []string
		go func() {
			for members, err := range Watch(ctx, b.Clients[0], "/g") {
				mu.Lock()
				for last = nil; err == nil && len(members) > 0; members = members[1:] {
					last = append(last, members[0].ID+"="+string(members[0].Data))
				}
				mu.Unlock()
			}
		}()
		want := func(members ...string) {
			b.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(last, members) {
				b.Errorf("watched %q, want %q", last, members)
			}
		}
		want()
		first, err := Join(b.Ctx, b.Clients[1], "/g", "a", []byte("1"))
		b.Must(err)
		want("a=1")
		_, err = Join(b.Ctx, b.Clients[2], "/g", "b", nil)
		b.Must(err)
		want("a=1", "b=")
		b.Must(first.Set(b.Ctx, []byte("2")))
		want("a=2", "b=")
		b.Expire(b.Clients[2])
		want("a=2")
		b.Must(first.Leave(b.Ctx))
		want()
	})
}

// owners counts which member works on each partition.
type owners struct {
	mu    sync.Mutex
	of    map[int]string
	twice bool // two members have worked on one at the same time
}

func (o *owners) work(id string) func(context.Context, Partition) error {
	return func(ctx context.Context, p Partition) error {
		o.mu.Lock()
		o.twice = o.twice || o.of[p.Number] != ""
		o.of[p.Number] = id
		o.mu.Unlock()
		<-ctx.Done()
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.of, p.Number)
		return ctx.Err()
	}
}

// counts returns the number of partitions of each member.
func (o *owners) counts() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := map[string]int{}
	for _, id := range o.of {
		counts[id]++
	}
	return counts
}

// The members share all partitions, each of which has one owner at a time. The partitions of a member that leaves or
// ends go to the others.
func TestPartitionsMove(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		o := &owners{of: map[int]string{}}
		var cancels []context.CancelFunc
		returned := make(chan error, len(b.Clients))
		for i, c := range b.Clients {
			ctx, cancel := context.WithCancel(b.Ctx)
			defer cancel()
			cancels = append(cancels, cancel)
			id := fmt.Sprint(i)
			go func() {
				cfg := PartitionsConfig{Parent: "/g", ID: id, Partitions: 6}
				returned <- SharePartitions(ctx, c, cfg, o.work(id))
			}()
		}
		want := func(shares map[string]int) {
			b.Helper()
			time.Sleep(time.Minute)
			if got := o.counts(); fmt.Sprint(got) != fmt.Sprint(shares) {
				b.Errorf("the shares are %v, want %v", got, shares)
			}
		}
		want(map[string]int{"0": 2, "1": 2, "2": 2})
		cancels[0]()
		if err := <-returned; !errors.Is(err, context.Canceled) {
			b.Errorf("%v, want the end of the context", err)
		}
		want(map[string]int{"1": 3, "2": 3})
		b.Expire(b.Clients[1])
		if err := <-returned; !errors.Is(err, client.ErrExpired) {
			b.Errorf("%v, want the end of the session", err)
		}
		want(map[string]int{"2": 6})
		if o.twice {
			b.Error("a partition had two owners")
		}
		cancels[2]()
		if err := <-returned; !errors.Is(err, context.Canceled) {
			b.Errorf("%v, want the end of the context", err)
		}
		if names := b.Children("/g/partitions/0000"); len(names) > 0 {
			b.Errorf("left behind: %q", names)
		}
	})
}

// A partition whose node another client deletes is taken again, after its work has ended.
func TestPartitionIsTakenAgain(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		ctx, cancel := context.WithCancel(b.Ctx)
		o, tokens, returned := &owners{of: map[int]string{}}, make(chan client.Token, 3), make(chan error)
		go func() {
			cfg := PartitionsConfig{Parent: "/g", ID: "a", Partitions: 1, Settle: -1}
			returned <- SharePartitions(ctx, b.Clients[0], cfg, func(ctx context.Context, p Partition) error {
				tokens <- p.Token()
				return o.work("a")(ctx, p)
			})
		}()
		first := <-tokens
		synctest.Wait()
		b.DeleteNode("/g/partitions/0000/" + b.Children("/g/partitions/0000")[0])
		time.Sleep(time.Minute)
		if len(tokens) != 1 || <-tokens <= first || o.counts()["a"] != 1 || o.twice {
			b.Error("the partition was not taken again, once")
		}
		cancel()
		if err := <-returned; !errors.Is(err, context.Canceled) {
			b.Errorf("%v, want the end of the context", err)
		}
	})
}

// endsUnseen is a context that ends without waking the goroutines that wait for it.
type endsUnseen struct {
	context.Context
	ended atomic.Bool
}

func (c *endsUnseen) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// A partition that a member gets as its context ends is released, so that another member gets it.
func TestPartitionAcquiredAtTheEnd(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		ctx := &endsUnseen{Context: b.Ctx}
		b.Before(b.Clients[0], jute.OpGetChildren2, 1, func(string) { ctx.ended.Store(true) }) // with the last request
		s := &partitionOwner{c: b.Clients[0], cfg: PartitionsConfig{Parent: "/g", ID: "a"}}
		right, err := s.acquirePartition(ctx, 0)
		if err != nil {
			b.Fatalf("%v, want the right: the test shows nothing else", err)
		}
		if names := b.Children("/g/partitions/0000"); len(names) > 0 || right.Held() {
			b.Errorf("the partition is kept: %q", names)
		}
	})
}

// A member that works no longer leaves, with the error of its work.
func TestWorkReturns(t *testing.T) {
	reason := errors.New("enough")
	for _, want := range []error{nil, reason} {
		recipetest.Run(t, 1, func(b *recipetest.Bed) {
			cfg := PartitionsConfig{Parent: "/g", ID: "a", Partitions: 2, Settle: -1}
			err := SharePartitions(b.Ctx, b.Clients[0], cfg, func(ctx context.Context, p Partition) error {
				if p.Number == 0 {
					return want
				}
				<-ctx.Done()
				return ctx.Err()
			})
			if !errors.Is(err, want) || want == nil && err != nil {
				b.Errorf("%v, want %v", err, want)
			}
			for _, parent := range []string{"/g/members", "/g/partitions/0000", "/g/partitions/0001"} {
				if names := b.Children(parent); len(names) > 0 {
					b.Errorf("%s: left behind: %q", parent, names)
				}
			}
		})
	}
}
