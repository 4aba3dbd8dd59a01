package quorum

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// maxAppend entries at most go into one AppendEntries: heartbeats wait in the
	// follower's main loop behind the disk writes of one request.
	maxAppend = 8
	// maxInFlight AppendEntries may be under way to a follower that keeps up.
	maxInFlight = 4
	// maxPool idle connections are kept to each member; raft uses one for heartbeats, one
	// for votes and one for entries.
	maxPool = 3
)

var (
	errJoining    = errors.New("quorum: this member is joining and takes part in no election")
	errStarting   = errors.New("quorum: this member is starting")
	errReceiving  = errors.New("quorum: another snapshot is being received")
	errReplaced   = errors.New("quorum: another snapshot is received instead")
	errBadRequest = errors.New("quorum: snapshot of impossible size")
)

// inner is what transport wraps: raft's NetworkTransport, or a fake in tests.
type inner interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// transport stands between raft and its NetworkTransport, and keeps raft from what it
// does wrong or does not know:
//
//   - there is no heartbeat fast path: all requests go through raft's main loop;
//   - a follower is never told of a commit beyond what the same request proves it holds;
//   - a follower is told of a commit at once;
//   - a pipeline ends at its first failure;
//   - a snapshot is received beside the main loop;
//   - a joining member takes part in no election;
//   - a leader whose stores or state machine hang, or whose state is damaged, falls silent.
type transport struct {
	inner
	conns *conns
	spool func() (spool, error)
	rpcs  chan raft.RPC
	raft  func() *raft.Raft // nil until raft runs
	fail  func(error)       // ends the member
	taken func(term uint64) // a snapshot whose last entry is of term has been installed
	votes func() bool       // false while joining, except for the other one of two
	stand func() error      // why this member is no candidate: it joins, it stalls, or it is damaged
	joins func() bool
	// stalled is why this member must say nothing as a leader: something hangs, or its state
	// is damaged; nil: nothing.
	stalled func() error

	running   atomic.Bool // raft's goroutines are about to start
	receipts  receipts
	installed atomic.Uint64 // index of the last snapshot that raft was handed
	lead      leaderEnd
	pipes     pipelines
	closed    chan struct{}
	closing   sync.Once
	wg        sync.WaitGroup
}

// start starts passing requests on.
func (t *transport) start() {
	t.rpcs = make(chan raft.RPC)
	t.closed = make(chan struct{})
	t.wg.Go(t.pump)
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.rpcs }

// SetHeartbeatHandler implements raft.Transport by ignoring the handler: it would change
// terms beside raft's main loop, and two leaders or a forked log come of it. raft calls
// this last before it starts its goroutines.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) { t.running.Store(true) }

// Close implements raft.WithClose: it closes every connection and waits for its own
// goroutines.
func (t *transport) Close() error {
	var err error
	t.closing.Do(func() {
		close(t.closed)
		err = errors.Join(t.inner.Close(), t.conns.Close())
		t.wg.Wait()
	})
	return err
}

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := t.stalled(); err != nil {
		return err
	}
	return t.inner.AppendEntries(id, to, clamp(req), resp)
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.stalled(); err != nil {
		return err
	}
	return t.inner.InstallSnapshot(id, to, req, resp, data)
}

// AppendEntriesPipeline implements raft.Transport.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.inner.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	return t.pipes.add(newPipeline(p, t.logPoint, t.stalled)), nil
}

// logPoint implements logPoint. The term comes last: if this member led in it before, then
// it has heard of the commit from nobody else.
func (t *transport) logPoint() (commit, last, term uint64) {
	r := t.raft()
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
func (t *transport) RequestVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.stand(); err != nil {
		return err
	}
	return t.inner.RequestVote(id, to, req, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.stand(); err != nil {
		return err
	}
	return t.inner.RequestPreVote(id, to, req, resp)
}

// askTerm returns the current term of another member's raft. It asks for a pre-vote in
// term 0, which every raft refuses, naming its own, without changing anything.
func (t *transport) askTerm(self, p Peer) (uint64, error) {
	req := &raft.RequestPreVoteRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax,
		ID:              []byte(self.serverID()), Addr: []byte(self.Addr),
	}}
	var resp raft.RequestPreVoteResponse
	if err := t.inner.RequestPreVote(p.serverID(), raft.ServerAddress(p.Addr), req, &resp); err != nil {
		return 0, err
	}
	if resp.Granted || resp.Term == 0 {
		return 0, fmt.Errorf("quorum: member %d answered term %d", p.ID, resp.Term)
	}
	return resp.Term, nil
}

// pump passes incoming requests on to raft's main loop. It never waits for the network.
func (t *transport) pump() {
	for {
		select {
		case rpc := <-t.inner.Consumer():
			if !t.intercept(rpc) && !t.pass(rpc) {
				return
			}
		case <-t.closed:
			return
		}
	}
}

func (t *transport) pass(rpc raft.RPC) bool {
	select {
	case t.rpcs <- rpc:
		return true
	case <-t.closed:
		return false
	}
}

// intercept takes the requests that raft is not to see and answers them.
func (t *transport) intercept(rpc raft.RPC) bool {
	install, isInstall := rpc.Command.(*raft.InstallSnapshotRequest)
	r := t.raft()
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
		if t.joins() {
			t.lead.heard(req)
		}
	case *raft.RequestVoteRequest:
		if !t.votes() {
			rpc.Respond(&raft.RequestVoteResponse{Term: r.CurrentTerm()}, nil)
			return true
		}
	case *raft.RequestPreVoteRequest:
		if !t.votes() {
			rpc.Respond(&raft.RequestPreVoteResponse{Term: r.CurrentTerm()}, nil)
			return true
		}
	case *raft.TimeoutNowRequest:
		if err := t.stand(); err != nil {
			rpc.Respond(nil, err)
			return true
		}
	}
	return false
}

// leaderEnd is the end of the present leader's log, as its first request to this process
// showed it: everything that this member's former self may have helped to commit lies at or
// below it. A request with fewer than maxAppend entries reaches the end of its sender's
// log, and a commit notice lies at it; heartbeats show nothing.
type leaderEnd struct {
	mu    sync.Mutex
	term  uint64
	index uint64
}

func (l *leaderEnd) heard(req *raft.AppendEntriesRequest) {
	end := req.PrevLogEntry + uint64(len(req.Entries))
	if end == 0 || len(req.Entries) >= maxAppend {
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
