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
	ID         jute.SessionID
	Timeout    time.Duration // granted by the last connect, in whole milliseconds
	Password   [16]byte
	Owner      SessionOwner
	OwnerIndex uint64     // of the entry that set the owner
	CreatedMs  int64      // since 1970
	Address    string     // of the client that connected last
	Identities Identities // of the owner
}

// SessionOwner is the connection that a session belongs to.
type SessionOwner struct {
	Member uint32
	Conn   uint64 // unique over members and their runs; 0 if there is no owner
}

// sessionKey orders sessions by their unsigned ids, as ids are printed.
type sessionKey jute.SessionID

func (k sessionKey) compare(l sessionKey) int {
	return compareIDs(jute.SessionID(k), jute.SessionID(l))
}

func compareIDs(a, b jute.SessionID) int { return cmp.Compare(uint64(a), uint64(b)) }

// maxAddressBytes is the longest client address in a record. The text of an IPv6 address with zone and port
// is shorter.
const maxAddressBytes = 255

// checkOwnerLoadIdentities returns an error code if the transaction's session does not exist, or belongs to another
// connection. Otherwise the transaction gets the identities of its session, and the code is OK, as for a
// transaction without a session.
func (t *transaction) checkOwnerLoadIdentities() jute.Code {
	if t.txn.GetSession() == 0 {
		return jute.OK
	}
	session, ok := t.state.sessions.get(sessionKey(t.txn.GetSession()))
	switch {
	case !ok:
		return jute.SessionExpired
	case session.Owner != ownerOfTxn(t.txn):
		return jute.SessionMoved
	}
	t.acls.client.sessionIdentities = session.Identities
	return jute.OK
}

func ownerOfTxn(txn *proto.Txn) SessionOwner {
	return SessionOwner{Member: txn.GetMember(), Conn: txn.GetConn()}
}

// createSession opens txn's session for txn's connection.
func (t *transaction) createSession() {
	var open proto.OpenSession
	id := jute.SessionID(t.txn.GetSession())
	err := pb.Unmarshal(t.txn.GetBody(), &open)
	if err != nil || id == 0 || len(open.GetPassword()) != len(Session{}.Password) ||
		len(open.GetAddress()) > maxAddressBytes {
		t.result.Code = jute.MarshallingError
		return
	}
	t.takeZxid()
	_, lives := t.state.sessions.get(sessionKey(id))
	_, left := t.state.unsweptSessions.get(sessionKey(id))
	if lives || left {
		t.result.Code = jute.NodeExists
		return
	}
	session := &Session{
		ID:         id,
		Timeout:    time.Duration(open.GetTimeoutMs()) * time.Millisecond,
		Password:   [16]byte(open.GetPassword()),
		Owner:      ownerOfTxn(t.txn),
		OwnerIndex: t.state.lastIndex,
		CreatedMs:  t.state.timeMs,
		Address:    open.GetAddress(),
		Identities: IdentitiesOf(t.txn.GetIds()),
	}
	t.state.putSession(t.gen.Load(), session)
	m := &t.state.members[uint64(id)>>56]
	m.highestSession = max(m.highestSession, uint64(id))
	t.result.Session = *session
	t.changes.addSessionOpened()
	t.hooks.SessionOpened(*session)
}

