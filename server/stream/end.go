package stream

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"rollcall/zk/jute"
)

const (
	// LingerTime and LingerBytes bound the input that is read and dropped after the last reply. Closing the
	// socket while bytes are unread would reset the connection, and the client might not get the reply.
	LingerTime  = time.Second
	LingerBytes = 4 << 20
	// CloseNotifyTime bounds the sending of TLS's close_notify when a socket is closed. A client that reads
	// gets it at once. For one that does not, crypto/tls would wait 5 s, and the stream would keep its memory
	// and its place for as long.
	CloseNotifyTime = 100 * time.Millisecond
)

// Reason is the reason for a stream's end, the first that was given.
type Reason uint8

// The reasons for which a stream ends by itself. An owner's own reasons begin with the number NumReasons.
const (
	ByClient   Reason = iota // the client or the network closed it
	BadFrame                 // a length out of bounds
	Idle                     // the client sent nothing for longer than its timeout
	SlowReader               // the client left too much unread, or took nothing for too long
	NotVouched               // the owner's Permit was refused
	OverBudget               // it held more than its share while all streams together held too much
	NumReasons               // the number of reasons
)

// DropAfter drops the stream with the given reason after d, unless it is opened or DropAfter is called again
// before that. It returns false and does nothing if the stream has ended.
func (s *Stream) DropAfter(d time.Duration, why Reason) bool {
	return s.Life.setTimeLimit(d, why, func() {
		s.Life.mu.Lock()
		defer s.Life.mu.Unlock()
		if !time.Now().Before(s.Life.ExpiresAt()) { // otherwise there is a newer limit
			s.DropLocked(s.Life.limitReason)
		}
	})
}

// Drop ends the stream at once, and sends nothing more. It never blocks.
func (s *Stream) Drop(why Reason) {
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	s.DropLocked(why)
}

// DropLocked is Drop for callers that hold the lock.
func (s *Stream) DropLocked(why Reason) {
	if !s.Life.end(why) {
		return
	}
	s.UpdateAccount()
	switch {
	case s.socket != nil:
		// From now on reads and writes fail, including those under way. Closing the socket would wait until
		// they return. The caller must not wait, so the reader closes it.
		_ = s.socket.SetDeadline(pastDeadline)
	case s.registration.loop != nil && !s.registration.isServing:
		go s.cleanUp()
	} // else the loop, or the reader that begins, sees it
}

var pastDeadline = time.Unix(1, 0)

// HangUp is a Drop that closes the socket in this call, or shuts it down. Usually the reader or the loop
// closes it, but they may be stuck in the owner. The caller must not hold a lock that they wait for.
func (s *Stream) HangUp(why Reason) {
	s.Drop(why)
	s.Life.mu.Lock()
	sock := s.socket
	if s.registration.loop != nil {
		hangUpSocket(s.registration.fd) // cleanUp closes it
	}
	s.Life.mu.Unlock()
	if sock != nil {
		_ = underlyingSocket(sock).Close() // nothing more is to be sent; the reader's later close does no harm
	}
}

// closeGracefully closes a socket when there is nothing more to send. With TLS it waits at most
// CloseNotifyTime.
func closeGracefully(sock socket) {
	late := time.AfterFunc(CloseNotifyTime, func() { _ = underlyingSocket(sock).Close() })
	defer late.Stop()
	_ = sock.Close() // nothing more is to be sent
}

// underlyingSocket returns the socket below TLS, or sock. Closing TLS sends a message first, which may wait.
func underlyingSocket(sock socket) io.Closer {
	if tls, ok := sock.(interface{ NetConn() net.Conn }); ok {
		return tls.NetConn()
	}
	return sock
}

// ReadFailed ends the stream after a failed read, unless its last reply is on its way. It returns false. Only
// the reader calls it, or the owner in the reader's place.
func (s *Stream) ReadFailed(err error) bool {
	why := ByClient
	switch {
	case errors.Is(err, jute.ErrFrameLength):
		why = BadFrame
	case errors.Is(err, os.ErrDeadlineExceeded):
		why = Idle
	}
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	if !s.Life.lastQueued {
		s.DropLocked(why)
	}
	return false
}

// FinishPlain is Finish at the end of a Plain exchange: nothing is queued.
func (s *Stream) FinishPlain(why Reason) {
	s.Life.mu.Lock()
	s.Life.Finish(why)
	s.Life.mu.Unlock()
	flusher{s}.finishIfSent()
}

// cleanUp closes the socket, waits for the stream's other goroutines, frees its memory and calls StreamEnded.
func (s *Stream) cleanUp() {
	s.Life.mu.Lock()
	sock := s.socket
	if s.registration.loop != nil {
		s.registration.closeSocket()
	}
	s.Life.mu.Unlock()
	if sock != nil {
		closeGracefully(sock)
	}
	s.Life.mu.Lock()
	s.Life.awaitHelpers()
	s.output.release()
	s.reader.frame.free()
	s.reader.frame = nil
	s.reader.input.free()
	why := s.Life.endReason
	s.Life.mu.Unlock()
	s.owner.StreamEnded(why)
}
