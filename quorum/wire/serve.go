package wire

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"

	"rollcall/internal/stages"
)

const (
	// stallTimeout limits a pause in the middle of a request. The wait for the next request is not limited.
	stallTimeout = 5 * time.Second
	// minRequestRate is the minimum average rate of a request, in bytes per second, after the first rateGrace.
	// Otherwise a snapshot that trickles in would block the next one for ever.
	minRequestRate = 64 << 10
	rateGrace      = 10 * time.Second
	// maxRequestMemory limits the bytes of all requests that are being received or that raft has, beyond
	// keptBufferSize each: the longest one, plus more than leaders send at a time.
	maxRequestMemory = maxAppendRequest + 16<<20
	// maxPeerConns limits another member's connections here. raft uses at most six, and direct messages one. Each is the first of up to
	// maxAttempts to be open, so that those that come at the same time as it take no place of another.
	maxPeerConns = 7 * maxAttempts
	// receiveBufferSize bounds a read from a connection, and keptBufferSize the buffer that is reused for the
	// next request. All but large entries fit into both.
	receiveBufferSize = 16 << 10
	keptBufferSize    = 16 << 10
)

var errRequestMemory = fmt.Errorf("quorum: requests of more than %d bytes at a time", maxRequestMemory)

// peerConns has the connections that other members have opened. It limits their number, and the memory for
// all their requests together.
type peerConns struct {
	logger *slog.Logger

	mu           sync.Mutex
	openConns    map[*inConn]struct{}
	requestBytes int              // being received, or held by raft
	lastLogged   logTimes[uint32] // by member
	closed       bool
}

func newPeerConns(log *slog.Logger) *peerConns {
	return &peerConns{logger: log, openConns: map[*inConn]struct{}{}, lastLogged: logTimes[uint32]{}}
}

// addConnEvicting registers a new connection. If its member already has maxPeerConns, it closes the one idle for
// longest.
func (c *peerConns) addConnEvicting(conn net.Conn) *inConn {
	in := newInConn(conn, c)
	c.mu.Lock()
	c.openConns[in] = struct{}{}
	surplus := c.surplusConn(in.peerID)
	if c.closed {
		surplus = in
	}
	c.mu.Unlock()
	if surplus != nil {
		_ = surplus.Close() // the goroutine that serves it gets an error
	}
	return in
}

// surplusConn returns the connection to close because a member has more than maxPeerConns, or nil. It is the
// one idle for longest, and never one whose request raft is handling.
func (c *peerConns) surplusConn(peer uint32) (idle *inConn) {
	n := 0
	for in := range c.openConns {
		if in.peerID != peer {
			continue
		}
		if n++; !in.requestComplete && (idle == nil || in.lastUsed.Before(idle.lastUsed)) {
			idle = in
		}
	}
	if n <= maxPeerConns {
		return nil
	}
	return idle
}

// reserveBytes counts n more bytes of the request on in. If all requests together become too long, the oldest
// incomplete ones lose their connections. If there is no other incomplete request, reserveBytes returns an
// error, and this connection is closed.
func (c *peerConns) reserveBytes(in *inConn, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requestBytes += n
	in.countedBytes += n
	for c.requestBytes > maxRequestMemory {
		oldest := c.oldestIncomplete(in)
		if oldest == nil {
			return errRequestMemory
		}
		c.requestBytes -= oldest.countedBytes
		oldest.countedBytes = 0
		go oldest.Conn.Close() // with TLS it may take time
	}
	return nil
}

// oldestIncomplete returns the incomplete request that began first, other than in's.
func (c *peerConns) oldestIncomplete(in *inConn) (oldest *inConn) {
	for other := range c.openConns {
		if other != in && other.countedBytes > 0 && !other.requestComplete &&
			(oldest == nil || other.lastUsed.Before(oldest.lastUsed)) {
			oldest = other
		}
	}
	return oldest
}

// noteRequest records that a request on in has begun, or is complete.
func (c *peerConns) noteRequest(in *inConn, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in.requestComplete, in.lastUsed, in.hasCarried = whole, time.Now(), true
}

// removeConn removes a connection that ends. Another one of the same server inherits hasCarried.
func (c *peerConns) removeConn(in *inConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.openConns, in)
	for other := range c.openConns {
		if in.hasCarried && other.serverID == in.serverID {
			other.hasCarried = true
			return
		}
	}
}

