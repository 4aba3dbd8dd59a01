// Package wire carries raft between the members of an ensemble.
//
//   - Peer: one member of the server list, which every member writes down alike.
//   - Hello, Listener, Stream: the preface in front of every connection between members, on
//     both of their ports, and raft's connections behind it.
//   - Transport: raft's transport. It wraps raft's own, bounds what arrives before it is
//     decoded, and keeps raft from known trouble with elections, commits, pipelines and
//     snapshots.
//
// It knows what a request and a connection are, and not what a member's data hold: it asks the
// member that it is part of, through the functions in Config.
package wire

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

const (
	// maxInFlight AppendEntries may be under way to a follower that keeps up.
	maxInFlight = 4
	// maxPool idle connections are kept to each member; raft uses one for heartbeats, one
	// for votes and one for entries.
	maxPool = 3
)

var (
	errStarting   = errors.New("quorum: this member is starting")
	errReceiving  = errors.New("quorum: another snapshot is being received")
	errReplaced   = errors.New("quorum: another snapshot is received instead")
	errBadRequest = errors.New("quorum: snapshot of impossible size")
	errNotReached = errors.New("quorum: the member was not reached while this one led")
)

// inner is what a Transport wraps: raft's NetworkTransport, or a fake in tests.
type inner interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// Config is what a Transport is made of: the network, and what it asks of the member that it
// is part of. Every field is required. The functions are called by any goroutine, and do not wait
// unless the field says so.
type Config struct {
	Stream   raft.StreamLayer // connections to other members: a *Stream
	Election time.Duration    // raft's election timeout
	Logger   *slog.Logger
	RaftLog  hclog.Logger // what raft's own transport logs

	Raft  func() *raft.Raft          // nil until raft runs
	Fail  func(error)                // ends the member
	Spool func() (disk.Spool, error) // where a snapshot is received; waits for the disk

	// Inspect reads all of a snapshot that was received, which may take long, and compares it with
	// what the request says of it. The snapshot is refused if the error is not nil.
	Inspect   func(s io.Reader, req *raft.InstallSnapshotRequest) error
	Refused   func(req *raft.InstallSnapshotRequest, why error) // hears of a snapshot that is refused
	Installed func(term uint64)                                 // a snapshot whose last entry is of term has been installed

	Votes   func() bool            // false while joining, except for the other one of two
	Joins   func() bool            // this member is joining
	Stand   func() error           // why this member is no candidate: it joins, it stalls, or it is damaged
	Stalled func() error           // why this member must say nothing as a leader; nil: nothing
	Leads   func(term uint64) bool // this member leads in term, and hands nothing over
}

// Transport stands between raft and its NetworkTransport, and keeps raft from what it
// does wrong or does not know:
//
//   - there is no heartbeat fast path: all requests go through raft's main loop;
//   - a follower is never told of a commit beyond what the same request proves it holds;
//   - a follower is told of a commit at once;
//   - a pipeline ends at its first failure;
//   - a snapshot is received and verified beside the main loop, and the leader's heartbeats are
//     answered while raft installs it;
//   - a request that raft would panic at is refused;
//   - a joining member takes part in no election;
//   - a leader whose stores or state machine hang, or whose state is damaged, falls silent.
type Transport struct {
	inner
	cfg   Config
	conns *conns
	rpcs  chan raft.RPC
	whole chan raft.RPC // snapshots that are complete

	running   atomic.Bool // raft's goroutines are about to start
	receipts  receipts
	busy      atomic.Uint64 // term of the leader whose snapshot raft is given; 0: none
	installed atomic.Uint64 // index of the last snapshot that raft was handed
	lead      leaderEnd
	contacts  contacts
	pipes     pipelines
	closed    chan struct{}
	closing   sync.Once
	wg        sync.WaitGroup
}

