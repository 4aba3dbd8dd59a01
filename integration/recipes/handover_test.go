package recipes

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/group"
	"rollcall/client/shared"
	"rollcall/rollcalltest"
)

// handOver hands a session with one right over by a file, and returns the file's path.
func (g *groupServers) handOver(c *client.Client, rights ...*client.Right) (path string) {
	g.Helper()
	h, err := c.HandOver(g.ctx, rights...)
	g.must(err)
	path = filepath.Join(g.TempDir(), "session")
	g.must(h.WriteFile(path))
	g.wantError(h.WriteFile(path), client.ErrHandoverGiven)
	return path
}

// A successor that reads the file has the session and the right with its token, and the node was there all the time.
func TestHandOverByFile(t *testing.T) {
	withServers(t, 3, func(g *groupServers) {
		first, other := g.client(), g.client()
		right := g.right(first, "/lock-")
		g.must(other.Sync(g.ctx))
		_, exists, gone, err := other.ExistsWatch(g.ctx, right.Path())
		if err != nil || !exists {
			t.Fatal(exists, err)
		}
		path := g.handOver(first, right)
		if right.Held() || first.Held() {
			t.Error("the predecessor still holds the right")
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		time.Sleep(groupTimeout * 9 / 10)
		h, err := client.ReadHandover(path)
		g.must(err)
		cfg := g.config()
		cfg.Resume = &h
		second := g.clientWith(cfg)
		rights, err := h.Rights(g.ctx, second)
		g.must(err)
		if got := rights[0]; !got.Held() || got.Token() != right.Token() || got.Path() != right.Path() {
			t.Errorf("the right is %v %v %v", got.Held(), got.Token(), got.Path())
		}
		time.Sleep(3 * groupTimeout)
		if len(gone.Fired) > 0 || !rights[0].Held() {
			t.Error("the right was lost")
		}
		_, err = rights[0].Guard(g.ctx, client.CreateOp("/guarded", nil, client.Persistent))
		g.must(err)
		g.must(rights[0].Release(g.ctx))
		if e := <-gone.Fired; e.Type != client.NodeDeleted {
			t.Error(e)
		}
	})
}

// What is called at the end of a right cannot delete the node that is handed over.
func TestHandOverKeepsNodes(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		first := g.client()
		var rights []*client.Right
		errs := make(chan error, 100)
		for range cap(errs) {
			right := g.right(first, "/lock-")
			right.OnLost(func() { errs <- first.Delete(g.ctx, right.Path(), client.AnyVersion) })
			rights = append(rights, right)
		}
		h, err := first.HandOver(g.ctx, rights...)
		g.must(err)
		for range cap(errs) {
			g.wantError(<-errs, client.ErrClosed)
		}
		cfg := g.config()
		cfg.Resume = &h
		rights, err = h.Rights(g.ctx, g.clientWith(cfg))
		g.must(err)
		for _, right := range rights {
			if !right.Held() {
				t.Errorf("%s was deleted", right.Path())
			}
		}
	})
}

// Of two successors one gets the file. The predecessor can take it back in the same way.
func TestHandOverFileIsTakenOnce(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		first := g.client()
		path := g.handOver(first, g.right(first, "/lock-"))
		h, err := client.ReadHandover(path)
		g.must(err)
		_, err = client.ReadHandover(path)
		g.wantError(err, fs.ErrNotExist)
		if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
			t.Errorf("files are left: %v", left)
		}
		cfg := g.config()
		cfg.Resume = &h
		again := g.clientWith(cfg)
		rights, err := h.Rights(g.ctx, again)
		g.must(err)
		if !rights[0].Held() {
			t.Error("the right is not held")
		}
	})
}

// claimed is the result of a process that resumed a session with a copy of a Handover.
type claimed struct {
	rights []*client.Right
	err    error
}