// isServerLost reports whether a removed connection was its server's last one, after requests of that server. A server that
// has sent none, because it has only probed this member's port, was not connected as a leader. If the end of a probe counted
// as a loss, two members that take each other for the last leader would probe each other without a pause until they know
// another leader.
func (c *peerConns) isServerLost(in *inConn) bool {
	c.mu.Lock()
	hasCarried := in.hasCarried
	c.mu.Unlock()
	return hasCarried && in.serverID != "" && !c.hasConnFrom(in.serverID)
}

// releaseBytes stops counting the request on in.
func (c *peerConns) releaseBytes(in *inConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requestBytes -= in.countedBytes
	in.countedBytes, in.requestComplete, in.lastUsed = 0, false, time.Now()
}

// logRejection logs a request that raft cannot have sent, at most one per member and refusalInterval.
func (c *peerConns) logRejection(in *inConn, err error) {
	c.mu.Lock()
	isDue := !c.closed && c.lastLogged.allowLine(in.peerID)
	c.mu.Unlock()
	if isDue {
		c.logger.Warn("refused a request between members", "peer", in.peerID, "remote", in.RemoteAddr().String(), "err", err)
	}
}

// close closes every connection, and those that are added later.
func (c *peerConns) close() {
	c.mu.Lock()
	c.closed = true
	open := slices.Collect(maps.Keys(c.openConns))
	c.mu.Unlock()
	for _, in := range open {
		_ = in.Close()
	}
}

// inConn is a connection that another member has opened. One goroutine reads its requests and replies to
// each.
type inConn struct {
	net.Conn
	peerConns  *peerConns
	peerID     uint32        // 0: unknown
	serverID   raft.ServerID // "": unknown
	r          *bufio.Reader
	w          *bufio.Writer
	enc        *codec.Encoder
	dec        *codec.Decoder
	keptBuffer []byte      // reused for requests up to keptBufferSize
	form       requestForm // of the current request
	replyBytes []byte      // buffer of write
	majority   uint64      // majority index of the current request, if it is a frame
	direct     *directPart // of the current request; nil: it has none
	replies    replyQueue
	// frameSender is the sender of frames: that of the last AppendEntries accepted by checkAndSetSender. It is
	// short, because checkAndSetSender has compared the id and replaced the address.
	frameSender raft.RPCHeader

	lastSent     time.Time // when raft last replied, or else when the hello was sent. The reply may be sent later
	requestBegun time.Time // of the current request; zero between requests
	requestBytes int       // read since then

	// Guarded by peerConns.mu.
	countedBytes    int       // see peerConns.reserveBytes
	requestComplete bool      // raft has it
	lastUsed        time.Time // first or last byte of a request, or its reply
	hasCarried      bool      // this connection, or one of the same server that ended before it, has carried a request
}

func newInConn(conn net.Conn, owner *peerConns) *inConn {
	c := &inConn{
		Conn: conn, peerConns: owner, lastUsed: time.Now(), lastSent: time.Now(), w: bufio.NewWriter(conn),
		dec: codec.NewDecoderBytes(nil, new(codec.MsgpackHandle)), keptBuffer: make([]byte, 0, keptBufferSize),
	}
	if from, ok := conn.(*Conn); ok && from.PeerID != 0 {
		c.peerID, c.serverID = from.PeerID, Peer{ID: from.PeerID, DiskID: from.PeerDisk}.ServerID()
	}
	c.r, c.enc = bufio.NewReaderSize(c, receiveBufferSize), newEncoder(c.w)
	return c
}

// Read reads more of a request, and waits at most as long as the peer may pause.
func (c *inConn) Read(p []byte) (int, error) {
	var deadline time.Time
	if !c.requestBegun.IsZero() {
		deadline = time.Now().Add(stallTimeout)
		if last := c.requestBegun.Add(rateGrace + time.Duration(c.requestBytes/minRequestRate)*time.Second); last.Before(deadline) {
			deadline = last
		}
	}
	if err := c.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.requestBytes += n
	return n, err
}

