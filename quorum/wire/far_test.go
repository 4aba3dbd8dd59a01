package wire

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// pipes is a StreamLayer over connections in memory. Connections in incoming are accepted. Dialed connections are passed
// to dialed; without it, no member can be reached.
type pipes struct {
	incoming chan net.Conn
	dialed   func(theirs net.Conn)
	closed   chan struct{}
}

func newPipes(dialed func(theirs net.Conn)) *pipes {
	return &pipes{incoming: make(chan net.Conn), dialed: dialed, closed: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.incoming:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Addr() net.Addr { return memberAddr("m1:1") }

func (p *pipes) Close() error { close(p.closed); return nil }

func (p *pipes) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	if p.dialed == nil {
		return nil, errDown
	}
	ours, theirs := net.Pipe()
	p.dialed(theirs)
	return ours, nil
}

// nowhere is the addressFunc of a member that knows no configuration.
func nowhere(raft.ServerID) (raft.ServerAddress, bool) { return "", false }

var errDown = errors.New("connection refused")

// connect opens a connection in the name of a member.
func (p *pipes) connect(member uint32) net.Conn {
	ours, theirs := net.Pipe()
	p.incoming <- &Conn{Conn: theirs, PeerID: member, PeerDisk: testDisk(member)}
	return ours
}

// newTestTransport returns a Transport over p whose raft is not running yet.
func newTestTransport(t testing.TB, p *pipes) *Transport {
	tr := New(Config{
		StreamLayer: p, ElectionTimeout: time.Second, Logger: slog.New(slog.DiscardHandler),
		Raft: func() *raft.Raft { return nil }, Durability: fixedDurability{}, Elections: fixedElections{},
	})
	tr.Start()
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// fixedDurability limits an index by functions. Without one, the disks have the whole log.
type fixedDurability struct{ durable, settled func(index uint64) uint64 }

func (d fixedDurability) LimitToDurable(index uint64) uint64 { return limitBy(d.durable, index) }
func (d fixedDurability) LimitToSettled(index uint64) uint64 { return limitBy(d.settled, index) }
func (fixedDurability) NoteCommitted(uint64)                 {}

func limitBy(limit func(uint64) uint64, index uint64) uint64 {
	if limit == nil {
		return index
	}
	return limit(index)
}

// fixedElections are those of a member that may do everything, leads in no term, and calls the functions that its test gives it.
type fixedElections struct {
	isStable func(term uint64) bool
	declined func(by raft.ServerID)
	lost     func(server raft.ServerID)
	shorter  func()
}

func (fixedElections) MayStand() error            { return nil }
func (fixedElections) MayLead() error             { return nil }
func (fixedElections) MayAcceptLeadership() error { return nil }
func (fixedElections) AwaitBacklog() bool         { return false }

func (e fixedElections) IsStableLeader(term uint64) bool {
	return e.isStable != nil && e.isStable(term)
}

func (e fixedElections) NoteDeclined(by raft.ServerID, _ error) {
	if e.declined != nil {
		e.declined(by)
	}
}

func (e fixedElections) NoteConnectionLost(server raft.ServerID) {
	if e.lost != nil {
		e.lost(server)
	}
}

func (e fixedElections) NoteShorterCandidate() {
	if e.shorter != nil {
		e.shorter()
	}
}

// sendReply sends the reply to the current request at once.
func (c *inConn) sendReply(resp any, failed error) error {
	c.endRequest()
	return c.write(c.form, resp, failed)
}

// far is the other end of a dialed connection: a member that shows the test each AppendEntries that comes, and sends the
// replies that the test chooses.
type far struct {
	t        testing.TB
	conn     net.Conn
	pause    atomic.Int64               // nanoseconds before it reads the next request
	majority atomic.Uint64              // majority index of the last frame
	direct   atomic.Pointer[directPart] // of the last frame that had one
	sent     chan *raft.AppendEntriesRequest
	ended    chan struct{} // closed at the end of the connection
}

func newFar(t testing.TB, conn net.Conn) *far {
	f := &far{t: t, conn: conn, sent: make(chan *raft.AppendEntriesRequest, 5000), ended: make(chan struct{})}
	t.Cleanup(func() {
		conn.Close()
		<-f.ended
	})
	go f.read()
	return f
}

func (f *far) read() {
	defer close(f.ended)
	defer close(f.sent)
	r := bufio.NewReader(f.conn)
	dec := codec.NewDecoder(r, new(codec.MsgpackHandle))
	for {
		time.Sleep(time.Duration(f.pause.Load()))
		kind, err := r.ReadByte()
		req := new(raft.AppendEntriesRequest)
		if kind == frameDirect && err == nil {
			m := messageReader{bounds: requestKinds[kind].bounds, from: r, reserve: func(int) error { return nil }}
			var d *directPart
			if d, err = m.readDirect(); err == nil {
				f.direct.Store(d)
				kind, err = r.ReadByte()
			}
		}
		switch {
		case err != nil:
		case kind == frameEntries || kind == frameNotice:
			m := messageReader{bounds: requestKinds[kind].bounds, from: r, reserve: func(int) error { return nil }}
			if err = m.readFrame(kind); err == nil {
				var majority uint64
				req, majority = parseFrame(kind, m.buffer)
				f.majority.Store(majority)
				kind = requestAppend
			}
		default:
			err = dec.Decode(req)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
			return
		case err != nil || kind != requestAppend:
			f.t.Errorf("what came is not one AppendEntries after the other: type %d, %v", kind, err)
			return
		}
		f.sent <- req
	}
}

// answerFrame replies to the oldest frame of entries without a reply.
func (f *far) answerFrame(success bool) {
	if _, err := f.conn.Write(appendFrameReply(nil, &raft.AppendEntriesResponse{Term: 5, Success: success}, nil)); err != nil {
		f.t.Errorf("the answer is not taken: %v", err)
	}
}

// answer replies to the oldest request without a reply.
func (f *far) answer(success bool, text string) {
	enc := newEncoder(f.conn)
	if err := errors.Join(enc.Encode(text), enc.Encode(&raft.AppendEntriesResponse{Success: success})); err != nil {
		f.t.Errorf("the answer is not taken: %v", err)
	}
}