// claim resumes the session with a copy of h and takes the rights. A process that does not get them has no Client either.
func (g *groupServers) claim(h client.Handover) claimed {
	cfg := g.config()
	cfg.Resume = &h
	c, err := client.Dial(g.ctx, g.ConnectString(), cfg)
	if err != nil {
		return claimed{err: err}
	}
	g.Cleanup(c.Abandon)
	rights, err := h.Rights(g.ctx, c)
	if err != nil && c.State().State != client.Closed {
		g.Errorf("the loser's client is %v", c.State().State)
	}
	return claimed{rights, err}
}

// A process that comes with a copy of the Handover after another one has taken the rights gets none, and takes none away.
func TestHandOverCopies(t *testing.T) {
	withServers(t, 3, func(g *groupServers) {
		first := g.client()
		right := g.right(first, "/lock-")
		h, err := first.HandOver(g.ctx, right)
		g.must(err)
		winner, loser := g.claim(h), g.claim(h)
		g.must(winner.err)
		g.wantError(loser.err, client.ErrHandoverTaken)
		time.Sleep(3 * groupTimeout)
		if !winner.rights[0].Held() || winner.rights[0].Token() != right.Token() {
			t.Error("the winner does not hold the right")
		}
	})
}

// Two processes with one Handover fight for the connection. At most one gets the rights. If none does, one of them has
// raised the version of the ACL and lost the reply, so it cannot know that it has won.
func TestHandOverCopiesFight(t *testing.T) {
	withServers(t, 3, func(g *groupServers) {
		first, other := g.client(), g.client()
		right := g.right(first, "/lock-")
		h, err := first.HandOver(g.ctx, right)
		g.must(err)
		results := make(chan claimed)
		for range 2 {
			go func() { results <- g.claim(h) }()
		}
		var winners []*client.Right
		for range 2 {
			got := <-results
			if got.err != nil {
				g.wantError(got.err, client.ErrHandoverTaken)
				continue
			}
			winners = append(winners, got.rights...)
		}
		g.must(other.Sync(g.ctx))
		_, stat, err := other.GetACL(g.ctx, right.Path())
		g.must(err)
		if len(winners) > 1 || stat.ACLVersion != h.Held[0].ACLVersion+1 {
			t.Errorf("%d winners, and the version of the ACL went from %d to %d", len(winners), h.Held[0].ACLVersion, stat.ACLVersion)
		}
		for _, r := range winners {
			if !r.Held() || r.Token() != right.Token() {
				t.Error("the winner does not hold the right")
			}
		}
	})
}

// A lost reply to any request of the claim, and a broken connection before it, leave one holder.
func TestHandOverFaults(t *testing.T) {
	for _, file := range []bool{true, false} {
		for _, op := range []string{"getACL", "setACL"} {
			for _, verdict := range []rollcalltest.Verdict{{LoseReply: true}, {LoseRequest: true}} {
				t.Run("", func(t *testing.T) {
					withServers(t, 3, func(g *groupServers) { handOverWithFault(g, file, op, verdict) })
				})
			}
		}
	}
}

func handOverWithFault(g *groupServers, file bool, op string, verdict rollcalltest.Verdict) {
	first := g.client()
	right := g.right(first, "/lock-")
	h, err := first.HandOver(g.ctx, right)
	g.must(err)
	if file {
		path := filepath.Join(g.TempDir(), "session")
		g.must(h.WriteFile(path))
		h, err = client.ReadHandover(path)
		g.must(err)
	}
	cfg := g.config()
	cfg.Resume = &h
	second := g.clientWith(cfg)
	times := 0
	g.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
		if r.Op != op {
			return rollcalltest.Verdict{}
		}
		times++
		if times > 1 {
			return rollcalltest.Verdict{}
		}
		return verdict
	})
	rights, err := h.Rights(g.ctx, second)
	if !file && op == "setACL" && verdict.LoseReply {
		g.wantError(err, client.ErrHandoverTaken) // it may have been another one's
		return
	}
	g.must(err)
	want := 2
	if op == "setACL" && verdict.LoseReply {
		want = 1 // the next read shows that it was carried out
	}
	if times != want || !rights[0].Held() {
		g.Errorf("%d requests; held %v", times, rights[0].Held())
	}
}

