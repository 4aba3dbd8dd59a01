package znode

import (
	"bytes"
	"slices"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"

	pb "google.golang.org/protobuf/proto"
)

// A write is checked against the session's identities when it is applied: the identities of the connection that opened
// or resumed it, and the ones that this connection has proved since. Identities in the transaction itself do not count.
func TestIdentitiesAreTheSessions(t *testing.T) {
	w := newWorld(t)
	owner := w.connect().auth("digest", "u:p")
	owner.must(owner.createACL("/mine", 0, aclOf(31, "auth", "")))
	k := w.connect()
	want := func(what string, r Result, code jute.Code) {
		t.Helper()
		if r.Code != code {
			t.Errorf("%s: %v, want %v", what, r.Code, code)
		}
	}
	want("a stranger", k.setData("/mine", "x", -1), jute.NoAuth)
	txn := k.txn(jute.OpSetData, jute.SetDataRequest{Path: []byte("/mine"), Version: -1}.Append(nil))
	txn.Ids = owner.ids
	want("identities in a write", w.run(1, txn), jute.NoAuth)
	before, zxid := k.since(), w.s().Zxid()
	k.auth("digest", "u:p")
	if k.since() != before || w.s().Zxid() != zxid {
		t.Error("an identify has taken a zxid, or changed the owner's since")
	}
	want("the owner", k.setData("/mine", "x", -1), jute.OK)

	d := &client{w: w, member: 2, conn: 999, id: k.id, ids: k.ids[:1]}
	stale := &client{w: w, member: 1, conn: k.conn, id: k.id, ids: k.ids}
	w.run(2, &proto.Txn{Session: int64(k.id), Conn: d.conn, Op: int32(jute.OpAttach), Ids: d.ids, Body: message(&proto.Attach{Password: password(k.id), TimeoutMs: 9000, OwnerIndex: k.since()})})
	want("an identify of the former connection", stale.do(jute.OpIdentify, nil), jute.SessionMoved)
	if s, _ := w.s().Session(k.id); s.Identities != IdentitiesOf(d.ids) {
		t.Errorf("the resumed session has %v, want those of its connection, %v", s.Identities.List(), d.ids)
	}
	d.auth("digest", "u:p")
	if s, _ := w.s().Session(k.id); s.Identities != IdentitiesOf(k.ids) {
		t.Errorf("the session has %v, want %v", s.Identities.List(), k.ids)
	}
	if r := w.run(1, &proto.Txn{Conn: 5, Op: int32(jute.OpIdentify), Ids: owner.ids}); r.Code != jute.SessionExpired {
		t.Errorf("an identify without a session: %v", r.Code)
	}
	own := &proto.Txn{Conn: 5, Op: int32(jute.OpSetData), Body: jute.SetDataRequest{Path: []byte("/mine"), Version: -1}.Append(nil), Ids: owner.ids}
	want("a transaction without a session names its own", w.run(1, own), jute.OK)
}

// Writes that come after a change of the list in the log are checked against the new list, in the same entry, too: a
// client cannot use a permission that it has lost, nor give it back to itself.
func TestWriteAfterRevocation(t *testing.T) {
	w := newWorld(t)
	owner, k := w.connect().auth("digest", "u:p"), w.connect()
	owner.must(owner.createACL("/open", 0, jute.OpenACL))
	owner.must(owner.create("/open/child", 0))
	mine := jute.SetACLRequest{Path: []byte("/open"), ACL: aclOf(jute.PermAll, "digest", "u:p"), Version: -1}
	w.entry(
		w.next(owner.member, owner.txn(jute.OpSetACL, mine.Append(nil))),
		w.next(k.member, k.txn(jute.OpSetData, jute.SetDataRequest{Path: []byte("/open"), Data: []byte("late"), Version: -1}.Append(nil))),
		w.next(k.member, k.txn(jute.OpDelete, jute.DeleteRequest{Path: []byte("/open/child"), Version: -1}.Append(nil))),
		w.next(k.member, k.txn(jute.OpSetACL, jute.SetACLRequest{Path: []byte("/open"), ACL: jute.OpenACL, Version: -1}.Append(nil))),
	)
	data, stat, code := w.s().GetData([]byte("/open"), owner.ids, nil)
	if code != jute.OK || string(data) != "x" || stat.Aversion != 1 || stat.NumChildren != 1 {
		t.Errorf("%v: %q, %+v", code, data, stat)
	}
	if r := k.setData("/open", "later", -1); r.Code != jute.NoAuth {
		t.Errorf("a later write: %v", r.Code)
	}
}

// The list of a session survives a snapshot, byte for byte. A snapshot with a list that cannot be decoded is rejected.
func TestIdentitiesInSnapshot(t *testing.T) {
	w := newWorld(t)
	k := w.connect().auth("digest", "u:p").auth("super", "")
	s := restored(t, encode(t, w.s().Snapshot()))
	if r, _ := s.Session(k.id); r.Identities != IdentitiesOf(k.ids) ||
		!slices.EqualFunc(r.Identities.List(), k.ids, func(a, b *proto.Identity) bool { return pb.Equal(a, b) }) {
		t.Errorf("restored %v, want %v", r.Identities.List(), k.ids)
	}
	for _, text := range []string{"\x00\x00\x00\x02ip", "\x00\x00\x00\x03ip\x00\x00\x00\x00", "\xff\xff\xff\xff\x00\x00\x00\x00", "\x00\x00\x00\x01\xff\x00\x00\x00\x00"} {
		record, _ := w.s().Session(k.id)
		record.Identities = identitiesOfText(text)
		bad := w.s().Snapshot()
		bad.replicated.putSession(w.s().gen.Load(), &record)
		var b bytes.Buffer
		if _, err := bad.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		if _, _, err := VerifySnapshot(&b); err == nil {
			t.Errorf("a snapshot with the identities %q is read", text)
		}
	}
}
