package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"rollcall/jute"
)

const (
	// LingerTime and LingerBytes bound what is read and dropped after the last reply. Closing the
	// socket while bytes are unread would reset the connection, and the client might not get the
	// reply.
	LingerTime  = time.Second
	LingerBytes = 4 << 20
	// FarewellTime is how long the last message of TLS may take when a socket is closed. A client that
	// reads gets it at once. For one that does not read, crypto/tls would wait 5 s, and the stream would
	// keep its memory and its place for as long.
	FarewellTime = 100 * time.Millisecond
)

// Reason says why a stream ended. Each has one, the first that was given.
type Reason uint8

// The reasons for which a stream ends by itself. An owner's own reasons begin with the number
// Reasons.
const (
	ByClient   Reason = iota // the client or the network closed it
	BadFrame                 // a length out of bounds
	Idle                     // the client sent nothing for longer than its timeout
	SlowReader               // the client left too much unread, or took nothing for too long
	NotVouched               // the owner's Permit was refused
	OverBudget               // it held more than its share while all streams together held too much
	Reasons                  // the number of reasons
)

// ending is how far the end of a stream has come.
//
// There are four ways to end a stream, and one verb for each:
//
//	verb     what is queued  what the client sees           who calls it
//	Drop     thrown away     the end, at once               anyone: an error, a limit, a session that is elsewhere
//	HangUp   thrown away     the end, even if the reader    a member that cannot serve, whose apply may hang
//	                         or the loop is stuck
//	Finish   sent, the last  the reply, then the end of     the owner, after the last reply
//	                         the stream; it is given
//	                         LingerTime to close its side
//	Lost     thrown away     nothing: it has gone, or its   the reader and the loop, when a read fails
//	                         bytes make no sense
//
// A Limit or a client's timeout that runs out is a Drop. As usual in Go, drop is Drop for callers
// that hold the lock. DropLocked is drop for owners.
//
// However the end began, leave completes it. It runs once, in the reader's goroutine. For a stream
// in a loop, it runs in a goroutine of its own.
type ending struct {
	why      Reason
	limit    Reason // the reason with which the deadline ends the stream
	last     bool   // the last reply is queued: nothing follows it
	finished bool   // the last reply has been sent
	dead     bool   // the stream is over
}

// Dead reports whether the stream is over and nothing more is sent. The caller holds the lock.
func (s *Stream) Dead() bool { return s.end.dead }

// Closing reports whether the stream is over or its last reply is queued. In both cases nothing may
// be added. The caller holds the lock.
func (s *Stream) Closing() bool { return s.end.dead || s.end.last }

// Limit drops the stream with the given reason after d, unless it is opened or Limit is called
// again before that. It returns false and does nothing if the stream has ended.
func (s *Stream) Limit(d time.Duration, why Reason) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end.dead {
		return false
	}
	s.expires, s.end.limit = time.Now().Add(d), why
	if s.deadline == nil {
		s.deadline = time.AfterFunc(d, s.late)
	} else {
		s.deadline.Reset(d)
	}
	return true
}

// late is called when a Limit has run out.
func (s *Stream) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !time.Now().Before(s.expires) { // otherwise there is a newer limit
		s.drop(s.end.limit)
	}
}

// Drop ends the stream at once, and sends nothing more. It never blocks.
func (s *Stream) Drop(why Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(why)
}

// DropLocked is Drop. The caller holds the lock.
func (s *Stream) DropLocked(why Reason) { s.drop(why) }

