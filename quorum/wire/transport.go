// Package wire carries raft between the members of an ensemble.
//
//   - Peer: one member of the server list, which every member writes in the same form.
//   - Hello, Listener, Stream: the hello with which every connection between members begins, on
//     both of their ports, and raft's connections after it.
//   - Transport: raft's transport. It wraps raft's own, checks the size of what arrives before
//     decoding it, and avoids raft's known problems with elections, commits, pipelines and
//     snapshots.
//
// This package knows requests and connections, but not what a member's data contain. It gets that
// from its member through the functions in Config.
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
	// maxInFlight is how many AppendEntries may be under way to a follower that keeps up.
	maxInFlight = 4
	// maxPool is how many idle connections are kept to each member. raft uses one for heartbeats,
	// one for votes and one for entries.
	maxPool = 3
)

var (
	errStarting   = errors.New("quorum: this member is starting")
	errReceiving  = errors.New("quorum: another snapshot is being received")
	errReplaced   = errors.New("quorum: another snapshot is received instead")
	errBadRequest = errors.New("quorum: snapshot of impossible size")
	errNotReached = errors.New("quorum: the member was not reached while this one led")
)

// inner is the transport that a Transport wraps: raft's NetworkTransport, or a fake in tests.
type inner interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// Config is what a Transport is built from: the network, and the functions through which it asks
// its member. Every field is required. The functions may be called by any goroutine, and must not
// wait unless the field says so.
type Config struct {
	Stream   raft.StreamLayer // connections to other members: a *Stream
	Election time.Duration    // raft's election timeout
	Logger   *slog.Logger
	RaftLog  hclog.Logger // for the log messages of raft's own transport

	Raft  func() *raft.Raft          // returns nil until raft runs
	Fail  func(error)                // ends the member
	Spool func() (disk.Spool, error) // opens a file for a received snapshot; waits for the disk

	// Inspect reads all of a received snapshot, which may take long, and compares it with what its
	// request says. If it returns an error the snapshot is refused.
	Inspect   func(s io.Reader, req *raft.InstallSnapshotRequest) error
	Refused   func(req *raft.InstallSnapshotRequest, why error) // called when a snapshot is refused
	Installed func(term uint64)                                 // called when a snapshot whose last entry is of term has been installed

	Votes    func() bool            // reports whether this member may vote: not while joining, except for the other one of two
	Joining  func() bool            // reports whether this member is joining
	MayStand func() error           // returns nil if this member may be a candidate, or why not: it is joining, stalled or damaged
	Stalled  func() error           // returns why this member must send nothing as a leader; nil: it may
	Leads    func(term uint64) bool // reports whether this member leads in term, and is not handing over
}

// Transport wraps raft's NetworkTransport, and corrects what raft does wrong or does not know:
//
//   - There is no heartbeat fast path: all requests go through raft's main loop.
//   - A follower never hears of a commit beyond what the same request proves it holds.
//   - A follower hears of a commit at once.
//   - A pipeline ends at its first failure.
//   - A snapshot is received and verified outside the main loop, and the leader's heartbeats
//     are answered while raft installs it.
//   - A request that would make raft panic is refused.
//   - A joining member takes part in no election.
//   - A leader sends nothing while its stores or state machine hang, or if its state is
//     damaged.
type Transport struct {
	inner
	cfg   Config
	conns *conns
	rpcs  chan raft.RPC
	whole chan raft.RPC // requests of snapshots that have been received in full

	running   atomic.Bool // raft's goroutines run, or are about to start
	receipts  receipts
	busy      atomic.Uint64 // term of the leader whose snapshot raft is installing; 0: none
	installed atomic.Uint64 // index of the last snapshot that was passed to raft
	lead      leaderEnd
	contacts  contacts
	pipes     pipelines
	closed    chan struct{}
	closing   sync.Once
	wg        sync.WaitGroup
}

// New returns a Transport that listens on cfg.Stream, which it owns. The caller must call Close,
// even if it does not call Start.
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
func (t *Transport) Start() { t.wg.Go(t.passRequests) }

