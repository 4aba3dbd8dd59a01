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
	// minRate is how fast a request must arrive overall, in bytes a second, after the first
	// rateGrace. Otherwise a snapshot that trickles in would hold up the next one for ever.
	minRate   = 64 << 10
	rateGrace = 10 * time.Second
	// maxRequests limits the bytes of all requests that are being received or that raft has, beyond
	// keptRequest of each: the longest one, and in addition more than leaders send at a time.
	maxRequests = maxRequest + 16<<20
	// maxPeerConns is how many connections another member may have here. raft uses at most six, and
	// those of an earlier run of it may not have ended.
	maxPeerConns = 16
	// receiveBuffer is how many bytes are read from a connection at a time, and keptRequest how much
	// room for a request is kept for the next one. All but large entries fit into both.
	receiveBuffer = 16 << 10
	keptRequest   = 16 << 10
)

var errRequests = fmt.Errorf("quorum: requests of more than %d bytes at a time", maxRequests)

// conns has the connections that other members have opened. It limits their number, and the memory
// for all their requests together.
type conns struct {
	log *slog.Logger

	mu     sync.Mutex
	open   map[*inConn]struct{}
	bytes  int                  // of requests that are being received, or that raft has
	told   map[uint32]time.Time // by member: when a refused request was last logged
	closed bool
}

func newConns(log *slog.Logger) *conns {
	return &conns{log: log, open: map[*inConn]struct{}{}, told: map[uint32]time.Time{}}
}

// add takes over a new connection. If its member has maxPeerConns already, add closes the one that
// has been idle for longest.
func (c *conns) add(conn net.Conn) *inConn {
	in := newInConn(conn, c)
	c.mu.Lock()
	c.open[in] = struct{}{}
	surplus := c.surplus(in.peer)
	if c.closed {
		surplus = in
	}
	c.mu.Unlock()
	if surplus != nil {
		_ = surplus.Close() // the goroutine that serves it gets an error
	}
	return in
}

// surplus returns the connection that has to be closed because a member has more than
// maxPeerConns. It returns nil if the member has no more than that. It picks the connection that
// has been idle for longest, and none whose request raft is still handling.
func (c *conns) surplus(peer uint32) (idle *inConn) {
	n := 0
	for in := range c.open {
		if in.peer != peer {
			continue
		}
		if n++; !in.whole && (idle == nil || in.used.Before(idle.used)) {
			idle = in
		}
	}
	if n <= maxPeerConns {
		return nil
	}
	return idle
}

// count counts n more bytes of the request on in. If all requests together become too long, those
// that began first and are not complete lose their connections. If there is no such request, count
// returns an error, and this connection is closed.
func (c *conns) count(in *inConn, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += n
	in.held += n
	for c.bytes > maxRequests {
		oldest := c.oldest(in)
		if oldest == nil {
			return errRequests
		}
		c.bytes -= oldest.held
		oldest.held = 0
		go oldest.Conn.Close() // with TLS it may take time
	}
	return nil
}

// oldest returns the incomplete request that began first, other than that on in.
func (c *conns) oldest(in *inConn) (oldest *inConn) {
	for other := range c.open {
		if other != in && other.held > 0 && !other.whole && (oldest == nil || other.used.Before(oldest.used)) {
			oldest = other
		}
	}
	return oldest
}

// note records that a request on in has begun (whole is false), or that all of it has come.
func (c *conns) note(in *inConn, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in.whole, in.used = whole, time.Now()
}

// release stops counting the request on in.
func (c *conns) release(in *inConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= in.held
	in.held, in.whole, in.used = 0, false, time.Now()
}

// refused logs a request that raft cannot have sent, at most one of each member in each
// refusalInterval.
func (c *conns) refused(in *inConn, err error) {
	c.mu.Lock()
	last := c.told[in.peer]
	quiet := c.closed || !last.IsZero() && time.Since(last) < refusalInterval
	if !quiet {
		c.told[in.peer] = time.Now()
	}
	c.mu.Unlock()
	if !quiet {
		c.log.Warn("refused a request between members", "peer", in.peer, "remote", in.RemoteAddr().String(), "err", err)
	}
}

// close closes every connection, and those that are added later.
func (c *conns) close() {
	c.mu.Lock()
	c.closed = true
	open := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, in := range open {
		_ = in.Close()
	}
}

