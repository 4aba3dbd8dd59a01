package recipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/group"
	"rollcall/client/lock"
	"rollcall/rollcalltest"
	"rollcall/zk/jute"
)

// memberText returns members as "a=data b=data".
func memberText(members []group.Member) string {
	var parts []string
	for _, m := range members {
		parts = append(parts, m.ID+"="+string(m.Data))
	}
	return strings.Join(parts, " ")
}

// A watch shows each change of the members and their data, from before the parent exists until after it is gone. Nodes
// that are not ephemeral are no members.
func TestGroupWatch(t *testing.T) {
	withServers(t, 3, func(g *groupServers) {
		watcher, a, b := g.client(), g.client(), g.client()
		next, stop := iter.Pull2(group.Watch(g.ctx, watcher, "/group"))
		defer stop()
		want := func(want string) {
			t.Helper()
			for {
				members, err, _ := next()
				g.must(err)
				if memberText(members) == want {
					return
				}
			}
		}
		want("")
		pa, err := group.Join(g.ctx, a, "/group", "a", []byte("1"))
		g.must(err)
		want("a=1")
		pb, err := group.Join(g.ctx, b, "/group", "b", nil)
		g.must(err)
		want("a=1 b=")
		_, _, err = a.Create(g.ctx, "/group/z", nil, client.Persistent)
		g.must(err)
		g.must(pa.Set(g.ctx, []byte("2")))
		want("a=2 b=")
		watcherID, _ := watcher.Session()
		if g.DropConnections(int64(watcherID)) != 1 {
			t.Error("the watcher is not connected")
		}
		g.must(pa.Set(g.ctx, []byte("3")))
		want("a=3 b=")
		g.expire(b)
		want("a=3")
		<-pb.Done()
		g.must(pa.Leave(g.ctx))
		want("")
		g.must(a.Delete(g.ctx, "/group/z", client.AnyVersion))
		g.must(a.Delete(g.ctx, "/group", client.AnyVersion))
		_, err = group.Join(g.ctx, a, "/group", "a", []byte("4"))
		g.must(err)
		want("a=4")
		g.must(watcher.Sync(g.ctx))
		members, err := group.Members(g.ctx, watcher, "/group")
		g.must(err)
		id, _ := a.Session()
		if memberText(members) != "a=4" || members[0].Session != id || members[0].Joined == 0 {
			t.Errorf("%+v", members)
		}
	})
}

// A watch ends with the session, and with its context, and after a break it leaves nothing. An id that is no name is
// rejected, and a parent that does not exist has no members.
func TestGroupWatchEnds(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		c := g.client()
		if members, err := group.Members(g.ctx, c, "/none"); err != nil || len(members) > 0 {
			t.Error(members, err)
		}
		for _, id := range []string{"", "a/b", ".", ".."} {
			if _, err := group.Join(g.ctx, c, "/group", id, nil); err == nil || !strings.Contains(err.Error(), "an id must not") {
				t.Errorf("the id %q: %v", id, err)
			}
		}
		for i := range 100 {
			_, err := group.Join(g.ctx, c, "/group", fmt.Sprint(i), nil)
			g.must(err)
		}
		for members, err := range group.Watch(g.ctx, c, "/group") {
			g.must(err)
			if len(members) != 100 {
				t.Errorf("%d members", len(members))
			}
			break
		}
		ctx, cancel := context.WithTimeout(g.ctx, time.Minute)
		defer cancel()
		var last error
		for _, last = range group.Watch(ctx, c, "/group") {
		}
		g.wantError(last, context.DeadlineExceeded)
		for _, last = range group.Watch(g.ctx, c, "/group") {
			if last == nil {
				g.expire(c)
			}
		}
		g.wantError(last, client.ErrExpired)
	})
}

// Whatever request or reply of the watcher is lost, it sees the members.
func TestGroupWatchFaults(t *testing.T) {
	eachGroupFault(t, 6, func(g *groupServers, c *client.Client) {
		other := g.client()
		_, err := group.Join(g.ctx, other, "/group", "a", nil)
		g.must(err)
		for members, err := range group.Watch(g.ctx, c, "/group") {
			g.must(err)
			if memberText(members) == "a=" {
				_, err = group.Join(g.ctx, other, "/group", "b", nil)
				g.must(err)
			}
			if memberText(members) == "a= b=" {
				break
			}
		}
		for range 4 {
			g.must(c.Sync(g.ctx)) // the rest of the requests
		}
	})
}

