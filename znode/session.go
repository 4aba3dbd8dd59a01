package znode

import (
	"cmp"
	"crypto/subtle"
	"math"
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
	Since     uint64     // the index of the entry that set the owner
	CreatedMs int64      // since 1970
	Address   string     // the client that connected last
	Who       Identities // of the connection that is the owner
}

// Owner is the connection that a session belongs to.
type Owner struct {
	Member uint32
	Conn   uint64 // unique over members and their runs; 0: no owner
}

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
// another connection. Otherwise, and for transactions without a session, it returns OK. The transaction then has the identities
// of its session.
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
	s.acls.sender.session = r.Who
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
		Who:       IdentitiesOf(txn.GetIds()),
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
	session.Address, session.Who = req.GetAddress(), IdentitiesOf(txn.GetIds())
	s.putSession(s.gen.Load(), &session)
	r.Session = session
	s.hooks.Attached(session, old.Owner)
}

// identify adds to a session identities that its owner has proved. It takes no zxid.
func (s *State) identify(txn *proto.Txn, r *Result) {
	if r.Code = s.refuse(txn); r.Code != jute.OK {
		return
	}
	old, ok := s.sessions.get(sessionKey(txn.GetSession()))
	if !ok { // there is no such session
		r.Code = jute.SessionExpired
		return
	}
	session := *old
	session.Who = old.Who.with(txn.GetIds())
	s.putSession(s.gen.Load(), &session)
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
	r.Later = s.endSession(session, End{Reason: Closed})
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
	s.endSession(session, End{Reason: Expired, Silent: silence(req.GetSilentMs())})
}

// kill ends a session because an operator asked for that, unless its owner is no longer the one
// that the operator saw: then the client has come back.
func (s *State) kill(txn *proto.Txn, r *Result) {
	var req proto.Kill
	if err := pb.Unmarshal(txn.GetBody(), &req); err != nil || len(req.GetBy()) > MaxBy {
		r.Code = jute.MarshallingError
		return
	}
	session, ok := s.Session(jute.SessionID(txn.GetSession()))
	if !ok || session.Since != req.GetSince() {
		return
	}
	s.take()
	s.endSession(session, End{Reason: Killed, Silent: silence(req.GetSilentMs()), By: req.GetBy()})
}

// endSession removes a session and its ephemeral nodes, in the order of their paths, and completes
// and keeps its end. If there are more nodes than may be removed at once, it leaves them to be swept
// and returns true.
func (s *State) endSession(session Session, end End) (later bool) {
	key := sessionKey(session.ID)
	s.dropSession(s.gen.Load(), key)
	end.Session, end.Address, end.Member, end.Timeout = session.ID, session.Address, session.Owner.Member, session.Timeout
	end.Leader, end.Term, end.AtMs, end.Zxid = s.term.Leader, s.term.Term, s.now, s.zxid
	end.Ephemerals = s.countOwned(session.ID)
	end.Number = s.ends.keep(s.gen.Load(), end, s.mostEnds)
	if s.endsAtOnce(s.weighOwned(session.ID, end.Ephemerals)) {
		s.removeOwned(session.ID, math.MaxInt)
		s.remember(Removal{Cause: SessionEnded, Member: end.Member, Session: session.ID, Address: session.Address})
	} else {
		s.unswept.put(s.gen.Load(), key, struct{}{})
		later = true
	}
	s.watches.fire(s.zxid, &s.term.Rules)
	s.hooks.Closed(session, end)
	return later
}
