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
)

const (
	// stallTimeout is how long a peer may pause in the middle of a request. There is no limit on
	// the wait for the next request.
	stallTimeout = 5 * time.Second
	// minRequestRate is how fast a request must arrive overall, in bytes a second, after the first
	// rateGrace. Otherwise a snapshot that trickles in would hold up the next one for ever.
	minRequestRate = 64 << 10
	rateGrace      = 10 * time.Second
	// maxRequestMemory limits the bytes of all requests that are being received or that raft has, beyond
	// keptRequest of each: the longest one, and in addition more than leaders send at a time.
	maxRequestMemory = maxAppendRequest + 16<<20
	// maxPeerConns is how many connections another member may have here. raft uses at most six, and
	// those of an earlier run of it may not have ended.
	maxPeerConns = 16
	// receiveBufferSize is how many bytes are read from a connection at a time, and keptRequest how much
	// room for a request is kept for the next one. All but large entries fit into both.
	receiveBufferSize = 16 << 10
	keptBufferSize    = 16 << 10
)

var errRequestMemory = fmt.Errorf("quorum: requests of more than %d bytes at a time", maxRequestMemory)

// peerConns has the connections that other members have opened. It limits their number, and the memory
// for all their requests together.
type peerConns struct {
	logger *slog.Logger

	mu           sync.Mutex
	openConns    map[*inConn]struct{}
	requestBytes int                  // of requests that are being received, or that raft has
	lastLogged   map[uint32]time.Time // by member: when a refused request was last logged
	closed       bool
}

func newPeerConns(log *slog.Logger) *peerConns {
	return &peerConns{logger: log, openConns: map[*inConn]struct{}{}, lastLogged: map[uint32]time.Time{}}
}

