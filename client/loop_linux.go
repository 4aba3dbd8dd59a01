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

// Bounds of one turn of a Loop.
const (
	loopEvents = 512              // connections that the kernel names at a time
	loopRead   = 128 << 10        // bytes of one read
	loopTick   = time.Millisecond // how late a ping may be: those due within one share a wake-up
)

// watched is what the kernel is asked about a socket. It tells of edges, so that it needs to be
// asked but once.
const watched = syscall.EPOLLIN | syscall.EPOLLOUT | syscall.EPOLLRDHUP | 1<<31 // EPOLLET

// Loop reads and writes for many Clients on one goroutine, which calls the functions that were
// given to them while they are connected: what holds one up holds up all. Their sockets are out
// of sight of Go's poller, which sees one file only: the kernel's list of those that are ready.
//
// The Loop's lock is taken with no other held.
type Loop struct {
	base  time.Time
	poll  *os.File // the list: readable while one of the sockets is ready
	ended chan struct{}

	// The goroutine's.
	events []syscall.EpollEvent
	n      int                     // of them, as they were told
	ask    func(poll uintptr) bool // collect, bound once
	peek   func(poll uintptr)      // collect, without waiting
	ready  []*link                 // whose events they are
	again  []*link                 // that may have more to read than was their turn
	shared []byte

	mu     sync.Mutex
	links  map[int32]*link // by file
	looks  lookQueue
	wakes  time.Duration // when the goroutine is woken without an event, since base; 0: never
	closed bool
}

// NewLoop returns a Loop, which runs until it is closed.
func NewLoop() (*Loop, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err == nil {
		err = syscall.SetNonblock(fd, true) // or Go's poller would not take it
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
// goroutines of its own. It must not be called from a function that the Loop calls.
func (lp *Loop) Close() {
	lp.mu.Lock()
	lp.closed = true
	lp.mu.Unlock()
	_ = lp.poll.Close() // run ends
	<-lp.ended
}

// take takes over a connection and lets requests pass on it, or reports that it cannot. Nobody
// reads from it meanwhile.
func (lp *Loop) take(l *link) bool {
	if lp == nil || lp.over() || !l.adopt() {
		return false
	}
	l.c.connected(l)
	err := l.handleAll() // what came with the handshake
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

func (lp *Loop) over() bool {
	lp.mu.Lock()
	defer lp.mu.Unlock()
	return lp.closed
}

// errLoopClosed is why a connection ended.
var errLoopClosed = errors.New("client: loop is closed")

// add has the goroutine serve a connection. If it returns no error, the link is the goroutine's.
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

// control puts a socket on the list. The lock is held.
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

// setWake has the goroutine woken when somebody is to be looked after. The lock is held.
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
	_ = lp.poll.SetReadDeadline(t) // fails once it is closed
}

// run serves until the list is closed.
func (lp *Loop) run() {
	defer close(lp.ended)
	raw, err := lp.poll.SyscallConn()
	for err == nil {
		lp.n = 0
		if err = raw.Read(lp.ask); errors.Is(err, os.ErrDeadlineExceeded) {
			err = raw.Control(lp.peek) // what has come is read before anybody is looked after
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

// collect takes the events there are. It reports false if there is nothing to do: then Go's
// poller has it called again when there is.
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

// name finds whose events they are.
func (lp *Loop) name(events []syscall.EpollEvent) {
	lp.ready = lp.ready[:0]
	lp.mu.Lock()
	defer lp.mu.Unlock()
	for i := range events {
		lp.ready = append(lp.ready, lp.links[events[i].Fd])
	}
}

// serve reads, has replies handled, and writes. The link may be nil, and the event older than it.
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

// goOn serves those that had more to read than was their turn.
func (lp *Loop) goOn(now time.Time) {
	links := lp.again
	lp.again = nil
	for _, l := range links {
		if !l.gone {
			lp.serve(l, syscall.EPOLLIN, now)
		}
	}
}

// look sends the pings that are due and gives up those that are silent.
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

// hears reports whether something has come from one that seems to be silent, and handles it: the
// Loop itself may have been held up.
func (lp *Loop) hears(l *link, now time.Time) bool {
	heard := l.heard.Load()
	lp.serve(l, syscall.EPOLLIN, now)
	return l.gone || l.heard.Load() != heard
}

// drop gives up a connection that has ended.
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

// lookAfter is look for a connection that a Loop serves, and returns after what time it has to
// look again.
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