// New returns a Transport that listens on cfg.Stream, which it owns. Start it, and close it in
// any case.
func New(cfg Config) *Transport {
	c := newConns(cfg.Stream, cfg.Logger)
	return &Transport{
		inner: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: c, MaxPool: maxPool, MaxRPCsInFlight: maxInFlight, Timeout: rpcTimeout(cfg.Election),
			Logger: cfg.RaftLog,
		}),
		cfg:   cfg,
		conns: c,
		rpcs:  make(chan raft.RPC), whole: make(chan raft.RPC), closed: make(chan struct{}),
	}
}

// Start starts passing requests on.
func (t *Transport) Start() { t.wg.Go(t.pump) }

// Running reports whether raft's goroutines run, or are about to start.
func (t *Transport) Running() bool { return t.running.Load() }

// Committed says that entries were committed: the followers are told at once. It waits for
// nothing.
func (t *Transport) Committed() { t.pipes.committed() }

// LeaderEnd returns the end of the present leader's log, as its first request to this process
// showed it, and the leader's term; 0 if no request has shown it. It is kept while Config.Joins
// says so.
func (t *Transport) LeaderEnd() (term, index uint64) { return t.lead.get() }

// Reached returns the members that have answered a request of this leader's within d, by id.
func (t *Transport) Reached(d time.Duration) []uint32 { return t.contacts.within(d) }

// Consumer implements raft.Transport.
func (t *Transport) Consumer() <-chan raft.RPC { return t.rpcs }

// SetHeartbeatHandler implements raft.Transport by ignoring the handler: it would change
// terms beside raft's main loop, and two leaders or a forked log come of it. raft calls
// this last before it starts its goroutines.
func (t *Transport) SetHeartbeatHandler(func(raft.RPC)) { t.running.Store(true) }

// Close implements raft.WithClose: it closes every connection and waits for its own
// goroutines.
func (t *Transport) Close() error {
	var err error
	t.closing.Do(func() {
		close(t.closed)
		err = errors.Join(t.inner.Close(), t.conns.Close())
		t.wg.Wait()
	})
	return err
}

// AppendEntries implements raft.Transport. If a request is cut short, req says so
// afterwards, and raft goes on from there. If it fails and is no heartbeat, AppendEntries
// returns when the member can be reached again: see hold.
func (t *Transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	req.Entries = req.Entries[:fitting(req.Entries)]
	err := t.cfg.Stalled()
	if err == nil {
		err = t.inner.AppendEntries(id, to, clamp(req), resp)
	}
	switch {
	case err == nil:
		t.contacts.note(id)
	case !heartbeat(req):
		t.reach(id, to, req.RPCHeader, req.Term)
	}
	return err
}

// InstallSnapshot implements raft.Transport. It sends nothing before the member can be
// reached, and waits for that.
func (t *Transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if !t.reach(id, to, req.RPCHeader, req.Term) {
		return errNotReached
	}
	return t.inner.InstallSnapshot(id, to, req, resp, data)
}

// AppendEntriesPipeline implements raft.Transport.
func (t *Transport) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.inner.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	return t.pipes.add(newPipeline(p, t.logPoint, t.cfg.Stalled)), nil
}

// logPoint implements logPoint. The term comes last: if this member led in it before, then
// it has heard of the commit from nobody else.
func (t *Transport) logPoint() (commit, last, term uint64) {
	r := t.cfg.Raft()
	if r == nil {
		return 0, 0, 0
	}
	commit, last = r.CommitIndex(), r.LastIndex()
	return commit, last, r.CurrentTerm()
}