// attachSession makes txn's connection the owner of a session. It takes no zxid.
func (t *transaction) attachSession() {
	var req proto.Attach
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil || len(req.GetAddress()) > maxAddressBytes {
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
	// An attach that names an outdated owner was overtaken by an attach through another member. The log's
	// order shows which connection is the newest only among the attaches of one member.
	if req.GetOwnerIndex() != old.OwnerIndex && old.Owner.Member != t.txn.GetMember() {
		t.result.Code = jute.SessionMoved
		return
	}
	if subtle.ConstantTimeCompare(req.GetPassword(), old.Password[:]) != 1 {
		t.result.Code, t.result.Session = jute.AuthFailed, Session{}
		return
	}
	session := *old
	session.Owner, session.OwnerIndex = ownerOfTxn(t.txn), t.state.lastIndex
	session.Timeout = time.Duration(req.GetTimeoutMs()) * time.Millisecond
	session.Address, session.Identities = req.GetAddress(), IdentitiesOf(t.txn.GetIds())
	t.state.putSession(t.gen.Load(), &session)
	t.result.Session = session
	t.hooks.SessionAttached(session, old.Owner)
}

// addIdentities adds identities that a session's owner has proved. It takes no zxid.
func (t *transaction) addIdentities() {
	if t.result.Code = t.checkOwnerLoadIdentities(); t.result.Code != jute.OK {
		return
	}
	old, ok := t.state.sessions.get(sessionKey(t.txn.GetSession()))
	if !ok {
		t.result.Code = jute.SessionExpired
		return
	}
	session := *old
	session.Identities = old.Identities.appendAll(t.txn.GetIds())
	t.state.putSession(t.gen.Load(), &session)
}

func (t *transaction) closeSession() {
	t.takeZxid()
	if t.result.Code = t.checkOwnerLoadIdentities(); t.result.Code != jute.OK {
		return
	}
	session, ok := t.state.session(jute.SessionID(t.txn.GetSession()))
	if !ok {
		t.result.Code = jute.SessionExpired
		return
	}
	t.result.NodesLeft = t.endSession(session, SessionEnd{Reason: ReasonClosed})
}

// expireIfOwnerUnchanged ends a silent session, unless its client has come back: then the owner was set later than the
// leader knew.
func (t *transaction) expireIfOwnerUnchanged() {
	var req proto.Expire
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	session, ok := t.state.session(jute.SessionID(t.txn.GetSession()))
	if !ok || session.OwnerIndex > req.GetOwnerIndex() {
		return
	}
	t.takeZxid()
	t.endSession(session, SessionEnd{Reason: ReasonExpired, SilentFor: cappedSilence(req.GetSilentMs())})
}

// killIfOwnerUnchanged ends a session for an operator, unless its client has come back: then the owner is not the one
// that the operator saw, and the code is SessionMoved.
func (t *transaction) killIfOwnerUnchanged() {
	var req proto.Kill
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil || len(req.GetOperator()) > MaxRequesterBytes {
		t.result.Code = jute.MarshallingError
		return
	}
	session, ok := t.state.session(jute.SessionID(req.GetSession()))
	switch {
	case !ok:
		t.result.Code = jute.SessionExpired
		return
	case session.OwnerIndex != req.GetOwnerIndex():
		t.result.Code = jute.SessionMoved
		return
	}
	t.takeZxid()
	t.endSession(session, SessionEnd{
		Reason: ReasonKilled, SilentFor: cappedSilence(req.GetSilentMs()), RequestedBy: req.GetOperator(),
	})
}

// endSession removes a session, keeps its end, and removes its ephemeral nodes in the order of their paths.
// If they exceed the entry's budget, they are left to be swept, and nodesLeft is true.
func (t *transaction) endSession(session Session, end SessionEnd) (nodesLeft bool) {
	key := sessionKey(session.ID)
	t.state.deleteSession(t.gen.Load(), key)
	end.Session, end.Address = session.ID, session.Address
	end.Member, end.Timeout = session.Owner.Member, session.Timeout
	end.Leader, end.Term, end.AtMs, end.Zxid = t.state.term.Leader, t.state.term.Term, t.state.timeMs, t.state.zxid
	end.EphemeralCount = t.state.tree.countEphemerals(session.ID)
	end.Number = t.state.sessionEnds.addNext(t.gen.Load(), end, t.sessionEndLimit)
	t.changes.addSessionEnd(end)
	if t.budget.trySpend(t.state.tree.ephemeralRemovalWeight(session.ID, end.EphemeralCount, t.budget.remaining)) {
		t.removeEphemerals(session.ID, math.MaxInt)
		t.keepAndReportRemovals(Removal{
			Cause: CauseSessionEnded, Member: end.Member, Session: session.ID,
			Address: session.Address,
		})
	} else {
		t.state.unsweptSessions.put(t.gen.Load(), key, struct{}{})
		nodesLeft = true
		t.changes.report(t.state, Removal{Member: end.Member, Session: session.ID, Address: session.Address})
	}
	t.watches.firePending(t.state.zxid, &t.state.term.Rules)
	t.hooks.SessionClosed(session, end)
	return nodesLeft
}