// addConn takes over a new connection. If its member has maxPeerConns already, add closes the one that
// has been idle for longest.
func (c *peerConns) addConn(conn net.Conn) *inConn {
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

// surplusConn returns the connection that has to be closed because a member has more than
// maxPeerConns. It returns nil if the member has no more than that. It picks the connection that
// has been idle for longest, and none whose request raft is still handling.
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

// countBytes counts n more bytes of the request on in. If all requests together become too long, those
// that began first and are not complete lose their connections. If there is no such request, count
// returns an error, and this connection is closed.
func (c *peerConns) countBytes(in *inConn, n int) error {
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

// oldestIncomplete returns the incomplete request that began first, other than that on in.
func (c *peerConns) oldestIncomplete(in *inConn) (oldest *inConn) {
	for other := range c.openConns {
		if other != in && other.countedBytes > 0 && !other.requestComplete && (oldest == nil || other.lastUsed.Before(oldest.lastUsed)) {
			oldest = other
		}
	}
	return oldest
}

// noteRequest records that a request on in has begun (whole is false), or that all of it has come.
func (c *peerConns) noteRequest(in *inConn, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in.requestComplete, in.lastUsed = whole, time.Now()
}

// releaseBytes stops counting the request on in.
func (c *peerConns) releaseBytes(in *inConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requestBytes -= in.countedBytes
	in.countedBytes, in.requestComplete, in.lastUsed = 0, false, time.Now()
}

// logRejection logs a request that raft cannot have sent, at most one of each member in each
// refusalInterval.
func (c *peerConns) logRejection(in *inConn, err error) {
	c.mu.Lock()
	last := c.lastLogged[in.peerID]
	quiet := c.closed || !last.IsZero() && time.Since(last) < refusalInterval
	if !quiet {
		c.lastLogged[in.peerID] = time.Now()
	}
	c.mu.Unlock()
	if !quiet {
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

// inConn is a connection that another member has opened. One goroutine reads a request, answers it,
// and reads the next one.
type inConn struct {
	net.Conn
	peerConns  *peerConns
	peerID     uint32        // the member at the other end; 0: unknown
	serverID   raft.ServerID // the server at the other end; "": unknown
	r          *bufio.Reader
	w          *bufio.Writer
	enc        *codec.Encoder
	dec        *codec.Decoder
	keptBuffer []byte      // for the bytes of a request that are no more than keptRequest
	form       requestForm // of the request that is to be answered
	// frameSender is the sender of frames: that of the last AppendEntries that checkSpeaker accepted. It is short, because
	// checkSpeaker has compared the id and replaced the address.
	frameSender raft.RPCHeader

	requestBegun time.Time // when the request being read began; zero between requests
	requestBytes int       // bytes read since then

	// Guarded by owner.mu.
	countedBytes    int       // bytes of the request that are counted; see conns.count
	requestComplete bool      // all of them have come, and raft has them
	lastUsed        time.Time // when the first or the last of them came, or the answer was sent
}

func newInConn(conn net.Conn, owner *peerConns) *inConn {
	c := &inConn{
		Conn: conn, peerConns: owner, lastUsed: time.Now(), w: bufio.NewWriter(conn),
		dec: codec.NewDecoderBytes(nil, new(codec.MsgpackHandle)), keptBuffer: make([]byte, 0, keptBufferSize),
	}
	if from, ok := conn.(*Conn); ok && from.PeerID != 0 {
		c.peerID, c.serverID = from.PeerID, Peer{ID: from.PeerID, DiskID: from.PeerDisk}.ServerID()
	}
	c.r, c.enc = bufio.NewReaderSize(c, receiveBufferSize), newEncoder(c.w)
	return c
}

// Read reads more bytes of a request, and waits at most as long as the peer may pause.
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

// nextRequest waits for a request and returns it, or the error that ends the connection.
func (c *inConn) nextRequest() (command any, err error) {
	kind, err := c.r.ReadByte()
	if err != nil {
		return nil, err
	}
	if int(kind) >= len(requestKinds) {
		return nil, fmt.Errorf("%w: type %d", errNotRaftRequest, kind)
	}
	c.requestBegun, c.requestBytes = time.Now(), 0
	c.peerConns.noteRequest(c, false)
	m := messageReader{
		bounds: requestKinds[kind].bounds, from: c.r, buffer: c.keptBuffer[:0],
		reserve: func(more int) error { return c.peerConns.countBytes(c, more) },
	}
	c.form = requestKinds[kind].requestForm
	if c.form != inMessagePack {
		if err := m.readFrame(kind); err != nil {
			return nil, err
		}
		c.peerConns.noteRequest(c, true)
		req := parseFrame(kind, m.buffer)
		req.RPCHeader = c.frameSender
		return req, nil
	}
	if err := m.readValue(0); err != nil {
		return nil, err
	}
	c.peerConns.noteRequest(c, true)
	command = requestKinds[kind].empty()
	c.dec.ResetBytes(m.buffer)
	if err := c.dec.Decode(command); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotRaftRequest, err)
	}
	return command, nil
}

// sendReply sends the answer to a request. A notice in a frame has no answer: respond returns errNotice if raft refused it,
// and otherwise nil.
func (c *inConn) sendReply(resp any, failed error) error {
	c.requestBegun = time.Time{}
	c.peerConns.releaseBytes(c)
	appended, _ := resp.(*raft.AppendEntriesResponse)
	switch {
	case c.form == withoutReply && (failed != nil || appended == nil || !appended.Success):
		return errNoticeRejected
	case c.form == withoutReply:
		return nil
	case c.form == inFrames:
		err := c.SetWriteDeadline(time.Now().Add(stallTimeout))
		_, _ = c.w.Write(appendFrameReply(c.keptBuffer[:0], appended, failed)) // Flush returns an error of w again
		return errors.Join(err, c.w.Flush())
	case appended != nil:
		resp = appendReply{appended, true}
	}
	text := ""
	if failed != nil {
		text = failed.Error()
	}
	return errors.Join(c.SetWriteDeadline(time.Now().Add(stallTimeout)), c.enc.Encode(text), c.enc.Encode(resp), c.w.Flush())
}

func (c *inConn) Close() error {
	c.peerConns.releaseBytes(c)
	c.peerConns.mu.Lock()
	delete(c.peerConns.openConns, c)
	c.peerConns.mu.Unlock()
	return c.Conn.Close()
}

// hasConnFrom reports whether a connection of a server is open.
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

// receiver answers the requests of other members, or passes them to raft. It is the half of a Transport that listens.
type receiver struct {
	cfg              *Config
	peerConns        *peerConns
	raftRequests     chan raft.RPC
	raftRunning      atomic.Bool // raft's goroutines run, or are about to start
	snapshotReceipts snapshotReceipts
	installingTerm   atomic.Uint64 // term of the leader whose snapshot raft is installing; 0: none
	lastInstalled    atomic.Uint64 // index of the last snapshot that was passed to raft
	closed           chan struct{} // by Transport.Close
	wg               sync.WaitGroup
}

// acceptLoop serves every connection that another member opens.
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
		in := rc.peerConns.addConn(conn)
		rc.wg.Go(func() {
			err := rc.serveConn(in)
			if _ = in.Close(); isClosedByPeer(err) && in.serverID != "" && !rc.peerConns.hasConnFrom(in.serverID) {
				rc.cfg.ConnectionLost(in.serverID)
			}
		})
	}
}

