package znode

import (
	"cmp"
	"crypto/subtle"
	"time"

	"rollcall/jute"
	"rollcall/proto"

	pb "google.golang.org/protobuf/proto"
)

// Session is the record of a client's session, the same on all members.
type Session struct {
	ID        jute.SessionID
	Timeout   time.Duration // granted by the last connect, in whole milliseconds
	Password  [16]byte
	Owner     Owner
	Since     uint64 // the index of the entry that set the owner
	CreatedMs int64  // since 1970
	Address   string // the client that connected last
}

// Owner is the connection that a session belongs to.
type Owner struct {
	Member uint32
	Conn   uint64 // unique over members and their runs; 0: no owner
}

// Ending says how a session ended.
type Ending struct {
	AtMs       int64         // by the log's time, in ms since 1970
	By         Owner         // the connection that sent closeSession; zero if the session expired
	Expired    bool          // the session expired; its client did not close it
	Silent     time.Duration // for an expired session: how long the leader had not heard from it
	Ephemerals int           // how many ephemeral nodes the session had
	Later      bool          // the nodes are not deleted yet but will be swept
}

// maxSilentMs is the longest silence that is reported, in milliseconds. A year says as much as any
// longer time, and fits a time.Duration.
const maxSilentMs = 365 * 24 * 3600 * 1000

// sessionKey orders sessions by id, unsigned, as ids are printed.
type sessionKey jute.SessionID

func (k sessionKey) compare(l sessionKey) int {
	return compareIDs(jute.SessionID(k), jute.SessionID(l))
}

func compareIDs(a, b jute.SessionID) int {
	return cmp.Compare(uint64(a), uint64(b))
}

// maxAddress is the longest client address that a record holds, in bytes. The text of an IPv6
// address with zone and port is shorter.
const maxAddress = 255

// refuse returns why a session's transaction must not run: the session is gone, or it belongs to
// another connection. Otherwise, and for transactions without a session, it returns OK.
func (s *State) refuse(txn *proto.Txn) jute.Code {
	if txn.GetSession() == 0 {
		return jute.OK
	}
	r, ok := s.sessions.get(sessionKey(txn.GetSession()))
	switch {
	case !ok:
		return jute.SessionExpired
	case r.Owner != ownerOf(txn):
		return jute.SessionMoved
	}
	return jute.OK
}

func ownerOf(txn *proto.Txn) Owner {
	return Owner{Member: txn.GetMember(), Conn: txn.GetConn()}
}

// createSession opens the session txn.Session for txn's connection.
func (s *State) createSession(txn *proto.Txn, r *Result) {
	var open proto.OpenSession
	id := jute.SessionID(txn.GetSession())
	err := pb.Unmarshal(txn.GetBody(), &open)
	if err != nil || id == 0 || len(open.GetPassword()) != len(Session{}.Password) || len(open.GetAddress()) > maxAddress {
		r.Code = jute.MarshallingError
		return
	}
	s.take()
	_, lives := s.sessions.get(sessionKey(id))
	_, left := s.unswept.get(sessionKey(id))
	if lives || left {
		r.Code = jute.NodeExists
		return
	}
	session := &Session{
		ID:        id,
		Timeout:   time.Duration(open.GetTimeoutMs()) * time.Millisecond,
		Password:  [16]byte(open.GetPassword()),
		Owner:     ownerOf(txn),
		Since:     s.index,
		CreatedMs: s.now,
		Address:   open.GetAddress(),
	}
	s.putSession(s.gen.Load(), session)
	m := &s.members[uint64(id)>>56]
	m.highest = max(m.highest, uint64(id))
	r.Session = *session
	s.hooks.Opened(*session)
}

// attach makes txn's connection the owner of a session. It takes no zxid.
func (s *State) attach(txn *proto.Txn, r *Result) {
	var req proto.Attach
	if err := pb.Unmarshal(txn.GetBody(), &req); err != nil || len(req.GetAddress()) > maxAddress {
		r.Code = jute.MarshallingError
		return
	}
	id := jute.SessionID(txn.GetSession())
	old, ok := s.sessions.get(sessionKey(id))
	if !ok {
		r.Code = jute.SessionExpired
		return
	}
	r.Session = *old
	// An attach that names an outdated owner was overtaken by an attach through another member.
	// Only among the attaches of one member does the log's order tell which connection is the
	// newest.
	if req.GetSince() != old.Since && old.Owner.Member != txn.GetMember() {
		r.Code = jute.SessionMoved
		return
	}
	if subtle.ConstantTimeCompare(req.GetPassword(), old.Password[:]) != 1 {
		r.Code, r.Session = jute.AuthFailed, Session{}
		return
	}
	session := *old
	session.Owner, session.Since = ownerOf(txn), s.index
	session.Timeout = time.Duration(req.GetTimeoutMs()) * time.Millisecond
	session.Address = req.GetAddress()
	s.putSession(s.gen.Load(), &session)
	r.Session = session
	s.hooks.Attached(session, old.Owner)
}

// closeSession ends a session because its client asked for that.
func (s *State) closeSession(txn *proto.Txn, r *Result) {
	s.take()
	if r.Code = s.refuse(txn); r.Code != jute.OK {
		return
	}
	session, ok := s.Session(jute.SessionID(txn.GetSession()))
	if !ok { // there is no such session
		r.Code = jute.SessionExpired
		return
	}
	r.Later = s.endSession(session, Ending{By: ownerOf(txn)})
}

// expire ends a silent session, unless its owner was set later than the leader knew: then the
// client has come back.
func (s *State) expire(txn *proto.Txn, r *Result) {
	var req proto.Expire
	if err := pb.Unmarshal(txn.GetBody(), &req); err != nil {
		r.Code = jute.MarshallingError
		return
	}
	session, ok := s.Session(jute.SessionID(txn.GetSession()))
	if !ok || session.Since > req.GetSince() {
		return
	}
	s.take()
	s.endSession(session, Ending{Expired: true, Silent: time.Duration(min(req.GetSilentMs(), maxSilentMs)) * time.Millisecond})
}

// endSession removes a session and its ephemeral nodes, in the order of their paths. If there are more
// nodes than may be removed at once, it leaves them to be swept and returns true.
func (s *State) endSession(session Session, ending Ending) (later bool) {
	key := sessionKey(session.ID)
	s.dropSession(s.gen.Load(), key)
	ending.AtMs, ending.Ephemerals = s.now, s.countOwned(session.ID)
	if s.endsAtOnce(ending.Ephemerals) {
		s.removeOwned(session.ID, ending.Ephemerals)
	} else {
		s.unswept.put(s.gen.Load(), key, struct{}{})
		ending.Later = true
	}
	s.fire()
	s.hooks.Closed(session, ending)
	return ending.Later
}