// readRequest reads a request, or returns the error that ends the connection.
func (c *inConn) readRequest() (command any, err error) {
	kind, err := c.r.ReadByte()
	if err != nil {
		return nil, err
	}
	c.requestBegun, c.requestBytes, c.direct = time.Now(), 0, nil
	c.peerConns.noteRequest(c, false)
	if kind == frameDirect {
		if kind, err = c.readDirectPart(); err != nil {
			return nil, err
		}
	}
	if int(kind) >= len(requestKinds) {
		return nil, fmt.Errorf("%w: type %d", errNotRaftRequest, kind)
	}
	m := messageReader{
		bounds: requestKinds[kind].bounds, from: c.r, buffer: c.keptBuffer[:0],
		reserve: func(more int) error { return c.peerConns.reserveBytes(c, more) },
	}
	c.form = requestKinds[kind].requestForm
	if kind == frameCopy {
		err := m.readBytes(copySize)
		if err != nil {
			return nil, err
		}
		c.peerConns.noteRequest(c, true)
		return parseCopy(m.buffer), nil
	}
	if c.form != inMessagePack {
		if err := m.readFrame(kind); err != nil {
			return nil, err
		}
		c.peerConns.noteRequest(c, true)
		req, majority := parseFrame(kind, m.buffer)
		req.RPCHeader, c.majority = c.frameSender, majority
		return req, cmp.Or(checkMajority(req, majority), checkDirect(req, c.direct))
	}
	if err := m.readValue(0); err != nil {
		return nil, err
	}
	c.peerConns.noteRequest(c, true)
	command = requestKinds[kind].newRequest()
	c.dec.ResetBytes(m.buffer)
	if err := c.dec.Decode(command); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotRaftRequest, err)
	}
	return command, nil
}

// readDirectPart reads the direct part of a request without its kind, and returns the kind of the frame after it.
func (c *inConn) readDirectPart() (kind byte, err error) {
	m := messageReader{bounds: requestKinds[frameDirect].bounds, from: c.r, buffer: c.keptBuffer[:0], reserve: func(int) error { return nil }}
	if c.direct, err = m.readDirect(); err != nil {
		return 0, err
	}
	if kind, err = c.r.ReadByte(); err == nil && kind != frameEntries && kind != frameNotice {
		err = fmt.Errorf("%w: type %d after a direct part: must be %d or %d", errNotRaftRequest, kind, frameEntries, frameNotice)
	}
	return kind, err
}

// endRequest records that raft has replied to the current request.
func (c *inConn) endRequest() {
	c.requestBegun = time.Time{}
	c.lastSent = time.Now() // a notice has no reply, but comes on no connection with heartbeats
	c.peerConns.releaseBytes(c)
}

// write sends a reply. A notice in a frame has none: write returns errNoticeRejected if raft rejected it, and otherwise nil.
func (c *inConn) write(form requestForm, resp any, failed error) error {
	appended, _ := resp.(*raft.AppendEntriesResponse)
	switch {
	case form == withoutReply && (failed != nil || appended == nil || !appended.Success):
		return errNoticeRejected
	case form == withoutReply:
		return nil
	case form == inFrames:
		err := c.SetWriteDeadline(time.Now().Add(stallTimeout))
		c.replyBytes = appendFrameReply(c.replyBytes[:0], appended, failed)
		_, _ = c.w.Write(c.replyBytes) // Flush returns an error of w again
		return errors.Join(err, c.w.Flush())
	case appended != nil:
		resp = appendReply{appended, true}
	}
	text := ""
	if failed != nil {
		text = failed.Error()
		text = text[:min(len(text), maxReplyText)]
	}
	return errors.Join(c.SetWriteDeadline(time.Now().Add(stallTimeout)), c.enc.Encode(text), c.enc.Encode(resp),
		c.w.Flush())
}

func (c *inConn) Close() error {
	c.peerConns.releaseBytes(c)
	c.peerConns.removeConn(c)
	c.replies.stop()
	return c.Conn.Close()
}

// hasConnFrom reports whether a server has an open connection.
func (c *peerConns) hasConnFrom(server raft.ServerID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for in := range c.openConns {
		if in.serverID == server {
			return true
		}
	}
	return false
}