// crew are the members of a group that share out partitions, in one process.
type crew struct {
	*groupServers
	partitions int
	owners     []string // by partition; "" while nobody owns it. Used under the bubble's order only: see own
	tokens     []client.Token
	starts     int
	lock       chan struct{}
	ended      map[string]chan error
}

func newCrew(g *groupServers, partitions int) *crew {
	return &crew{
		groupServers: g, partitions: partitions, owners: make([]string, partitions), lock: make(chan struct{}, 1),
		tokens: make([]client.Token, partitions), ended: map[string]chan error{},
	}
}

// join lets a member share partitions until ctx ends.
func (w *crew) join(ctx context.Context, c *client.Client, id string) {
	ended, finished := make(chan error, 1), make(chan struct{})
	w.ended[id] = ended
	ctx, cancel := context.WithCancel(ctx)
	w.Cleanup(func() {
		cancel()
		<-finished
	})
	go func() {
		defer close(finished)
		ended <- group.SharePartitions(ctx, c, group.PartitionsConfig{
			Parent: "/crew", ID: id, Partitions: w.partitions,
		}, func(ctx context.Context, p group.Partition) error { return w.workOn(ctx, id, p) })
	}()
}

// workOn is the work on a partition: it checks that no other member does it, and takes some time to end.
func (w *crew) workOn(ctx context.Context, id string, p group.Partition) error {
	w.lock <- struct{}{}
	if w.owners[p.Number] != "" || p.Token() <= w.tokens[p.Number] || !p.Held() {
		w.Errorf("partition %d of %q with token %d begins with %q, token %d, held %v", p.Number, w.owners[p.Number],
			w.tokens[p.Number], id, p.Token(), p.Held())
	}
	w.owners[p.Number], w.tokens[p.Number] = id, p.Token()
	w.starts++
	<-w.lock
	<-ctx.Done()
	time.Sleep(100 * time.Millisecond)
	w.lock <- struct{}{}
	w.owners[p.Number] = ""
	<-w.lock
	return ctx.Err()
}

// awaitShares waits until each of ids owns its share.
func (w *crew) awaitShares(ids ...string) {
	w.Helper()
	want := group.Shares(ids, w.partitions)
	w.await(fmt.Sprintf("shares of %v", ids), func() bool {
		w.lock <- struct{}{}
		defer func() { <-w.lock }()
		return slices.Equal(w.owners, want)
	})
}

// Partitions follow the members: those that join, leave, expire, or are deleted by an operator. Never do two own one.
func TestPartitions(t *testing.T) {
	withServers(t, 3, func(g *groupServers) {
		w := newCrew(g, 12)
		a, b, c, operator := g.client(), g.client(), g.client(), g.client()
		ctxA, endA := context.WithCancel(g.ctx)
		defer endA()
		w.join(ctxA, a, "a")
		w.awaitShares("a")
		w.join(g.ctx, b, "b")
		w.awaitShares("a", "b")
		w.join(g.ctx, c, "c")
		w.awaitShares("a", "b", "c")
		if w.starts > 12+6+6 { // at the last change 4 must move, and those of a round robin would be 8
			t.Errorf("work began %d times", w.starts)
		}
		g.must(operator.Delete(g.ctx, "/crew/members/b", client.AnyVersion))
		w.awaitShares("a", "b", "c")
		g.expire(b)
		g.wantError(<-w.ended["b"], client.ErrExpired)
		w.awaitShares("a", "c")
		endA()
		g.wantError(<-w.ended["a"], context.Canceled)
		w.awaitShares("c")
		starts := w.starts
		names, _, err := operator.Children(g.ctx, "/crew/partitions/0003")
		g.must(err)
		g.must(operator.Delete(g.ctx, "/crew/partitions/0003/"+names[0], client.AnyVersion))
		g.await("partition 3 is owned again", func() bool { return w.starts == starts+1 })
		w.awaitShares("c")
	})
}

