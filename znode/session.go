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
	Timeout   time.Duration // granted by the last connect; whole milliseconds
	Password  [16]byte
	Owner     Owner
	Since     uint64 // index at which the owner was set
	CreatedMs int64  // since 1970
	Address   string // of the client that connected last
}

// Owner is the connection that speaks for a session.
type Owner struct {
	Member uint32
	Conn   uint64 // unique over members and their runs; 0: none
}

// Ending is how a session ended.
type Ending struct {
	AtMs       int64         // by the log's time, since 1970
	By         Owner         // the connection whose closeSession it was; zero if the session expired
	Expired    bool          // and not closed by its client
	Silent     time.Duration // if it expired: how long its leader had not heard of it
	Ephemerals int           // how many go with it
	Later      bool          // and not yet: they are swept
}

// maxSilentMs is the longest silence that is told, in milliseconds: a year is as good as
// any longer, and fits a time.Duration.
const maxSilentMs = 365 * 24 * 3600 * 1000

// sessionKey orders sessions by id, unsigned, as ids are printed.
type sessionKey jute.SessionID

func (k sessionKey) compare(l sessionKey) int {
	return compareIDs(jute.SessionID(k), jute.SessionID(l))
}

func compareIDs(a, b jute.SessionID) int {
	return cmp.Compare(uint64(a), uint64(b))
}

// maxAddress is the longest client address a record takes, in bytes: text of an IPv6
// address with zone and port is shorter.
const maxAddress = 255

// refuse returns why a transaction of a session must not run: the session is gone, or
// another connection speaks for it. Transactions without a session pass.
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
	s.obs.Opened(*session)
}

// attach hands a session to txn's connection. It takes no zxid.
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
	// An attach that knows an older owner was overtaken by that of another member: only
	// among those of one member does the log's order tell which connection is the newest.
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
	s.obs.Attached(session, old.Owner)
}

// closeSession ends a session at its client's wish.
func (s *State) closeSession(txn *proto.Txn, r *Result) {
	s.take()
	if r.Code = s.refuse(txn); r.Code != jute.OK {
		return
	}
	session, ok := s.Session(jute.SessionID(txn.GetSession()))
	if !ok { // no session at all
		r.Code = jute.SessionExpired
		return
	}
	r.Later = s.end(session, Ending{By: ownerOf(txn)})
}

// expire ends a session for its silence, unless its owner was set later than the leader
// knew: who came back lives.
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
	s.end(session, Ending{Expired: true, Silent: time.Duration(min(req.GetSilentMs(), maxSilentMs)) * time.Millisecond})
}

// end removes a session and its ephemeral nodes, in the order of their paths. If these are
// more than may go with it, they stay, to be swept, and it returns true.
func (s *State) end(session Session, ending Ending) (later bool) {
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
	s.obs.Closed(session, ending)
	return ending.Later
}
