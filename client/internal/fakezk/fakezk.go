// Package fakezk is a small ZooKeeper in memory, for the tests of this module. It is one server without a log: it has
// sessions, ephemeral and sequential nodes, containers, versions, multis and watches. Tests change its nodes, break its
// connections and end its sessions.
//
// A session ends only when its client closes it or a test ends it, and an empty container stays. There are no
// permissions and no nodes with a TTL. Package zktest compares its replies with those of the real server.
//
// # Faults
//
// A test can act between two requests of a client: BeforeRequest is called before the server carries a request out, and
// may use the server and other clients of it. OnRequest can lose the reply to a request that was carried out. Lag makes
// a session read what another server of an ensemble would have, which has not applied the latest changes.
package fakezk

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"rollcall/zk/jute"
)

// Server is a small ZooKeeper in memory. Its fields are set before it is used. It is safe for concurrent use. New makes
// one.
type Server struct {
	t testing.TB

	Before35 bool // it does not know removeWatches
	Before36 bool // it does not know addWatch
	Before39 bool // it has one watch of a table on a path, no types 4 and 5, and no zxids in events

	StatsAreOpen bool // exists returns the Stat of a node that cannot be read, as in some versions of ZooKeeper

	// Ensemble is the id of an ensemble of Rollcall: recursive and persistent watches that are set again get the events
	// that they have missed, and jute.HistoryPath can be read. "": it is ZooKeeper.
	Ensemble string

	// BeforeRequest is called when a request has arrived, before it is carried out. It may use the Server, and wait for
	// other clients of it. Requests of other sessions are served meanwhile.
	BeforeRequest func(Request)
	// OnRequest is called when a request has been carried out, with the number of requests of its operation so far. If it
	// returns true, the reply is lost with the connection. It must not use the Server.
	OnRequest func(op jute.Op, path string, count int) (loseReply bool)
	// OnReply is called when a reply is queued or lost; it may change nodes, and their events come after the reply.
	OnReply func(op jute.Op, path string)

	mu          sync.Mutex
	nodes       tree
	zxid        int64
	sessions    map[jute.SessionID]*session
	lastSession jute.SessionID
	down        bool
	rejecting   bool // no session can be opened
	readOnly    bool
	muted       bool // no event is sent
	requests    map[jute.Op]int
	history     []change // with an Ensemble: all changes after historyFrom
	historyFrom int64
	aclsChanged int64 // the zxid of the last change of an ACL
	clients     sync.WaitGroup
}

// Request is a request that has arrived.
type Request struct {
	Session jute.SessionID
	Op      jute.Op
	Path    string // of a multi, that of its first operation
}

// session is a client's session. Its fields are guarded by the Server's lock.
type session struct {
	id     jute.SessionID
	link   *conn // nil while there is no connection
	behind *lag  // of its next connection
}

// firstSession is the id of the first session.
const firstSession = 7

// New returns a Server with the root node.
func New(t testing.TB) *Server {
	return &Server{
		t: t, nodes: tree{"/": {}}, lastSession: firstSession - 1,
		sessions: map[jute.SessionID]*session{}, requests: map[jute.Op]int{},
	}
}

// Accept opens a connection, for a client's function that dials.
func (s *Server) Accept() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errors.New("refused")
	}
	ours, theirs := net.Pipe()
	c := newConn(s, theirs)
	s.clients.Go(c.serve)
	s.clients.Go(c.sendFrames)
	return ours, nil
}

// DialConn is Accept, as the function of a Config.
func (s *Server) DialConn(context.Context, string, string) (net.Conn, error) { return s.Accept() }

// Run runs a test in virtual time with a new server, and with a client of it, which dial opens.
func Run[C interface{ Abandon() }](t *testing.T, dial func(*Server) (C, error), test func(*testing.T, *Server, C)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(t)
		c, err := dial(s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Abandon()
			s.AwaitConnectionsEnd()
		})
		test(t, s, c)
	})
}