// clamp lowers the commit index to the last entry that a success of req proves to be the
// same on both sides. raft reads the two at different moments, and a follower commits up to
// its own last entry, which may belong to a tail that conflicts with the leader's.
func clamp(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	proved := req.PrevLogEntry + uint64(len(req.Entries))
	if req.LeaderCommitIndex <= proved {
		return req
	}
	lowered := *req
	lowered.LeaderCommitIndex = proved
	return &lowered
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.cfg.Stand(); err != nil {
		return err
	}
	return t.inner.RequestVote(id, to, req, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.cfg.Stand(); err != nil {
		return err
	}
	return t.inner.RequestPreVote(id, to, req, resp)
}

// AskTerm returns the current term of another member's raft. It asks for a pre-vote in
// term 0, which every raft refuses, naming its own, without changing anything.
func (t *Transport) AskTerm(self, p Peer) (uint64, error) {
	req := &raft.RequestPreVoteRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax,
		ID:              []byte(self.ServerID()), Addr: []byte(self.Addr),
	}}
	var resp raft.RequestPreVoteResponse
	if err := t.inner.RequestPreVote(p.ServerID(), raft.ServerAddress(p.Addr), req, &resp); err != nil {
		return 0, err
	}
	if resp.Granted || resp.Term == 0 {
		return 0, fmt.Errorf("quorum: member %d answered term %d", p.ID, resp.Term)
	}
	return resp.Term, nil
}

// pump passes incoming requests on to raft's main loop, in order. It waits neither for the
// network nor for the main loop: each connection brings one request at a time, which bounds
// those that wait.
func (t *Transport) pump() {
	var waiting []raft.RPC
	for {
		var (
			to   chan raft.RPC // nil: nothing waits
			next raft.RPC
		)
		if len(waiting) > 0 {
			to, next = t.rpcs, waiting[0]
		}
		select {
		case rpc := <-t.inner.Consumer():
			if !t.intercept(rpc) {
				waiting = append(waiting, rpc)
			}
		case rpc := <-t.whole:
			waiting = append(waiting, rpc) // behind the heartbeats that came before
		case to <- next:
			waiting = waiting[1:]
		case <-t.closed:
			return
		}
	}
}

// intercept takes the requests that raft is not to see and answers them.
func (t *Transport) intercept(rpc raft.RPC) bool {
	if err := checkRequest(rpc.Command); err != nil {
		t.conns.refused(err)
		rpc.Respond(nil, err)
		return true
	}
	install, isInstall := rpc.Command.(*raft.InstallSnapshotRequest)
	r := t.cfg.Raft()
	if isInstall {
		t.wg.Go(func() { t.receive(rpc, install) })
		return true
	}
	if !t.running.Load() || r == nil {
		rpc.Respond(nil, errStarting)
		return true
	}
	switch req := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		if t.cfg.Joins() {
			t.lead.heard(req)
		}
		if heartbeat(req) && t.installs(r, req.Term) {
			rpc.Respond(&raft.AppendEntriesResponse{Term: req.Term, LastLog: r.LastIndex(), Success: true}, nil)
			return true
		}
	case *raft.RequestVoteRequest:
		if !t.cfg.Votes() {
			rpc.Respond(&raft.RequestVoteResponse{Term: r.CurrentTerm()}, nil)
			return true
		}
	case *raft.RequestPreVoteRequest:
		if !t.cfg.Votes() {
			rpc.Respond(&raft.RequestPreVoteResponse{Term: r.CurrentTerm()}, nil)
			return true
		}
	case *raft.TimeoutNowRequest:
		if err := t.cfg.Stand(); err != nil {
			rpc.Respond(nil, err)
			return true
		}
	}
	return false
}

// leaderEnd is the end of the present leader's log, as its first request to this process
// showed it: everything that this member's former self may have helped to commit lies at or
// below it. A request that would have taken another entry reaches the end of its sender's
// log (endsLog), and a commit notice lies at it; heartbeats show nothing.
type leaderEnd struct {
	mu    sync.Mutex
	term  uint64
	index uint64
}

func (l *leaderEnd) heard(req *raft.AppendEntriesRequest) {
	end := req.PrevLogEntry + uint64(len(req.Entries))
	if end == 0 || !endsLog(req.Entries) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if req.Term > l.term {
		l.term, l.index = req.Term, end
	}
}

func (l *leaderEnd) get() (term, index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term, l.index
}

// rpcTimeout bounds one request to a member. raft gives an InstallSnapshot this much for
// every 256 KiB.
func rpcTimeout(election time.Duration) time.Duration { return max(2*time.Second, 4*election) }