func (s *Stream) drop(why Reason) {
	if s.end.dead {
		return
	}
	if !s.end.last {
		s.end.why = why
	}
	s.end.dead = true
	s.Count()
	close(s.life)
	if s.deadline != nil {
		s.deadline.Stop()
	}
	s.changed.Broadcast()
	switch {
	case s.sock != nil:
		// From now on reads and writes fail, including those under way. Closing the socket would
		// wait until they return. The caller must not wait, so the reader closes it.
		_ = s.sock.SetDeadline(longAgo)
	case s.seat.loop != nil && !s.seat.busy:
		go s.leave()
	} // else the loop, or the reader that begins, sees it
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// HangUp is a Drop that closes the socket in this call, or has the client see the end in another
// way. Usually the reader or the loop closes it, but they may be stuck in the owner. The caller
// must not hold a lock for which they wait.
func (s *Stream) HangUp(why Reason) {
	s.Drop(why)
	s.mu.Lock()
	sock := s.sock
	if s.seat.loop != nil {
		hangUpSocket(s.seat.fd) // leave closes it
	}
	s.mu.Unlock()
	if sock != nil {
		_ = below(sock).Close() // nothing more is to be sent; the reader's later close does no harm
	}
}

// part closes a socket when there is nothing more to send. With TLS it waits FarewellTime at most.
func part(sock socket) {
	late := time.AfterFunc(FarewellTime, func() { _ = below(sock).Close() })
	defer late.Stop()
	_ = sock.Close() // the same
}

// below returns the socket that TLS has been put around, or else sock. Closing TLS sends a message first,
// which may wait.
func below(sock socket) io.Closer {
	if tls, ok := sock.(interface{ NetConn() net.Conn }); ok {
		return tls.NetConn()
	}
	return sock
}

// Finish makes what is queued the last thing that the client is sent. Flush or FlushLater sends it.
// The caller holds the lock.
func (s *Stream) Finish(why Reason) {
	s.end.last, s.end.why = true, why
	s.changed.Broadcast()
}

// Lost ends the stream after a failed read, unless its last reply is on its way. It returns false.
// Only the reader calls it, or the owner in the reader's place.
func (s *Stream) Lost(err error) bool {
	why := ByClient
	switch {
	case errors.Is(err, jute.ErrFrameLength):
		why = BadFrame
	case errors.Is(err, os.ErrDeadlineExceeded):
		why = Idle
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.end.last {
		s.drop(why)
	}
	return false
}

// FinishPlain is Finish at the end of a Plain exchange: nothing is queued.
func (s *Stream) FinishPlain(why Reason) {
	s.mu.Lock()
	s.Finish(why)
	s.mu.Unlock()
	s.finishSent()
}

// allSent reports whether the last reply has been sent. Only the goroutine that sends calls it.
func (s *Stream) allSent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end.last && !s.end.dead && s.out.queued == nil
}

// finishSent closes the sending side if the last reply has been sent. The reader then waits until
// the client closes its side.
func (s *Stream) finishSent() {
	if !s.allSent() {
		return
	}
	half, ok := s.sock.(interface{ CloseWrite() error })
	ok = ok && half.CloseWrite() == nil // without the lock: TLS sends an alert
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end.finished = true
	if !ok {
		s.drop(s.end.why)
	}
	if !s.end.dead {
		_ = s.sock.SetReadDeadline(time.Now().Add(LingerTime)) // if it fails, so will the read
	}
	s.changed.Broadcast()
}

// dropInput reads and drops what the client sends, within bounds. It gives the reader's large buffer back first,
// because very many clients may close at the same time, and each of them has LingerTime.
func (s *Stream) dropInput() {
	n := len(s.reader.in.rest)
	s.reader.in.free()
	var scrap [512]byte
	for n < LingerBytes {
		k, err := s.reader.in.src.Read(scrap[:])
		if n += k; err != nil {
			return
		}
	}
}

// linger waits until the last reply is sent and the client has closed its side. It reads and drops
// what the client sends meanwhile, within bounds. If the client has gone, it waits for the reply no
// longer than a client may be silent.
func (s *Stream) linger() {
	s.reader.frame.free()
	s.reader.frame = nil
	if !s.alive() {
		return
	}
	s.dropInput()
	s.mu.Lock()
	defer s.mu.Unlock()
	timer := time.AfterFunc(s.idleAfter(), func() { s.Drop(Idle) })
	defer timer.Stop()
	for !s.end.dead && !s.end.finished {
		s.changed.Wait()
	}
	s.drop(s.end.why)
}

func (s *Stream) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.end.dead
}

// leave closes the socket, waits for the stream's other goroutines, frees its memory and tells the
// owner.
func (s *Stream) leave() {
	s.mu.Lock()
	sock := s.sock
	if s.seat.loop != nil {
		s.closeHere()
	}
	s.mu.Unlock()
	if sock != nil {
		part(sock)
	}
	s.mu.Lock()
	for s.helpers > 0 {
		s.changed.Wait()
	}
	s.out.queued.free()
	s.reader.frame.free()
	s.out.queued, s.reader.frame = nil, nil
	s.reader.in.free()
	why := s.end.why
	s.mu.Unlock()
	s.owner.Ended(why)
}

// lifetime is a context that ends when it is closed.
type lifetime chan struct{}

var _ context.Context = lifetime(nil)

func (l lifetime) Deadline() (time.Time, bool) { return time.Time{}, false }
func (l lifetime) Done() <-chan struct{}       { return l }
func (l lifetime) Value(any) any               { return nil }

func (l lifetime) Err() error {
	select {
	case <-l:
		return context.Canceled
	default:
		return nil
	}
}
