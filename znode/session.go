package znode

import (
	"cmp"
	"crypto/subtle"
	"math"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"

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
func (t *transaction) refuse() jute.Code {
	if t.txn.GetSession() == 0 {
		return jute.OK
	}
	session, ok := t.state.sessions.get(sessionKey(t.txn.GetSession()))
	switch {
	case !ok:
		return jute.SessionExpired
	case session.Owner != ownerOf(t.txn):
		return jute.SessionMoved
	}
	t.acls.sender.session = session.Who
	return jute.OK
}

func ownerOf(txn *proto.Txn) Owner {
	return Owner{Member: txn.GetMember(), Conn: txn.GetConn()}
}

// createSession opens the session txn.Session for txn's connection.
func (t *transaction) createSession() {
	var open proto.OpenSession
	id := jute.SessionID(t.txn.GetSession())
	err := pb.Unmarshal(t.txn.GetBody(), &open)
	if err != nil || id == 0 || len(open.GetPassword()) != len(Session{}.Password) || len(open.GetAddress()) > maxAddress {
		t.result.Code = jute.MarshallingError
		return
	}
	t.take()
	_, lives := t.state.sessions.get(sessionKey(id))
	_, left := t.state.unswept.get(sessionKey(id))
	if lives || left {
		t.result.Code = jute.NodeExists
		return
	}
	session := &Session{
		ID:        id,
		Timeout:   time.Duration(open.GetTimeoutMs()) * time.Millisecond,
		Password:  [16]byte(open.GetPassword()),
		Owner:     ownerOf(t.txn),
		Since:     t.state.index,
		CreatedMs: t.state.now,
		Address:   open.GetAddress(),
		Who:       IdentitiesOf(t.txn.GetIds()),
	}
	t.state.putSession(t.gen.Load(), session)
	m := &t.state.members[uint64(id)>>56]
	m.highest = max(m.highest, uint64(id))
	t.result.Session = *session
	t.hooks.Opened(*session)
}

// attach makes txn's connection the owner of a session. It takes no zxid.
func (t *transaction) attach() {
	var req proto.Attach
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil || len(req.GetAddress()) > maxAddress {
		t.result.Code = jute.MarshallingError
		return
	}
	id := jute.SessionID(t.txn.GetSession())
	old, ok := t.state.sessions.get(sessionKey(id))
	if !ok {
		t.result.Code = jute.SessionExpired
		return
	}
	t.result.Session = *old
	// An attach that names an outdated owner was overtaken by an attach through another member.
	// Only among the attaches of one member does the log's order tell which connection is the
	// newest.
	if req.GetSince() != old.Since && old.Owner.Member != t.txn.GetMember() {
		t.result.Code = jute.SessionMoved
		return
	}
	if subtle.ConstantTimeCompare(req.GetPassword(), old.Password[:]) != 1 {
		t.result.Code, t.result.Session = jute.AuthFailed, Session{}
		return
	}
	session := *old
	session.Owner, session.Since = ownerOf(t.txn), t.state.index
	session.Timeout = time.Duration(req.GetTimeoutMs()) * time.Millisecond
	session.Address, session.Who = req.GetAddress(), IdentitiesOf(t.txn.GetIds())
	t.state.putSession(t.gen.Load(), &session)
	t.result.Session = session
	t.hooks.Attached(session, old.Owner)
}

// identify adds to a session identities that its owner has proved. It takes no zxid.
func (t *transaction) identify() {
	if t.result.Code = t.refuse(); t.result.Code != jute.OK {
		return
	}
	old, ok := t.state.sessions.get(sessionKey(t.txn.GetSession()))
	if !ok { // there is no such session
		t.result.Code = jute.SessionExpired
		return
	}
	session := *old
	session.Who = old.Who.with(t.txn.GetIds())
	t.state.putSession(t.gen.Load(), &session)
}

// closeSession ends a session because its client asked for that.
func (t *transaction) closeSession() {
	t.take()
	if t.result.Code = t.refuse(); t.result.Code != jute.OK {
		return
	}
	session, ok := t.state.session(jute.SessionID(t.txn.GetSession()))
	if !ok { // there is no such session
		t.result.Code = jute.SessionExpired
		return
	}
	t.result.Later = t.endSession(session, End{Reason: Closed})
}

// expire ends a silent session, unless its owner was set later than the leader knew: then the
// client has come back.
func (t *transaction) expire() {
	var req proto.Expire
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	session, ok := t.state.session(jute.SessionID(t.txn.GetSession()))
	if !ok || session.Since > req.GetSince() {
		return
	}
	t.take()
	t.endSession(session, End{Reason: Expired, Silent: silence(req.GetSilentMs())})
}

// kill ends a session because an operator asked for that, unless its owner is no longer the one
// that the operator saw: then the client has come back, and the code is SessionMoved.
func (t *transaction) kill() {
	var req proto.Kill
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil || len(req.GetBy()) > MaxBy {
		t.result.Code = jute.MarshallingError
		return
	}
	session, ok := t.state.session(jute.SessionID(req.GetSession()))
	switch {
	case !ok:
		t.result.Code = jute.SessionExpired
		return
	case session.Since != req.GetSince():
		t.result.Code = jute.SessionMoved
		return
	}
	t.take()
	t.endSession(session, End{Reason: Killed, Silent: silence(req.GetSilentMs()), By: req.GetBy()})
}

// endSession removes a session and its ephemeral nodes, in the order of their paths, and completes
// and keeps its end. If there are more nodes than may be removed at once, it leaves them to be swept
// and returns true.
func (t *transaction) endSession(session Session, end End) (later bool) {
	key := sessionKey(session.ID)
	t.state.dropSession(t.gen.Load(), key)
	end.Session, end.Address, end.Member, end.Timeout = session.ID, session.Address, session.Owner.Member, session.Timeout
	end.Leader, end.Term, end.AtMs, end.Zxid = t.state.term.Leader, t.state.term.Term, t.state.now, t.state.zxid
	end.Ephemerals = t.state.countOwned(session.ID)
	end.Number = t.state.ends.keep(t.gen.Load(), end, t.mostEnds)
	if t.budget.take(t.state.weighOwned(session.ID, end.Ephemerals, t.budget.left)) {
		t.removeOwned(session.ID, math.MaxInt)
		t.remember(Removal{Cause: SessionEnded, Member: end.Member, Session: session.ID, Address: session.Address})
	} else {
		t.state.unswept.put(t.gen.Load(), key, struct{}{})
		later = true
	}
	t.watches.fire(t.state.zxid, &t.state.term.Rules)
	t.hooks.Closed(session, end)
	return later
}
