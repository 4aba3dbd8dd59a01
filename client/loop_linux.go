package client

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// These limits apply to one turn of a Loop.
const (
	loopEvents = 512              // connections that one call of epoll_wait reports
	loopRead   = 128 << 10        // bytes of one read
	loopTick   = time.Millisecond // how late a ping may be; pings due within it share a wake-up
)

// watched are the epoll events of a socket. They are edge-triggered, so that a socket is added once
// and never changed.
const watched = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | 1<<31 // EPOLLET

// Loop reads and writes for many Clients on one goroutine. While they are connected it calls the
// functions that were given to them, so a function that blocks holds up all of them. Go's poller
// does not see their sockets; it sees one file, the epoll descriptor.
//
// The Loop's lock is taken while no other lock is held.
type Loop struct {
	base  time.Time
	poll  *os.File // the epoll descriptor, readable while one of the sockets is ready
	ended chan struct{}

	// The next fields belong to the goroutine.
	events []syscall.EpollEvent
	n      int                     // how many events were reported
	ask    func(poll uintptr) bool // the method collect, bound once
	peek   func(poll uintptr)      // collect without waiting
	ready  []*link                 // the links of events, in the same order
	again  []*link                 // links that may have more to read than one turn allowed
	shared []byte

	mu     sync.Mutex
	links  map[int32]*link // by file descriptor
	looks  lookQueue
	wakes  time.Duration // when the goroutine wakes without an event, since base; 0: never
	closed bool
}

// NewLoop returns a Loop, which runs until Close is called.
func NewLoop() (*Loop, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err == nil {
		err = syscall.SetNonblock(fd, true) // otherwise Go's poller would not accept it
	}
	if err != nil {
		return nil, fmt.Errorf("client: loop: %w", err)
	}
	lp := &Loop{
		base: time.Now(), poll: os.NewFile(uintptr(fd), "epoll"), ended: make(chan struct{}),
		events: make([]syscall.EpollEvent, loopEvents), shared: make([]byte, loopRead), links: map[int32]*link{},
	}
	lp.ask, lp.peek = lp.collect, func(poll uintptr) { lp.collect(poll) }
	go lp.run() // until Close
	return lp, nil
}

// Close ends the Loop. A Client that it still serves loses its connection and goes on with
// goroutines of its own. Close must not be called from a function that the Loop calls.
func (lp *Loop) Close() {
	lp.mu.Lock()
	lp.closed = true
	lp.mu.Unlock()
	_ = lp.poll.Close() // makes run return
	<-lp.ended
}

// take takes over a connection and lets requests pass on it. It returns false if it cannot. Nothing
// else may read from the connection meanwhile.
func (lp *Loop) take(l *link) bool {
	if lp == nil || lp.isClosed() || !l.adopt() {
		return false
	}
	l.c.connected(l)
	err := l.handleAll() // frames that came with the handshake
	l.keep(lp.shared[:1])
	l.batchEnds(false)
	if err == nil {
		err = lp.add(l)
	}
	if err != nil {
		lp.drop(l, err)
	}
	return true
}

func (lp *Loop) isClosed() bool {
	lp.mu.Lock()
	defer lp.mu.Unlock()
	return lp.closed
}

// errLoopClosed says why a connection ended.
var errLoopClosed = errors.New("client: loop is closed")

// add lets the goroutine serve a connection. If add returns no error, the link belongs to the
// goroutine.
func (lp *Loop) add(l *link) error {
	_, timeout := l.c.Session()
	fd := int32(l.conn.(*socket).fd)
	lp.mu.Lock()
	defer lp.mu.Unlock()
	if lp.closed {
		return errLoopClosed
	}
	if err := lp.control(fd); err != nil {
		return fmt.Errorf("client: loop: %w", err)
	}
	lp.links[fd] = l
	lp.looks.push(look{at: time.Since(lp.base) + timeout/3, link: l})
	lp.setWake()
	return nil
}

// control adds a socket to the epoll descriptor. The lock is held.
func (lp *Loop) control(fd int32) error {
	raw, err := lp.poll.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(poll uintptr) {
		failed = syscall.EpollCtl(int(poll), syscall.EPOLL_CTL_ADD, int(fd), &syscall.EpollEvent{Events: watched, Fd: fd})
	})
	return errors.Join(err, failed)
}

