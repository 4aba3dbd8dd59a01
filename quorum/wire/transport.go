// Package wire carries raft between the members of an ensemble.
//
//   - Peer: one member of the server list, which every member writes in the same form.
//   - Hello, Listener, Stream: the hello that begins every connection between members, on both of their ports, and
//     raft's connections after it. Plain ones carry checksums after the hello.
//   - HandshakeLimiter: bounds the TLS handshakes that strangers can begin.
//   - Transport: raft's transport. It uses the bytes of raft's own transport, and frames with members that take them.
//     It checks the size of requests before decoding them, and avoids raft's known problems with elections, commits,
//     pipelines and snapshots.
//
// This package knows requests and connections, but not a member's data. It gets those through the functions in
// Config.
package wire

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/lockwatch"
	"rollcall/internal/stages"
)

var (
	errStarting           = errors.New("quorum: this member is starting")
	errSnapshotInProgress = errors.New("quorum: another snapshot is being received")
	errSnapshotReplaced   = errors.New("quorum: another snapshot is received instead")
	errSnapshotSize       = errors.New("quorum: snapshot of impossible size")
	errNotReached         = errors.New("quorum: the member was not reached while this one led")
	errLeaderHeard        = errors.New("quorum: the leader was heard after a pause of this process")
	errAddressChanged     = errors.New("quorum: the member has another address by now")
)

// Config configures a Transport: the network, and the functions that connect it to its member.
// Every field is required unless its comment says otherwise. The functions may be called by any goroutine, and must not block unless the field
// allows it. So may the methods of its interfaces.
type Config struct {
	StreamLayer     raft.StreamLayer // a *Stream
	LocalServer     Peer             // with its disk
	ElectionTimeout time.Duration    // raft's
	Stages          *stages.Recorder // records the times of entries; nil: nothing is recorded
	Logger          *slog.Logger

	LeaderCauses *LeaderCauses // shared with the member; nil: the transport has its own
	Acknowledged *Acknowledged // likewise
	LeadTimes    *LeadTimes    // likewise

	Raft      func() *raft.Raft // returns nil until raft runs
	EndMember func(error)       // ends the member

	Durability Durability // of this member's log
	Elections  Elections  // of this member
	Snapshots  Snapshots  // that this member receives

	// AwaitingCommit returns the members whose clients wait for entries that this leader has proposed, in any order. nil: there are none
	AwaitingCommit func() []uint32

	Releases Releases // of committed entries; nil: all are released

	// ConfigurationCommitted reports whether the last configuration in this member's log is committed.
	ConfigurationCommitted func() bool

	// StoredEntry returns an entry of this member's log, or nil if the log does not have it. It may read the disk.
	StoredEntry func(index uint64) *raft.Log
}

// Transport carries raft's requests. It prevents or works around these problems of raft:
//
//   - There is no heartbeat fast path: all requests go through raft's main loop.
//   - A follower never learns of a commit beyond the entries that the same request proves it has, nor of one
//     that counts a copy which is not yet on its member's disk.
//   - A follower acknowledges entries when they are settled: on its disk, or known to be committed. Meanwhile it takes the
//     next requests.
//   - A follower learns of a commit at once if its clients may wait for it, and soon otherwise.
//   - A pipeline ends at its first failure.
//   - A snapshot is received and verified outside the main loop, and the leader's heartbeats get replies
//     while raft installs it.
//   - raft does not read an entry that is in a snapshot only: see skipApplied.
//   - A request that would make raft panic is rejected.
//   - A request that names another sender than its connection's member is rejected.
//   - raft votes without regard to its own configuration: see replaceCandidateByVoter.
//   - A server without a vote never stands for election.
//   - A leader sends nothing while its stores or state machine hang, or if its state is damaged.
type Transport struct {
	cfg      Config
	dialer   *dialer
	receiver *receiver

	serverReplies   serverReplies
	durableAcks     durableAcks
	openPipelines   sync.Map // *pipeline → nil
	commitBroadcast broadcast
	closed          chan struct{}
	closeOnce       sync.Once
}

// New returns a Transport over cfg.StreamLayer, which it owns. The caller must call Close, even without
// Start.
func New(cfg Config) *Transport {
	cfg.LeaderCauses = cmp.Or(cfg.LeaderCauses, NewLeaderCauses(cfg.LocalServer.ID))
	cfg.Acknowledged = cmp.Or(cfg.Acknowledged, new(Acknowledged))
	cfg.LeadTimes = cmp.Or(cfg.LeadTimes, new(LeadTimes))
	if cfg.Releases == nil {
		cfg.Releases = allReleased{}
	}
	if cfg.AwaitingCommit == nil {
		cfg.AwaitingCommit = func() []uint32 { return nil }
	}
	t := &Transport{cfg: cfg, closed: make(chan struct{})}
	t.receiver = &receiver{
		cfg: &t.cfg, peerConns: newPeerConns(cfg.Logger), raftRequests: make(chan raft.RPC),
		logTurn: make(chan struct{}, 1), closed: t.closed, waitingMark: rpcTimeout(cfg.ElectionTimeout) / waitingMarksPerTimeout,
	}
	t.dialer = &dialer{streamLayer: cfg.StreamLayer, callTimeout: rpcTimeout(cfg.ElectionTimeout), addressOf: t.addressOf}
	t.receiver.directCopies = directCopies{dialer: t.dialer, closed: t.closed}
	return t
}

