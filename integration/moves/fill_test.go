package moves

import (
	"context"
	"fmt"
	"testing"
	"time"

	client "rollcall/client/before"
	"rollcall/zk/jute"
)

// fill creates one of each kind of node, with each field changed at least once.
func fill(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	f := filler{t, ctx, c}
	f.create("/plain", []byte("data"), jute.Persistent, nil)
	f.create("/null", nil, jute.Persistent, nil)
	f.create("/empty", []byte{}, jute.Persistent, nil)
	f.create("/ünïcode 日本", []byte{0, 255}, jute.Persistent, nil)
	f.create("/large", make([]byte, 1<<19), jute.Persistent, nil)
	for i := range 7 {
		f.set("/plain", fmt.Appendf(nil, "version %d", i))
	}
	f.family()
	f.lists()
	f.quotas()
	f.create("/container", nil, jute.Container, nil)
	f.create("/container/child", nil, jute.Persistent, nil)
	if _, err := c.CreateTTL(ctx, "/ttl", []byte("an hour"), jute.PersistentWithTTL, nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTTL(ctx, "/ttl/sequence-", nil, jute.PersistentSequentialWithTTL, nil, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	_, err := c.Multi(ctx, []jute.MultiOp{
		{Op: jute.OpCreate, Create: jute.CreateRequest{Path: []byte("/multi"), Data: []byte("m"), ACL: jute.OpenACL}},
		{Op: jute.OpCreate, Create: jute.CreateRequest{Path: []byte("/multi/child"), ACL: jute.OpenACL}},
		{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte("/multi"), Data: []byte("n"), Version: 0}},
	})
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

func (f filler) create(path string, data []byte, mode jute.CreateMode, acl []jute.ACL) {
	f.t.Helper()
	if _, err := f.c.Create(f.ctx, path, data, mode, acl); err != nil {
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
	f.create("/family", nil, jute.Persistent, nil)
	for range 12 {
		f.create("/family/n-", nil, jute.PersistentSequential, nil)
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
	id := func(scheme, id string) jute.ID { return jute.ID{Scheme: []byte(scheme), ID: []byte(id)} }
	f.create("/lists", nil, jute.Persistent, []jute.ACL{
		{Perms: jute.PermRead | jute.PermAdmin, ID: id("digest", digestOf("somebody:secret"))},
		{Perms: jute.PermAll, ID: id("ip", "127.0.0.0/8")},
		{Perms: jute.PermRead, ID: id("world", "anyone")},
	})
	for range 3 {
		if _, err := f.c.SetACL(f.ctx, "/lists", []jute.ACL{{Perms: jute.PermAll, ID: id("digest", digestOf("other:one"))}}, -1); err != nil {
			f.t.Fatal(err)
		}
	}
	f.create("/lists/below", []byte("x"), jute.Persistent, []jute.ACL{{Perms: jute.PermRead, ID: id("world", "anyone")}})
}

// quotas gives a subtree a quota, as zkCli.sh does.
func (f filler) quotas() {
	f.t.Helper()
	f.create("/bounded", []byte("12345"), jute.Persistent, nil)
	f.create("/zookeeper/quota/bounded", nil, jute.Persistent, nil)
	f.create("/zookeeper/quota/bounded/zookeeper_limits", []byte("count=5,bytes=100"), jute.Persistent, nil)
	f.create("/zookeeper/quota/bounded/zookeeper_stats", []byte("count=0,bytes=0"), jute.Persistent, nil)
	f.create("/bounded/child", []byte("67"), jute.Persistent, nil)
}

// load writes until it is stopped. It knows what was acknowledged.
type load struct {
	stop  context.CancelFunc
	ended chan struct{}
	all   chan struct{}     // closed when each node has been created once
	acked map[string]string // data by path; read it after end
}

// nodes is how many nodes a load creates and changes.
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
	if _, err := c.Create(ctx, root, nil, jute.Persistent, nil); err != nil {
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
				_, err = c.Create(ctx, path, []byte(data), jute.Persistent, nil)
			case i%11 == 0:
				data = ""
				if err = c.Delete(ctx, path, -1); err == nil {
					_, err = c.Create(ctx, path, []byte(data), jute.Persistent, nil)
				}
			default:
				_, err = c.Set(ctx, path, []byte(data), -1)
			}
			delete(l.acked, path) // after an error, this one is in doubt
			if err == nil {
				l.acked[path] = data
			} else if c.AwaitReady(ctx) != nil {
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

// end waits for the end, and returns what was acknowledged.
func (l *load) end() map[string]string {
	l.stop()
	<-l.ended
	return l.acked
}
