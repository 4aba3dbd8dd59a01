// Package stream carries frames between a client and the connection that serves it. A Stream
// owns the client's socket, what is read from it and what is written to it, the deadlines of
// both, and the end. It knows frames, which are a length and so many bytes, and not what they
// mean: requests, sessions and the tree are its Owner's affair.
//
// # The contract
//
// A stream and its owner speak through two interfaces. Frames is how the stream hands over what
// has come: one frame at a time, and the news that the client has taken what it was sent.
// Permit is how it asks whether the client may be sent anything at all. In the other direction
// the owner appends frames to Output and has them sent with Flush or FlushLater.
//
// # The lock
//
// A stream's lock is the connection's lock. The owner guards its own state with it, so that what
// waits, what is queued to be sent and whether the stream has ended change in one step. Nothing
// blocks under it. A method whose comment says that the caller holds the lock does not take it;
// all others do. If the owner has a lock that comes before (the server has the tree's), it takes
// that one first; the stream calls Frame, Resume, AwaitPermit and Ended without its lock.
//
// # Readers, loops and flushers
//
// A stream begins with a reader, a goroutine of its own, which calls Serve. Over TCP, on Linux, it
// has none while it is calm: its client has sent nothing that is not served, and has taken all that
// was sent. Then a loop reads from its socket together with those of many others, and serves what
// never waits. A stream that would have to be waited for is demoted: it has a reader again until it
// is calm. While it is idle a stream has no buffers.
//
// What is queued is written by the goroutine that calls Flush, as far as the socket takes it without
// waiting. A flusher, a goroutine of its own, runs only for the rest.
//
// The socket of a stream in a loop is a bare descriptor, which Go's poller does not know. It is used,
// closed and given back to Go under the stream's lock only, so it is never another's; no call with it
// waits.
package stream

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// HighWater is how many bytes may wait to be sent before no more requests are answered,
	// until the client has taken some.
	HighWater = 256 << 10
	// MaxHeld bounds the bytes of one connection's requests that wait, beside their number.
	MaxHeld = 4 << 20
	// MaxWrite is what one write to a socket sends: a slow but willing client gets its
	// deadline anew for each.
	MaxWrite = 256 << 10
	// LengthSize is how many bytes the length at the head of a frame has.
	LengthSize = 4
	// IdleSlack, in ticks, is how long after its timeout a silent client's stream is closed: by
	// then an expiry has closed it, if there is a leader.
	IdleSlack = 3
)

// Frames is what a stream tells its owner of the client.
type Frames interface {
	// Frame serves the next frame, which is good until Frame returns. It reports whether the
	// owner takes another one. Called without the lock, for one frame at a time. If InLoop it
	// must not wait, and leaves what would have to wait to Later.
	Frame(frame []byte) (more bool)

	// Waiting returns how many frames have been served and not answered, and how many bytes they
	// hold. The caller holds the lock.
	Waiting() (frames, bytes int)

	// Due reports whether Resume would find something to do. The caller holds the lock.
	Due() bool

	// Resume answers what waited only until the client has taken what it was sent, or until the
	// budget has room. Called without the lock.
	Resume()

	// Ended is the last call: the socket is closed, and all goroutines of the stream but the
	// caller's have ended. Called without the lock.
	Ended(why Reason)
}

// Permit says whether the client may be sent what is queued. A stream asks before each write.
type Permit interface {
	// MaySend reports at once whether the client may be sent something at now. The caller holds
	// the lock.
	MaySend(now time.Time) bool

	// AwaitPermit is called without the lock when MaySend has said no. It waits until the client
	// may be sent something, and reports whether that is so: if not, the stream ends with
	// NotVouched. ctx ends with the stream.
	AwaitPermit(ctx context.Context) bool
}

// Owner is the connection that a stream belongs to.
type Owner interface {
	Frames
	Permit
}

// Config is what the streams of a server share. All fields but Logger are required.
type Config struct {
	Tick        time.Duration
	Handshake   time.Duration  // how long a client that has not been opened may take for a part of what it is sent, less a tick
	MaxFrame    int            // bytes of a frame, without its length
	MaxInFlight int            // frames of one client that wait; past it no more are read
	MaxUnread   int            // bytes that a client may leave unread, in CheckUnread
	Budget      *Budget        // of what all streams hold
	BytesIn     *atomic.Uint64 // counts the bytes of frames read, with their lengths
	Logger      *slog.Logger
}

// Stream is one client's connection, as bytes. It is a part of its owner and is not copied. Safe
// for concurrent use, as far as the comments of its methods go.
type Stream struct {
	owner Owner
	group *Group
	begun time.Time
	life  lifetime // ends with the stream

	reader reader
	later  func() bool // what the loop could not do without waiting; the reader begins with it

	mu       sync.Mutex
	changed  sync.Cond       // something changed that a goroutine may wait for
	sock     socket          // nil while it is in a loop; only the reader changes it, and raw, under mu
	raw      syscall.RawConn // of sock; nil: it cannot be written to without waiting
	timeout  time.Duration   // for how long the client may be silent; 0: the stream has not been opened
	expires  time.Time       // when the stream ends unless something is heard
	deadline *time.Timer     // of a stream with a Limit
	seat     seat
	out      output
	account  account
	end      ending
	helpers  int    // goroutines beside the reader
	resuming bool   // a goroutine calls Resume
	again    bool   // and has to call it once more
	lot      uint32 // which loop of the group is its own
}

