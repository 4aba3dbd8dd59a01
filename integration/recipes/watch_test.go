package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/cache"
	"rollcall/rollcalltest"
)

// watchTimeout is the session timeout of the clients in the tests of watches.
const watchTimeout = 10 * time.Second

func dialForWatch(t testing.TB, e *rollcalltest.Ensemble) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, e.ConnectString(), client.Config{Timeout: watchTimeout, DialConn: e.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return c
}

// serverTree returns the paths and data of a tree as the ensemble has it.
func serverTree(t *testing.T, c *client.Client, path string) (nodes []string) {
	t.Helper()
	data, _, err := c.Get(t.Context(), path)
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	names, _, err2 := c.Children(t.Context(), path)
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	nodes = append(nodes, path+"="+string(data))
	slices.Sort(names)
	for _, name := range names {
		nodes = append(nodes, serverTree(t, c, path+"/"+name)...)
	}
	return nodes
}

// writeRandomly makes n random changes of a tree. Those that do not fit the tree fail.
func writeRandomly(t *testing.T, c *client.Client, random *rand.Rand, n int) {
	t.Helper()
	for i := range n {
		path := "/a"
		for range random.IntN(3) {
			path += fmt.Sprintf("/%d", random.IntN(3))
		}
		switch random.IntN(3) {
		case 0:
			_, _, _ = c.Create(t.Context(), path, nil, client.Persistent)
		case 1:
			_, _ = c.Set(t.Context(), path, fmt.Append(nil, i), client.AnyVersion)
		case 2:
			_ = c.Delete(t.Context(), path, client.AnyVersion)
		}
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	}
}

// A cache and a program that follows the events of a Watch have the tree of the ensemble, after lost connections, lost
// replies, and the deaths of leaders.
func TestWatchAndCacheLoseNothing(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { watchAndCache(t, seed) })
		})
	}
}

func watchAndCache(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	e := rollcalltest.StartEnsembleWith(t, 3, rollcalltest.Config{Pipes: true})
	writer, reader := dialForWatch(t, e), dialForWatch(t, e)
	session, _ := reader.Session()
	if err := writer.CreateAll(t.Context(), "/a", client.Persistent); err != nil {
		t.Fatal(err)
	}
	copied, err := cache.Open(t.Context(), reader, "/a", cache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	f := followWatch(t, reader, writer)
	for range 6 {
		for range 1 + random.IntN(3) {
			if err := e.LoseReply(int64(session), 1+random.IntN(10)); err != nil {
				t.Error(err)
			}
		}
		if random.IntN(2) == 0 {
			e.DropConnections(int64(session))
		}
		if random.IntN(4) == 0 {
			s, err := e.KillLeader()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Restart() }()
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
		}
		writeRandomly(t, writer, random, 30)
	}
	e.DropConnections(int64(session))
	time.Sleep(watchTimeout)
	stat, err := writer.Set(t.Context(), "/a", []byte("last"), client.AnyVersion)
	if errors.Is(err, client.ErrNoNode) {
		_, stat, err = writer.Create(t.Context(), "/a", []byte("last"), client.Persistent)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := copied.Await(t.Context(), stat.Changed); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	want := serverTree(t, writer, "/a")
	var got []string
	for path, n := range copied.Range("/a") {
		got = append(got, path+"="+string(n.Data))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the copy is %q, want %q", got, want)
	}
	f.stop()
	slices.Sort(want)
	if got := f.paths(); !slices.Equal(got, want) {
		t.Errorf("the events of the Watch give %q, want %q", got, want)
	}
}

// treeFollower knows a tree by the events of a Watch.
type treeFollower struct {
	nodes  map[string]string
	cancel context.CancelFunc
	done   chan struct{}
}

// followWatch follows /a with a Watch of one client, and reads nodes with the other.
func followWatch(t *testing.T, watcher, reader *client.Client) *treeFollower {
	ctx, cancel := context.WithCancel(t.Context())
	f := &treeFollower{nodes: map[string]string{}, cancel: cancel, done: make(chan struct{})}
	last := map[string]client.Zxid{}
	go func() {
		defer close(f.done)
		for event, err := range watcher.Watch(ctx, "/a", client.Tree) {
			switch {
			case err != nil:
				continue
			case event.Type == client.Gap, event.Zxid == client.NoZxid:
			case event.Zxid <= last[event.Path]:
				t.Errorf("%v %s %d comes after %d", event.Type, event.Path, event.Zxid, last[event.Path])
			default:
				last[event.Path] = event.Zxid
			}
			f.read(ctx, reader, event)
		}
	}()
	return f
}

// read reads the nodes of an event.
func (f *treeFollower) read(ctx context.Context, c *client.Client, event client.Event) {
	if event.Type == client.Gap && event.Below {
		for path := range f.nodes {
			if strings.HasPrefix(path, event.Path+"/") {
				delete(f.nodes, path)
			}
		}
	}
	delete(f.nodes, event.Path)
	if err := c.Sync(ctx); err != nil || event.Type == client.NodeDeleted {
		return
	}
	data, _, err := c.Get(ctx, event.Path)
	if err != nil {
		return
	}
	f.nodes[event.Path] = string(data)
	if event.Below {
		names, _, _ := c.Children(ctx, event.Path)
		for _, name := range names {
			f.read(ctx, c, client.Event{Type: client.Gap, Path: event.Path + "/" + name, Below: true})
		}
	}
}

func (f *treeFollower) stop() {
	f.cancel()
	<-f.done
}

func (f *treeFollower) paths() (nodes []string) {
	for path, data := range f.nodes {
		nodes = append(nodes, path+"="+data)
	}
	slices.Sort(nodes)
	return nodes
}

// Waits that are given up leave no watch at a real server.
func TestStoppedWatchesAtServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := rollcalltest.StartEnsembleWith(t, 1, rollcalltest.Config{Pipes: true})
		c := dialForWatch(t, e)
		const waits = 2_000
		for i := range waits {
			_, _, w, err := c.ExistsWatch(t.Context(), fmt.Sprintf("/wait%d", i))
			if err != nil {
				t.Fatal(err)
			}
			w.Stop()
		}
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for _, err := range c.Watch(ctx, "/", client.Tree) {
				_ = err // the end of ctx
				cancel()
			}
		}()
		<-watched
		synctest.Wait()
		if text := fourLetters(t, e, "wchs"); !strings.Contains(text, "Total watches:0") {
			t.Errorf("wchs prints %q", text)
		}
	})
}

// fourLetters sends a four-letter command to the first server.
func fourLetters(t *testing.T, e *rollcalltest.Ensemble, command string) string {
	t.Helper()
	conn, err := e.Servers[0].Dial(t.Context(), "tcp", e.Servers[0].ConnectString())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, command); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
