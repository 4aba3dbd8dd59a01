package proxy

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"rollcall/lab/proxy/tap"
	"rollcall/zk/jute"
)

// maxFrame limits a frame in either direction. ZooKeeper's servers take 1 MiB by default, and its clients 4 MiB.
const maxFrame = 64 << 20

// proxyLink is one connection of the program, and its connection to a server.
type proxyLink struct {
	*tap.Link[request]
	relay   *relay
	number  int
	address string                  // of the server
	session atomic.Pointer[session] // nil before the connect
	expiry  chan struct{}           // full while the program must not notice that the connection to the server is closed
}

func newLink(r *relay, client net.Conn, number int, address string) *proxyLink {
	return &proxyLink{
		Link: tap.New[request](client), relay: r, number: number, address: address, expiry: make(chan struct{}, 1),
	}
}

// forward forwards requests and replies until one side closes its connection or a fault breaks it.
func (l *proxyLink) forward() {
	defer func() { _ = l.Client.Close() }()
	server, err := l.relay.dialServer(l.address)
	if err != nil {
		return // as from a server that is down: the program keeps connecting
	}
	l.Run(server, maxFrame, l)
}

// Request implements tap.Handler, as the next methods do.
func (l *proxyLink) Request(server net.Conn, frame []byte, first bool) (last bool) {
	return l.forwardOrFail(l.noteRequest(frame, first), frame, server)
}

func (l *proxyLink) Reply(frame []byte, first bool, r request) tap.Fate {
	if first {
		l.noteOpened(frame)
	}
	fate := tap.Fate{Lose: r.fault == After, Last: r.fault == Move}
	switch {
	case fate.Lose:
		return fate
	case fate.Last:
		l.relay.moveToNext()
	case r.fault == Late:
		fate.Delay = l.relay.timeoutOf(l.session.Load())
	}
	if r.closes {
		l.relay.noteClosed(l.session.Load())
	}
	return fate
}

func (l *proxyLink) NoMore(fromServer bool, err error) {
	sender := "the program"
	if fromServer {
		sender = "the server"
	}
	if errors.Is(err, jute.ErrFrameLength) { // after it the connection cannot be parsed
		l.relay.breakOff(fmt.Errorf("%s sent a frame that the proxy does not take: %w", sender, err))
	}
	if fromServer {
		l.expiry <- struct{}{} // when the session has been ended, if that is under way
		<-l.expiry
	}
}

// request is a request of the program and the fault that happens at it.
type request struct {
	xid    int32
	fault  Fault // "": none
	closes bool  // a closeSession
}

// noteRequest notes a request.
func (l *proxyLink) noteRequest(frame []byte, first bool) request {
	if first {
		var connect jute.ConnectRequest
		d := jute.NewDecoder(frame)
		connect.Decode(&d) // a broken one is the server's to reject
		s, fault := l.relay.noteConnect(l, connect)
		l.session.Store(s)
		return request{fault: fault}
	}
	header, path := tap.ParseRequest(frame)
	r := request{xid: header.Xid, closes: header.Op == jute.OpCloseSession}
	if header.Op != jute.OpPing {
		r.fault = l.relay.noteRequest(l, l.session.Load(), header, path)
	}
	return r
}

// forwardOrFail forwards a request, or lets its fault happen. It reports whether no other request of the connection may follow.
func (l *proxyLink) forwardOrFail(r request, frame []byte, server net.Conn) (last bool) {
	switch r.fault {
	case Before:
		l.AwaitReplies()
		return true
	case Expire:
		l.AwaitReplies()
		l.expireSession(server)
		return true
	case Pause:
		return l.pauseProgram(r, frame, server)
	}
	l.Expect(r.xid, r)
	if jute.WriteFrame(server, frame) != nil {
		return true
	}
	if r.fault == After || r.fault == Move {
		<-l.Ended() // no later request may be carried out
		return true
	}
	return false
}

// expireSession ends the session. The program's connection stays open meanwhile, so that it cannot come back before that.
func (l *proxyLink) expireSession(server net.Conn) {
	l.expiry <- struct{}{}
	defer func() { <-l.expiry }()
	_ = server.Close() // two connections of one session would fight for it
	if err := l.relay.expireSession(l.session.Load(), l.address); err != nil {
		l.relay.noteFailure(err)
	}
}

// pauseProgram stops the program, carries out its request, and lets the program continue when the server has ended the
// session. It reports whether the connection must end.
func (l *proxyLink) pauseProgram(r request, frame []byte, server net.Conn) (last bool) {
	if err := l.relay.program().Stop(); err != nil {
		l.relay.noteFailure(err)
		return true
	}
	l.Expect(r.xid, request{closes: r.closes})
	limit := pauseLimit(l.relay.timeoutOf(l.session.Load()))
	err := jute.WriteFrame(server, frame)
	if err == nil && l.Hold(limit) {
		err = fmt.Errorf("the server did not end the session of the program, which was stopped for %v", limit)
	}
	if err != nil {
		l.relay.noteFailure(err)
	}
	if err := l.relay.program().Continue(); err != nil {
		l.relay.noteFailure(err)
	}
	return true
}

// pauseLimit returns the longest time for which a program is stopped. ZooKeeper ends a session up to a tick after
// its timeout, and a tick is at most half of the shortest timeout.
func pauseLimit(timeout time.Duration) time.Duration { return 2*timeout + pauseSlack }

// pauseSlack is for an ensemble that is slow to end a session.
const pauseSlack = 5 * time.Second

// noteOpened notes the reply to the connect, which has the session's id, password and timeout.
func (l *proxyLink) noteOpened(frame []byte) {
	var connect jute.ConnectResponse
	d := jute.NewDecoder(frame)
	connect.Decode(&d)
	if s := l.session.Load(); s != nil && d.Err() == nil {
		l.relay.noteOpened(s, connect)
	}
}