// A right whose node was deleted meanwhile has ended, and the others are held. A right that has ended before cannot be
// handed over, and then the Client continues.
func TestHandOverDeletedNode(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		first, operator := g.client(), g.client()
		a, b := g.right(first, "/a-"), g.right(first, "/b-")
		h, err := first.HandOver(g.ctx, a, b)
		g.must(err)
		g.must(operator.Delete(g.ctx, a.Path(), client.AnyVersion))
		cfg := g.config()
		cfg.Resume = &h
		second := g.clientWith(cfg)
		rights, err := h.Rights(g.ctx, second)
		g.must(err)
		if rights[0].Held() || !rights[1].Held() {
			t.Errorf("held: %v, %v", rights[0].Held(), rights[1].Held())
		}
		<-rights[0].Lost()
		_, err = second.HandOver(g.ctx, rights...)
		g.wantError(err, client.ErrNotHeld)
		g.must(operator.Delete(g.ctx, b.Path(), client.AnyVersion))
		_, err = second.HandOver(g.ctx, rights[1])
		g.wantError(err, client.ErrNotHeld)
		_, err = operator.HandOver(g.ctx, rights[1])
		if err == nil || errors.Is(err, client.ErrNotHeld) {
			t.Errorf("the right of another Client: %v", err)
		}
		g.must(second.Sync(g.ctx))
		_, err = h.Rights(g.ctx, operator)
		g.wantError(err, client.ErrNotHeld)
	})
}

// If no successor comes in time, the session ends, and the nodes with it.
func TestHandOverTooLate(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		first, other := g.client(), g.client()
		right := g.right(first, "/lock-")
		h, err := first.HandOver(g.ctx, right)
		g.must(err)
		time.Sleep(2 * groupTimeout)
		cfg := g.config()
		cfg.Resume = &h
		_, err = client.Dial(g.ctx, g.ConnectString(), cfg)
		g.wantError(err, client.ErrExpired)
		if _, exists, err := other.Exists(g.ctx, right.Path()); err != nil || exists {
			t.Error(exists, err)
		}
	})
}

// takenOver is the result of TakeOver.
type takenOver struct {
	client *client.Client
	rights []*client.Right
	err    error
}

// takeOver calls TakeOver in a goroutine.
func (g *groupServers) takeOver(conn *net.UnixConn, cfg client.Config) <-chan takenOver {
	done := make(chan takenOver, 1)
	go func() {
		var r takenOver
		r.client, r.rights, r.err = client.TakeOver(g.ctx, conn, g.ConnectString(), cfg)
		done <- r
	}()
	return done
}

// A session goes over by a socket.
func TestHandOverBySocket(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		first := g.client()
		right := g.right(first, "/lock-")
		giver, taker := socketPair(g)
		taken := g.takeOver(taker, g.config())
		h, err := first.HandOver(g.ctx, right)
		g.must(err)
		g.must(h.Send(g.ctx, giver))
		if h.Password != nil {
			t.Error("the giver still has the password")
		}
		r := <-taken
		g.must(r.err)
		g.Cleanup(r.client.Abandon)
		time.Sleep(3 * groupTimeout)
		if !r.rights[0].Held() || r.rights[0].Token() != right.Token() {
			t.Error("the right is not held")
		}
	})
}

// If the successor ends before it has resumed the session, the predecessor continues with it.
func TestHandOverSocketEnds(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		first := g.client()
		right := g.right(first, "/lock-")
		h, err := first.HandOver(g.ctx, right)
		g.must(err)
		giver, taker := socketPair(g)
		go func() {
			_, _ = taker.Read(make([]byte, 1<<16))
			_ = taker.Close()
		}()
		if err := h.Send(g.ctx, giver); err == nil {
			t.Fatal("the session was sent to a process that has ended")
		}
		g.goOn(h, right.Token())
	})
}

// goOn resumes a session that has been taken back, and checks that it holds its right.
func (g *groupServers) goOn(h client.Handover, token client.Token) {
	g.Helper()
	cfg := g.config()
	cfg.Resume = &h
	again := g.clientWith(cfg)
	rights, err := h.Rights(g.ctx, again)
	g.must(err)
	time.Sleep(3 * groupTimeout)
	if !rights[0].Held() || rights[0].Token() != token {
		g.Error("the right is not held")
	}
}

