package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"rollcall/integration/wire"
	"rollcall/lab/history"
	"rollcall/zk/jute"
)

// A call on a Client may end with one of these errors or with a code of the server.
var (
	ErrLoss    = errors.New("cluster: connection lost, outcome unknown")
	errExpired = errors.New("cluster: session expired")
	errClosed  = errors.New("cluster: client closed")
)

// Client keeps one session as a ZooKeeper client does. It pings when it has been idle for a third
// of the timeout. If its connection breaks, or is silent for two thirds, it tries the other members
// in turn to resume the session. It counts what its user would notice. It is safe for concurrent
// use.
type Client struct {
	record  *historyRecord
	dial    func(ctx context.Context, member uint32) (*wire.Conn, error)
	members []uint32 // in the order in which to try them; the first is home
	timeout time.Duration
	ctx     context.Context
	stop    context.CancelFunc
	done    chan struct{}

	mu          sync.Mutex
	changed     *sync.Cond
	session     jute.ConnectResponse
	at          uint32 // the member that it is connected to, 0: none
	conn        *wire.Conn
	number      uint64      // the number of conn in the record
	out         chan []byte // frames for conn's writer; nil without a connection
	zxid        int64
	xid         int32
	lastSent    time.Time
	pending     []*Call
	events      []jute.WatcherEvent
	disconnects int
	torn        bool // the last connection broke while writes were in flight
	moves       int  // how often it has reconnected after such a break
	fatal       error
}

// Call is a request in flight.
type Call struct {
	xid   int32
	op    jute.Op
	id    history.CallID
	done  chan struct{}
	reply wire.Reply
	err   error
}

// Wait returns the reply, or ErrLoss, errExpired or errClosed. A server's error code is
// returned as the error too.
func (c *Call) Wait() (wire.Reply, error) {
	<-c.done
	if c.err == nil && c.reply.Err != jute.OK {
		return c.reply, c.reply.Err
	}
	return c.reply, c.err
}

// NewClient starts a client outside an Ensemble, which keeps a session until ctx ends. dial
// connects to one of members, which are tried in order.
func NewClient(ctx context.Context, members []uint32, timeout time.Duration, dial func(context.Context, uint32) (*wire.Conn, error)) *Client {
	return newClient(ctx, &historyRecord{}, members, timeout, dial)
}

func newClient(ctx context.Context, record *historyRecord, members []uint32, timeout time.Duration, dial func(context.Context, uint32) (*wire.Conn, error)) *Client {
	c := &Client{record: record, dial: dial, members: members, timeout: timeout, done: make(chan struct{})}
	c.ctx, c.stop = context.WithCancel(ctx)
	c.changed = sync.NewCond(&c.mu)
	go c.connectLoop()
	return c
}

// connectLoop connects, reads until the connection breaks, and connects again elsewhere.
func (c *Client) connectLoop() {
	defer close(c.done)
	for i := 0; c.ctx.Err() == nil; i++ {
		member := c.members[i%len(c.members)]
		conn, err := c.connectTo(member)
		if errors.Is(err, errExpired) {
			c.stopFor(err)
			return
		}
		if err != nil {
			pauseFor(c.ctx, time.Duration(20+rand.IntN(60))*time.Millisecond)
			continue
		}
		c.readLoop(conn)
		c.lost(conn)
		i = slices.Index(c.members, member)
	}
	c.stopFor(errClosed)
}

// connectTo does the handshake with one member, for a new session or the one that it has.
func (c *Client) connectTo(member uint32) (*wire.Conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.timeout/time.Duration(len(c.members)))
	defer cancel()
	conn, err := c.dial(ctx, member)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // if the handshake takes too long
	c.mu.Lock()
	session, zxid := c.session, c.zxid
	c.mu.Unlock()
	var resp jute.ConnectResponse
	if session.SessionID == 0 {
		resp, err = conn.Open(c.timeout)
	} else {
		resp, err = conn.Resume(session, zxid)
	}
	if err == nil && resp.TimeOut <= 0 {
		err = errExpired
		c.record.noteConnection(history.Expired, session.SessionID, 0, member)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	c.noteConnected(member, conn, resp)
	return conn, nil
}

// noteConnected notes a connection that has a session, and starts its loops.
func (c *Client) noteConnected(member uint32, conn *wire.Conn, resp jute.ConnectResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp.Passwd = slices.Clone(resp.Passwd)
	c.session, c.conn, c.at = resp, conn, member
	c.number = c.record.noteConnection(history.Connected, resp.SessionID, 0, member)
	if c.torn {
		c.torn = false
		c.moves++
	}
	c.lastSent = time.Now()
	c.out = make(chan []byte, maxUnsent)
	c.changed.Broadcast()
	go c.pingLoop(conn)
	go writeFrames(conn, c.out)
}

// maxUnsent bounds the requests that wait for a server that has stopped reading.
const maxUnsent = 4096

// writeFrames sends frames until out is closed. If the connection breaks, the reader notices.
func writeFrames(conn *wire.Conn, out <-chan []byte) {
	for frame := range out {
		if err := jute.WriteFrame(conn.Conn, frame); err != nil {
			_ = conn.Close()
		}
	}
}

// pingLoop keeps the session alive while nothing else is sent.
func (c *Client) pingLoop(conn *wire.Conn) {
	third := c.timeout / 3
	for c.ctx.Err() == nil {
		c.mu.Lock()
		if c.conn != conn {
			c.mu.Unlock()
			return
		}
		wait := third - time.Since(c.lastSent)
		if wait <= 0 {
			c.send(jute.XidPing, jute.OpPing, nil)
			wait = third
		}
		c.mu.Unlock()
		pauseFor(c.ctx, wait)
	}
}

