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
	// maxPool is how many idle connections are kept to each member. raft uses one for heartbeats,
	// one for votes and one for entries.
	maxPool = 3
	// sendRate is the slowest link, in bytes a second, on which a follower can be caught up. The
	// time for a request and its answer is rpcTimeout plus the time for its bytes at this rate.
	sendRate = 256 << 10
	// snapshotStep is for how many bytes of a snapshot the time for a request is given once more: its
	// receiver stores, reads and installs them before it answers.
	snapshotStep = 256 << 10
	// sendBuffer is how many bytes of a request are collected before they are written.
	sendBuffer = 64 << 10
)

// rpcTimeout returns the time limit for a request to a member and its answer, without its bytes.
func rpcTimeout(election time.Duration) time.Duration { return max(2*time.Second, 4*election) }

// allowance returns how much more time a request gets for its bytes.
func allowance(bytes int) time.Duration { return time.Duration(bytes) * time.Second / sendRate }

// dialer has the connections that this member has opened to others.
type dialer struct {
	stream  raft.StreamLayer
	timeout time.Duration // for a request without its bytes, and for dialing
	at      addressFunc   // by raft's configuration
	open    sync.Map      // *outConn → nil
	idle    sync.Map      // raft.ServerAddress → chan *outConn, which has maxPool places
	closed  atomic.Bool
}

// addressFunc returns the address of a server, and false if it is not known.
type addressFunc func(server raft.ServerID) (raft.ServerAddress, bool)

// outConn is a connection to a member. At most one goroutine sends on it at a time, and one waits
// for answers.
type outConn struct {
	net.Conn
	owner *dialer
	peer  uint32        // the member at the other end; 0: unknown
	from  raft.ServerID // the server at the other end; "": unknown
	to    raft.ServerAddress
	w     *bufio.Writer
	enc   *codec.Encoder // on w
	r     *bufio.Reader
	dec   *codec.Decoder // on r
	// takesFrames is set once the member has said that it takes frames.
	takesFrames atomic.Bool
	head        []byte // room for the head of a frame
}

// get returns a connection to a member, an idle one if there is one.
func (d *dialer) get(to raft.ServerAddress) (*outConn, error) { return d.getWithin(d.timeout, to) }

func (d *dialer) getWithin(limit time.Duration, to raft.ServerAddress) (*outConn, error) {
	select {
	case c := <-d.pool(to):
		return c, nil
	default:
	}
	conn, err := d.stream.Dial(to, limit)
	if err != nil {
		return nil, err
	}
	c := newOutConn(d, to, conn)
	if d.open.Store(c, nil); d.closed.Load() {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	if d.former(c) { // closeFormer may have missed it
		_ = c.Close()
		return nil, errMoved
	}
	return c, nil
}

func newOutConn(d *dialer, to raft.ServerAddress, conn net.Conn) *outConn {
	c := &outConn{Conn: conn, owner: d, to: to, w: bufio.NewWriterSize(conn, sendBuffer), r: bufio.NewReader(conn)}
	if dialed, ok := conn.(*Conn); ok {
		c.peer, c.from = dialed.Peer, Peer{ID: dialed.Peer, Disk: dialed.Disk}.ServerID()
	}
	c.enc, c.dec = newEncoder(c.w), codec.NewDecoder(c.r, new(codec.MsgpackHandle))
	return c
}

// former reports whether the server at the other end has another address by now.
func (d *dialer) former(c *outConn) bool {
	addr, known := d.at(c.from)
	return known && addr != c.to
}

// closeFormer closes the connections to addresses that their members have left. raft would go on with a pipeline
// that is open, and whoever is at that address may be another process by now. It also closes the idle connections to
// servers that raft's configuration does not have any more: nobody takes these, and each wiped disk would leave some.
func (d *dialer) closeFormer() {
	d.open.Range(func(open, _ any) bool {
		if c := open.(*outConn); d.former(c) {
			d.idle.Delete(c.to)
			_ = c.Close() // its user gets an error
		}
		return true
	})
	d.idle.Range(func(to, pool any) bool {
		d.closeGone(to.(raft.ServerAddress), pool.(chan *outConn))
		return true
	})
}

// closeGone closes the idle connections at an address to servers that are gone.
func (d *dialer) closeGone(to raft.ServerAddress, pool chan *outConn) {
	var kept []*outConn
	for range maxPool {
		select {
		case c := <-pool:
			if _, known := d.at(c.from); known {
				kept = append(kept, c)
				continue
			}
			d.idle.Delete(to)
			_ = c.Close()
		default:
		}
	}
	for _, c := range kept {
		d.keep(to, c)
	}
}

// keep makes a connection an idle one, or closes it if there are enough.
func (d *dialer) keep(to raft.ServerAddress, c *outConn) {
	select {
	case d.pool(to) <- c:
	default:
		_ = c.Close()
	}
}

func (d *dialer) pool(to raft.ServerAddress) chan *outConn {
	pool, _ := d.idle.LoadOrStore(to, make(chan *outConn, maxPool))
	return pool.(chan *outConn)
}

// close closes every connection, and those that are being dialed as soon as they are open.
func (d *dialer) close() {
	d.closed.Store(true)
	d.open.Range(func(c, _ any) bool { _ = c.(*outConn).Close(); return true })
}

func (c *outConn) Close() error {
	c.owner.open.Delete(c)
	return c.Conn.Close()
}

// call sends a request with so many bytes of entries to a member and waits for the answer.
func (d *dialer) call(to raft.ServerAddress, kind byte, req any, bytes int, resp any) error {
	return d.callWithin(d.timeout+allowance(bytes), to, kind, req, resp)
}

// callWithin does the same with another limit for the request and its answer.
func (d *dialer) callWithin(limit time.Duration, to raft.ServerAddress, kind byte, req, resp any) error {
	c, err := d.getWithin(min(limit, d.timeout), to)
	if err != nil {
		return err
	}
	err = c.SetDeadline(time.Now().Add(limit))
	if err == nil {
		err = c.send(kind, req)
	}
	if err == nil {
		err = c.answer(resp)
	}
	if err != nil {
		_ = c.Close()
		return err
	}
	d.keep(to, c)
	return nil
}

// sendSnapshot sends a snapshot to a member and waits for the answer.
func (d *dialer) sendSnapshot(to raft.ServerAddress, req *raft.InstallSnapshotRequest, body io.Reader, resp any) error {
	c, err := d.get(to)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing follows a snapshot
	limit := (d.timeout + allowance(snapshotStep)) * time.Duration(max(1, req.Size/snapshotStep))
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if err := c.send(requestSnapshot, req); err != nil {
		return err
	}
	if _, err := io.Copy(c.Conn, body); err != nil {
		return err
	}
	return c.answer(resp)
}

// send writes a request.
func (c *outConn) send(kind byte, req any) error {
	_ = c.w.WriteByte(kind) // Flush returns an error of w again
	if err := c.enc.Encode(req); err != nil {
		return err
	}
	return c.w.Flush()
}

// answer waits for the answer to the oldest request that is not answered. That request must be in MessagePack.
func (c *outConn) answer(resp any) error {
	var text string
	err := c.dec.Decode(&text)
	if r, ok := resp.(*raft.AppendEntriesResponse); ok && err == nil && text == "" {
		answer := appendAnswer{AppendEntriesResponse: r}
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