// A member that is silent for longer than its timeout stops its work before another one begins.
func TestPartitionsOfSilentMember(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		w := newCrew(g, 4)
		cut := make(chan struct{})
		cfg := g.config()
		dial := cfg.DialConn
		cfg.DialConn = func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
			select {
			case <-cut:
				return nil, errors.New("cut off")
			default:
				return dial(ctx, network, addr)
			}
		}
		a, b := g.clientWith(cfg), g.client()
		w.join(g.ctx, a, "a")
		w.join(g.ctx, b, "b")
		w.awaitShares("a", "b")
		close(cut)
		id, _ := a.Session()
		g.DropConnections(int64(id))
		w.awaitShares("b")
		g.wantError(<-w.ended["a"], client.ErrExpired)
	})
}

// An error of work ends the member with all its partitions. So do wrong settings, at once.
func TestPartitionsFail(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		c := g.client()
		want := errors.New("it failed")
		var running atomic.Int32
		err := group.SharePartitions(g.ctx, c, group.PartitionsConfig{Parent: "/crew", ID: "a", Partitions: 5},
			func(ctx context.Context, p group.Partition) error {
				if p.Number == 3 {
					return want
				}
				running.Add(1)
				<-ctx.Done()
				running.Add(-1)
				return nil
			})
		if !errors.Is(err, want) || running.Load() != 0 {
			t.Errorf("%v, %d run", err, running.Load())
		}
		if n := g.children(c, "/crew/members"); n != 0 {
			t.Error("the member has not left")
		}
		for p := range 5 {
			if n := g.children(c, fmt.Sprintf("/crew/partitions/%04d", p)); n != 0 {
				t.Errorf("partition %d is locked", p)
			}
		}
		for _, n := range []int{0, group.MaxPartitions + 1} {
			err := group.SharePartitions(g.ctx, c, group.PartitionsConfig{Parent: "/crew", ID: "a", Partitions: n}, nil)
			if err == nil {
				t.Errorf("%d partitions were accepted", n)
			}
		}
		synctest.Wait()
	})
}

// Without a time to settle, a member that is alone loses its partitions while it is no member, and gets them again.
func TestPartitionsDoNotSettle(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		c, operator := g.client(), g.client()
		ctx, end := context.WithCancel(g.ctx)
		var ended sync.WaitGroup
		defer ended.Wait()
		defer end()
		begun := make(chan int, 10)
		ended.Go(func() {
			err := group.SharePartitions(ctx, c, group.PartitionsConfig{Parent: "/crew", ID: "a", Partitions: 2, Settle: -1},
				func(ctx context.Context, p group.Partition) error {
					begun <- p.Number
					<-ctx.Done()
					return nil
				})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		start := time.Now()
		for range 2 {
			if first, second := <-begun, <-begun; first+second != 1 {
				t.Errorf("work began for %d and %d", first, second)
			}
			if took := time.Since(start); took > group.DefaultSettle/2 {
				t.Errorf("the partitions were shared out after %v", took)
			}
			synctest.Wait()
			g.must(operator.Delete(g.ctx, "/crew/members/a", client.AnyVersion))
			start = time.Now()
		}
	})
}

// A function that does not share out all partitions ends the member with an error.
func TestPartitionsWrongShares(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		for _, n := range []int{1, 3} {
			err := group.SharePartitions(g.ctx, g.client(), group.PartitionsConfig{
				Parent: "/crew", ID: "a", Partitions: 2,
				Shares: func([]string, int) []string { return slices.Repeat([]string{"a"}, n) },
			}, func(context.Context, group.Partition) error { return errors.New("it owns a partition") })
			want := fmt.Sprintf("Shares returned %d owners of 2 partitions", n)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want %q", err, want)
			}
		}
	})
}

// Partitions are shared out although another member comes and goes all the time.
func TestPartitionsAmongRestlessMembers(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		w := newCrew(g, 1)
		ctx, end := context.WithTimeout(g.ctx, 30*time.Second)
		restless := g.client()
		var coming sync.WaitGroup
		defer coming.Wait()
		defer end()
		coming.Go(func() {
			for ctx.Err() == nil {
				p, err := group.Join(ctx, restless, "/crew/members", "z", nil)
				time.Sleep(group.DefaultSettle / 4)
				if err == nil {
					_ = p.Leave(g.ctx)
				}
				time.Sleep(group.DefaultSettle / 4)
			}
		})
		w.join(g.ctx, g.client(), "a")
		time.Sleep(20 * time.Second)
		w.lock <- struct{}{}
		if w.starts == 0 {
			t.Error("the partition has no owner")
		}
		<-w.lock
	})
}