// readLoop handles replies and events until the connection ends.
func (c *Client) readLoop(conn *wire.Conn) {
	defer context.AfterFunc(c.ctx, func() { _ = conn.Close() })()
	for {
		if err := conn.SetReadDeadline(time.Now().Add(c.timeout * 2 / 3)); err != nil {
			return
		}
		r, err := conn.Recv()
		if err != nil {
			return
		}
		c.mu.Lock()
		switch {
		case r.Xid == jute.XidNotification:
			c.record.noteEvent(c.session.SessionID, c.number, r.Event())
			c.events = append(c.events, r.Event())
			c.changed.Broadcast()
		case len(c.pending) == 0 || c.pending[0].xid != r.Xid:
			c.mu.Unlock()
			c.stopFor(fmt.Errorf("cluster: reply to xid %d out of order", r.Xid))
			return
		default:
			if r.Xid > 0 && r.Zxid > 0 {
				c.zxid = r.Zxid
			}
			call := c.pending[0]
			c.pending = c.pending[1:]
			c.record.noteReply(call.id, call.op, r)
			call.reply = r
			close(call.done)
		}
		c.mu.Unlock()
	}
}

// lost fails the requests in flight.
func (c *Client) lost(conn *wire.Conn) {
	_ = conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.pending {
		c.torn = c.torn || call.xid > 0
		call.err = ErrLoss
		close(call.done)
	}
	close(c.out)
	c.record.noteConnection(history.Disconnected, c.session.SessionID, c.number, c.at)
	c.pending, c.conn, c.out, c.at = nil, nil, nil, 0
	c.disconnects++
	c.changed.Broadcast()
}

func (c *Client) stopFor(why error) {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fatal == nil {
		c.fatal = why
	}
	c.changed.Broadcast()
}

// send queues a request while the lock is held, so that requests are sent in the order of the
// calls.
func (c *Client) send(xid int32, op jute.Op, rec wire.Record) *Call {
	call := &Call{xid: xid, op: op, done: make(chan struct{})}
	call.id = c.record.noteRequest(c.session.SessionID, c.number, xid, op, rec)
	c.pending = append(c.pending, call)
	c.lastSent = time.Now()
	select {
	case c.out <- wire.Frame(xid, op, rec):
	default:
		_ = c.conn.Close() // the reader notices that and fails the call
	}
	return call
}

// Go sends a request and returns at once. Without a connection it waits for one.
func (c *Client) Go(op jute.Op, rec wire.Record) *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.at == 0 && c.fatal == nil {
		c.changed.Wait()
	}
	if c.fatal != nil {
		call := &Call{done: make(chan struct{}), err: c.fatal}
		close(call.done)
		return call
	}
	c.xid++
	return c.send(c.xid, op, rec)
}

// Do sends a request and waits for its reply.
func (c *Client) Do(op jute.Op, rec wire.Record) (wire.Reply, error) { return c.Go(op, rec).Wait() }

// Create creates a node with an open ACL and returns its path.
func (c *Client) Create(path string, data []byte, mode jute.CreateMode) (string, error) {
	r, err := c.Do(jute.OpCreate, &jute.CreateRequest{Path: []byte(path), Data: data, ACL: jute.OpenACL, Flags: mode})
	if err != nil {
		return "", err
	}
	var resp jute.CreateResponse
	err = r.Into(&resp)
	return string(resp.Path), err
}

// Exists returns a node's Stat, or jute.NoNode if there is none.
func (c *Client) Exists(path string, watch bool) (jute.Stat, error) {
	r, err := c.Do(jute.OpExists, &jute.ExistsRequest{Path: []byte(path), Watch: watch})
	if err != nil {
		return jute.Stat{}, err
	}
	var resp jute.ExistsResponse
	err = r.Into(&resp)
	return resp.Stat, err
}

// Sync makes the next read see everything committed before.
func (c *Client) Sync() error {
	_, err := c.Do(jute.OpSync, &jute.SyncRequest{Path: []byte("/")})
	return err
}

// WaitConnected waits for a session, for at most limit.
func (c *Client) WaitConnected(limit time.Duration) error {
	deadline := time.AfterFunc(limit, c.changed.Broadcast)
	defer deadline.Stop()
	start := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.at == 0 && c.fatal == nil {
		if time.Since(start) >= limit {
			return fmt.Errorf("cluster: no session after %v", limit)
		}
		c.changed.Wait()
	}
	return c.fatal
}

// Session returns the session's id, or 0 before the first handshake.
func (c *Client) Session() jute.SessionID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.SessionID
}

// Disconnects returns the number of connections that have broken.
func (c *Client) Disconnects() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disconnects
}

// Member returns the member that it is connected to, or 0.
func (c *Client) Member() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Moves returns the number of reconnects after a connection broke with requests in flight.
func (c *Client) Moves() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moves
}

// InFlight returns the number of requests, other than pings, that wait for their replies.
func (c *Client) InFlight() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.pending {
		if call.xid > 0 {
			n++
		}
	}
	return n
}

// Home returns the member that it tries first.
func (c *Client) Home() uint32 { return c.members[0] }

// Events returns the events received since the last call.
func (c *Client) Events() []jute.WatcherEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	events := c.events
	c.events = nil
	return events
}

// Err returns the reason why the client has ended, or nil while it runs.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fatal
}

// Abandon drops the connection and does not reconnect; the session expires.
func (c *Client) Abandon() {
	c.stop()
	<-c.done
}
