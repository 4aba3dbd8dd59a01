package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"rollcall/lab/proxy/tap"
	"rollcall/zk/jute"
)

const (
	// maxLinks limits the connections of a program at one time. It is far above what the tests of a program need, and
	// below the descriptors that a process may open.
	maxLinks = 2_000
	// maxRecorded limits the requests of a run that are kept. Later ones still pass, and are counted.
	maxRecorded = 10_000
	// maxCounted limits the kinds of requests that are counted. Each request that is kept has two, with and without its
	// session. The target of the run has one.
	maxCounted = 2*maxRecorded + 1
	// maxSessions limits the sessions of a run that are kept. Each of them has a request of its own, its connect. So a session
	// that is dropped, and would get a new number if it came back, has only requests beyond maxRecorded from then on. It is
	// also far above maxLinks, so there is always a session without a connection to drop.
	maxSessions = maxRecorded
	// maxFollowing limits the requests that are kept of what a program did after its fault.
	maxFollowing = 12
	// dialTimeout limits the wait for a server to accept a connection.
	dialTimeout = 10 * time.Second
)

// session is a session that the program has opened. Its password is needed to end it, and is in no report.
type session struct {
	number   int
	id       jute.SessionID
	password []byte
	timeout  time.Duration // granted
	closed   bool          // the program has closed it, or its end was a fault
	links    int           // connections of it that are open
	unlinked time.Time     // when the last of them ended
}

// isOver reports whether its server has ended the session: it was closed, or has had no connection for so long.
func (s *session) isOver() bool {
	return s.closed || s.links == 0 && time.Since(s.unlinked) > pauseLimit(s.timeout)
}

// relay stands between a program and its servers during one run. It records the requests, and puts one fault into
// effect. It is safe for concurrent use.
type relay struct {
	listener net.Listener
	servers  Servers
	target   *Point        // nil: no fault
	program  func() Pauser // waits until the program has started

	links  sync.WaitGroup // the goroutines of the relay and of its links
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	closed   bool
	open     map[*proxyLink]struct{}
	record   runRecord
	sessions map[jute.SessionID]*session // at most maxSessions
	longest  time.Duration               // of the timeouts of sessions that were dropped
	server   int                         // the index of the server that gets the next connections
}

// runRecord is the result of a run so far.
type runRecord struct {
	requests    []Request
	unkept      int         // requests beyond maxRecorded
	counts      map[Key]int // of the requests of each kind; at most maxCounted
	connections int
	opened      int // sessions
	dropped     int // sessions that may live, and were dropped because there are more than maxSessions
	fired       *Request
	following   []Request // after the fault, at most maxFollowing
	undone      error     // why the fault could not be put into effect
	broken      error     // why the relay itself broke a connection
}

// countKind counts a request of a kind, and returns the number so far. Above maxCounted, a new kind is not counted.
func (r *runRecord) countKind(kind Key) int {
	if _, ok := r.counts[kind]; !ok && len(r.counts) >= maxCounted {
		return 0 // no key has it
	}
	r.counts[kind]++
	return r.counts[kind]
}

// newRelay returns a relay that accepts the program's connections at once. first is the index of the server that gets
// the first connections. The caller must call close.
func newRelay(l net.Listener, servers Servers, first int, t *Point, program func() Pauser) *relay {
	r := &relay{
		listener: l, servers: servers, target: t, program: program,
		open: map[*proxyLink]struct{}{}, sessions: map[jute.SessionID]*session{}, server: first % len(servers.Addresses),
		record: runRecord{counts: map[Key]int{}},
	}
	if t != nil { // however late its request comes, it is counted
		kind := t.Key
		kind.Occurrence = 0
		r.record.counts[kind] = 0
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.links.Go(func() { tap.AcceptAll(r.ctx, l, r.serveConn) })
	return r
}

// serveConn serves a connection of the program.
func (r *relay) serveConn(client net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.open) >= maxLinks {
		r.record.broken = fmt.Errorf("the program has more than %d connections at one time", maxLinks)
	}
	if r.closed || len(r.open) >= maxLinks {
		_ = client.Close()
		return
	}
	r.record.connections++
	l := newLink(r, client, r.record.connections, r.servers.Addresses[r.server])
	r.open[l] = struct{}{}
	r.links.Go(func() {
		l.forward()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, l)
		r.noteConnEnded(l.session.Load())
	})
}

// closeAll breaks all connections at once, waits for the relay's goroutines, and returns the record of the run.
func (r *relay) closeAll() runRecord {
	r.mu.Lock()
	r.closed = true
	open := r.open
	r.open = map[*proxyLink]struct{}{}
	r.mu.Unlock()
	r.cancel()
	_ = r.listener.Close()
	for l := range open {
		_ = l.Client.Close()
		l.End()
	}
	r.links.Wait()
	return r.record
}

// unclosedSessions returns the sessions that have not been closed, in order. It is called after close.
func (r *relay) unclosedSessions() (list []*session) {
	for _, s := range r.sessions {
		if !s.closed {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return cmp.Compare(a.number, b.number) })
	return list
}

// longestTimeout returns the longest timeout of all sessions. It is called after close.
func (r *relay) longestTimeout() time.Duration {
	longest := r.longest
	for _, s := range r.sessions {
		longest = max(longest, s.timeout)
	}
	return longest
}