// Start starts accepting requests.
func (t *Transport) Start() { t.receiver.wg.Go(t.receiver.acceptLoop) }

// RaftRunning reports whether raft's goroutines run, or are about to start.
func (t *Transport) RaftRunning() bool { return t.receiver.raftRunning.Load() }

// SnapshotBeingReceived returns the bytes that have come of the snapshot that a leader sends, and its size. ok is false
// if none does.
func (t *Transport) SnapshotBeingReceived() (received, size int64, ok bool) {
	return t.receiver.snapshotReceipts.beingReceived()
}

// CloseObsoleteConns closes the connections to addresses that members have left, after a new configuration
// of raft's was committed. It does not wait, because with TLS closing may take time.
func (t *Transport) CloseObsoleteConns() { go t.dialer.closeObsolete() }

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

// RepliedWithin returns the servers that replied to this leader within d, in order of their names.
func (t *Transport) RepliedWithin(d time.Duration) []raft.ServerID {
	return t.serverReplies.repliedWithin(d)
}

// LastReplyAt returns the time of a server's last reply to this leader, or the zero time.
func (t *Transport) LastReplyAt(server raft.ServerID) time.Time {
	return t.serverReplies.lastReplyAt(server)
}

// LongestLogs returns the servers of RepliedWithin whose logs reach index, as they replied. Longer logs come
// first; among equals, the latest reply.
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

// SetHeartbeatHandler implements raft.Transport by ignoring the handler. The handler would change terms
// outside raft's main loop, which can lead to two leaders or a forked log. raft calls this method last before
// it starts its goroutines.
func (t *Transport) SetHeartbeatHandler(func(raft.RPC)) { t.receiver.raftRunning.Store(true) }

// Close implements raft.WithClose. It closes every connection and waits for the Transport's goroutines.
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

// AppendEntries implements raft.Transport. If it sends more or fewer entries than raft's request has, req has them too, so that
// raft continues after the entries that were sent. A failed request that is not a heartbeat returns only when the
// member is reachable again: see heartbeatUntilReachable.
func (t *Transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse,
) error {
	addLaterEntries(&t.cfg, req)
	req.Entries = req.Entries[:fittingCount(req.Entries)]
	t.awaitThenTrimUncommitted(id, req)
	err, sent, begun := t.cfg.Elections.MayLead(), req, time.Now()
	if err == nil {
		sent = clampToReleased(t.cfg.Releases, t.clampCommit(req))
		err = cmp.Or(t.dialer.call(to, requestAppend, sent, entriesBytes(req.Entries), resp), checkReply(req, resp))
	}
	switch {
	case err == nil:
		t.serverReplies.recordReply(id, resp.LastLog)
		if isHeartbeat(req) && resp.Term == req.Term {
			t.cfg.LeadTimes.noteReply(id, req.Term, begun)
		}
		if resp.Success && !isHeartbeat(req) {
			recordAcked(t.cfg.Stages, MemberID(id), sent)
			t.serverReplies.recordAccepted(id, sent)
			t.durableAcks.noteAccepted(&t.cfg, id, sent)
		}
	case !isHeartbeat(req):
		t.heartbeatUntilReachable(id, to, req.RPCHeader, req.Term)
	}
	return err
}

// InstallSnapshot implements raft.Transport. It sends nothing until the member is reachable.
func (t *Transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	if !t.heartbeatUntilReachable(id, to, req.RPCHeader, req.Term) {
		return errNotReached
	}
	return cmp.Or(t.dialer.sendSnapshot(to, req, data, resp), logEnd{term: req.Term}.checkTerm(resp.Term))
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
	return newPipeline(c, t.serverReplies.lastAccepted(id), &t.openPipelines, followerSource{t, id}, t.cfg.Stages), nil
}

// recordAcked records that a follower has confirmed the entries of a request.
func recordAcked(r *stages.Recorder, member uint32, req *raft.AppendEntriesRequest) {
	if n := len(req.Entries); n > 0 {
		r.Acked(member, req.Entries[0].Index, req.Entries[n-1].Index)
	}
}

// logPosition implements pipelineSource. It reads the term last: if this member led in that term before, it
// has learned of the commit from no other member.
func (t *Transport) logPosition() (commit, last, term uint64) {
	r := t.cfg.Raft()
	if r == nil {
		return 0, 0, 0
	}
	commit, last = r.CommitIndex(), r.LastIndex()
	return commit, last, r.CurrentTerm()
}

