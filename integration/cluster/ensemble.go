// Package cluster runs whole ensembles in one process, for tests: real raft, real gRPC,
// real members made by member.New; only the wires and the disks are memory. Inside a
// testing/synctest bubble a minute with an election in it takes a fraction of a second.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/integration/wire"
	"rollcall/jute"
	"rollcall/member"
	"rollcall/quorum"
	"rollcall/znode"
)

// Options are what a test may set; the zero value is the server of the conformance
// cases: tick 1 s, sessions of 2 to 20 s, super:secret.
type Options struct {
	Tick   time.Duration
	Logger func(member uint32) *slog.Logger // default: discard
	Events func(e member.Event)
	Adjust func(cfg *member.Config) // last word on each member's configuration
}

// Ensemble is some members and their wires. Use it from one goroutine, inside a bubble.
type Ensemble struct {
	Network *Network

	t       *testing.T
	ctx     context.Context
	opts    Options
	servers []member.Server
	members map[uint32]*running
	clients []*Client
}

// running is one member's life; its stores outlive it, as disks do.
type running struct {
	stores quorum.Stores
	member *member.Member
	stop   context.CancelFunc
	done   chan error // nil while it is down
}

// Start runs members 1 to n and stops them when the test ends. It does not wait until
// they serve.
func Start(t *testing.T, n int, opts Options) *Ensemble {
	t.Helper()
	if opts.Tick == 0 {
		opts.Tick = time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &Ensemble{Network: NewNetwork(), t: t, ctx: ctx, opts: opts, members: make(map[uint32]*running)}
	for id := uint32(1); id <= uint32(n); id++ {
		e.servers = append(e.servers, member.Server{ID: id, Grpc: fmt.Sprintf("m%d:2888", id), Raft: fmt.Sprintf("m%d:3888", id)})
		e.members[id] = &running{stores: memoryStores()}
	}
	t.Cleanup(func() {
		for _, c := range e.clients {
			c.Abandon()
		}
		cancel()
		for _, id := range e.IDs() {
			e.Kill(id)
		}
		e.Network.Close()
	})
	for _, id := range e.IDs() {
		e.Boot(id)
	}
	return e
}

func memoryStores() quorum.Stores {
	store := raft.NewInmemStore()
	return quorum.Stores{Log: store, Stable: store, Snapshots: raft.NewInmemSnapshotStore()}
}

// IDs are the members' ids in order, running or not.
func (e *Ensemble) IDs() []uint32 {
	ids := make([]uint32, 0, len(e.servers))
	for _, s := range e.servers {
		ids = append(ids, s.ID)
	}
	return ids
}

// Boot starts a member that is down, with the stores it had.
func (e *Ensemble) Boot(id uint32) {
	e.t.Helper()
	r := e.members[id]
	if r.done != nil {
		e.t.Fatalf("cluster: member %d runs already", id)
	}
	e.Network.Revive(id)
	clients, err := e.Network.Listen(id, clientAddr(id))
	if err != nil {
		e.t.Fatal(err)
	}
	m, err := member.New(e.config(id, clients))
	if err != nil {
		e.t.Fatalf("cluster: member %d: %v", id, err)
	}
	ctx, stop := context.WithCancel(e.ctx)
	r.member, r.stop, r.done = m, stop, make(chan error, 1)
	done := r.done
	go func() { done <- m.Run(ctx) }()
}

func (e *Ensemble) config(id uint32, clients net.Listener) member.Config {
	cfg := member.Config{
		ID: id, Servers: e.servers, Stores: &e.members[id].stores, Clients: clients,
		Tick: e.opts.Tick, MinTimeout: 2 * e.opts.Tick, MaxTimeout: 20 * e.opts.Tick,
		SuperDigest: "super:lK75jTNcA+U9vtVEw5vB51mj/w4=", Whitelist: []string{"*"},
		Network: member.Network{
			Listen: func(addr string) (net.Listener, error) { return e.Network.Listen(id, addr) },
			Dial:   func(ctx context.Context, addr string) (net.Conn, error) { return e.Network.Dial(ctx, id, addr) },
		},
		Events: e.opts.Events,
	}
	if e.opts.Logger != nil {
		cfg.Logger = e.opts.Logger(id)
	}
	if e.opts.Adjust != nil {
		e.opts.Adjust(&cfg)
	}
	return cfg
}

func clientAddr(id uint32) string { return fmt.Sprintf("m%d:2181", id) }

// Kill ends a member as a crash would: first the wires, so that nothing it still does
// is heard of.
func (e *Ensemble) Kill(id uint32) {
	e.Network.Kill(id)
	_ = e.end(id) // what a killed member says is of no interest
}

// Stop ends a member gracefully and fails the test if it says why it could not.
func (e *Ensemble) Stop(id uint32) {
	e.t.Helper()
	if err := e.end(id); err != nil {
		e.t.Errorf("cluster: member %d stopped with: %v", id, err)
	}
}

func (e *Ensemble) end(id uint32) error {
	r := e.members[id]
	if r.done == nil {
		return nil
	}
	r.stop()
	err := <-r.done
	r.done, r.member = nil, nil
	return err
}

// ResetForwarding breaks the connection on which a follower forwards writes to a leader
// and asks it for syncs; the log between them goes on.
func (e *Ensemble) ResetForwarding(follower, leader uint32) {
	e.Network.Reset(follower, e.servers[leader-1].Grpc)
}

// BlockLog keeps a leader's log from reaching a follower; all else goes on.
func (e *Ensemble) BlockLog(leader, follower uint32) {
	e.Network.Block(leader, e.servers[follower-1].Raft)
}

// UnblockLog ends BlockLog.
func (e *Ensemble) UnblockLog(leader, follower uint32) {
	e.Network.Unblock(leader, e.servers[follower-1].Raft)
}

// Wipe gives a member that is down empty disks.
func (e *Ensemble) Wipe(id uint32) {
	e.t.Helper()
	if e.Running(id) {
		e.t.Fatalf("cluster: member %d runs", id)
	}
	e.members[id].stores = memoryStores()
}

// Running reports whether a member has been started and not ended.
func (e *Ensemble) Running(id uint32) bool { return e.members[id].done != nil }

// Member returns a running member.
func (e *Ensemble) Member(id uint32) *member.Member { return e.members[id].member }

// Wait polls a condition every tenth of a tick and fails the test after limit.
func (e *Ensemble) Wait(what string, limit time.Duration, ok func() bool) {
	e.t.Helper()
	for end := time.Now().Add(limit); !ok(); {
		if time.Now().After(end) {
			e.t.Fatalf("cluster: waited %v for %s", limit, what)
		}
		time.Sleep(e.opts.Tick / 10)
	}
}

// Ready waits until every running member serves, and returns the leader.
func (e *Ensemble) Ready() uint32 {
	e.t.Helper()
	e.Wait("every member to serve", 60*e.opts.Tick, func() bool {
		return !slices.ContainsFunc(e.IDs(), func(id uint32) bool { return e.Running(id) && e.Member(id).Role() == "" })
	})
	return e.Leader()
}

// Leader waits for exactly one running member that leads.
func (e *Ensemble) Leader() uint32 {
	e.t.Helper()
	var leader uint32
	e.Wait("a leader", 60*e.opts.Tick, func() bool {
		leader = 0
		for _, id := range e.IDs() {
			if !e.Running(id) {
				continue
			}
			if r := e.Member(id).Role(); r == "leader" || r == "standalone" {
				if leader != 0 {
					return false
				}
				leader = id
			}
		}
		return leader != 0
	})
	return leader
}

// Followers are the running members but the leader.
func (e *Ensemble) Followers() []uint32 {
	e.t.Helper()
	leader := e.Leader()
	return slices.DeleteFunc(e.IDs(), func(id uint32) bool { return id == leader || !e.Running(id) })
}

// Equal waits until all running members have applied the same log, and compares their
// states node by node, session by session, cursor by cursor.
func (e *Ensemble) Equal() {
	e.t.Helper()
	var states []*znode.State
	e.Wait("all members to catch up", 60*e.opts.Tick, func() bool {
		states = states[:0]
		for _, id := range e.IDs() {
			if e.Running(id) {
				states = append(states, e.Member(id).State())
			}
		}
		return !slices.ContainsFunc(states, func(s *znode.State) bool { return index(s) != index(states[0]) })
	})
	for _, s := range states[1:] {
		if diff := znode.Diff(states[0], s); diff != "" {
			e.t.Fatalf("cluster: members differ: %s", diff)
		}
	}
}

func index(s *znode.State) uint64 {
	s.RLock()
	defer s.RUnlock()
	return s.Index()
}

// Dial opens a raw client connection to a member.
func (e *Ensemble) Dial(id uint32) (*wire.Conn, error) {
	return e.dial(e.ctx, id)
}

func (e *Ensemble) dial(ctx context.Context, id uint32) (*wire.Conn, error) {
	c, err := e.Network.Dial(ctx, 0, clientAddr(id))
	if err != nil {
		return nil, err
	}
	return wire.New(c), nil
}

// Open opens a raw connection with a new session, or fails the test.
func (e *Ensemble) Open(id uint32, timeout time.Duration) (*wire.Conn, jute.ConnectResponse) {
	e.t.Helper()
	c, err := e.Dial(id)
	if err != nil {
		e.t.Fatal(err)
	}
	resp, err := c.Open(timeout)
	if err == nil && resp.SessionID == 0 {
		err = errors.New("session refused")
	}
	if err != nil {
		e.t.Fatalf("cluster: open a session on member %d: %v", id, err)
	}
	return c, resp
}

// Connect starts a client that keeps a session, at home on the first member; without
// members it goes round all, from member 1.
func (e *Ensemble) Connect(timeout time.Duration, members ...uint32) *Client {
	e.t.Helper()
	if len(members) == 0 {
		members = e.IDs()
	}
	c := newClient(e.ctx, members, timeout, e.dial)
	e.clients = append(e.clients, c)
	if err := c.WaitConnected(30 * e.opts.Tick); err != nil {
		e.t.Fatal(err)
	}
	return c
}
