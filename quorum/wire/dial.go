package wire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

const (
	// maxIdleConns bounds the idle connections kept to each member. raft uses one each for heartbeats, votes
	// and entries.
	maxIdleConns = 3
	// minSendRate is the slowest link, in bytes per second, on which a follower can catch up. A request and
	// its reply may take rpcTimeout plus the time for the bytes at this rate.
	minSendRate = 256 << 10
	// snapshotTimeStep is the size in bytes for which a snapshot gets the time limit of one more request: its
	// receiver stores, reads and installs it before it replies.
	snapshotTimeStep = 256 << 10
	sendBufferSize   = 64 << 10
)

// rpcTimeout returns the time limit for a request and its reply, without its bytes.
func rpcTimeout(election time.Duration) time.Duration { return max(2*time.Second, 4*election) }

// transferTime returns the additional time limit for the bytes of a request.
func transferTime(bytes int) time.Duration { return time.Duration(bytes) * time.Second / minSendRate }

// dialer has the connections that this member has opened.
type dialer struct {
	streamLayer raft.StreamLayer
	callTimeout time.Duration // for dialing, and for a request without its bytes
	addressOf   addressFunc   // by raft's configuration
	openConns   sync.Map      // *outConn → nil
	idleConns   sync.Map      // raft.ServerAddress → chan *outConn of capacity maxIdleConns
	closed      atomic.Bool
}

// addressFunc returns the address of a server, and false if it is unknown.
type addressFunc func(server raft.ServerID) (raft.ServerAddress, bool)

// outConn is a connection to a member. At most one goroutine sends and one waits for replies.
type outConn struct {
	net.Conn
	dialer        *dialer
	peerID        uint32        // 0: unknown
	serverID      raft.ServerID // "": unknown
	serverAddress raft.ServerAddress
	w             *bufio.Writer
	enc           *codec.Encoder // on w
	r             *bufio.Reader
	dec           *codec.Decoder
	replyBuffer   []byte // reused for each value of a reply
	takesFrames   atomic.Bool
	frameHeader   []byte // buffer
}

// getConn returns an idle connection to a member, or a new one.
func (d *dialer) getConn(to raft.ServerAddress) (*outConn, error) {
	return d.getConnWithin(d.callTimeout, to)
}