// reader is what only the goroutine that reads from the client uses: the reader, or the loop.
type reader struct {
	in     input
	frame  *Buffer   // the frame in hand, in a loop the beginning of one; nil when idle
	armed  time.Time // when the read deadline was last set
	served int       // frames since there is a reader
	calm   int       // served, at which a loop may have the stream
	gate   gate      // that frames are read through
}

// Init makes s the stream of a socket. Its client is one of group's.
func (s *Stream) Init(sock net.Conn, group *Group, owner Owner) {
	s.owner, s.group, s.begun, s.life = owner, group, time.Now(), make(lifetime)
	s.lot = group.lots.Add(1)
	s.sock, s.raw = sock, rawOf(sock)
	s.seat.fd = -1
	s.reader.in.src = sock
	s.reader.gate.s = s
	s.changed.L = &s.mu
}

// Lock takes the connection's lock.
func (s *Stream) Lock() { s.mu.Lock() }

// Unlock releases the connection's lock.
func (s *Stream) Unlock() { s.mu.Unlock() }

// Begun returns when Init was called.
func (s *Stream) Begun() time.Time { return s.begun }

// Context returns a context that ends with the stream.
func (s *Stream) Context() context.Context { return s.life }

// Timeout returns what Open was given. Frame needs no lock for it; all others hold the lock.
func (s *Stream) Timeout() time.Duration { return s.timeout }

// Open ends a stream's Limit: from now on the client's frames are served, and it may be silent for
// timeout and IdleSlack ticks. The caller holds the lock; the stream has not ended.
func (s *Stream) Open(timeout time.Duration) {
	s.timeout = timeout
	if s.deadline != nil {
		s.deadline.Stop()
	}
	s.expires = time.Now().Add(s.idleAfter())
	_ = s.sock.SetReadDeadline(s.expires) // if it fails, so will the read
	s.changed.Broadcast()
}

func (s *Stream) opened() bool { return s.timeout > 0 }

func (s *Stream) idleAfter() time.Duration {
	return s.timeout + IdleSlack*s.group.Tick
}

// Expires returns when the stream ends unless something is heard of the client. The caller holds
// the lock.
func (s *Stream) Expires() time.Time { return s.expires }

// Reading reports whether the stream takes more frames at the moment. The caller holds the lock.
func (s *Stream) Reading() bool { return !s.end.last && !s.full() }

// Changed wakes the goroutines in Wait. The caller holds the lock.
func (s *Stream) Changed() { s.changed.Broadcast() }

// Wait waits as long as busy returns true, and sends what is queued meanwhile. It reports whether
// more may be queued. The client is not read meanwhile, so Wait lasts no longer than a client may
// be silent: then the stream ends as Idle. The caller holds the lock, under which busy is called.
func (s *Stream) Wait(busy func() bool) bool {
	if s.Closing() || !busy() {
		return !s.Closing()
	}
	timer := time.AfterFunc(s.idleAfter(), func() { s.Drop(Idle) })
	defer timer.Stop()
	for !s.Closing() && busy() {
		s.FlushLater() // busy may wait for that
		s.changed.Wait()
	}
	return !s.Closing()
}

// Go runs f in a goroutine that Ended waits for. The caller holds the lock; the stream has not ended.
func (s *Stream) Go(f func()) {
	s.helpers++
	go func() {
		f()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.helped()
	}()
}

// helped notes that a helper is about to return. The caller holds the lock.
func (s *Stream) helped() {
	s.helpers--
	s.changed.Broadcast()
}

// ResumeLater has Resume called by a goroutine of its own, if it is due: there may be much to copy,
// and the caller holds a lock that Resume needs, or must not wait. The caller holds the stream's lock.
func (s *Stream) ResumeLater() {
	if s.Closing() || !s.owner.Due() {
		return
	}
	if s.resuming {
		s.again = true
		return
	}
	s.resuming = true
	s.helpers++
	go s.resumeAside()
}

func (s *Stream) resumeAside() {
	for more := true; more; more = s.resumed() {
		s.owner.Resume()
	}
}

// resumed has what Resume has queued sent, and reports whether Resume is to be called again.
func (s *Stream) resumed() (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.FlushLater()
	if again = s.again; again {
		s.again = false
		return true
	}
	s.resuming = false
	s.helped()
	return false
}

// State is what a stream does at the moment, for tests.
type State struct {
	InLoop  bool // a loop reads from it
	Serving bool // the loop serves a frame of it
	Part    bool // the loop has kept the beginning of a frame
	Helpers int  // goroutines beside the reader
	Unsent  int  // bytes that the client has not taken
}

// State returns what the stream does at the moment. The caller holds the lock.
func (s *Stream) State() State {
	in := s.seat.loop != nil
	return State{InLoop: in, Serving: s.seat.busy, Part: in && s.reader.frame != nil, Helpers: s.helpers, Unsent: s.Unsent()}
}

// HoldsBuffers reports whether the stream has memory for frames. It looks at what is the reader's own:
// the caller holds the lock and knows that the reader does nothing.
func (s *Stream) HoldsBuffers() bool {
	return s.reader.frame != nil || s.reader.in.big != nil || s.out.queued != nil
}
