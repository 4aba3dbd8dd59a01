package recipes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/cache"
	"rollcall/rollcalltest"
)

// countedConn counts the bytes of a connection in both directions.
type countedConn struct {
	net.Conn
	count *atomic.Int64
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.count.Add(int64(n))
	return n, err
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.count.Add(int64(n))
	return n, err
}

// dialCounted opens a client whose connections count their bytes.
func dialCounted(tb testing.TB, e *rollcalltest.Ensemble, count *atomic.Int64) *client.Client {
	tb.Helper()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := e.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return countedConn{conn, count}, nil
	}
	c, err := client.Dial(tb.Context(), e.ConnectString(), client.Config{DialConn: dial})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Abandon)
	return c
}

// A cache of 50,000 nodes that attaches to a new session after 100 changes transfers at least 20 times fewer bytes than one that
// reads the Stats of all nodes again. The test logs both.
func TestCacheResumesWithFewBytes(t *testing.T) {
	const nodes, changes, atLeast = 50_000, 100, 20
	e := rollcalltest.StartEnsembleWith(t, 1, rollcalltest.Config{})
	var used atomic.Int64
	c := dialCounted(t, e, &used)
	var sent sync.WaitGroup
	create := func(path string) {
		sent.Add(1)
		err := c.Pipeline().Create(t.Context(), path, make([]byte, 100), client.Persistent, func(_ string, _ client.Stat, err error) {
			if err != nil {
				t.Error(err)
			}
			sent.Done()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	create("/a")
	for i := range nodes {
		if i%1000 == 0 {
			create(fmt.Sprintf("/a/directory%02d", i/1000))
		}
		create(fmt.Sprintf("/a/directory%02d/node%05d", i/1000, i))
	}
	sent.Wait()
	k, err := cache.Open(t.Context(), c, "/a", cache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	content, ok := k.Content()
	if !ok {
		t.Fatal("the cache has no position")
	}
	var last client.Stat
	for i := range changes {
		if last, err = c.Set(t.Context(), fmt.Sprintf("/a/directory%02d/node%05d", i%50, i%50*1000+i), []byte("changed"), client.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	k.Close()
	attach := func(resumes bool) (bytes int64) {
		k, err := cache.Restore(content, "/a", cache.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		next := dialCounted(t, e, &used)
		if !resumes { // there can be no other Watch of the tree
			w, err := next.NewWatcher("/a", client.TreeWithoutState)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if _, err := w.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		before := used.Load()
		if err := k.Attach(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		bytes = used.Load() - before
		if err := k.Await(t.Context(), last.Changed); err != nil {
			t.Fatal(err)
		}
		for i := range changes {
			if n, _ := k.Get(fmt.Sprintf("/a/directory%02d/node%05d", i%50, i%50*1000+i)); string(n.Data) != "changed" {
				t.Fatalf("change %d is missing", i)
			}
		}
		if n, _ := k.Size(); n != len(content.Nodes) {
			t.Fatalf("the copy has %d nodes, want %d", n, len(content.Nodes))
		}
		return bytes
	}
	resumed, all := attach(true), attach(false)
	t.Logf("%d bytes with resume, %d without: %.0f times fewer", resumed, all, float64(all)/float64(resumed))
	if all < atLeast*resumed {
		t.Errorf("%d bytes with resume, %d without: want %d times fewer", resumed, all, atLeast)
	}
}

// A cache whose member is killed, and later every member, reads none of the nodes that have not changed: the other members keep the
// changes, too, and a member has them again after a restart.
func TestCacheResumesAtOtherMembers(t *testing.T) {
	const nodes, most = 2000, 20_000 // the Stats of all nodes take 100 bytes each
	e := rollcalltest.StartEnsembleWith(t, 3, rollcalltest.Config{})
	var used atomic.Int64
	c := dialCounted(t, e, &used)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	set := func(path, data string) {
		t.Helper()
		writer, err := client.Dial(ctx, e.ConnectString(), client.Config{DialConn: e.Dial})
		check(err)
		defer writer.Abandon()
		_, err = writer.Set(ctx, path, []byte(data), client.AnyVersion)
		check(err)
	}
	_, _, err := c.Create(ctx, "/a", nil, client.Persistent)
	check(err)
	for first := 0; first < nodes; first += 500 {
		var ops []client.Operation
		for i := range 500 {
			ops = append(ops, client.CreateOp(fmt.Sprintf("/a/node%04d", first+i), nil, client.Persistent))
		}
		_, err := c.Multi(ctx, ops...)
		check(err)
	}
	k, err := cache.Open(ctx, c, "/a", cache.Config{})
	check(err)
	defer k.Close()
	awaitData := func(path, data string) {
		t.Helper()
		check(k.AwaitCondition(ctx, func() bool { n, _ := k.Get(path); return string(n.Data) == data && k.State() == cache.Live }))
	}
	for round, kill := range []func(s *rollcalltest.Server) bool{
		func(s *rollcalltest.Server) bool { return s.ConnectString() == c.Server() },
		func(*rollcalltest.Server) bool { return true },
	} {
		path, data := fmt.Sprintf("/a/node%04d", round), fmt.Sprint("round ", round)
		before := used.Load()
		var killed []*rollcalltest.Server
		for _, s := range e.Servers {
			if kill(s) {
				killed = append(killed, s)
			}
		}
		for _, s := range killed {
			check(s.Kill())
		}
		if len(killed) == len(e.Servers) {
			for _, s := range killed {
				check(s.Restart())
			}
		}
		set(path, data)
		awaitData(path, data)
		if n := used.Load() - before; n > most {
			t.Errorf("round %d: %d bytes, want at most %d", round, n, most)
		}
		for _, s := range killed {
			if round == 0 {
				check(s.Restart())
			}
		}
		check(e.AwaitReady(ctx))
	}
}

// A position is of one ensemble: another one rejects it, although it has applied a transaction with that zxid.
func TestPositionOfAnotherEnsemble(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var position client.Position
	for _, name := range []string{"first", "second"} {
		e := rollcalltest.StartEnsembleWith(t, 1, rollcalltest.Config{})
		var used atomic.Int64
		c := dialCounted(t, e, &used)
		for _, path := range []string{"/a", "/a/b"} {
			if _, _, err := c.Create(t.Context(), path, nil, client.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		if name == "first" {
			k, err := cache.Open(t.Context(), c, "/a", cache.Config{})
			if err != nil {
				t.Fatal(err)
			}
			content, ok := k.Content()
			for ; !ok && ctx.Err() == nil; content, ok = k.Content() {
				time.Sleep(time.Millisecond) // until the Client has read that the server keeps a history
			}
			if position = content.Position; !ok || position.Zxid != c.LastZxid() {
				t.Fatalf("the position is %+v, %t", position, ok)
			}
			k.Close()
			continue
		}
		if c.LastZxid() < position.Zxid {
			t.Fatalf("the other ensemble has applied %#x alone", c.LastZxid())
		}
		for event, err := range position.Watch(ctx, c, "/a") {
			if !errors.Is(err, client.ErrOtherEnsemble) {
				t.Errorf("%v, %v, want %v", event, err, client.ErrOtherEnsemble)
			}
			break
		}
	}
}
