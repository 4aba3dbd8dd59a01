package proxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"rollcall/zk/jute"
)

const (
	lengthSize = 4 // of the length before a frame

	// maxFrame limits a frame in either direction. ZooKeeper's servers take 1 MiB by default, and its clients 4 MiB.
	maxFrame = 64 << 20
	// maxLength is above the length of every frame, and below a four-letter command that is read as a length.
	maxLength = 1 << 30
	// lingerTime limits the wait for the program to close its side after the server's has been closed. Closing a socket
	// with unread input would reset the connection, and the program might lose replies that it has not read.
	lingerTime = time.Second
)

// link is one connection of the program, and its connection to a server. One goroutine forwards the requests, and
// another one the replies.
type link struct {
	relay   *relay
	client  net.Conn
	number  int
	address string        // of the server
	ended   chan struct{} // closed by end

	mu       sync.Mutex
	changed  sync.Cond
	member   net.Conn // nil until it is connected
	hasEnded bool
	expiring bool     // the program must not notice yet that the connection to the server is closed
	raw      bool     // the program sends no frames: bytes pass as they are
	opened   bool     // the reply to the connect has arrived
	session  *session // nil before the connect
	waiting  []sent   // for their replies, in the order in which they were sent; the server's limits bound them
}

// sent is a request that waits for its reply.
type sent struct {
	xid    int32
	fault  Fault // After, Move, Late, or "" if the reply passes
	closes bool  // a closeSession
}

func newLink(r *relay, client net.Conn, number int, address string) *link {
	l := &link{relay: r, client: client, number: number, address: address, ended: make(chan struct{})}
	l.changed.L = &l.mu
	return l
}

// run forwards requests and replies until one side closes its connection or a fault breaks it.
func (l *link) run() {
	defer func() { _ = l.client.Close() }()
	member, err := l.relay.dial(l.address)
	if err != nil {
		return // as from a server that is down: the program goes on to connect
	}
	if !l.connected(member) {
		return
	}
	var requests sync.WaitGroup
	requests.Go(func() {
		if l.forwardRequests(member) {
			l.end()
		}
	})
	l.forwardReplies(member)
	l.awaitExpired()
	l.end()
	half, ok := l.client.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		_ = l.client.Close()
	}
	_ = l.client.SetReadDeadline(time.Now().Add(lingerTime)) // if it fails, so will the read
	requests.Wait()
	_, _ = io.Copy(io.Discard, l.client) // until the program has closed its side
}

// connected notes the connection to the server. It returns false if the link has ended meanwhile.
func (l *link) connected(member net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasEnded {
		_ = member.Close()
		return false
	}
	l.member = member
	return true
}

// end closes the connection to the server. The goroutine of the replies then closes the program's. It may be called
// more than once.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasEnded {
		return
	}
	l.hasEnded = true
	close(l.ended)
	l.changed.Broadcast()
	if l.member != nil {
		_ = l.member.Close()
	}
}

// forwardRequests reads the program's requests until it closes the connection, or the link ends. It reports whether the
// link must end now.
func (l *link) forwardRequests(member net.Conn) (end bool) {
	in := bufio.NewReader(l.client)
	if sendsCommand(in) {
		l.setRaw()
		_, err := io.Copy(member, in)
		return err != nil // a program that has sent its last byte may still wait for a reply
	}
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(in, nil, maxFrame)
		if err != nil {
			l.checkLength("the program", err)
			return true
		}
		request, fault := l.read(frame, first)
		if l.fails(request, frame, fault, member) {
			return true
		}
		if first && !l.awaitOpened() {
			return true
		}
	}
}

// read notes a request, and returns the fault that happens at it.
func (l *link) read(frame []byte, first bool) (sent, Fault) {
	if first {
		var connect jute.ConnectRequest
		d := jute.NewDecoder(frame)
		connect.Decode(&d) // a broken one is the server's to reject
		s, fault := l.relay.noteConnect(l, connect)
		l.setSession(s)
		return sent{}, fault
	}
	header, path := parseRequest(frame)
	request := sent{xid: header.Xid, closes: header.Op == jute.OpCloseSession}
	if header.Op == jute.OpPing {
		return request, ""
	}
	return request, l.relay.noteRequest(l, l.sessionOf(), header, path)
}

// fails forwards a request, or lets a fault happen. It reports whether no other request of the connection may follow.
func (l *link) fails(request sent, frame []byte, fault Fault, member net.Conn) (last bool) {
	switch fault {
	case Before:
		l.awaitReplies()
		return true
	case Expire:
		l.awaitReplies()
		l.expire(member)
		return true
	case Pause:
		return l.pauseProgram(request, frame, member)
	case After, Move, Late:
		request.fault = fault
	}
	l.expectReply(request)
	if jute.WriteFrame(member, frame) != nil {
		return true
	}
	if fault == After || fault == Move {
		<-l.ended // no later request may be carried out
		return true
	}
	return false
}

// expire ends the session. The program's connection stays open meanwhile, so that it cannot come back before that.
func (l *link) expire(member net.Conn) {
	l.setExpiring(true)
	_ = member.Close() // two connections of one session would fight for it
	if err := l.relay.expire(l.sessionOf(), l.address); err != nil {
		l.relay.fail(err)
	}
	l.setExpiring(false)
}