// receiver is the listening half of a Transport: it replies to other members' requests or passes them to
// raft.
type receiver struct {
	cfg              *Config
	peerConns        *peerConns
	raftRequests     chan raft.RPC
	raftRunning      atomic.Bool // or about to start
	lastLeader       lastLeader
	directCommits    directCommits
	directCopies     directCopies
	snapshotReceipts snapshotReceipts
	installingTerm   atomic.Uint64 // of the leader whose snapshot raft is installing; 0: none
	lastInstalled    atomic.Uint64 // index of the last snapshot passed to raft
	logTurn          chan struct{} // with one place: see awaitLogTurn
	settled          broadcast     // fires when more entries are settled
	diskIsLate       atomic.Bool   // the disk has written nothing since a connection waited for it for long
	waitingMark      time.Duration // between two waiting marks
	closed           chan struct{} // by Transport.Close
	wg               sync.WaitGroup
}

func (rc *receiver) acceptLoop() {
	for {
		conn, err := rc.cfg.StreamLayer.Accept()
		if err != nil {
			select {
			case <-rc.closed:
			default:
				rc.cfg.Logger.Error("no other member can connect any more", "err", err)
			}
			return
		}
		in := rc.peerConns.addConnEvicting(conn)
		rc.wg.Go(func() {
			err := rc.serveConn(in)
			if _ = in.Close(); isClosedByPeer(err) && rc.peerConns.isServerLost(in) {
				rc.cfg.Elections.NoteConnectionLost(in.serverID)
			}
		})
	}
}

// serveConn handles the requests on a connection one after the other, and returns the error that ended it, or
// nil. The connection ends at a request that cannot be decoded or that speaks for another member, and at a
// notice in a frame that raft rejected. It also ends after a snapshot: raft sends no request after it, and
// further bytes may be the rest of its body.
func (rc *receiver) serveConn(in *inConn) error {
	for {
		command, err := in.readRequest()
		r := rc.cfg.Raft() // read once: a request checked before raft runs must not reach it
		if err == nil && r != nil {
			err = checkReachable(command, logEnd{term: r.CurrentTerm(), index: r.LastIndex()})
		}
		if report, ok := command.(*copyReport); ok && err == nil {
			rc.receiveCopy(r, in.serverID, *report)
			in.endRequest()
			continue
		}
		if err == nil {
			err = checkSafeForRaft(command)
		}
		if err == nil {
			err = rc.checkAndSetSender(in.serverID, command)
		}
		if req, ok := command.(*raft.AppendEntriesRequest); ok && err == nil {
			in.frameSender = req.RPCHeader
		}
		impostor := errors.Is(err, errImpostor)
		if impostor || errors.Is(err, errNotRaftRequest) || errors.Is(err, errRequestMemory) {
			rc.peerConns.logRejection(in, err)
		}
		if command == nil {
			return err
		}
		if req, ok := command.(*raft.AppendEntriesRequest); ok && err == nil && isHeartbeat(req) {
			rc.cfg.Acknowledged.note(in.serverID, in.lastSent)
		}
		var resp any
		install, isInstall := command.(*raft.InstallSnapshotRequest)
		switch {
		case err != nil:
		case isInstall:
			resp, err = rc.receiveAndInstall(r, install, io.LimitReader(in.r, install.Size))
		default:
			came := rc.cfg.Stages.Now()
			resp, err = rc.handleRequest(r, in.serverID, command)
			if req := acceptedAppend(command, resp); req != nil {
				recordAccepted(rc.cfg.Stages, req, came)
				rc.noteCommitted(in, req)
				rc.recordCommit(r)
				rc.noteDirectEarlyCommit(r, req, in.direct)
			}
			rc.noteResponse(in, command, resp)
		}
		in.endRequest()
		if broken := rc.reply(in, command, resp, err); broken != nil || isInstall || impostor {
			return broken
		}
	}
}

// acceptedAppend returns the AppendEntries that raft has accepted, or nil.
func acceptedAppend(command, resp any) *raft.AppendEntriesRequest {
	req, ok := command.(*raft.AppendEntriesRequest)
	if reply, isReply := resp.(*raft.AppendEntriesResponse); ok && isReply && reply != nil && reply.Success {
		return req
	}
	return nil
}

// recordAccepted records that the entries of an accepted request came at a time.
func recordAccepted(r *stages.Recorder, req *raft.AppendEntriesRequest, came stages.Time) {
	if n := len(req.Entries); n > 0 {
		r.Received(req.Entries[0].Index, req.Entries[n-1].Index, came)
	}
}