func (d *dialer) getConnWithin(limit time.Duration, to raft.ServerAddress) (*outConn, error) {
	if c := d.takeIdle(to); c != nil {
		return c, nil
	}
	conn, err := d.streamLayer.Dial(to, limit)
	if err != nil {
		return nil, err
	}
	c := newOutConn(d, to, conn)
	if d.openConns.Store(c, nil); d.closed.Load() {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	if d.hasMoved(c) { // closeObsolete may have missed it
		_ = c.Close()
		return nil, errAddressChanged
	}
	return c, nil
}

// takeIdle returns an idle connection to a member, or nil. Some may have been closed here while they were idle: those
// to an ended process are, when the next process of its disk says hello (processTable).
func (d *dialer) takeIdle(to raft.ServerAddress) *outConn {
	for {
		select {
		case c := <-d.idlePool(to):
			if c.SetDeadline(time.Time{}) == nil {
				return c
			}
			_ = c.Close() // again, so that it leaves openConns
		default:
			return nil
		}
	}
}

func newOutConn(d *dialer, to raft.ServerAddress, conn net.Conn) *outConn {
	c := &outConn{
		Conn: conn, dialer: d, serverAddress: to, w: bufio.NewWriterSize(conn, sendBufferSize),
		r: bufio.NewReader(conn),
	}
	if dialed, ok := conn.(*Conn); ok {
		c.peerID, c.serverID = dialed.PeerID, Peer{ID: dialed.PeerID, DiskID: dialed.PeerDisk}.ServerID()
	}
	c.enc, c.dec = newEncoder(c.w), codec.NewDecoderBytes(nil, new(codec.MsgpackHandle))
	return c
}

// hasMoved reports whether the connected server has another address by now.
func (d *dialer) hasMoved(c *outConn) bool {
	addr, known := d.addressOf(c.serverID)
	return known && addr != c.serverAddress
}

// closeObsolete closes the connections to addresses that their members have left: raft would continue with an
// open pipeline although another process may have the address by now. It also closes the idle connections to
// servers that left raft's configuration, because they are never used again and each wiped disk would leave
// some.
func (d *dialer) closeObsolete() {
	d.openConns.Range(func(open, _ any) bool {
		if c := open.(*outConn); d.hasMoved(c) {
			d.idleConns.Delete(c.serverAddress)
			_ = c.Close() // its user gets an error
		}
		return true
	})
	d.idleConns.Range(func(to, pool any) bool {
		d.closeIdleRemoved(to.(raft.ServerAddress), pool.(chan *outConn))
		return true
	})
}

// closeIdleRemoved closes the idle connections at an address to servers that left raft's configuration.
func (d *dialer) closeIdleRemoved(to raft.ServerAddress, pool chan *outConn) {
	var kept []*outConn
	for range maxIdleConns {
		select {
		case c := <-pool:
			if _, known := d.addressOf(c.serverID); known {
				kept = append(kept, c)
				continue
			}
			d.idleConns.Delete(to)
			_ = c.Close()
		default:
		}
	}
	for _, c := range kept {
		d.putIdle(to, c)
	}
}

// putIdle closes the connection if there are maxIdleConns.
func (d *dialer) putIdle(to raft.ServerAddress, c *outConn) {
	select {
	case d.idlePool(to) <- c:
	default:
		_ = c.Close()
	}
}

func (d *dialer) idlePool(to raft.ServerAddress) chan *outConn {
	pool, _ := d.idleConns.LoadOrStore(to, make(chan *outConn, maxIdleConns))
	return pool.(chan *outConn)
}

// close closes every connection. Connections being dialed close as soon as they are open.
func (d *dialer) close() {
	d.closed.Store(true)
	d.openConns.Range(func(c, _ any) bool { _ = c.(*outConn).Close(); return true })
}

func (c *outConn) Close() error {
	c.dialer.openConns.Delete(c)
	return c.Conn.Close()
}

// call sends a request with so many bytes of entries to a member and waits for the reply.
func (d *dialer) call(to raft.ServerAddress, kind byte, req any, bytes int, resp any) error {
	return d.callWithin(d.callTimeout+transferTime(bytes), to, kind, req, resp)
}

// callWithin is call with its own time limit for the request and its reply.
func (d *dialer) callWithin(limit time.Duration, to raft.ServerAddress, kind byte, req, resp any) error {
	c, err := d.getConnWithin(min(limit, d.callTimeout), to)
	if err != nil {
		return err
	}
	err = c.SetDeadline(time.Now().Add(limit))
	if err == nil {
		err = c.sendRequest(kind, req)
	}
	if err == nil {
		err = c.awaitReply(resp)
	}
	if err != nil {
		_ = c.Close()
		return err
	}
	d.putIdle(to, c)
	return nil
}

func (d *dialer) sendSnapshot(to raft.ServerAddress, req *raft.InstallSnapshotRequest, body io.Reader, resp any) error {
	c, err := d.getConn(to)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing follows a snapshot
	limit := (d.callTimeout + transferTime(snapshotTimeStep)) * time.Duration(max(1, req.Size/snapshotTimeStep))
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if err := c.sendRequest(requestSnapshot, req); err != nil {
		return err
	}
	if _, err := io.Copy(c.Conn, body); err != nil {
		return err
	}
	return c.awaitReply(resp)
}

func (c *outConn) sendRequest(kind byte, req any) error {
	_ = c.w.WriteByte(kind) // Flush returns an error of w again
	if err := c.enc.Encode(req); err != nil {
		return err
	}
	return c.w.Flush()
}

// awaitReply waits for the reply to the oldest pending request, which must be in MessagePack.
func (c *outConn) awaitReply(resp any) error {
	var text string
	err := c.readReplyValue(&text)
	if r, ok := resp.(*raft.AppendEntriesResponse); ok && err == nil && text == "" {
		answer := appendReply{AppendEntriesResponse: r}
		err = c.readReplyValue(&answer)
		c.takesFrames.Store(answer.Frames)
	} else if err == nil {
		err = c.readReplyValue(resp)
	}
	if err == nil && text != "" {
		err = errors.New(text)
	}
	return err
}

// readReplyValue reads one of the two values of a reply. Like a request, it is checked before it is decoded.
func (c *outConn) readReplyValue(into any) error {
	m := messageReader{bounds: replyBounds, from: c.r, buffer: c.replyBuffer[:0], reserve: func(int) error { return nil }}
	if err := m.readValue(1); err != nil { // the text is no map
		return err
	}
	c.replyBuffer = m.buffer
	c.dec.ResetBytes(m.buffer)
	return c.dec.Decode(into)
}