// setWake sets when the goroutine wakes for the next look. The lock is held.
func (lp *Loop) setWake() {
	var at time.Duration
	if len(lp.looks) > 0 {
		at = (lp.looks[0].at/loopTick + 1) * loopTick
	}
	if at == lp.wakes {
		return
	}
	lp.wakes = at
	var t time.Time
	if at > 0 {
		t = lp.base.Add(at)
	}
	_ = lp.poll.SetReadDeadline(t) // fails after Close
}

// run serves until Close.
func (lp *Loop) run() {
	defer close(lp.ended)
	raw, err := lp.poll.SyscallConn()
	for err == nil {
		lp.n = 0
		if err = raw.Read(lp.ask); errors.Is(err, os.ErrDeadlineExceeded) {
			err = raw.Control(lp.peek) // read what has arrived before looking for silent connections
		}
		now := time.Now()
		lp.name(lp.events[:lp.n])
		for i, l := range lp.ready {
			lp.serve(l, lp.events[i].Events, now)
		}
		clear(lp.ready)
		lp.goOn(now)
		lp.look(now)
	}
	lp.mu.Lock()
	left := lp.links
	lp.links, lp.looks, lp.closed = nil, nil, true
	lp.mu.Unlock()
	for _, l := range left {
		lp.drop(l, errLoopClosed)
	}
}

// collect takes the events that are there. It returns false if there is nothing to do: Go's poller
// then calls it again when there is.
func (lp *Loop) collect(poll uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, poll, uintptr(unsafe.Pointer(&lp.events[0])), loopEvents, 0, 0, 0)
		switch errno {
		case 0:
			lp.n = int(n)
		case syscall.EINTR:
			continue
		}
		return lp.n > 0 || len(lp.again) > 0
	}
}

// name finds the links that the events belong to.
func (lp *Loop) name(events []syscall.EpollEvent) {
	lp.ready = lp.ready[:0]
	lp.mu.Lock()
	defer lp.mu.Unlock()
	for i := range events {
		lp.ready = append(lp.ready, lp.links[events[i].Fd])
	}
}

// serve reads, lets replies be handled, and writes. The link may be nil, and the event older than
// the link.
func (lp *Loop) serve(l *link, events uint32, now time.Time) {
	if l == nil {
		return
	}
	if events&^syscall.EPOLLOUT != 0 {
		more, err := l.receive(lp.shared, now.Sub(l.c.base))
		if err != nil {
			lp.drop(l, err)
			return
		}
		if more {
			lp.again = append(lp.again, l)
		}
	}
	l.batchEnds(events&syscall.EPOLLOUT != 0)
}

// goOn serves the links that had more to read than one turn allowed.
func (lp *Loop) goOn(now time.Time) {
	links := lp.again
	lp.again = nil
	for _, l := range links {
		if !l.gone {
			lp.serve(l, syscall.EPOLLIN, now)
		}
	}
}

// look sends the pings that are due and drops silent connections.
func (lp *Loop) look(now time.Time) {
	at := now.Sub(lp.base)
	for {
		lp.mu.Lock()
		if len(lp.looks) == 0 || lp.looks[0].at > at {
			lp.setWake()
			lp.mu.Unlock()
			return
		}
		l := lp.looks.pop().link
		lp.mu.Unlock()
		if l.gone {
			continue
		}
		next, err := l.lookAfter()
		if err != nil && lp.hears(l, now) {
			next, err = 0, nil
		}
		if err != nil {
			lp.drop(l, err)
			continue
		}
		lp.mu.Lock()
		lp.looks.push(look{at: at + next, link: l})
		lp.mu.Unlock()
	}
}

// hears reads once more from a connection that seems to be silent, because the Loop itself may have
// been held up. It reports whether anything has arrived, or the link is gone.
func (lp *Loop) hears(l *link, now time.Time) bool {
	heard := l.heard.Load()
	lp.serve(l, syscall.EPOLLIN, now)
	return l.gone || l.heard.Load() != heard
}

// drop removes a connection that has ended.
func (lp *Loop) drop(l *link, err error) {
	l.gone = true
	s := l.conn.(*socket)
	lp.mu.Lock()
	if lp.links[int32(s.fd)] == l {
		delete(lp.links, int32(s.fd))
	}
	lp.mu.Unlock()
	l.c.dropped(l, err)
	s.free()
}

// lookAfter does what Client.look does, for a connection served by a Loop. It returns the time
// until the next look, or the reason to end the connection.
func (l *link) lookAfter() (time.Duration, error) {
	c := l.c
	c.mu.Lock()
	next, write, end := c.pings(l, c.now())
	c.mu.Unlock()
	if write {
		l.write()
	}
	return next, end
}