// A group is read with a limited number of requests at a time.
func TestMembersInFlight(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		const members, atOnce = 150, 64
		reader, joined := g.client(), g.client()
		for i := range members {
			_, err := group.Join(g.ctx, joined, "/group", fmt.Sprint(i), nil)
			g.must(err)
		}
		var reads atomic.Int32
		g.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Op != "getData" {
				return rollcalltest.Verdict{}
			}
			reads.Add(1)
			return rollcalltest.Verdict{Delay: time.Second}
		})
		time.AfterFunc(time.Second/2, func() {
			if n := reads.Load(); n > atOnce {
				t.Errorf("%d reads are in flight", n)
			}
			g.OnRequest(nil)
		})
		list, err := group.Members(g.ctx, reader, "/group")
		if err != nil || len(list) != members {
			t.Errorf("%d members, %v", len(list), err)
		}
	})
}

// A member that leaves between the list of members and its own read is left out.
func TestMembersLeave(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		reader := g.client()
		stays, leaves := g.client(), g.client()
		_, err := group.Join(g.ctx, stays, "/group", "stays", nil)
		g.must(err)
		p, err := group.Join(g.ctx, leaves, "/group", "leaves", nil)
		g.must(err)
		id, _ := reader.Session()
		left := false
		g.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Session != int64(id) || r.Op != "getChildren2" || left {
				return rollcalltest.Verdict{}
			}
			left = true
			time.AfterFunc(time.Second/2, func() { g.must(p.Leave(g.ctx)) })
			return rollcalltest.Verdict{Delay: time.Second}
		})
		members, err := group.Members(g.ctx, reader, "/group")
		if err != nil || len(members) != 1 || members[0].ID != "stays" {
			t.Errorf("the members are %v, %v", members, err)
		}
	})
}

// A parent with too many nodes is rejected.
func TestGroupTooLarge(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		c := g.client()
		g.must(c.CreateAll(g.ctx, "/large", client.Persistent))
		ops := make([]client.Operation, 0, 500)
		for n := 0; n < 10_000; n += len(ops) {
			ops = ops[:0]
			for i := range cap(ops) {
				ops = append(ops, client.CreateOp(fmt.Sprintf("/large/%05d", n+i), nil, client.Ephemeral))
			}
			_, err := c.Multi(g.ctx, ops...)
			g.must(err)
		}
		members, err := group.Members(g.ctx, c, "/large")
		g.must(err)
		if len(members) != 10_000 {
			t.Errorf("%d members", len(members))
		}
		_, _, err = c.Create(g.ctx, "/large/one", nil, client.Ephemeral)
		g.must(err)
		_, err = group.Members(g.ctx, c, "/large")
		for _, err := range []error{err, lastOf(group.Watch(g.ctx, c, "/large"))} {
			if err == nil || !strings.Contains(err.Error(), "/large: the parent has more than 10000 nodes") {
				t.Errorf("the error is %v", err)
			}
		}
	})
}

// A member whose node an operator deletes while it waits for a partition waits again.
func TestPartitionsWaiterDeleted(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		const folder = "/crew/partitions/0000"
		operator, c := g.client(), g.client()
		busy, err := lock.NewMutex(operator, folder, lock.Config{}).Lock(g.ctx)
		g.must(err)
		w := newCrew(g, 1)
		w.join(g.ctx, c, "a")
		g.await("the member waits", func() bool { return g.children(operator, folder) == 2 })
		names, _, err := operator.Children(g.ctx, folder)
		g.must(err)
		for _, name := range names {
			if path := folder + "/" + name; path != busy.Path() {
				g.must(operator.Delete(g.ctx, path, client.AnyVersion))
			}
		}
		g.must(busy.Release(g.ctx))
		w.awaitShares("a")
	})
}