// recordCommit records the commit that a follower knows, up to which entries are settled.
func (rc *receiver) recordCommit(r *raft.Raft) {
	if r != nil && r.State() != raft.Leader {
		rc.cfg.Stages.CommitKnown(rc.cfg.Durability.LimitToSettled(r.CommitIndex()))
	}
}

// handleRequest returns the reply to a server's request: raft's, unless raft must not see the request. r is
// nil until raft runs.
func (rc *receiver) handleRequest(r *raft.Raft, from raft.ServerID, command any) (any, error) {
	if !rc.raftRunning.Load() || r == nil {
		return nil, errStarting
	}
	switch req := command.(type) {
	case *raft.AppendEntriesRequest:
		if isHeartbeat(req) {
			return rc.replyToHeartbeat(r, req)
		}
		if req.PrevLogEntry < r.LastIndex() || req.PrevLogEntry == 0 {
			return rc.appendAfterApplied(r, req)
		}
	case *raft.RequestVoteRequest:
		replaceCandidateByVoter(r, &req.RPCHeader)
		defer rc.reportShorter(r.LastIndex(), req)
	case *raft.RequestPreVoteRequest:
		rc.cfg.Elections.AwaitBacklog() // the leader's heartbeats may wait to be read
		replaceCandidateByVoter(r, &req.RPCHeader)
	case *raft.TimeoutNowRequest:
		if err := cmp.Or(checkFromLeader(r, from), rc.cfg.Elections.MayStand(), rc.cfg.Elections.MayAcceptLeadership()); err != nil {
			return nil, err
		}
		rc.cfg.LeaderCauses.noteHandOver(MemberID(from))
	}
	return rc.callRaft(raft.RPC{Command: command}, nil)
}

// replaceCandidateByVoter makes raft vote without regard to its own configuration, as in Ongaro's dissertation (4.1),
// by replacing the candidate's id with a voter's of that configuration. raft gives no vote to a candidate
// without a vote in the latest configuration here. That may be an old one, and if the leader dies during a
// change, such a candidate may be the only one with all committed entries. raft uses the id for nothing else;
// it identifies the candidate by its address.
func replaceCandidateByVoter(r *raft.Raft, header *raft.RPCHeader) {
	for _, s := range r.GetConfiguration().Configuration().Servers { // does not wait
		if s.Suffrage == raft.Voter {
			header.ID = []byte(s.ID)
			return
		}
	}
}

// reportShorter calls NoteShorterCandidate if this member's log, whose last entry is at index last, is longer than the
// candidate's, so that raft has given it no vote. The log whose last entry is of a later term is longer; if the terms
// are equal, that with the higher index.
func (rc *receiver) reportShorter(last uint64, req *raft.RequestVoteRequest) {
	if e := rc.cfg.StoredEntry(last); e != nil && (e.Term > req.LastLogTerm || e.Term == req.LastLogTerm && last > req.LastLogIndex) {
		rc.cfg.Elections.NoteShorterCandidate()
	}
}

var errInterrupted = errors.New("quorum: interrupted")

// callRaft passes a request to raft's main loop and waits for the reply. If interrupt fires before the main
// loop takes the request, it returns errInterrupted.
func (rc *receiver) callRaft(rpc raft.RPC, interrupt <-chan time.Time) (any, error) {
	answer, err := rc.submitToRaft(rpc, interrupt)
	if err != nil {
		return nil, err
	}
	select {
	case got := <-answer:
		return got.Response, got.Error
	case <-rc.closed:
		return nil, raft.ErrTransportShutdown
	}
}

// submitToRaft passes a request to raft's main loop, and returns the channel for the reply, which has a place for it. If
// interrupt fires before the main loop takes the request, it returns errInterrupted.
func (rc *receiver) submitToRaft(rpc raft.RPC, interrupt <-chan time.Time) (<-chan raft.RPCResponse, error) {
	answer := make(chan raft.RPCResponse, 1)
	rpc.RespChan = answer
	select {
	case rc.raftRequests <- rpc:
		return answer, nil
	case <-interrupt:
		return nil, errInterrupted
	case <-rc.closed:
		return nil, raft.ErrTransportShutdown
	}
}
