package schedules

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"rollcall/zk/jute"
)

// maxFrame is far more than any request or reply of these schedules.
const maxFrame = 1 << 24

// errBroken is the error of a connection that a fault has broken.
var errBroken = errors.New("a fault broke the connection")

// request is one request of a client.
type request struct {
	number int // the count of the client's requests without connects and pings, from 1; 0 for those
	op     jute.Op
	path   string
	first  bool // it opens the connection
}

// verdict is the fate of a request. The zero value lets it pass.
type verdict struct {
	loseRequest bool          // the connection breaks, and the request is not carried out
	loseReply   bool          // the request is carried out, and the connection breaks in place of the reply
	delay       time.Duration // holds the reply back, and everything after it
	late        time.Duration // holds the request back, and everything after it
}

// side is the part of a client that its connection needs.
type side interface {
	judge(request) verdict
	opened(session int64, password []byte)
	notified(e jute.WatcherEvent)
}

// wire is a connection of a client. It has one reader and one writer.
type wire struct {
	net.Conn
	side   side
	paused *gate // of the client: nothing is sent and nothing is read
	slow   *gate // of the client: nothing is read
	closed chan struct{}
	once   sync.Once

	in    *bufio.Reader
	ready []byte // what the client has not read yet of the last frame

	out []byte // the part of a frame that is not whole yet

	mu     sync.Mutex
	count  int  // frames that were sent
	opened bool // the reply to the connect has come
	lost   bool // the reply to a request will break the connection: nothing more is sent
	waits  map[int32]verdict
	expect verdict // of the connect
}

func newWire(conn net.Conn, s side, paused, slow *gate) *wire {
	return &wire{
		Conn: conn, side: s, paused: paused, slow: slow, closed: make(chan struct{}), in: bufio.NewReader(conn),
		waits: map[int32]verdict{},
	}
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

// Write implements net.Conn. It passes on whole frames.
func (w *wire) Write(b []byte) (int, error) {
	if !w.paused.waitOpen(context.Background(), w.closed) {
		return 0, net.ErrClosed
	}
	w.out = append(w.out, b...)
	for {
		if len(w.out) < 4 {
			return len(b), nil
		}
		n := 4 + int(binary.BigEndian.Uint32(w.out))
		if len(w.out) < n {
			return len(b), nil
		}
		if err := w.sendFrame(w.out[:n]); err != nil {
			return 0, err
		}
		w.out = w.out[n:]
	}
}

// sendFrame judges a frame, and passes it on. The frame begins with its length.
func (w *wire) sendFrame(frame []byte) error {
	w.mu.Lock()
	lost := w.lost
	w.count++
	first := w.count == 1
	w.mu.Unlock()
	if lost {
		return nil
	}
	r, xid := parseRequest(frame[4:], first)
	v := w.side.judge(r)
	if v.loseRequest {
		_ = w.Close()
		return errBroken
	}
	w.mu.Lock()
	w.lost = v.loseReply
	if first {
		w.expect = v
	} else {
		w.waits[xid] = v
	}
	w.mu.Unlock()
	w.pauseFor(v.late)
	if !w.paused.waitOpen(context.Background(), w.closed) {
		return net.ErrClosed
	}
	_, err := w.Conn.Write(frame)
	return err
}

// parseRequest reads what a request is. It returns its xid too.
func parseRequest(frame []byte, first bool) (request, int32) {
	if first {
		return request{first: true}, 0
	}
	d := jute.NewDecoder(frame)
	var header jute.RequestHeader
	header.Decode(&d)
	r := request{op: header.Op}
	switch header.Op {
	case jute.OpPing, jute.OpCloseSession, jute.OpWhoAmI, jute.OpAuth, jute.OpSASL, jute.OpSetWatches, jute.OpSetWatches2:
	case jute.OpMulti, jute.OpMultiRead:
		jute.EachMultiOp(d.Rest(), func(op *jute.MultiOp) bool {
			r.path = string(op.Path())
			return false
		})
	default:
		r.path = string(d.ReadBytes())
	}
	return r, header.Xid
}

// Read implements net.Conn. It passes on whole frames.
func (w *wire) Read(b []byte) (int, error) {
	for len(w.ready) == 0 {
		frame, err := w.nextFrame()
		if err != nil {
			return 0, err
		}
		w.ready = frame
	}
	for _, g := range []*gate{w.paused, w.slow} {
		if !g.waitOpen(context.Background(), w.closed) {
			return 0, net.ErrClosed
		}
	}
	n := copy(b, w.ready)
	w.ready = w.ready[n:]
	return n, nil
}

// pauseFor waits for d, or until the wire is closed.
func (w *wire) pauseFor(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.closed:
	}
}

// nextFrame returns the next frame that the client gets, with its length.
func (w *wire) nextFrame() ([]byte, error) {
	body, err := jute.ReadFrame(w.in, nil, maxFrame)
	if err != nil {
		return nil, err
	}
	v := w.verdictOn(body)
	w.pauseFor(v.delay)
	if v.loseReply {
		_ = w.Close()
		return nil, errBroken
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), nil
}

// verdictOn returns the verdict on the request that a frame replies to, and reports what the frame says.
func (w *wire) verdictOn(body []byte) verdict {
	w.mu.Lock()
	first := !w.opened
	w.opened = true
	w.mu.Unlock()
	d := jute.NewDecoder(body)
	if first {
		var reply jute.ConnectResponse
		reply.Decode(&d)
		w.side.opened(int64(reply.SessionID), append([]byte(nil), reply.Passwd...))
		return w.expect
	}
	var header jute.ReplyHeader
	header.Decode(&d)
	if header.Xid == jute.XidNotification {
		var e jute.WatcherEvent
		e.Decode(&d)
		w.side.notified(e)
		return verdict{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.waits[header.Xid]
	delete(w.waits, header.Xid)
	return v
}