// clampCommit lowers the commit index of req to the index of the last entry in req. A follower that accepts
// req has the leader's entries up to there. Its own later entries may conflict with the leader's log, and
// with a higher commit index raft would let it commit those too. raft's commit index is often higher, because
// a request carries a bounded number of entries.
//
// It also lowers the commit index to the last settled entry. raft has counted this member's copies of later ones, which a
// crash would lose.
func (t *Transport) clampCommit(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	proved := t.cfg.Durability.LimitToSettled(req.PrevLogEntry + uint64(len(req.Entries)))
	if req.LeaderCommitIndex <= proved {
		return req
	}
	lowered := *req
	lowered.LeaderCommitIndex = proved
	return &lowered
}

// clampToReleased lowers the commit index of req to the last entry that this leader has released.
func clampToReleased(releases Releases, req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	released := releases.Limit(req.Term, req.LeaderCommitIndex)
	if req.LeaderCommitIndex <= released {
		return req
	}
	lowered := *req
	lowered.LeaderCommitIndex = released
	return &lowered
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(_ raft.ServerID, to raft.ServerAddress, req *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse,
) error {
	t.cfg.LeaderCauses.noteCandidacy(req.Term, req.LeadershipTransfer)
	if err := t.sendCandidacy(to, requestVote, req, resp); err != nil {
		return err
	}
	return logEnd{term: req.Term}.checkTerm(resp.Term) // raft adopts the term of a reply
}

// RequestPreVote implements raft.WithPreVote. After a pause of this process it first hears what had come: a leader's heartbeats
// may have waited in a socket, and then this member is no candidate any more.
func (t *Transport) RequestPreVote(_ raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse,
) error {
	if t.cfg.Elections.AwaitBacklog() && !isStillCandidate(t) {
		return errLeaderHeard
	}
	if err := t.sendCandidacy(to, requestPreVote, req, resp); err != nil {
		return err
	}
	return logEnd{term: req.Term}.checkTerm(resp.Term)
}

// isStillCandidate reports whether raft is a candidate when its main loop has handled the requests that were read before.
func isStillCandidate(t *Transport) bool {
	err := t.AwaitMainLoop(t.cfg.ElectionTimeout)
	r := t.cfg.Raft()
	return err == nil && r != nil && r.State() == raft.Candidate
}

// sendCandidacy sends a candidate's request, if this member may be one. raft sends it once per election. An
// idle connection may be to a process that has ended since; then the request is repeated on another one, and
// a member that has voted for this candidate repeats its vote.
func (t *Transport) sendCandidacy(to raft.ServerAddress, kind byte, req, resp any) (err error) {
	for range maxIdleConns + 1 {
		if err := t.cfg.Elections.MayStand(); err != nil {
			return err
		}
		if err = t.dialer.call(to, kind, req, 0, resp); !isClosedByPeer(err) {
			return err
		}
	}
	return err
}

// timeoutNowPerElection divides the election timeout into the limit of a TimeoutNow. raft rejects entries
// until the reply, and gives up a transfer after an election timeout, so a stopped member must not delay it
// for longer. A member that gets the request late takes over all the same.
const timeoutNowPerElection = 2

// TimeoutNow implements raft.Transport.
func (t *Transport) TimeoutNow(id raft.ServerID, to raft.ServerAddress, req *raft.TimeoutNowRequest,
	resp *raft.TimeoutNowResponse,
) error {
	err := t.dialer.callWithin(t.cfg.ElectionTimeout/timeoutNowPerElection, to, requestTimeoutNow, req, resp)
	if err != nil {
		t.cfg.Elections.NoteDeclined(id, err)
	}
	return err
}

// Locks returns the locks of the transport, without those of pipelines.
func (t *Transport) Locks() []lockwatch.Lock {
	return []lockwatch.Lock{
		{Name: "wire.serverReplies.mu", Locker: &t.serverReplies.mu},
		{Name: "wire.broadcast.mu", Locker: &t.commitBroadcast.mu},
		{Name: "wire.peerConns.mu", Locker: &t.receiver.peerConns.mu},
		{Name: "wire.lastLeader.mu", Locker: &t.receiver.lastLeader.mu},
		{Name: "wire.snapshotReceipts.mu", Locker: &t.receiver.snapshotReceipts.mu},
		{Name: "wire.broadcast.mu", Locker: &t.receiver.settled.mu},
		{Name: "wire.durableAcks.mu", Locker: &t.durableAcks.mu},
		{Name: "wire.directCommits.mu", Locker: &t.receiver.directCommits.mu},
		{Name: "wire.directCopies.mu", Locker: &t.receiver.directCopies.mu},
		{Name: "wire.LeaderCauses.mu", Locker: &t.cfg.LeaderCauses.mu},
		{Name: "wire.Acknowledged.mu", Locker: &t.cfg.Acknowledged.mu},
		{Name: "wire.LeadTimes.mu", Locker: &t.cfg.LeadTimes.mu},
	}
}