// If the predecessor gives up waiting, it continues with the session, and the successor does not, although it has
// resumed it.
func TestHandOverSocketWithdrawn(t *testing.T) {
	withServers(t, 3, func(g *groupServers) {
		first := g.client()
		right := g.right(first, "/lock-")
		h, err := first.HandOver(g.ctx, right)
		g.must(err)
		giver, taker := socketPair(g)
		dialed, patient := make(chan struct{}), make(chan struct{})
		cfg := g.config()
		dial := cfg.DialConn
		cfg.DialConn = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialed <- struct{}{}
			<-patient
			return dial(ctx, network, addr)
		}
		taken := g.takeOver(taker, cfg)
		ctx, giveUp := context.WithCancel(g.ctx)
		go func() {
			<-dialed
			giveUp()
		}()
		err = h.Send(ctx, giver)
		g.wantError(err, context.Canceled)
		close(patient)
		go func() {
			for range dialed {
			}
		}()
		r := <-taken
		close(dialed)
		g.wantError(r.err, client.ErrHandoverWithdrawn)
		g.goOn(h, right.Token())
	})
}

// socketPair returns the two ends of a Unix socket. Virtual time stands still while one waits for the other.
func socketPair(g *groupServers) (a, b *net.UnixConn) {
	g.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(g.TempDir(), "s"), Net: "unix"})
	g.must(err)
	defer func() { _ = l.Close() }()
	a, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	g.must(err)
	b, err = l.AcceptUnix()
	g.must(err)
	return a, b
}

// The successor takes the sequential nodes of its predecessor, each once, and no other node that is alike.
func TestHandOverKeepsSequentialPresences(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		c := g.client()
		announce := func(c *client.Client) string {
			p, err := group.Announce(g.ctx, c, "/set/member_", group.PresenceConfig{Sequential: true, Data: []byte("x")})
			g.must(err)
			return p.Path()
		}
		before := []string{announce(c), announce(c)}
		_, _, err := c.Create(g.ctx, "/set/member_", []byte("x"), client.EphemeralSequential)
		g.must(err)
		h, err := c.HandOver(g.ctx)
		g.must(err)
		cfg := g.config()
		cfg.Resume = &h
		c = g.clientWith(cfg)
		after := []string{announce(c), announce(c)}
		slices.Sort(before)
		slices.Sort(after)
		if !slices.Equal(before, after) || g.children(c, "/set") != 3 {
			t.Errorf("%q were handed over, and the successor has %q", before, after)
		}
	})
}

// The receipts of each predecessor are removed, also if the replies to that are lost. Other nodes of the session stay.
func TestHandOverRemovesReceipts(t *testing.T) {
	withServers(t, 1, func(g *groupServers) {
		const handovers, writers, folder = 4, 5, "/receipts"
		c := g.client()
		g.must(c.CreateAll(g.ctx, folder, client.Persistent))
		right := g.right(c, folder+"/right-")
		for range handovers {
			value := shared.NewValue(c, "/value", shared.Config{Receipts: folder})
			var all sync.WaitGroup
			for range writers {
				all.Go(func() {
					if _, err := value.Set(g.ctx, nil); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			time.Sleep(time.Second) // virtual: what runs in the background has ended
			own, err := c.Ephemerals(g.ctx, "/")
			if err != nil || len(own) < 2 || len(own) > writers+1 || !slices.Contains(own, right.Path()) {
				t.Fatalf("the session has %d nodes, %q, %v; want the right and at most %d receipts", len(own), own, err, writers)
			}
			h, err := c.HandOver(g.ctx, right)
			g.must(err)
			cfg := g.config()
			cfg.Resume = &h
			c = g.clientWith(cfg)
			rights, err := h.Rights(g.ctx, c)
			g.must(err)
			right = rights[0]
			times := map[string]int{}
			g.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
				times[r.Op]++
				return rollcalltest.Verdict{LoseReply: times[r.Op] == 1 && (r.Op == "getEphemerals" || r.Op == "delete")}
			})
		}
	})
}
