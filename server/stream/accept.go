package stream

import (
	"net"
	"time"
)

// stuckAfter is the time after which a loop that serves one batch of events counts as stuck, so that new
// connections get readers. Such a loop waits for a lock of the owner, and new clients, such as those of an
// operator, need not wait with it. A batch takes a millisecond or two.
const stuckAfter = 100 * time.Millisecond

// Accepted is an accepted socket that is in no stream yet.
type Accepted struct {
	Addr net.Addr
	fd   int
}

// Close closes a socket that is in no stream.
func (a Accepted) Close() { closeSocket(a.fd) }

// InitAccepted makes s the stream of a socket in group. Start has it served.
func (s *Stream) InitAccepted(sock Accepted, group *Group, owner Owner) {
	s.init(group, owner)
	s.registration.fd = sock.fd
	s.registration.awaitsFirstFrame = true
}

// Start has a stream of InitAccepted served: by its loop, which hands the first frame to the owner, or by a
// reader, which calls Owner.BeginInReader. It returns at once.
func (s *Stream) Start() {
	s.Life.mu.Lock()
	defer s.Life.mu.Unlock()
	fd := s.registration.fd
	if s.Life.hasEnded {
		s.registration.fd = -1
		closeSocket(fd)
		go s.cleanUp()
		return
	}
	if l := s.group.loopOf(s); l != nil && !l.isStuck(time.Now()) {
		s.registration.loop = l
		s.reader.gate.reset()
		if l.addStream(s, fd) == nil {
			return
		}
		s.registration.loop = nil
	}
	loopVisit{s}.startReader(fd, true)
}