// keepSession makes a session known by its id, and drops others if there are too many. The lock is held.
func (r *relay) keepSession(s *session) {
	if r.sessions[s.id] == nil && len(r.sessions) >= maxSessions {
		r.makeRoom()
	}
	r.sessions[s.id] = s
}

// makeRoom drops the sessions that are over. If there are none, it drops the first one without a connection. That one
// can neither be recognised any more nor be ended after the run, and is counted. The lock is held.
func (r *relay) makeRoom() {
	var first *session
	for _, s := range r.sessions {
		switch {
		case s.isOver():
			r.dropSession(s)
		case s.links == 0 && (first == nil || s.number < first.number):
			first = s
		}
	}
	if len(r.sessions) >= maxSessions && first != nil {
		r.dropSession(first)
		r.record.dropped++
	}
}

// dropSession forgets a session. The lock is held.
func (r *relay) dropSession(s *session) {
	delete(r.sessions, s.id)
	r.longest = max(r.longest, s.timeout)
}

// noteConnEnded notes that a connection of a session has ended. The session is nil if the connection had none. The lock is held.
func (r *relay) noteConnEnded(s *session) {
	if s == nil {
		return
	}
	s.links--
	s.unlinked = time.Now()
}

// dialServer connects to a server of the run.
func (r *relay) dialServer(address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(r.ctx, dialTimeout)
	defer cancel()
	return r.servers.dialServer(ctx, address)
}

// noteConnect notes the first request of a connection. It returns the session that it resumes, or the new number of the
// one that it opens.
func (r *relay) noteConnect(l *proxyLink, connect jute.ConnectRequest) (s *session, at Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s = r.sessions[connect.SessionID]
	if s == nil {
		r.record.opened++
		s = &session{number: r.record.opened, timeout: time.Duration(connect.TimeOut) * time.Millisecond}
	}
	if s.id == 0 && connect.SessionID != 0 { // of another process, which has left it to this one
		s.id, s.password = connect.SessionID, append([]byte(nil), connect.Passwd...)
		r.keepSession(s)
	}
	s.links++
	return s, r.keepRequest(Request{Op: OpConnect, Opens: connect.SessionID == 0, Connection: l.number}, s)
}

// noteOpened notes the reply to a connect.
func (r *relay) noteOpened(s *session, reply jute.ConnectResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reply.SessionID == 0 {
		s.closed = true // the server knows no such session any more
		return
	}
	s.id, s.password = reply.SessionID, append([]byte(nil), reply.Passwd...)
	s.timeout = time.Duration(reply.TimeOut) * time.Millisecond
	r.keepSession(s)
}

// noteRequest notes any other request, and returns the fault that happens at it, or "".
func (r *relay) noteRequest(l *proxyLink, s *session, header jute.RequestHeader, path string) Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keepRequest(Request{
		Op: header.Op.String(), Path: withoutChroot(path, r.servers.Chroot), Xid: header.Xid, Connection: l.number,
	}, s)
}

// keepRequest numbers a request and keeps it. The lock is held.
func (r *relay) keepRequest(req Request, s *session) Fault {
	req.Session = s.number
	if s.id != 0 {
		req.SessionID = s.id.String()
	}
	inRun := Key{Op: req.Op, Pattern: patternOf(req.Path)}
	own := inRun
	own.Session = s.number
	req.InRun, req.Occurrence = r.record.countKind(inRun), r.record.countKind(own)
	if len(r.record.requests) < maxRecorded {
		r.record.requests = append(r.record.requests, req)
	} else {
		r.record.unkept++
	}
	if r.record.fired != nil {
		if len(r.record.following) < maxFollowing {
			r.record.following = append(r.record.following, req)
		}
		return ""
	}
	if r.target == nil || !r.target.Key.matchesRequest(req) {
		return ""
	}
	r.record.fired = &req
	if why := impossibleReason(r.target.Fault, req.Op, req.Opens, len(r.servers.Addresses)); why != "" {
		r.record.undone = errors.New(why)
		return ""
	}
	return r.target.Fault
}

// withoutChroot returns a path as the program knows it.
func withoutChroot(path, chroot string) string {
	rest, ok := strings.CutPrefix(path, chroot)
	switch {
	case chroot == "" || !ok || rest != "" && rest[0] != '/':
		return path
	case rest == "":
		return "/"
	}
	return rest
}

// noteClosed notes that a session has ended by closeSession.
func (r *relay) noteClosed(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.closed = true
}

// timeoutOf returns the timeout of a session.
func (r *relay) timeoutOf(s *session) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.timeout
}

// noteFailure notes that the fault could not be put into effect.
func (r *relay) noteFailure(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.undone = err
}

// breakOff notes why the relay itself broke a connection of the program.
func (r *relay) breakOff(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.broken = err
}

// moveToNext makes the next connections go to the next server.
func (r *relay) moveToNext() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = (r.server + 1) % len(r.servers.Addresses)
}

// expireSession ends a session at a server.
func (r *relay) expireSession(s *session, address string) error {
	r.mu.Lock()
	own := *s
	s.closed = true
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.ctx, endTimeout)
	defer cancel()
	return endSession(ctx, r.servers, address, own)
}