// inConn is a connection that another member has opened. One goroutine reads a request, answers it,
// and reads the next one.
type inConn struct {
	net.Conn
	owner *conns
	peer  uint32        // the member at the other end; 0: unknown
	from  raft.ServerID // the server at the other end; "": unknown
	r     *bufio.Reader
	w     *bufio.Writer
	enc   *codec.Encoder
	dec   *codec.Decoder
	room  []byte // for the bytes of a request that are no more than keptRequest
	form  form   // of the request that is to be answered
	// sender is the sender of frames: that of the last AppendEntries that checkSpeaker accepted. It is short, because
	// checkSpeaker has compared the id and replaced the address.
	sender raft.RPCHeader

	begun time.Time // when the request being read began; zero between requests
	got   int       // bytes read since then

	// Guarded by owner.mu.
	held  int       // bytes of the request that are counted; see conns.count
	whole bool      // all of them have come, and raft has them
	used  time.Time // when the first or the last of them came, or the answer was sent
}

func newInConn(conn net.Conn, owner *conns) *inConn {
	c := &inConn{
		Conn: conn, owner: owner, used: time.Now(), w: bufio.NewWriter(conn),
		dec: codec.NewDecoderBytes(nil, new(codec.MsgpackHandle)), room: make([]byte, 0, keptRequest),
	}
	if from, ok := conn.(*Conn); ok && from.Peer != 0 {
		c.peer, c.from = from.Peer, Peer{ID: from.Peer, Disk: from.Disk}.ServerID()
	}
	c.r, c.enc = bufio.NewReaderSize(c, receiveBuffer), newEncoder(c.w)
	return c
}

// Read reads more bytes of a request, and waits at most as long as the peer may pause.
func (c *inConn) Read(p []byte) (int, error) {
	var deadline time.Time
	if !c.begun.IsZero() {
		deadline = time.Now().Add(stallTimeout)
		if last := c.begun.Add(rateGrace + time.Duration(c.got/minRate)*time.Second); last.Before(deadline) {
			deadline = last
		}
	}
	if err := c.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.got += n
	return n, err
}

// next waits for a request and returns it, or the error that ends the connection.
func (c *inConn) next() (command any, err error) {
	kind, err := c.r.ReadByte()
	if err != nil {
		return nil, err
	}
	if int(kind) >= len(kinds) {
		return nil, fmt.Errorf("%w: type %d", errBounds, kind)
	}
	c.begun, c.got = time.Now(), 0
	c.owner.note(c, false)
	m := message{
		bounds: kinds[kind].bounds, from: c.r, b: c.room[:0],
		room: func(more int) error { return c.owner.count(c, more) },
	}
	c.form = kinds[kind].form
	if c.form != inMessagePack {
		if err := m.frame(kind); err != nil {
			return nil, err
		}
		c.owner.note(c, true)
		req := parseFrame(kind, m.b)
		req.RPCHeader = c.sender
		return req, nil
	}
	if err := m.value(0); err != nil {
		return nil, err
	}
	c.owner.note(c, true)
	command = kinds[kind].empty()
	c.dec.ResetBytes(m.b)
	if err := c.dec.Decode(command); err != nil {
		return nil, fmt.Errorf("%w: %w", errBounds, err)
	}
	return command, nil
}

// respond sends the answer to a request. A notice in a frame has no answer: respond returns errNotice if raft refused it,
// and otherwise nil.
func (c *inConn) respond(resp any, failed error) error {
	c.begun = time.Time{}
	c.owner.release(c)
	appended, _ := resp.(*raft.AppendEntriesResponse)
	switch {
	case c.form == unanswered && (failed != nil || appended == nil || !appended.Success):
		return errNotice
	case c.form == unanswered:
		return nil
	case c.form == inFrames:
		err := c.SetWriteDeadline(time.Now().Add(stallTimeout))
		_, _ = c.w.Write(appendFrameAnswer(c.room[:0], appended, failed)) // Flush returns an error of w again
		return errors.Join(err, c.w.Flush())
	case appended != nil:
		resp = appendAnswer{appended, true}
	}
	text := ""
	if failed != nil {
		text = failed.Error()
	}
	return errors.Join(c.SetWriteDeadline(time.Now().Add(stallTimeout)), c.enc.Encode(text), c.enc.Encode(resp), c.w.Flush())
}