// serveConn answers the requests on a connection, one after the other. It returns the error that ended the connection, or nil.
// The connection ends at a request that cannot be decoded, that speaks for another member, or that is a notice in a frame
// and refused by raft. It also ends after a snapshot: raft sends no request after it, and what comes may be the rest of its
// body.
func (rc *receiver) serveConn(in *inConn) error {
	for {
		command, err := in.nextRequest()
		if err == nil {
			err = checkRequest(command)
		}
		if err == nil {
			err = rc.checkSpeaker(in.serverID, command)
		}
		if req, ok := command.(*raft.AppendEntriesRequest); ok && err == nil {
			in.frameSender = req.RPCHeader
		}
		r := rc.cfg.Raft() // once: a request that is checked before raft runs must not get to it
		if err == nil && r != nil {
			err = checkTerm(termOf(command), r.CurrentTerm())
		}
		impostor := errors.Is(err, errImpostor)
		if impostor || errors.Is(err, errNotRaftRequest) || errors.Is(err, errRequestMemory) {
			rc.peerConns.logRejection(in, err)
		}
		if command == nil {
			return err
		}
		var resp any
		install, isInstall := command.(*raft.InstallSnapshotRequest)
		switch {
		case err != nil:
		case isInstall:
			resp, err = rc.receiveSnapshot(r, install, io.LimitReader(in.r, install.Size))
		default:
			resp, err = rc.handleRequest(r, in.serverID, command)
		}
		if broken := in.sendReply(resp, err); broken != nil || isInstall || impostor {
			return broken
		}
	}
}

// handleRequest answers a request of a server, with r's answer unless raft must not see the request. r is nil
// until raft runs.
func (rc *receiver) handleRequest(r *raft.Raft, from raft.ServerID, command any) (any, error) {
	if !rc.raftRunning.Load() || r == nil {
		return nil, errStarting
	}
	switch req := command.(type) {
	case *raft.AppendEntriesRequest:
		if isHeartbeat(req) {
			return rc.replyToHeartbeat(r, req)
		}
		if req.PrevLogEntry < r.LastIndex() { // entries that are stored here come again
			command = skipStored(req, rc.cfg.StoredTerm)
		}
	case *raft.RequestVoteRequest:
		substituteVoter(r, &req.RPCHeader)
	case *raft.RequestPreVoteRequest:
		substituteVoter(r, &req.RPCHeader)
	case *raft.TimeoutNowRequest:
		if err := cmp.Or(checkHandOver(r, from), rc.cfg.MayStand(), rc.cfg.MayAcceptLeadership()); err != nil {
			return nil, err
		}
	}
	return rc.passToRaft(raft.RPC{Command: command}, nil)
}

// substituteVoter makes raft vote without regard to its own configuration, as Ongaro's dissertation has it (4.1): it puts a voter
// of that configuration in place of the candidate's id. raft would give no vote to a candidate that does not vote in the
// latest configuration here. That may be an old one, and if the leader dies while a change is under way, the only candidate
// that has all committed entries may be such a one. raft uses the id for nothing else, and names the candidate by its address.
func substituteVoter(r *raft.Raft, header *raft.RPCHeader) {
	for _, s := range r.GetConfiguration().Configuration().Servers { // does not wait
		if s.Suffrage == raft.Voter {
			header.ID = []byte(s.ID)
			return
		}
	}
}

// errInterrupted means that pass was interrupted.
var errInterrupted = errors.New("quorum: interrupted")

// passToRaft passes a request to raft's main loop and waits for the answer. If interrupt fires before the
// main loop takes the request, it returns errInterrupted.
func (rc *receiver) passToRaft(rpc raft.RPC, interrupt <-chan time.Time) (any, error) {
	answer := make(chan raft.RPCResponse, 1)
	rpc.RespChan = answer
	select {
	case rc.raftRequests <- rpc:
	case <-interrupt:
		return nil, errInterrupted
	case <-rc.closed:
		return nil, raft.ErrTransportShutdown
	}
	select {
	case got := <-answer:
		return got.Response, got.Error
	case <-rc.closed:
		return nil, raft.ErrTransportShutdown
	}
}
