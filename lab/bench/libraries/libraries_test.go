package libraries

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/client"
	"rollcall/client/lock"
	"rollcall/rollcalltest"
)

const (
	sessionTimeout = 30 * time.Second
	nodeSize       = 100 // bytes of data
	inFlight       = 64  // requests at a time, where they are pipelined
)

// library is a client library.
type library struct {
	name string
	open func(t testing.TB) connection
}

var libraries = []library{{"client", openClient}, {"go-zookeeper", openGoZooKeeper}}

// connection is a session of one of the libraries.
type connection interface {
	create(path string) error
	get(path string) error
	set(path string) error
	watch(path string) (fired func() error, err error) // fired waits for the event
	lock(folder string) (release func() error, err error)
	end()
}

// servers returns the ensemble: the variable SERVERS, which libraries.sh sets, or one server in this process.
func servers(t testing.TB) []string {
	list := os.Getenv("SERVERS")
	if list == "" {
		var err error
		if list, err = ownServer(); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Split(list, ",")
}

// ownServer starts a server, which ends with the process, and returns its address.
var ownServer = sync.OnceValues(func() (string, error) {
	e, err := rollcalltest.New(context.Background(), 1, rollcalltest.Config{})
	if err != nil {
		return "", err
	}
	return e.ConnectString(), nil
})

var data = make([]byte, nodeSize)

type clientConnection struct {
	c *client.Client
}

func openClient(t testing.TB) connection {
	c, err := client.Dial(t.Context(), strings.Join(servers(t), ","), client.Config{Timeout: sessionTimeout})
	if err != nil {
		t.Fatal(err)
	}
	return clientConnection{c}
}

func (c clientConnection) create(path string) error {
	_, _, err := c.c.Create(context.Background(), path, data, client.Persistent)
	return err
}

func (c clientConnection) get(path string) error {
	_, _, err := c.c.Get(context.Background(), path)
	return err
}

func (c clientConnection) set(path string) error {
	_, err := c.c.Set(context.Background(), path, data, client.AnyVersion)
	return err
}

func (c clientConnection) watch(path string) (func() error, error) {
	_, _, w, err := c.c.GetWatch(context.Background(), path)
	return func() error { return (<-w.Fired).Err }, err
}

func (c clientConnection) lock(folder string) (func() error, error) {
	right, err := lock.NewMutex(c.c, folder, lock.Config{}).Lock(context.Background())
	return func() error { return right.Release(context.Background()) }, err
}

func (c clientConnection) end() { _ = c.c.Close(context.Background()) }

type goZooKeeperConnection struct{ c *zk.Conn }

// quiet drops that library's messages.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

func openGoZooKeeper(t testing.TB) connection {
	c, events, err := zk.Connect(servers(t), sessionTimeout, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	for event := range events {
		if event.State == zk.StateHasSession {
			break
		}
	}
	return goZooKeeperConnection{c}
}

func (c goZooKeeperConnection) create(path string) error {
	_, err := c.c.Create(path, data, 0, zk.WorldACL(zk.PermAll))
	return err
}

func (c goZooKeeperConnection) get(path string) error {
	_, _, err := c.c.Get(path)
	return err
}

func (c goZooKeeperConnection) set(path string) error {
	_, err := c.c.Set(path, data, -1)
	return err
}

func (c goZooKeeperConnection) watch(path string) (func() error, error) {
	_, _, fired, err := c.c.GetW(path)
	return func() error { return (<-fired).Err }, err
}

func (c goZooKeeperConnection) lock(folder string) (func() error, error) {
	l := zk.NewLock(c.c, folder, zk.WorldACL(zk.PermAll))
	return l.Unlock, l.Lock()
}

func (c goZooKeeperConnection) end() { c.c.Close() }

// eachLibrary runs a benchmark with each library, on a node of its own.
func eachLibrary(b *testing.B, run func(b *testing.B, l library, c connection, path string)) {
	for _, l := range libraries {
		b.Run(l.name, func(b *testing.B) {
			c := l.open(b)
			defer c.end()
			path := fmt.Sprintf("/bench-%d", time.Now().UnixNano())
			if err := c.create(path); err != nil {
				b.Fatal(err)
			}
			run(b, l, c, path)
		})
	}
}

// Both libraries do on a server what the benchmarks measure.
func TestLibraries(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			c := l.open(t)
			defer c.end()
			path := "/test-" + l.name
			must := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			must("create", c.create(path))
			must("get", c.get(path))
			fired, err := c.watch(path)
			must("watch", err)
			must("set", c.set(path))
			must("event", fired())
			release, err := c.lock(path + "-lock")
			must("lock", err)
			must("release", release())
		})
	}
}
