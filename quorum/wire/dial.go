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
	// maxIdleConns is how many idle connections are kept to each member. raft uses one for heartbeats,
	// one for votes and one for entries.
	maxIdleConns = 3
	// minSendRate is the slowest link, in bytes a second, on which a follower can be caught up. The
	// time for a request and its answer is rpcTimeout plus the time for its bytes at this rate.
	minSendRate = 256 << 10
	// snapshotTimeStep is for how many bytes of a snapshot the time for a request is given once more: its
	// receiver stores, reads and installs them before it answers.
	snapshotTimeStep = 256 << 10
	// sendBufferSize is how many bytes of a request are collected before they are written.
	sendBufferSize = 64 << 10
)

// rpcTimeout returns the time limit for a request to a member and its answer, without its bytes.
func rpcTimeout(election time.Duration) time.Duration { return max(2*time.Second, 4*election) }

// transferTime returns how much more time a request gets for its bytes.
func transferTime(bytes int) time.Duration { return time.Duration(bytes) * time.Second / minSendRate }

// dialer has the connections that this member has opened to others.
type dialer struct {
	streamLayer raft.StreamLayer
	callTimeout time.Duration // for a request without its bytes, and for dialing
	addressOf   addressFunc   // by raft's configuration
	openConns   sync.Map      // *outConn → nil
	idleConns   sync.Map      // raft.ServerAddress → chan *outConn, which has maxPool places
	closed      atomic.Bool
}

// addressFunc returns the address of a server, and false if it is not known.
type addressFunc func(server raft.ServerID) (raft.ServerAddress, bool)

// outConn is a connection to a member. At most one goroutine sends on it at a time, and one waits
// for answers.
type outConn struct {
	net.Conn
	dialer        *dialer
	peerID        uint32        // the member at the other end; 0: unknown
	serverID      raft.ServerID // the server at the other end; "": unknown
	serverAddress raft.ServerAddress
	w             *bufio.Writer
	enc           *codec.Encoder // on w
	r             *bufio.Reader
	dec           *codec.Decoder // on r
	// takesFrames is set once the member has said that it takes frames.
	takesFrames atomic.Bool
	frameHeader []byte // room for the head of a frame
}

// getConn returns a connection to a member, an idle one if there is one.
func (d *dialer) getConn(to raft.ServerAddress) (*outConn, error) {
	return d.getConnWithin(d.callTimeout, to)
}

func (d *dialer) getConnWithin(limit time.Duration, to raft.ServerAddress) (*outConn, error) {
	select {
	case c := <-d.idlePool(to):
		return c, nil
	default:
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
	if d.hasMoved(c) { // closeFormer may have missed it
		_ = c.Close()
		return nil, errAddressChanged
	}
	return c, nil
}

func newOutConn(d *dialer, to raft.ServerAddress, conn net.Conn) *outConn {
	c := &outConn{Conn: conn, dialer: d, serverAddress: to, w: bufio.NewWriterSize(conn, sendBufferSize), r: bufio.NewReader(conn)}
	if dialed, ok := conn.(*Conn); ok {
		c.peerID, c.serverID = dialed.PeerID, Peer{ID: dialed.PeerID, DiskID: dialed.PeerDisk}.ServerID()
	}
	c.enc, c.dec = newEncoder(c.w), codec.NewDecoder(c.r, new(codec.MsgpackHandle))
	return c
}

// hasMoved reports whether the server at the other end has another address by now.
func (d *dialer) hasMoved(c *outConn) bool {
	addr, known := d.addressOf(c.serverID)
	return known && addr != c.serverAddress
}

// closeObsolete closes the connections to addresses that their members have left. raft would go on with a pipeline
// that is open, and whoever is at that address may be another process by now. It also closes the idle connections to
// servers that raft's configuration does not have any more: nobody takes these, and each wiped disk would leave some.
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

// closeIdleRemoved closes the idle connections at an address to servers that are gone.
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

// putIdle makes a connection an idle one, or closes it if there are enough.
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

// close closes every connection, and those that are being dialed as soon as they are open.
func (d *dialer) close() {
	d.closed.Store(true)
	d.openConns.Range(func(c, _ any) bool { _ = c.(*outConn).Close(); return true })
}

func (c *outConn) Close() error {
	c.dialer.openConns.Delete(c)
	return c.Conn.Close()
}

// call sends a request with so many bytes of entries to a member and waits for the answer.
func (d *dialer) call(to raft.ServerAddress, kind byte, req any, bytes int, resp any) error {
	return d.callWithin(d.callTimeout+transferTime(bytes), to, kind, req, resp)
}

// callWithin does the same with another limit for the request and its answer.
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

// sendSnapshot sends a snapshot to a member and waits for the answer.
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

// sendRequest writes a request.
func (c *outConn) sendRequest(kind byte, req any) error {
	_ = c.w.WriteByte(kind) // Flush returns an error of w again
	if err := c.enc.Encode(req); err != nil {
		return err
	}
	return c.w.Flush()
}

// awaitReply waits for the answer to the oldest request that is not answered. That request must be in MessagePack.
func (c *outConn) awaitReply(resp any) error {
	var text string
	err := c.dec.Decode(&text)
	if r, ok := resp.(*raft.AppendEntriesResponse); ok && err == nil && text == "" {
		answer := appendReply{AppendEntriesResponse: r}
		err = c.dec.Decode(&answer)
		c.takesFrames.Store(answer.Frames)
	} else if err == nil {
		err = c.dec.Decode(resp)
	}
	if err == nil && text != "" {
		err = errors.New(text)
	}
	return err
}
