// Package stream carries frames between a client and the connection that serves it. A Stream owns the
// client's socket, its input and output, the deadlines of both, and the end. It knows frames (a length and
// that many bytes), but not their meaning: requests, sessions and the tree belong to its Owner.
//
// # The contract
//
// A stream and its owner interact through two interfaces. Through Frames the stream hands over the input, one
// frame at a time, and reports that the client has taken its output. Through Permit the owner permits each
// write. In the other direction, the owner appends frames to Output and has them sent with Flush or
// FlushLater.
//
// # The lock
//
// A stream's lock is the connection's lock. The owner guards its own state with it too, so that three things
// change in one step: the waiting frames, the queued bytes, and the end of the stream. Nothing blocks under
// the lock. A method takes the lock itself, unless its comment says that the caller holds it. An owner may
// have a lock that comes before this one, as the server has the tree's. The stream calls ServeFrame, Resume,
// AwaitPermit and StreamEnded without its lock.
//
// # Readers, loops and flushers
//
// A stream of Init begins with a reader, a goroutine of its own, which calls Serve. A stream of InitAccepted
// begins in a loop. On Linux, over TCP, a calm stream has no reader. It is calm if all input is served and
// the client has taken all output. A loop then reads from its socket, as from those of many other streams,
// and serves frames that never wait. A stream that has to wait is demoted: it gets a reader again, until it
// is calm. An idle stream has no buffers.
//
// The goroutine that calls Flush writes as much of the output as the socket takes without waiting. Only for
// the rest there is a flusher, a goroutine of its own.
//
// The socket of a stream in a loop is a bare descriptor, which Go's poller does not know. It is used, closed
// and given back to Go only under the stream's lock, so the number cannot belong to another file meanwhile.
// No system call on it waits.
package stream

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// HighWater is the number of bytes that may wait to be sent. Above it no further requests are served
	// until the client has taken some.
	HighWater = 256 << 10
	// MaxWaitingBytes bounds the bytes of one connection's waiting requests, in addition to their number.
	MaxWaitingBytes = 4 << 20
	// MaxWrite is the size of one write to a socket. Each write has a new deadline, so a slow client that
	// takes something is not closed.
	MaxWrite = 256 << 10
	// LengthSize is the size of the length at the head of a frame.
	LengthSize = 4
	// IdleSlack is the number of ticks after its timeout at which a silent client's stream is closed. If
	// there is a leader, it has expired the session before that.
	IdleSlack = 3
)

// Frames is the owner's side of the input.
type Frames interface {
	// BeginInReader reads the client's first bytes with PeekWord, ReadFrame or Plain, and reports whether the
	// owner takes frames. A reader calls it for a stream of InitAccepted if a loop cannot serve the first
	// frame: the frame is long, or is none, such as a four-letter command whose letters are no possible
	// length. It is called without the lock.
	BeginInReader() (more bool)

	// ServeFrame serves the next frame, which is valid until it returns. It reports whether the owner takes
	// another one. It is called without the lock, for one frame at a time. If InLoop is true, it must not
	// wait, and leaves whatever would have to wait to LeaveToReader.
	ServeFrame(frame []byte) (more bool)

	// WaitingFrames returns the number and the bytes of the frames that have no reply yet. The caller holds
	// the lock.
	WaitingFrames() (frames, bytes int)

	// CanResume reports whether Resume has something to do. The caller holds the lock.
	CanResume() bool

	// OutputTaken is called when the socket has taken all output that was queued when its sending began. The caller holds
	// the lock.
	OutputTaken()

	// Resume serves requests that waited only until the client had taken its output, or until the budget had
	// room. It is called without the lock.
	Resume()

	// StreamEnded is the last call. The socket is closed, and all other goroutines of the stream have ended.
	// It is called without the lock.
	StreamEnded(why Reason)
}

// Permit permits the output. A stream requests it before each write.
type Permit interface {
	// MaySend reports, without waiting, whether the client may be sent anything now. The caller holds the
	// lock.
	MaySend() bool

	// AwaitPermit is called without the lock after MaySend has returned false. It waits until the client may
	// be sent something, and reports whether it may. If not, the stream ends with NotVouched. ctx ends with
	// the stream.
	AwaitPermit(ctx context.Context) bool
}

// Owner is the connection that a stream belongs to.
type Owner interface {
	Frames
	Permit
}

// Config is shared by the streams of a server. All fields but Logger are required.
type Config struct {
	Tick time.Duration
	// longest time for a client to take a part of its output before it is opened, less a tick
	HandshakeTimeout time.Duration
	MaxFirstFrame    int            // bytes, without the length
	MaxFrame         int            // bytes, of each other frame
	MaxInFlight      int            // waiting frames of one client, above which no more are read
	MaxUnread        int            // bytes that a client may leave unread, in LimitUnread
	Budget           *Budget        // of the bytes that all streams hold
	BytesIn          *atomic.Uint64 // counts the bytes of frames read, with their lengths
	Logger           *slog.Logger
}

// Stream is one client's connection, as bytes. It is a part of its owner, and is not copied. It is safe for
// concurrent use where the comments of its methods do not say otherwise.
type Stream struct {
	owner Owner
	group *Group

	reader     reader
	readerTask func() bool // of LeaveToReader; the reader begins with it

	// Life is the connection's lock and the state of the stream.
	Life Lifecycle

	// Life's lock guards the rest.
	socket       socket          // nil while it is in a loop; only the reader changes it and rawSocket
	rawSocket    syscall.RawConn // the raw form of socket; nil: it cannot be written to without waiting
	registration pollerRegistration
	output       output
	Account      Account
	resumption   resumption
	groupIndex   uint32 // chooses the loop of the group
}

