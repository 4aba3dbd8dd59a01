package crowd

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/proto"
	"rollcall/server"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	voters    = 5
	observers = 10
	members   = voters + observers

	tick       = 2 * time.Second
	halfTick   = tick / 2
	timeout    = 10 * time.Second
	touchEvery = timeout / 3 // as ZooKeeper's clients ping

	stepsPerRound = 100 // in which a member touches all of its sessions once
)

// scene is an ensemble with its sessions.
type scene struct {
	t        *testing.T
	e        *cluster.Ensemble
	profiler *profiler
	crowds   [members + 1]crowd // by member
	stopped  chan struct{}      // closed when the clients stop
	clients  sync.WaitGroup
}

// crowd is the sessions of one member, and what passes through its connections and its log.
type crowd struct {
	mu       sync.Mutex
	member   server.Member // of its present run
	sessions []jute.SessionID
	resting  bool // the clients send nothing

	pings, raft traffic      // on the connections that it has opened to others
	ends        atomic.Int64 // sessions that it has seen end
	entries     atomic.Int64 // that it has applied
}

// traffic is the bytes on some connections, with the frames of HTTP/2 or of raft.
type traffic struct{ sent, received atomic.Int64 }

func newScene(t *testing.T, p *profiler) *scene {
	s := &scene{t: t, profiler: p, stopped: make(chan struct{})}
	s.e = cluster.Start(t, members, cluster.Options{Tick: tick, Observers: observers, Adjust: func(cfg *member.Config) {
		c := &s.crowds[cfg.ID]
		cfg.Hooks = &counter{c}
		cfg.WrapMember = func(m server.Member) server.Member {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.member = m
			return m
		}
		dial := cfg.Network.Dial
		cfg.Network.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := dial(ctx, addr)
			if err != nil {
				return nil, err
			}
			if strings.HasSuffix(addr, ":3888") {
				return countedConn{conn, &c.raft}, nil
			}
			return countedConn{conn, &c.pings}, nil
		}
	}})
	s.e.Ready()
	s.e.Joined()
	return s
}

// counter counts what a member applies.
type counter struct{ crowd *crowd }

func (c *counter) SessionClosed(znode.Session, znode.SessionEnd) { c.crowd.ends.Add(1) }
func (c *counter) EntryFinished(uint64)                          { c.crowd.entries.Add(1) }

func (*counter) SessionOpened(znode.Session)                       {}
func (*counter) TermStarted(znode.Term, znode.LeaderCause)         {}
func (*counter) MemberAnnounced(uint32, uint64, uint64)            {}
func (*counter) SessionAttached(znode.Session, znode.SessionOwner) {}
func (*counter) SessionSwept(jute.SessionID, bool)                 {}
func (*counter) NodesRemoved(znode.Removal, []string)              {}
func (*counter) ServerListChanged(znode.ServerList)                {}
func (*counter) TxnApplied(*proto.Txn, *znode.Result)              {}
func (*counter) TxnDropped(*proto.Txn)                             {}
func (*counter) QuotaExceeded(znode.ExceededQuota)                 {}
func (*counter) SnapshotRestored()                                 {}

// countedConn counts the bytes of a connection.
type countedConn struct {
	net.Conn
	to *traffic
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.to.received.Add(int64(n))
	return n, err
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.to.sent.Add(int64(n))
	return n, err
}

// open opens n sessions, spread evenly, and returns when they are applied everywhere. The clients of the opened ones ping already.
func (s *scene) open(n int) {
	var opening sync.WaitGroup
	for id := uint32(1); id <= members; id++ {
		share := n / members
		if int(id) <= n%members {
			share++
		}
		opening.Go(func() { s.crowds[id].open(s.t, share) })
		s.clients.Go(func() { s.crowds[id].ping(s.stopped) })
	}
	opening.Wait()
	s.e.Wait("the sessions to open", time.Minute, func() bool { return s.sessionCount(s.e.Leader()) == n })
	s.e.Equal()
}

