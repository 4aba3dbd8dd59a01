package cases

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	tick       = time.Second           // of the servers, unless a row uses another
	usual      = 10 * time.Second      // the session timeout, unless a case uses another
	commitTime = 50 * time.Millisecond // how long a write may take from being sent to being applied everywhere
	patience   = 60 * time.Second      // for events that must happen at once; only a failing test waits so long
	// ownGone is how long after its timeout a silent session may still exist on the leader.
	// Sessions expire at the end of a tick.
	ownGone = tick + commitTime
	// allGone is the same for any member. The session's touches may have waited half a tick to be
	// sent.
	allGone = ownGone + tick/2
)

// place is the member and the ensemble at which a case is tried.
type place int

const (
	standalone place = 1 << iota
	leader
	followerOne
	followerTwo

	followers  = followerOne | followerTwo
	three      = leader | followers
	everywhere = standalone | three
)

func (p place) String() string {
	return map[place]string{
		standalone: "standalone", leader: "leader", followerOne: "follower-1", followerTwo: "follower-2",
	}[p]
}

// stage is a running ensemble and the member that a case is tried at.
type stage struct {
	*testing.T
	*cluster.Ensemble
	at    uint32
	place place
}

// on runs a function on a stage of its own at each of the places, in virtual time. At the end all
// members must agree.
func on(t *testing.T, places place, opts cluster.Options, run func(s *stage)) {
	t.Helper()
	for _, p := range places.tried() {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, p, opts)
				run(s)
				s.Equal()
			})
		})
	}
}

// tried returns the places one by one. With -short and under the race detector it returns one of them, a follower if there is one: there
// a request runs through the code of two members.
func (p place) tried() (all []place) {
	for _, one := range []place{followerOne, leader, standalone, followerTwo} {
		if p&one != 0 {
			all = append(all, one)
		}
	}
	if (raced || testing.Short()) && len(all) > 1 {
		return all[:1]
	}
	return all
}

func newStage(t *testing.T, p place, opts cluster.Options) *stage {
	t.Helper()
	n := 3
	if p == standalone {
		n = 1
	}
	s := &stage{T: t, Ensemble: cluster.Start(t, n, opts), place: p}
	s.Ready()
	s.Joined() // a member that began a moment after the others serves, and catches up
	s.at = s.Leader()
	switch p {
	case followerOne:
		s.at = s.Followers()[0]
	case followerTwo:
		s.at = s.Followers()[1]
	}
	return s
}

// other returns a member other than s.at if there is one.
func (s *stage) other() uint32 {
	ids := s.IDs()
	return ids[(slices.Index(ids, s.at)+1)%len(ids)]
}

// third returns the member that is neither s.at nor s.other.
func (s *stage) third() uint32 {
	ids := s.IDs()
	return ids[(slices.Index(ids, s.at)+2)%len(ids)]
}

// quiesce waits until every member has applied the same log, and everything that was sent has been
// received.
func (s *stage) quiesce() {
	s.Helper()
	s.Equal()
	synctest.Wait()
}

// has reports whether a member has a node. It reads the member's state, so it touches no session.
func (s *stage) has(member uint32, path string) bool {
	state := s.Member(member).State()
	state.RLock()
	defer state.RUnlock()
	_, code := state.Exists([]byte(path), nil, nil)
	return code == jute.OK
}

// record returns a session's record in a member's state.
func (s *stage) record(member uint32, id jute.SessionID) (znode.Session, bool) {
	state := s.Member(member).State()
	state.RLock()
	defer state.RUnlock()
	return state.Session(id)
}

// lives reports whether the session exists in a member's state.
func (s *stage) lives(member uint32, id jute.SessionID) bool {
	_, ok := s.record(member, id)
	return ok
}

// zxid returns the last zxid that a member has applied.
func (s *stage) zxid(member uint32) int64 {
	state := s.Member(member).State()
	state.RLock()
	defer state.RUnlock()
	return state.Zxid()
}