func (l *link) setExpiring(expiring bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiring = expiring
	l.changed.Broadcast()
}

// awaitExpired waits until the session has been ended, if that is under way.
func (l *link) awaitExpired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.expiring {
		l.changed.Wait()
	}
}

// pauseProgram stops the program, carries out its request, and lets the program continue when the server has ended the
// session. It reports whether the connection must end.
func (l *link) pauseProgram(request sent, frame []byte, member net.Conn) (last bool) {
	if err := l.relay.program.Stop(); err != nil {
		l.relay.fail(err)
		return true
	}
	l.expectReply(request)
	limit := pauseLimit(l.relay.timeoutOf(l.sessionOf()))
	err := jute.WriteFrame(member, frame)
	if err == nil && l.hold(limit) {
		err = fmt.Errorf("the server did not end the session of the program, which was stopped for %v", limit)
	}
	if err != nil {
		l.relay.fail(err)
	}
	if err := l.relay.program.Continue(); err != nil {
		l.relay.fail(err)
	}
	return true
}

// pauseLimit returns how long a program is stopped at most. ZooKeeper ends a session up to a tick after its timeout,
// and a tick is at most half of the shortest timeout.
func pauseLimit(timeout time.Duration) time.Duration { return 2*timeout + pauseSlack }

// pauseSlack is for an ensemble that is slow to end a session.
const pauseSlack = 5 * time.Second

// checkLength notes a frame that is too long. After it the connection cannot be parsed.
func (l *link) checkLength(sender string, err error) {
	if errors.Is(err, jute.ErrFrameLength) {
		l.relay.breakOff(fmt.Errorf("%s sent a frame that the proxy does not take: %w", sender, err))
	}
}

// sendsCommand reports whether the program's first bytes are no frame, but a four-letter command.
func sendsCommand(in *bufio.Reader) bool {
	b, err := in.Peek(lengthSize)
	return err == nil && binary.BigEndian.Uint32(b) > maxLength
}

func (l *link) setRaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raw = true
}

func (l *link) isRaw() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.raw
}

func (l *link) setSession(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = s
}

func (l *link) sessionOf() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

func (l *link) expectReply(r sent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, r)
}

// awaitReplies waits until every request has got its reply, or the link has ended.
func (l *link) awaitReplies() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.hasEnded && len(l.waiting) > 0 {
		l.changed.Wait()
	}
}

// awaitOpened waits for the reply to the connect. It returns false if the link ends first.
func (l *link) awaitOpened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.hasEnded && !l.opened {
		l.changed.Wait()
	}
	return l.opened
}

// forwardReplies reads what the server sends until it closes the connection, or a fault breaks it.
func (l *link) forwardReplies(member net.Conn) {
	in := bufio.NewReader(member)
	if _, err := in.Peek(1); err != nil {
		return
	}
	if l.isRaw() {
		_, _ = io.Copy(l.client, in)
		return
	}
	var buffer []byte
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(in, buffer, maxFrame)
		if err != nil {
			l.checkLength("the server", err)
			return
		}
		buffer = frame
		request, isReply := l.requestOf(frame, first)
		if first {
			l.noteOpened(frame)
		}
		switch request.fault {
		case After:
			return
		case Late:
			if !l.hold(l.relay.timeoutOf(l.sessionOf())) {
				return
			}
		case Move:
			l.relay.move()
		}
		if request.closes {
			l.relay.noteClosed(l.sessionOf())
		}
		if jute.WriteFrame(l.client, frame) != nil || request.fault == Move {
			return
		}
		if isReply {
			l.replied(request.xid, first)
		}
	}
}

// hold waits for d, or returns false if the link ends first.
func (l *link) hold(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}

// requestOf returns the request that a frame of the server replies to, or false if it is none's.
func (l *link) requestOf(frame []byte, first bool) (sent, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first {
		if len(l.waiting) == 0 {
			return sent{}, false
		}
		return l.waiting[0], true
	}
	var header jute.ReplyHeader
	d := jute.NewDecoder(frame)
	header.Decode(&d)
	if d.Err() != nil || header.Xid == jute.XidNotification {
		return sent{}, false
	}
	if i := l.indexOf(header.Xid); i >= 0 {
		return l.waiting[i], true
	}
	return sent{}, false
}

// indexOf returns the index of the first waiting request with an xid, or -1. The lock is held.
func (l *link) indexOf(xid int32) int {
	return slices.IndexFunc(l.waiting, func(r sent) bool { return r.xid == xid })
}

// noteOpened notes the reply to the connect, which has the session's id, password and timeout.
func (l *link) noteOpened(frame []byte) {
	var connect jute.ConnectResponse
	d := jute.NewDecoder(frame)
	connect.Decode(&d)
	if s := l.sessionOf(); s != nil && d.Err() == nil {
		l.relay.noteOpened(s, connect)
	}
}

// replied notes that a request has got its reply.
func (l *link) replied(xid int32, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.indexOf(xid); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	if first {
		l.opened = true
	}
	l.changed.Broadcast()
}
