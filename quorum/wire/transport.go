// Package wire carries raft between the members of an ensemble.
//
//   - Peer: one member of the server list, which every member writes in the same form.
//   - Hello, Listener, Stream: the hello with which every connection between members begins, on
//     both of their ports, and raft's connections after it. Plain ones carry checksums after the
//     hello.
//   - Door: bounds how many TLS handshakes strangers can begin, and whose addresses are members'.
//   - Transport: raft's transport. It speaks the bytes of raft's own transport, and frames with
//     members that take them. It checks the size of what arrives before decoding it, and avoids raft's known
//     problems with elections, commits, pipelines and snapshots.
//
// This package knows requests and connections, but not what a member's data contain. It gets that
// from its member through the functions in Config.
package wire

import (
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

var (
	errStarting           = errors.New("quorum: this member is starting")
	errSnapshotInProgress = errors.New("quorum: another snapshot is being received")
	errSnapshotReplaced   = errors.New("quorum: another snapshot is received instead")
	errSnapshotSize       = errors.New("quorum: snapshot of impossible size")
	errNotReached         = errors.New("quorum: the member was not reached while this one led")
	errAddressChanged     = errors.New("quorum: the member has another address by now")
)

// Config is what a Transport is built from: the network, and the functions through which it asks
// its member. Every field is required. The functions may be called by any goroutine, and must not
// wait unless the field says so.
type Config struct {
	StreamLayer     raft.StreamLayer // connections to other members: a *Stream
	LocalServer     Peer             // this server, with its disk
	ElectionTimeout time.Duration    // raft's election timeout
	Logger          *slog.Logger

	Raft      func() *raft.Raft          // returns nil until raft runs
	EndMember func(error)                // ends the member
	NewSpool  func() (disk.Spool, error) // opens a file for a received snapshot; waits for the disk

	// LimitToDurable returns index, or if that is lower, the index up to which all entries of this member's log
	// are on its disk.
	LimitToDurable func(index uint64) uint64

	// StoredTerm returns the term of an entry of this member's log; ok reports whether the log has it. A request has few entries that were
	// stored before, so it may read the disk.
	StoredTerm func(index uint64) (term uint64, ok bool)

	// VerifySnapshot reads all of a received snapshot, which may take long, and compares it with what its
	// request says. If it returns an error the snapshot is refused.
	VerifySnapshot    func(s io.Reader, req *raft.InstallSnapshotRequest) error
	SnapshotRejected  func(req *raft.InstallSnapshotRequest, why error) // called when a snapshot is refused
	SnapshotInstalled func(term uint64)                                 // called when a snapshot whose last entry is of term has been installed

	MayStand            func() error                      // returns nil if this member may be a candidate, or why not: it has no vote, is stalled or damaged
	MayAcceptLeadership func() error                      // returns nil if this member takes leadership that another one hands over, or why not
	StallError          func() error                      // returns why this member must send nothing as a leader; nil: it may
	LeadershipDeclined  func(by raft.ServerID, why error) // called when a member has refused leadership, or has not answered
	IsStableLeader      func(term uint64) bool            // reports whether this member leads in term, and is not handing over
	ConnectionLost      func(server raft.ServerID)        // called when a server's end has closed or reset its last connection to this member's port
}

// Transport carries raft's requests. It keeps raft from what it does wrong or does not know:
//
//   - There is no heartbeat fast path: all requests go through raft's main loop.
//   - A follower never hears of a commit beyond what the same request proves it holds, nor of one
//     that counts a copy which is not on this member's disk yet.
//   - A follower hears of a commit at once if its clients may wait for it, and soon otherwise.
//   - A pipeline ends at its first failure.
//   - A snapshot is received and verified outside the main loop, and the leader's heartbeats
//     are answered while raft installs it.
//   - Entries that come again, from behind a snapshot that this member has, are not compared with what
//     the snapshot has replaced: see skipStored.
//   - A request that would make raft panic is refused.
//   - A request that speaks for another member than its sender is refused.
//   - raft votes without regard to its own configuration: see nameVoter.
//   - A server without a vote does not stand for election, whatever it is asked.
//   - A leader sends nothing while its stores or state machine hang, or if its state is
//     damaged.
type Transport struct {
	cfg      Config
	dialer   *dialer
	receiver *receiver

	serverReplies   serverReplies
	openPipelines   sync.Map // *pipeline → nil: those that are open
	noticePacer     noticePacer
	commitBroadcast broadcast // entries were committed
	closed          chan struct{}
	closeOnce       sync.Once
}

// New returns a Transport over cfg.Stream, which it owns. The caller must call Close, even if it
// does not call Start.
func New(cfg Config) *Transport {
	t := &Transport{cfg: cfg, closed: make(chan struct{})}
	t.receiver = &receiver{cfg: &t.cfg, peerConns: newPeerConns(cfg.Logger), raftRequests: make(chan raft.RPC), closed: t.closed}
	t.dialer = &dialer{streamLayer: cfg.StreamLayer, callTimeout: rpcTimeout(cfg.ElectionTimeout), addressOf: t.addressOf}
	return t
}

// Start starts answering requests.
func (t *Transport) Start() { t.receiver.wg.Go(t.receiver.acceptLoop) }

// RaftRunning reports whether raft's goroutines run, or are about to start.
func (t *Transport) RaftRunning() bool { return t.receiver.raftRunning.Load() }

// ConfigurationChanged reports that another configuration of raft's was committed: connections to addresses that members have
// left are closed. It does not wait: with TLS that may take time.
func (t *Transport) ConfigurationChanged() { go t.dialer.closeObsolete() }

// addressOf implements addressFunc by raft's latest configuration.
func (t *Transport) addressOf(server raft.ServerID) (raft.ServerAddress, bool) {
	r := t.cfg.Raft()
	if r == nil {
		return "", false
	}
	for _, s := range r.GetConfiguration().Configuration().Servers { // does not wait
		if s.ID == server {
			return s.Address, true
		}
	}
	return "", false
}

// RepliedWithin returns the servers that have answered a request of this leader within d, in order of their names.
func (t *Transport) RepliedWithin(d time.Duration) []raft.ServerID {
	return t.serverReplies.repliedWithin(d)
}

// LastReplyAt returns when a server last answered a request of this leader, or the zero time.
func (t *Transport) LastReplyAt(server raft.ServerID) time.Time {
	return t.serverReplies.lastReplyAt(server)
}

// LongestLogs returns those of the same servers whose logs reach an index, as they answered, those with the
// longest logs first. Of several, the server comes first that answered last.
func (t *Transport) LongestLogs(d time.Duration, index uint64) []raft.ServerID {
	return t.serverReplies.longestLogs(d, index)
}

// Consumer implements raft.Transport.
func (t *Transport) Consumer() <-chan raft.RPC { return t.receiver.raftRequests }

// LocalAddr implements raft.Transport.
func (t *Transport) LocalAddr() raft.ServerAddress {
	return t.cfg.LocalServer.ServerAddress()
}

// EncodePeer implements raft.Transport.
func (t *Transport) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// DecodePeer implements raft.Transport.
func (t *Transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport by ignoring the handler. The handler would change
// terms outside raft's main loop, which can lead to two leaders or a forked log. raft calls this
// method last before it starts its goroutines.
func (t *Transport) SetHeartbeatHandler(func(raft.RPC)) { t.receiver.raftRunning.Store(true) }

// Close implements raft.WithClose. It closes every connection and waits for the Transport's
// goroutines.
func (t *Transport) Close() error {
	var err error
	t.closeOnce.Do(func() {
		close(t.closed)
		err = t.cfg.StreamLayer.Close()
		t.dialer.close()
		t.receiver.peerConns.close()
		t.receiver.wg.Wait()
	})
	return err
}

// AppendEntries implements raft.Transport. If it shortens a request, it shortens req too, so that
// raft continues after the entries that were sent. If the request fails and is not a heartbeat,
// AppendEntries returns only when the member can be reached again: see awaitMember.
func (t *Transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	req.Entries = req.Entries[:fittingCount(req.Entries)]
	t.awaitCommit(id, req)
	err := t.cfg.StallError()
	if err == nil {
		err = t.dialer.call(to, requestAppend, t.clampCommit(req), entriesBytes(req.Entries), resp)
	}
	switch {
	case err == nil:
		t.serverReplies.recordReply(id, resp.LastLog)
	case !isHeartbeat(req):
		t.awaitReachable(id, to, req.RPCHeader, req.Term)
	}
	return err
}

// InstallSnapshot implements raft.Transport. It waits until the member can be reached, and sends
// nothing before.
func (t *Transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if !t.awaitReachable(id, to, req.RPCHeader, req.Term) {
		return errNotReached
	}
	return t.dialer.sendSnapshot(to, req, data, resp)
}

// AppendEntriesPipeline implements raft.Transport.
func (t *Transport) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	if r := t.cfg.Raft(); r != nil && !isVoter(r.GetConfiguration().Configuration(), id) {
		return nil, raft.ErrPipelineReplicationNotSupported
	}
	c, err := t.dialer.getConn(to)
	if err != nil {
		return nil, err
	}
	mayHave := func(req *raft.AppendEntriesRequest) bool { return t.mayReceive(id, req) }
	return newPipeline(c, &t.openPipelines, t.logPosition, t.clampCommit, t.cfg.StallError, mayHave), nil
}

// logPosition implements the function type of that name. It reads the term last: if this member led in
// that term before, it has learned of the commit from no other member.
func (t *Transport) logPosition() (commit, last, term uint64) {
	r := t.cfg.Raft()
	if r == nil {
		return 0, 0, 0
	}
	commit, last = r.CommitIndex(), r.LastIndex()
	return commit, last, r.CurrentTerm()
}

// clampCommit lowers the commit index of req to the index of the last entry in req. A follower that accepts
// req has the leader's entries up to there. Its own later entries may conflict with the leader's log,
// and raft would let it commit those too if the commit index were higher. raft's commit index is often
// higher, because a request carries a bounded number of entries.
//
// It also lowers the commit index to the last durable entry of this member. raft has counted its copies
// of later ones, which a crash would lose.
func (t *Transport) clampCommit(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	proved := t.cfg.LimitToDurable(req.PrevLogEntry + uint64(len(req.Entries)))
	if req.LeaderCommitIndex <= proved {
		return req
	}
	lowered := *req
	lowered.LeaderCommitIndex = proved
	return &lowered
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(_ raft.ServerID, to raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := t.sendCandidacy(to, requestVote, req, resp); err != nil {
		return err
	}
	return checkTerm(resp.Term, req.Term) // raft takes over a term that it is answered
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(_ raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := t.sendCandidacy(to, requestPreVote, req, resp); err != nil {
		return err
	}
	return checkTerm(resp.Term, req.Term)
}

// sendCandidacy sends a candidate's request, if this member may be one. raft sends it once in an election. An idle connection
// may be to a process that has ended since, and then the request goes out again on another one: a member that has voted
// for this candidate says so again.
func (t *Transport) sendCandidacy(to raft.ServerAddress, kind byte, req, resp any) (err error) {
	for range maxIdleConns + 1 {
		if err := t.cfg.MayStand(); err != nil {
			return err
		}
		if err = t.dialer.call(to, kind, req, 0, resp); !isClosedByPeer(err) {
			return err
		}
	}
	return err
}

// timeoutNowPerElection is how many times the limit of a TimeoutNow fits into an election timeout. raft
// refuses entries until it is answered, and gives up a hand-over after an election timeout, so a member
// that has stopped must not hold it up for longer. A member that gets it late takes over all the same.
const timeoutNowPerElection = 2

// TimeoutNow implements raft.Transport.
func (t *Transport) TimeoutNow(id raft.ServerID, to raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	err := t.dialer.callWithin(t.cfg.ElectionTimeout/timeoutNowPerElection, to, requestTimeoutNow, req, resp)
	if err != nil {
		t.cfg.LeadershipDeclined(id, err)
	}
	return err
}