// dial opens a connection to a member.
func (s *stage) dial(member uint32) *wire.Conn {
	s.Helper()
	c, err := s.Dial(member)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// shake opens a connection and does the handshake with req.
func (s *stage) shake(member uint32, req jute.ConnectRequest) (*wire.Conn, jute.ConnectResponse) {
	s.Helper()
	c := s.dial(member)
	resp, err := c.Handshake(req)
	if err != nil {
		s.Fatalf("handshake with member %d: %v", member, err)
	}
	return c, resp
}

// grantedTimeout returns the timeout that a member grants to a client that requests ms.
func (s *stage) grantedTimeout(member uint32, ms int32) int32 {
	s.Helper()
	c, resp := s.shake(member, jute.ConnectRequest{TimeOut: ms, Passwd: make([]byte, 16)})
	if resp.SessionID == 0 {
		s.Fatalf("asked for %d ms: session refused", ms)
	}
	c.Close()
	return resp.TimeOut
}

// claim returns the request that resumes a session.
func claim(g jute.ConnectResponse) jute.ConnectRequest {
	return jute.ConnectRequest{TimeOut: g.TimeOut, SessionID: g.SessionID, Passwd: g.Passwd, HasReadOnly: true}
}

// checkRejected checks that a member replies to req with zeroes and closes.
func (s *stage) checkRejected(member uint32, req jute.ConnectRequest) {
	s.Helper()
	c, resp := s.shake(member, req)
	if resp.TimeOut != 0 || resp.SessionID != 0 || !slices.Equal(resp.Passwd, make([]byte, 16)) {
		s.Fatalf("member %d: answered %+v, want zeroes", member, resp)
	}
	s.closed(c, patience)
}

// unanswered checks that a member that gets req closes the connection within limit, without sending
// a byte.
func (s *stage) unanswered(member uint32, req jute.ConnectRequest, limit time.Duration) {
	s.Helper()
	c := s.dial(member)
	if err := jute.WriteFrame(c.Conn, req.Append(nil)); err != nil {
		s.Fatal(err)
	}
	s.closed(c, limit)
}

// closed checks that the server closes c within limit, without sending another byte.
func (s *stage) closed(c *wire.Conn, limit time.Duration) {
	s.Helper()
	late := time.AfterFunc(limit, func() { _ = c.Close() })
	r, err := c.Recv()
	switch {
	case err == nil:
		s.Fatalf("%v where the connection was to be closed", r)
	case !late.Stop():
		s.Fatalf("connection still open after %v", limit)
	case !errors.Is(err, io.EOF):
		s.Fatalf("where the connection was to be closed: %v", err)
	}
}

// absent checks that no member has the node.
func (s *stage) absent(path string) {
	s.Helper()
	s.quiesce()
	for _, id := range s.IDs() {
		if s.Running(id) && s.has(id, path) {
			s.Fatalf("%s is on member %d", path, id)
		}
	}
}

// present checks that every member has the node.
func (s *stage) present(path string) {
	s.Helper()
	s.quiesce()
	for _, id := range s.IDs() {
		if s.Running(id) && !s.has(id, path) {
			s.Fatalf("%s is not on member %d", path, id)
		}
	}
}

// sendCommand sends a four-letter command to a member and returns its reply.
func (s *stage) sendCommand(member uint32, word string) string {
	s.Helper()
	c := s.dial(member)
	defer c.Close()
	if _, err := c.Write([]byte(word)); err != nil {
		s.Fatal(err)
	}
	var answer []byte
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		answer = append(answer, buf[:n]...)
		if err != nil {
			return string(answer)
		}
	}
}

var errNeverGone = errors.New("still there")

// death waits until a member lacks the node, and returns when that was. After limit the error is
// errNeverGone.
func (s *stage) death(member uint32, path string, limit time.Duration) (time.Time, error) {
	for end := time.Now().Add(limit); s.has(member, path); {
		if time.Now().After(end) {
			return time.Time{}, fmt.Errorf("%s on member %d after %v: %w", path, member, limit, errNeverGone)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Now(), nil
}

// onTime checks that a session, last heard at touched, ended at the right time.
func (s *stage) onTime(member uint32, timeout time.Duration, touched, ended time.Time) {
	s.Helper()
	role, late := s.Member(member).Role(), allGone
	if role != "follower" {
		late = ownGone
	}
	if lasted := ended.Sub(touched); lasted <= timeout || lasted > timeout+late {
		s.Errorf("session of %v on member %d (%s) lasted %v from its last request, want more than that and %v more at most",
			timeout, member, role, lasted, late)
	}
}