// A member that is stopped while it gets a partition, so that its right to the session is not proven any more, tries again.
func TestPartitionsWithoutProof(t *testing.T) {
	inScene(t, func(s *scene) {
		var stopped atomic.Int64 // the time for which the client has been stopped
		entered, syncs := false, 0
		replace := func(frame []byte) []byte {
			switch h := headerOf(frame); {
			case !entered && bytes.Contains(frame, []byte("/crew/partitions/0000/")):
				entered = true
				stopped.Add(int64(sessionTimeout))
			case entered && syncs == 0 && h.Op == jute.OpSync: // it is to prove the right
				syncs++
				stopped.Add(int64(sessionTimeout))
			}
			return frame
		}
		c := s.clientWith(client.Config{
			Clock:    func() time.Duration { return time.Since(s.began) + time.Duration(stopped.Load()) },
			DialConn: s.dialReplacing(replace),
		})
		began := make(chan bool)
		ended := make(chan error, 1)
		ctx, end := context.WithCancel(s.ctx)
		go func() {
			ended <- group.SharePartitions(ctx, c, group.PartitionsConfig{Parent: "/crew", ID: "a", Partitions: 1}, func(ctx context.Context, p group.Partition) error {
				began <- p.Held()
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		select {
		case held := <-began:
			if !held || syncs != 1 {
				s.t.Errorf("work begins with held %t after %d syncs", held, syncs)
			}
		case err := <-ended:
			s.t.Fatalf("the member has ended: %v", err)
		}
		end()
		s.want(<-ended, context.Canceled)
	})
}

// A member whose partition goes to another one while it waits for it gives up its place, and stays a member.
func TestPartitionsWaiterGivesUp(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		const folder = "/crew/partitions/0000"
		operator := g.client()
		busy, err := lock.NewMutex(operator, folder, lock.Config{}).Lock(g.ctx)
		g.must(err)
		began := make(chan string, 2)
		share := func(ctx context.Context, id string) <-chan error {
			ended, c := make(chan error, 1), g.client()
			cfg := group.PartitionsConfig{Parent: "/crew", ID: id, Partitions: 1, Shares: func(members []string, _ int) []string {
				return members[len(members)-1:]
			}}
			go func() {
				ended <- group.SharePartitions(ctx, c, cfg, func(ctx context.Context, p group.Partition) error {
					began <- id
					<-ctx.Done()
					if p.Held() {
						return ctx.Err()
					}
					return context.Cause(ctx)
				})
			}()
			return ended
		}
		ended := share(g.ctx, "a")
		g.await("a waits", func() bool { return g.children(operator, folder) == 2 })
		ctx, end := context.WithCancel(g.ctx)
		defer end()
		endedB := share(ctx, "b")
		g.await("b waits in place of a", func() bool { return g.children(operator, "/crew/members") == 2 })
		time.Sleep(time.Minute)
		if n := g.children(operator, folder); n != 2 {
			t.Errorf("%d contend for the partition, want the holder and b", n)
		}
		g.must(busy.Release(g.ctx))
		if id := <-began; id != "b" {
			t.Errorf("%s works on the partition", id)
		}
		end()
		g.wantError(<-endedB, context.Canceled)
		if id := <-began; id != "a" {
			t.Errorf("%s works on the partition", id)
		}
		select {
		case err := <-ended:
			t.Errorf("a has ended: %v", err)
		default:
		}
	})
}

// Whatever request or reply of a member is lost, each partition has its owner in the end, and never two.
func TestPartitionsFaults(t *testing.T) {
	eachGroupFault(t, 14, func(g *groupServers, c *client.Client) {
		w := newCrew(g, 2)
		w.join(g.ctx, g.client(), "b")
		w.awaitShares("b")
		ctx, end := context.WithCancel(g.ctx)
		w.join(ctx, c, "a")
		w.awaitShares("a", "b")
		end()
		if err := <-w.ended["a"]; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		w.awaitShares("b")
	})
}

// A parent that is created between the two requests of a watcher, for its children and for itself, is seen.
func TestGroupWatchOfNewFolder(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		watcher, member := g.client(), g.client()
		first := true
		g.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Op != "getChildren2" || !first {
				return rollcalltest.Verdict{}
			}
			first = false
			return rollcalltest.Verdict{Delay: time.Second}
		})
		go func() {
			time.Sleep(time.Second / 2)
			if _, err := group.Join(g.ctx, member, "/group", "a", nil); err != nil {
				t.Error(err)
			}
		}()
		for members, err := range group.Watch(g.ctx, watcher, "/group") {
			g.must(err)
			if memberText(members) == "a=" {
				break
			}
		}
	})
}
