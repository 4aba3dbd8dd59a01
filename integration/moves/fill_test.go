package moves

import (
	"context"
	"fmt"
	"testing"
	"time"

	"rollcall/client"
)

// fill creates one of each kind of node, with each field changed at least once.
func fill(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	f := filler{t, ctx, c}
	f.create("/plain", []byte("data"), client.Persistent)
	f.create("/null", nil, client.Persistent)
	f.create("/empty", []byte{}, client.Persistent)
	f.create("/ünïcode 日本", []byte{0, 255}, client.Persistent)
	f.create("/large", make([]byte, 1<<19), client.Persistent)
	for i := range 7 {
		f.set("/plain", fmt.Appendf(nil, "version %d", i))
	}
	f.family()
	f.lists()
	f.quotas()
	f.create("/container", nil, client.Container)
	f.create("/container/child", nil, client.Persistent)
	f.create("/ttl", []byte("an hour"), client.Persistent.WithTTL(time.Hour))
	f.create("/ttl/sequence-", nil, client.PersistentSequential.WithTTL(2*time.Hour))
	_, err := c.Multi(ctx,
		client.CreateOp("/multi", []byte("m"), client.Persistent),
		client.CreateOp("/multi/child", nil, client.Persistent),
		client.SetOp("/multi", []byte("n"), 0),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// filler makes nodes with one client. Each error ends the test.
type filler struct {
	t   *testing.T
	ctx context.Context
	c   *client.Client
}

func (f filler) create(path string, data []byte, mode client.Mode) {
	f.t.Helper()
	if _, _, err := f.c.Create(f.ctx, path, data, mode); err != nil {
		f.t.Fatal(err)
	}
}

func (f filler) set(path string, data []byte) {
	f.t.Helper()
	if _, err := f.c.Set(f.ctx, path, data, -1); err != nil {
		f.t.Fatal(err)
	}
}

// family makes a parent whose count of creates is far from the count of its children.
func (f filler) family() {
	f.t.Helper()
	f.create("/family", nil, client.Persistent)
	for range 12 {
		f.create("/family/n-", nil, client.PersistentSequential)
	}
	for i := range 9 {
		if err := f.c.Delete(f.ctx, fmt.Sprintf("/family/n-%010d", i+2), -1); err != nil {
			f.t.Fatal(err)
		}
	}
}

// lists makes nodes with access control lists.
func (f filler) lists() {
	f.t.Helper()
	id := func(scheme, id string) client.Identity { return client.Identity{Scheme: scheme, ID: id} }
	f.create("/lists", nil, client.Persistent.WithACL(
		client.ACL{Permissions: client.PermRead | client.PermAdmin, Identity: id("digest", digestOf("somebody:secret"))},
		client.ACL{Permissions: client.PermAll, Identity: id("ip", "127.0.0.0/8")},
		client.ACL{Permissions: client.PermRead, Identity: id("world", "anyone")},
	))
	for range 3 {
		if _, err := f.c.SetACL(f.ctx, "/lists", []client.ACL{{Permissions: client.PermAll, Identity: id("digest", digestOf("other:one"))}}, -1); err != nil {
			f.t.Fatal(err)
		}
	}
	f.create("/lists/below", []byte("x"), client.Persistent.WithACL(client.ACL{Permissions: client.PermRead, Identity: id("world", "anyone")}))
}

// quotas gives a subtree a quota, as zkCli.sh does.
func (f filler) quotas() {
	f.t.Helper()
	f.create("/bounded", []byte("12345"), client.Persistent)
	f.create("/zookeeper/quota/bounded", nil, client.Persistent)
	f.create("/zookeeper/quota/bounded/zookeeper_limits", []byte("count=5,bytes=100"), client.Persistent)
	f.create("/zookeeper/quota/bounded/zookeeper_stats", []byte("count=0,bytes=0"), client.Persistent)
	f.create("/bounded/child", []byte("67"), client.Persistent)
}

// load writes until it is stopped. It records the acknowledged writes.
type load struct {
	stop  context.CancelFunc
	ended chan struct{}
	all   chan struct{}     // closed when each node has been created once
	acked map[string]string // data by path; read it after end
}

// nodes is the number of nodes that a load creates and changes.
const nodes = 150

// startLoad begins to create and change nodes below /load, with clients of all servers.
func startLoad(t *testing.T, s *site, seed int) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{stop: cancel, ended: make(chan struct{}), all: make(chan struct{}), acked: map[string]string{}}
	var servers []string
	for _, m := range s.servers {
		servers = append(servers, m.Clients)
	}
	c := open(t, servers...)
	root := fmt.Sprintf("/load-%d", seed)
	if _, _, err := c.Create(ctx, root, nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with ctx
		defer close(l.ended)
		for i := 0; ctx.Err() == nil; i++ {
			path, data := fmt.Sprintf("%s/n%d", root, i%nodes), fmt.Sprint("write ", i)
			if i == nodes {
				close(l.all)
			}
			var err error
			switch {
			case i < nodes:
				_, _, err = c.Create(ctx, path, []byte(data), client.Persistent)
			case i%11 == 0:
				data = ""
				if err = c.Delete(ctx, path, -1); err == nil {
					_, _, err = c.Create(ctx, path, []byte(data), client.Persistent)
				}
			default:
				_, err = c.Set(ctx, path, []byte(data), -1)
			}
			delete(l.acked, path) // after an error, this one is in doubt
			if err == nil {
				l.acked[path] = data
			} else if c.AwaitConnected(ctx) != nil {
				return
			}
		}
	}()
	return l
}

// under waits until the load has created all of its nodes.
func (l *load) under(t *testing.T) {
	t.Helper()
	select {
	case <-l.all:
	case <-l.ended:
		t.Fatal("the load has ended before it had created its nodes")
	case <-time.After(patience):
		t.Fatal("the load does not get on")
	}
}

// awaitEnd waits for the end, and returns the acknowledged writes.
func (l *load) awaitEnd() map[string]string {
	l.stop()
	<-l.ended
	return l.acked
}