func (c *inConn) Close() error {
	c.owner.release(c)
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// from reports whether a connection of a server is open.
func (c *conns) from(server raft.ServerID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for in := range c.open {
		if in.from == server {
			return true
		}
	}
	return false
}

// receiver answers the requests of other members, or passes them to raft. It is the half of a Transport that listens.
type receiver struct {
	cfg       *Config
	conns     *conns
	rpcs      chan raft.RPC
	running   atomic.Bool // raft's goroutines run, or are about to start
	receipts  receipts
	busy      atomic.Uint64 // term of the leader whose snapshot raft is installing; 0: none
	installed atomic.Uint64 // index of the last snapshot that was passed to raft
	closed    chan struct{} // by Transport.Close
	wg        sync.WaitGroup
}

// acceptLoop serves every connection that another member opens.
func (rc *receiver) acceptLoop() {
	for {
		conn, err := rc.cfg.Stream.Accept()
		if err != nil {
			select {
			case <-rc.closed:
			default:
				rc.cfg.Logger.Error("no other member can connect any more", "err", err)
			}
			return
		}
		in := rc.conns.add(conn)
		rc.wg.Go(func() {
			err := rc.serve(in)
			if _ = in.Close(); brokenOff(err) && in.from != "" && !rc.conns.from(in.from) {
				rc.cfg.Lost(in.from)
			}
		})
	}
}

// serve answers the requests on a connection, one after the other. It returns the error that ended the connection, or nil.
// The connection ends at a request that cannot be decoded, that speaks for another member, or that is a notice in a frame
// and refused by raft. It also ends after a snapshot: raft sends no request after it, and what comes may be the rest of its
// body.
func (rc *receiver) serve(in *inConn) error {
	for {
		command, err := in.next()
		if err == nil {
			err = checkRequest(command)
		}
		if err == nil {
			err = rc.checkSpeaker(in.from, command)
		}
		if req, ok := command.(*raft.AppendEntriesRequest); ok && err == nil {
			in.sender = req.RPCHeader
		}
		r := rc.cfg.Raft() // once: a request that is checked before raft runs must not get to it
		if err == nil && r != nil {
			err = checkTerm(termOf(command), r.CurrentTerm())
		}
		impostor := errors.Is(err, errImpostor)
		if impostor || errors.Is(err, errBounds) || errors.Is(err, errRequests) {
			rc.conns.refused(in, err)
		}
		if command == nil {
			return err
		}
		var resp any
		install, isInstall := command.(*raft.InstallSnapshotRequest)
		switch {
		case err != nil:
		case isInstall:
			resp, err = rc.install(r, install, io.LimitReader(in.r, install.Size))
		default:
			resp, err = rc.answer(r, in.from, command)
		}
		if broken := in.respond(resp, err); broken != nil || isInstall || impostor {
			return broken
		}
	}
}

// answer answers a request of a server, with r's answer unless raft must not see the request. r is nil
// until raft runs.
func (rc *receiver) answer(r *raft.Raft, from raft.ServerID, command any) (any, error) {
	if !rc.running.Load() || r == nil {
		return nil, errStarting
	}
	switch req := command.(type) {
	case *raft.AppendEntriesRequest:
		if heartbeat(req) {
			return rc.answerHeartbeat(r, req)
		}
		if req.PrevLogEntry < r.LastIndex() { // entries that are stored here come again
			command = skipStored(req, rc.cfg.Stored)
		}
	case *raft.RequestVoteRequest:
		nameVoter(r, &req.RPCHeader)
	case *raft.RequestPreVoteRequest:
		nameVoter(r, &req.RPCHeader)
	case *raft.TimeoutNowRequest:
		if err := cmp.Or(checkHandOver(r, from), rc.cfg.MayStand(), rc.cfg.MayTake()); err != nil {
			return nil, err
		}
	}
	return rc.pass(raft.RPC{Command: command}, nil)
}

// nameVoter makes raft vote without regard to its own configuration, as Ongaro's dissertation has it (4.1): it puts a voter
// of that configuration in place of the candidate's id. raft would give no vote to a candidate that does not vote in the
// latest configuration here. That may be an old one, and if the leader dies while a change is under way, the only candidate
// that has all committed entries may be such a one. raft uses the id for nothing else, and names the candidate by its address.
func nameVoter(r *raft.Raft, header *raft.RPCHeader) {
	for _, s := range r.GetConfiguration().Configuration().Servers { // does not wait
		if s.Suffrage == raft.Voter {
			header.ID = []byte(s.ID)
			return
		}
	}
}

// errInterrupted means that pass was interrupted.
var errInterrupted = errors.New("quorum: interrupted")

// pass passes a request to raft's main loop and waits for the answer. If interrupt fires before the
// main loop takes the request, it returns errInterrupted.
func (rc *receiver) pass(rpc raft.RPC, interrupt <-chan time.Time) (any, error) {
	answer := make(chan raft.RPCResponse, 1)
	rpc.RespChan = answer
	select {
	case rc.rpcs <- rpc:
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
