package kills

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

// continueLoad lets the load continue for a random time of up to ms milliseconds.
func (r *run) continueLoad(ms int64) { time.Sleep(time.Duration(r.rng.Int64N(ms)) * time.Millisecond) }

// load fills the tree and starts the writers.
func (r *run) load(ctx context.Context) {
	r.t.Helper()
	var clients []*cluster.Client
	for i := range sessions {
		clients = append(clients, r.client(ctx, i))
	}
	if err := createTree(clients[0]); err != nil {
		r.t.Fatal(err)
	}
	for i, c := range clients {
		w, err := newWriter(c, fmt.Sprintf("/w%d", i), rand.New(rand.NewPCG(r.rng.Uint64(), 1)))
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(w.shutDown)
		r.writers = append(r.writers, w)
	}
	r.t.Cleanup(func() { r.again(r.Members, func([]*process.Member) {}) })
	r.visitors = newVisitors(slices.Concat(r.Members, r.coming), rand.New(rand.NewPCG(r.rng.Uint64(), 2)))
	r.t.Cleanup(r.visitors.shutDown)
}

// client opens a session whose home is one of the members.
func (r *run) client(ctx context.Context, home int) *cluster.Client {
	r.t.Helper()
	var order []uint32
	addrs := map[uint32]string{}
	for i := range len(r.Members) + len(r.coming) {
		m := r.Members[(home+i)%len(r.Members)]
		if i >= len(r.Members) {
			m = r.coming[i-len(r.Members)]
		}
		order = append(order, uint32(m.ID))
		addrs[uint32(m.ID)] = m.Clients
	}
	c := cluster.NewClient(ctx, order, sessionTimeout, func(ctx context.Context, id uint32) (*wire.Conn, error) {
		raw, err := new(net.Dialer).DialContext(ctx, "tcp", addrs[id])
		if err != nil {
			return nil, err
		}
		return wire.New(raw), nil
	})
	if err := c.WaitConnected(process.Patience); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// createTree creates nodes that stay unchanged: many that make the tree large, and some of every kind.
func createTree(c *cluster.Client) error {
	secret := []jute.ACL{
		{Perms: jute.PermRead, ID: jute.ID{Scheme: []byte("world"), ID: []byte("anyone")}},
		{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("digest"), ID: []byte("user:hash")}},
	}
	nodes := []jute.CreateRequest{
		{Path: []byte(visits), ACL: jute.OpenACL},
		{Path: []byte("/few"), ACL: jute.OpenACL},
		{Path: []byte("/few/null"), ACL: jute.OpenACL},
		{Path: []byte("/few/empty"), Data: []byte{}, ACL: jute.OpenACL},
		{Path: []byte("/few/secret"), Data: []byte("s"), ACL: secret},
		{Path: []byte("/big"), ACL: jute.OpenACL},
	}
	data := []byte(strings.Repeat("x", bigSize))
	for i := range big {
		nodes = append(nodes, jute.CreateRequest{Path: fmt.Appendf(nil, "/big/%d", i), Data: data, ACL: jute.OpenACL})
	}
	return makeAll(c, nodes)
}

// makeAll creates nodes, and continues when connections are lost: a member that lags is sent a snapshot and closes its
// connections.
func makeAll(c *cluster.Client, nodes []jute.CreateRequest) error {
	for lost := false; len(nodes) > 0; lost = true {
		var calls []*cluster.Call
		for i := range nodes {
			calls = append(calls, c.Go(jute.OpCreate, &nodes[i]))
		}
		var again []jute.CreateRequest
		for i, call := range calls {
			switch _, err := call.Wait(); {
			case errors.Is(err, cluster.ErrLoss):
				again = append(again, nodes[i])
			case errors.Is(err, jute.NodeExists) && lost:
			case err != nil && !(errors.Is(err, jute.NoNode) && len(again) > 0):
				return fmt.Errorf("create %s: %w", nodes[i].Path, err)
			case err != nil:
				again = append(again, nodes[i]) // the request for its parent was lost
			}
		}
		nodes = again
	}
	return nil
}