func (c *crowd) open(t *testing.T, n int) {
	for range n {
		id, err := c.member.AwaitNewSessionID(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		c.submit(t, jute.OpCreateSession, id, &proto.OpenSession{
			TimeoutMs: uint32(timeout.Milliseconds()), Password: make([]byte, 16), Address: addressOf(id),
		})
	}
}

// submit submits what opens or resumes a session, for a connection with the number of the session.
func (c *crowd) submit(t *testing.T, op jute.Op, id jute.SessionID, request protobuf.Message) {
	body, err := protobuf.Marshal(request)
	if err == nil {
		txn := &proto.Txn{Session: int64(id), Conn: uint64(id), Op: int32(op), Body: body}
		err = c.member.Submit(t.Context(), txn, granted{c, id})
	}
	if err != nil {
		t.Error(err)
	}
}

// addressOf returns an address of a client, which is as long as most are.
func addressOf(id jute.SessionID) string {
	return fmt.Sprintf("10.%d.%d.%d:40000", byte(id>>16), byte(id>>8), byte(id))
}

// granted is the connection that waits for a session.
type granted struct {
	*crowd
	id jute.SessionID
}

// ReceiveResult implements znode.Waiter.
func (g granted) ReceiveResult(r *znode.Result) {
	if r.Code != jute.OK {
		return // a wait for the session ends the test
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions = append(g.sessions, g.id)
}

// ping touches each session once in touchEvery, evenly, as the requests of clients do that do not know of each other.
func (c *crowd) ping(stop <-chan struct{}) {
	for step := 0; ; step = (step + 1) % stepsPerRound {
		select {
		case <-stop:
			return
		case <-time.After(touchEvery / stepsPerRound):
		}
		c.mu.Lock()
		all, to := c.sessions, c.member
		if c.resting {
			all = nil
		}
		c.mu.Unlock()
		for i := step; i < len(all); i += stepsPerRound {
			to.Touch(all[i], timeout)
		}
	}
}

// rest lets the clients of a member send nothing, or continue.
func (c *crowd) rest(resting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resting = resting
}

// restAll does the same for all members.
func (s *scene) restAll(resting bool) {
	for id := range s.crowds {
		s.crowds[id].rest(resting)
	}
}

// resume moves each voter's sessions, a third of all, to the next voter at once, and returns their number when that is applied
// everywhere. If all sessions moved, the logs would take more memory than all else.
func (s *scene) resume() (moved int) {
	total := 0
	for id := range s.crowds {
		total += s.crowds[id].size()
	}
	moving := map[uint32][]jute.SessionID{} // by the member to which they move
	for id := uint32(1); id <= voters; id++ {
		to := id%voters + 1
		moving[to] = s.crowds[id].leave()
		moved += len(moving[to])
	}
	var resuming sync.WaitGroup
	for id, all := range moving {
		resuming.Go(func() { s.crowds[id].resume(s.t, s.e.Member(id).State(), all) })
	}
	resuming.Wait()
	s.e.Wait("the sessions to resume", time.Minute, func() bool {
		n := 0
		for id := range s.crowds {
			n += s.crowds[id].size()
		}
		return n == total
	})
	s.e.Equal()
	return moved
}

// leave ends the connections of all sessions, and returns these.
func (c *crowd) leave() (all []jute.SessionID) {
	c.mu.Lock()
	all, c.sessions = c.sessions, nil
	c.mu.Unlock()
	for _, id := range all {
		c.member.Detach(id, uint64(id))
	}
	return all
}

func (c *crowd) resume(t *testing.T, state *znode.State, all []jute.SessionID) {
	for _, id := range all {
		state.RLock()
		known, ok := state.Session(id)
		state.RUnlock()
		if !ok {
			t.Errorf("session %v has ended", id)
			return
		}
		c.submit(t, jute.OpAttach, id, &proto.Attach{
			TimeoutMs: uint32(timeout.Milliseconds()), Password: make([]byte, 16), Address: addressOf(id), OwnerIndex: known.OwnerIndex,
		})
	}
}

func (c *crowd) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sessions)
}

// vouched returns the number of sessions of a member that have a valid lease there.
func (c *crowd) vouched() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.sessions {
		if c.member.IsVouched(id) {
			n++
		}
	}
	return n
}

// sessionCount returns the sessions of a member's state.
func (s *scene) sessionCount(id uint32) int {
	state := s.e.Member(id).State()
	state.RLock()
	defer state.RUnlock()
	return state.SessionCount()
}

// span is the events from one moment of virtual time to another.
type span struct {
	costs    map[string]time.Duration // processor time of each member, by its number, and what belongs to none
	lasted   time.Duration            // virtual
	received int64                    // bytes that the leader got in replies to its pings
	sent     int64                    // bytes that it sent as pings
	logged   int64                    // bytes that it sent to raft at the others
	entries  int64                    // that it applied
	ends     int64                    // of sessions, as it applied them
}

// during measures what do costs. leads is the member whose traffic counts.
func (s *scene) during(name string, leads func() uint32, do func()) span {
	s.t.Helper()
	before := make([]span, members+1)
	for id := range before {
		before[id] = s.crowds[id].now()
	}
	begun := time.Now()
	if err := s.profiler.start(); err != nil {
		s.t.Fatalf("crowd: %v; the test takes profiles itself, so -cpuprofile is not possible", err)
	}
	do()
	costs, err := s.profiler.stop(strings.ReplaceAll(s.t.Name(), "/", "-") + "-" + name)
	if err != nil {
		s.t.Fatal(err)
	}
	id := leads()
	after, was := s.crowds[id].now(), before[id]
	return span{
		costs: costs, lasted: time.Since(begun), received: after.received - was.received, sent: after.sent - was.sent,
		logged: after.logged - was.logged, entries: after.entries - was.entries, ends: after.ends - was.ends,
	}
}

func (c *crowd) now() span {
	return span{
		received: c.pings.received.Load(), sent: c.pings.sent.Load(), logged: c.raft.sent.Load(),
		entries: c.entries.Load(), ends: c.ends.Load(),
	}
}

func (p span) halfTicks() float64 { return float64(p.lasted) / float64(halfTick) }

func (p span) costOf(id uint32) time.Duration { return p.costs[strconv.Itoa(int(id))] }

// costOfOthers returns the mean of the members other than some.
func (p span) costOfOthers(than ...uint32) (mean time.Duration) {
	n := 0
	for id := uint32(1); id <= members; id++ {
		if !slices.Contains(than, id) {
			mean += p.costOf(id)
			n++
		}
	}
	return mean / time.Duration(n)
}