// Running reports whether raft's goroutines run, or are about to start.
func (t *Transport) Running() bool { return t.running.Load() }

// Committed reports that entries were committed, so that the followers hear of it at once. It does
// not wait.
func (t *Transport) Committed() { t.pipes.committed() }

// LeaderEnd returns the end of the present leader's log, as its first request to this process
// showed it, and the leader's term. Both are 0 if no request has shown it. It is recorded only
// while Config.Joining reports true.
func (t *Transport) LeaderEnd() (term, index uint64) { return t.lead.get() }

// Reached returns the members that have answered a request of this leader within d, in order of id.
func (t *Transport) Reached(d time.Duration) []uint32 { return t.contacts.within(d) }

// Consumer implements raft.Transport.
func (t *Transport) Consumer() <-chan raft.RPC { return t.rpcs }

// SetHeartbeatHandler implements raft.Transport by ignoring the handler. The handler would change
// terms outside raft's main loop, which can lead to two leaders or a forked log. raft calls this
// method last before it starts its goroutines.
func (t *Transport) SetHeartbeatHandler(func(raft.RPC)) { t.running.Store(true) }

// Close implements raft.WithClose. It closes every connection and waits for the Transport's
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

// AppendEntries implements raft.Transport. If it shortens a request, it shortens req too, so that
// raft continues after the entries that were sent. If the request fails and is not a heartbeat,
// AppendEntries returns only when the member can be reached again: see awaitMember.
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
		t.awaitMember(id, to, req.RPCHeader, req.Term)
	}
	return err
}

// InstallSnapshot implements raft.Transport. It waits until the member can be reached, and sends
// nothing before.
func (t *Transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if !t.awaitMember(id, to, req.RPCHeader, req.Term) {
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

// logPoint implements the function type of that name. It reads the term last: if this member led in
// that term before, it has learned of the commit from no other member.
func (t *Transport) logPoint() (commit, last, term uint64) {
	r := t.cfg.Raft()
	if r == nil {
		return 0, 0, 0
	}
	commit, last = r.CommitIndex(), r.LastIndex()
	return commit, last, r.CurrentTerm()
}

// clamp lowers the commit index of req to the index of the last entry in req. A follower that accepts
// req has the leader's entries up to there. Its own later entries may conflict with the leader's log,
// and raft would let it commit those too if the commit index were higher. raft's commit index is often
// higher, because a request carries a bounded number of entries.
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
	if err := t.cfg.MayStand(); err != nil {
		return err
	}
	return t.inner.RequestVote(id, to, req, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.cfg.MayStand(); err != nil {
		return err
	}
	return t.inner.RequestPreVote(id, to, req, resp)
}

// AskTerm returns the current term of another member's raft. It asks for a pre-vote in term 0.
// Every raft refuses that, names its own term, and changes nothing.
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

// passRequests passes incoming requests to raft's main loop, in order. It waits neither for the
// network nor for the main loop. Each connection brings one request at a time, which bounds the
// number of waiting requests.
func (t *Transport) passRequests() {
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
			waiting = append(waiting, rpc) // after the heartbeats that came before
		case to <- next:
			waiting = waiting[1:]
		case <-t.closed:
			return
		}
	}
}

// intercept answers the requests that raft must not see, and reports whether this was one.
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
		if t.cfg.Joining() {
			t.lead.note(req)
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
		if err := t.cfg.MayStand(); err != nil {
			rpc.Respond(nil, err)
			return true
		}
	}
	return false
}

// leaderEnd is the end of the present leader's log, as its first request to this process showed it.
// Everything that this member's former self may have helped to commit is at or below it. A request
// with room for another entry reaches the end of its sender's log (endsLog), and a commit notice is
// at the end; heartbeats show nothing.
type leaderEnd struct {
	mu    sync.Mutex
	term  uint64
	index uint64
}

func (l *leaderEnd) note(req *raft.AppendEntriesRequest) {
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

// rpcTimeout returns the time limit for one request to a member. raft gives an InstallSnapshot this
// much for every 256 KiB.
func rpcTimeout(election time.Duration) time.Duration { return max(2*time.Second, 4*election) }