// reader is the state of the goroutine that reads from the client: the reader, or the loop.
type reader struct {
	input         input
	frame         *Buffer       // the present frame, or in a loop the beginning of one; nil when idle
	deadlineDue   time.Duration // from the stream's start until the read deadline is set again
	framesServed  int           // since the stream has had this reader
	promoteAfter  int           // the number of framesServed from which on a loop may have the stream
	gate          frameGate     // frames are read through it
	gotFirstFrame bool          // the reader and the loop use it
}

// Init makes s the stream of a socket, in group.
func (s *Stream) Init(sock net.Conn, group *Group, owner Owner) {
	s.init(group, owner)
	s.socket, s.rawSocket = sock, rawOf(sock)
	s.registration.fd = -1
	s.reader.input.source = sock
}

func (s *Stream) init(group *Group, owner Owner) {
	s.owner, s.group = owner, group
	s.Life.init(group.Tick)
	s.Account.budget, s.Account.life = group.Budget, &s.Life
	s.groupIndex = group.numAccepted.Add(1)
	s.reader.gate.s = s
}

// Lock takes the connection's lock.
func (s *Stream) Lock() { s.Life.mu.Lock() }

// Unlock releases the connection's lock.
func (s *Stream) Unlock() { s.Life.mu.Unlock() }

// HasEnded reports whether the stream is over and nothing more is sent. The caller holds the lock.
func (s *Stream) HasEnded() bool { return s.Life.hasEnded }

// IsClosing reports whether the stream is over or its last reply is queued. In both cases nothing may be
// added. The caller holds the lock.
func (s *Stream) IsClosing() bool { return s.Life.isClosing() }

// ReplaceSocket has the stream use sock, which is around its present socket. It returns false if the stream has ended.
// Only the reader calls it, before it reads anything.
func (s *Stream) ReplaceSocket(sock net.Conn) bool {
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if s.Life.hasEnded {
		return false
	}
	s.socket, s.rawSocket = sock, rawOf(sock)
	s.reader.input.source = sock
	return true
}

// Open ends a stream's DropAfter. From now on the client's frames are served, and it may be silent for
// timeout and IdleSlack ticks. The caller holds the lock, and the stream has not ended.
func (s *Stream) Open(timeout time.Duration) {
	s.Life.open(timeout)
	if s.socket != nil { // otherwise a loop has it, or the reader that begins sets the deadline
		_ = s.socket.SetReadDeadline(s.Life.ExpiresAt()) // if it fails, so will the read
	}
	s.Life.changed.Broadcast()
}

// IsReading reports whether the stream takes more frames at the moment. The caller holds the lock.
func (s *Stream) IsReading() bool { return !s.Life.lastQueued && !s.mustWait() }

// WaitWhile waits while busy returns true, and sends the output meanwhile. It reports whether more may be
// queued. The stream does not read from the client meanwhile, so if WaitWhile lasts longer than a client may
// be silent, the stream ends as Idle. The caller holds the lock, and so does every call of busy.
func (s *Stream) WaitWhile(busy func() bool) bool {
	if s.Life.isClosing() || !busy() {
		return !s.Life.isClosing()
	}
	timer := time.AfterFunc(s.Life.maxSilence(), func() { s.Drop(Idle) })
	defer timer.Stop()
	for !s.Life.isClosing() && busy() {
		s.FlushLater() // busy may wait for that
		s.Life.changed.await(&s.Life.mu)
	}
	return !s.Life.isClosing()
}

// ResumeLater has Resume called in a goroutine of its own, if CanResume is true. Resume may have much to
// copy, it may need a lock that the caller holds, or the caller must not wait. The caller holds the stream's
// lock.
func (s *Stream) ResumeLater() {
	if s.Life.isClosing() || !s.owner.CanResume() {
		return
	}
	if s.resumption.running {
		s.resumption.resumeAgain = true
		return
	}
	s.resumption.running = true
	s.Life.numHelpers++
	go resumer{s}.run()
}

type resumption struct {
	running     bool
	resumeAgain bool // call Resume once more
}

// resumer is the goroutine that calls Resume.
type resumer struct{ s *Stream }

func (r resumer) run() {
	for more := true; more; more = r.finishRound() {
		r.s.owner.Resume()
	}
}

// finishRound sends the output of Resume, and reports whether Resume is to be called again.
func (r resumer) finishRound() (again bool) {
	s := r.s
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.FlushLater()
	if again = s.resumption.resumeAgain; again {
		s.resumption.resumeAgain = false
		return true
	}
	s.resumption.running = false
	s.Life.helperDone()
	return false
}

// State is the present state of a stream, for tests.
type State struct {
	InLoop       bool // a loop reads from it
	Serving      bool // the loop serves a frame of it
	PartialFrame bool // kept by the loop
	Helpers      int  // goroutines beside the reader
	UnsentBytes  int  // bytes that the client has not taken
}

// State returns the present state. The caller holds the lock.
func (s *Stream) State() State {
	in := s.registration.loop != nil
	return State{
		InLoop: in, Serving: s.registration.isServing, PartialFrame: in && s.reader.frame != nil,
		Helpers: s.Life.numHelpers, UnsentBytes: s.UnsentBytes(),
	}
}

// HoldsBuffers reports whether the stream has memory for frames. It reads the reader's own fields, so the
// caller holds the lock and knows that the reader does nothing.
func (s *Stream) HoldsBuffers() bool {
	return s.reader.frame != nil || s.reader.input.pooledBuffer != nil || s.output.queued != nil
}
