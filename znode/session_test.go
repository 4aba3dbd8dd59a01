package znode

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// The record of a session, and the calls of the hooks from its creation to its close.
func TestSessionLife(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	w.wantLog("opened 0x100000000000001", "applied createSession 0", "end")
	want := Session{
		ID: k.id, Timeout: 6 * time.Second, Password: [16]byte(password(k.id)), Owner: SessionOwner{1, 101},
		OwnerIndex: w.index, CreatedMs: w.now, Address: "127.0.0.1:5", Identities: IdentitiesOf(k.ids),
	}
	if got, ok := w.s().Session(k.id); !ok || got != want || w.heard.result.Session != want || w.heard.result.Zxid != 1<<32 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if h := w.s().HighestSession(1); h != k.id || w.s().HighestSession(2) != 0 {
		t.Errorf("the highest id is %v", h)
	}
	if r := k.open(); r.Code != jute.NodeExists || r.Zxid != 1<<32+1 {
		t.Errorf("a second create: %v", r.Code)
	}
	w.wantLog("applied createSession -110", "end")

	zxid := w.s().Zxid()
	d, r := k.attach(2, k.since(), password(k.id))
	_ = r // a result of member 2, which is not recorded here
	want.Owner, want.OwnerIndex, want.Timeout, want.Address = SessionOwner{2, d.conn}, w.index, 9*time.Second, "127.0.0.1:6"
	if got, _ := w.s().Session(k.id); got != want || w.s().Zxid() != zxid {
		t.Errorf("%+v, want %+v", got, want)
	}
	w.wantLog(fmt.Sprintf("attached %v {2 %d} after {1 101}", k.id, d.conn), "end")
	d.create("/e", 1)
	d.create("/f", 1)
	w.heard.log = nil
	d.close()
	w.wantLog(fmt.Sprintf("closed %v of {2 %d} ephemerals 2", k.id, d.conn), "end")
	if _, ok := w.s().Session(k.id); ok || w.s().SessionCount() != 0 || w.ephemeralCount() != 0 {
		t.Error("the session is still there")
	}
	if h := w.s().HighestSession(1); h != k.id {
		t.Errorf("the highest id is %v after the close", h)
	}
}

// An attach needs the session's password. If another member owns the session, the attach must also
// name that ownership by its since. An old attach that comes late is rejected.
func TestAttach(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	first := k.since()
	if _, r := k.attach(1, first, password(99)); r.Code != jute.AuthFailed || r.Session != (Session{}) {
		t.Errorf("19: %v", r.Code)
	}
	if _, r := k.attach(1, first, password(k.id)[:15]); r.Code != jute.AuthFailed {
		t.Errorf("20: %v", r.Code)
	}
	if _, r := k.attach(1, first, append(slices.Clone(password(k.id)), 0)); r.Code != jute.AuthFailed { // a member that lags leaves the check to apply
		t.Errorf("a password of 17 bytes: %v", r.Code)
	}
	if _, r := k.attach(1, first, nil); r.Code != jute.AuthFailed {
		t.Errorf("null password: %v", r.Code)
	}
	if k.since() != first {
		t.Error("a refused attach changed the record")
	}
	moved, _ := k.attach(2, first, password(k.id))
	second := k.since()
	if second == first {
		t.Fatal("member 2 could not attach")
	}
	// Member 1 sends an attach late that it made when it owned the session itself.
	stale, r := k.attach(1, first, password(k.id))
	if r.Code != jute.SessionMoved || r.Session.OwnerIndex != second || r.Session.Owner != (SessionOwner{2, moved.conn}) {
		t.Errorf("late attach: %v %+v", r.Code, r.Session)
	}
	if _, r := k.attach(1, 0, password(k.id)); r.Code != jute.SessionMoved {
		t.Errorf("attach of a member that does not know the session: %v", r.Code)
	}
	moved.create("/by-owner", 0)
	k.stat("/by-owner")
	back, r := k.attach(1, second, password(k.id))
	if r.Code != jute.OK || r.Session.Owner != (SessionOwner{1, back.conn}) {
		t.Errorf("second try: %v %+v", r.Code, r.Session)
	}
	// Among attaches of one member the order in the log decides, whatever their since says.
	again, r := k.attach(1, first, password(k.id))
	if again.must(r).Session.Owner != (SessionOwner{1, again.conn}) {
		t.Errorf("%+v", r.Session)
	}
	for name, old := range map[string]*client{"first": k, "stale": stale, "back": back} {
		if r := old.create("/x", 0); r.Code != jute.SessionMoved {
			t.Errorf("70: write of the %s connection: %v", name, r.Code)
		}
		if r := old.close(); r.Code != jute.SessionMoved {
			t.Errorf("73: close of the %s connection: %v", name, r.Code)
		}
	}
	again.must(again.create("/x", 0))
	again.must(again.close())
	if _, r := k.attach(1, first, password(k.id)); r.Code != jute.SessionExpired {
		t.Errorf("21: %v", r.Code)
	}
}

// The order in the log decides between an expiry and an attach.
func TestExpireAndAttach(t *testing.T) {
	t.Run("82 attach ahead of the expiry saves the session", func(t *testing.T) {
		w := newWorld(t)
		k := w.connect()
		k.must(k.create("/e", 1))
		since := k.since()
		_, r := k.attach(1, since, password(k.id))
		k.must(r)
		zxid := w.s().Zxid()
		w.heard.log = nil
		w.expire(k.id, since)
		w.wantLog("end")
		if _, ok := w.s().Session(k.id); !ok || w.s().Zxid() != zxid || k.stat("/e").EphemeralOwner != k.id {
			t.Error("the session is gone")
		}
	})
	t.Run("22 attach behind the expiry finds nothing", func(t *testing.T) {
		w := newWorld(t)
		k := w.connect()
		k.must(k.create("/e", 1))
		since, zxid := k.since(), w.s().Zxid()
		w.heard.log = nil
		w.expire(k.id, since)
		w.wantLog(fmt.Sprintf("expired %v of {1 %d} ephemerals 1", k.id, k.conn), "end")
		if w.s().Zxid() != zxid+1 {
			t.Errorf("zxid %#x", w.s().Zxid())
		}
		if _, r := k.attach(1, since, password(k.id)); r.Code != jute.SessionExpired {
			t.Errorf("%v", r.Code)
		}
		if _, code := k.exists("/e"); code != jute.NoNode {
			t.Errorf("/e: %v", code)
		}
		w.expire(k.id, since)
		if w.s().Zxid() != zxid+1 {
			t.Error("an expiry of a session that is gone took a zxid")
		}
	})
	t.Run("both in one entry", func(t *testing.T) {
		w := newWorld(t)
		k := w.connect()
		body := message(&proto.Attach{Password: password(k.id), OwnerIndex: k.since()})
		w.entry(
			w.next(1, k.txn(jute.OpAttach, body)),
			&proto.Txn{Op: int32(jute.OpExpire), Session: int64(k.id), Body: message(&proto.Expire{OwnerIndex: k.since()})},
		)
		if _, ok := w.s().Session(k.id); !ok {
			t.Error("the session is gone")
		}
	})
	t.Run("the silence that is told has a limit", func(t *testing.T) {
		const year = 365 * 24 * time.Hour
		for silent, want := range map[uint64]time.Duration{
			1500: 1500 * time.Millisecond, maxSilentMs: year, maxSilentMs + 1: year, math.MaxUint64: year,
		} {
			w := newWorld(t)
			k := w.connect()
			body := message(&proto.Expire{OwnerIndex: k.since(), SilentMs: silent})
			w.entry(&proto.Txn{Op: int32(jute.OpExpire), Session: int64(k.id), Body: body})
			if got := w.heard.end; got.Reason != ReasonExpired || got.SilentFor != want {
				t.Errorf("silent for %d ms: %+v, want %v", silent, got, want)
			}
		}
	})
	t.Run("only a leader's own expires", func(t *testing.T) {
		w := newWorld(t)
		k := w.connect()
		r := k.do(jute.OpExpire, message(&proto.Expire{OwnerIndex: k.since()}))
		if _, ok := w.s().Session(k.id); !ok || r.Code != jute.Unimplemented {
			t.Errorf("%v", r.Code)
		}
	})
}

// The end of an expired session has all fields of the log. Only since is not:
// it identifies the owner that the leader meant.
func TestExpireReachesTheEnd(t *testing.T) {
	end := func(change func(protoreflect.Message)) SessionEnd {
		w := newWorld(t)
		k := w.connect()
		expire := &proto.Expire{OwnerIndex: k.since()}
		change(expire.ProtoReflect())
		w.entry(&proto.Txn{Op: int32(jute.OpExpire), Session: int64(k.id), Body: message(expire)})
		return w.heard.end
	}
	plain := end(func(protoreflect.Message) {})
	fields := (&proto.Expire{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.Name() == "owner_index" {
			continue
		}
		if got := end(func(m protoreflect.Message) { m.Set(f, another(t, f)) }); got == plain {
			t.Errorf("with another %s, too: %+v", f.Name(), got)
		}
	}
}

// another returns a value that is not a field's default.
func another(t *testing.T, f protoreflect.FieldDescriptor) protoreflect.Value {
	t.Helper()
	switch f.Kind() {
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1500)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1500)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("text")
	}
	t.Fatalf("%s is of kind %v: give it a value here", f.Name(), f.Kind())
	return protoreflect.Value{}
}

// Cases 85 to 91 and 103: the effect of a close on nodes, watches and later requests.
func TestClose(t *testing.T) {
	w := newWorld(t)
	k, other := w.connect(), w.connect()
	k.must(k.create("/p", 0))
	k.must(k.create("/stays", 0))
	other.must(other.create("/p/theirs", 1))
	for _, i := range []int{3, 1, 5, 2, 4} {
		k.must(k.create(fmt.Sprintf("/p/%d", i), 1))
		_ = other.watchData(fmt.Sprintf("/p/%d", i))
	}
	_ = other.watchChildren("/p/3")
	_ = other.watchChildren("/p")
	_ = k.watchData("/p/1")
	if got := slices.Collect(w.s().TreeView().Ephemerals(k.id, nil).All()); !slices.Equal(got, []string{"/p/1", "/p/2", "/p/3", "/p/4", "/p/5"}) {
		t.Errorf("%q", got)
	}
	before := k.stat("/p")
	w.heard.log = nil
	other.noted = true
	r := k.must(k.close())
	other.noted = false
	for range 6 { // the events come before the close is reported
		if w.heard.log[0] != "event" {
			t.Errorf("%q", w.heard.log)
		}
		w.heard.log = w.heard.log[1:]
	}
	w.wantLog(fmt.Sprintf("closed %v of {1 %d} ephemerals 5", k.id, k.conn), "applied closeSession 0", "end")
	other.wantEvents("Deleted(/p/1)", "Children(/p)", "Deleted(/p/2)", "Deleted(/p/3)", "Deleted(/p/4)", "Deleted(/p/5)")
	k.wantEvents("Deleted(/p/1)")
	before.Cversion, before.NumChildren, before.Pzxid = before.Cversion+5, 1, r.Zxid
	if got := other.stat("/p"); got != before {
		t.Errorf("90: %+v, want %+v", got, before)
	}
	if r := k.create("/late", 1); r.Code != jute.SessionExpired || r.Zxid != w.s().Zxid() {
		t.Errorf("87: %v", r.Code)
	}
	if r := k.create("/late", 9); r.Code != jute.BadArguments {
		t.Errorf("flags are not checked before the session: %v", r.Code)
	}
	if r := k.delete("", 0); r.Code != jute.SessionExpired {
		t.Errorf("the session is not checked before the path: %v", r.Code)
	}
	if r := k.close(); r.Code != jute.SessionExpired {
		t.Errorf("%v", r.Code)
	}
	other.must(other.create("/p/1", 0)) // case 91
	other.stat("/stays")                // case 96
	other.must(other.close())
	if n := w.ephemeralCount(); n != 0 {
		t.Errorf("%d ephemerals", n)
	}
	checkInvariants(t, w.s())
}

// Case 102: a node that was deleted and created again as a persistent one outlives the session.
// Cases 104 and 105: lists of ephemerals.
func TestEphemerals(t *testing.T) {
	w := newWorld(t)
	k, other := w.connect(), w.connect()
	for _, dir := range []string{"/a", "/b"} {
		k.must(k.create(dir, 0))
	}
	for _, path := range []string{"/a/1", "/a/2", "/b/1", "/eph1"} {
		k.must(k.create(path, 1))
	}
	other.must(other.create("/a/3", 1))
	for prefix, want := range map[string]string{
		"/a": "/a/1 /a/2", "/": "/a/1 /a/2 /b/1 /eph1", "": "/a/1 /a/2 /b/1 /eph1", "  ": "/a/1 /a/2 /b/1 /eph1", "/zzz": "", "/e": "/eph1",
		"\t/\x00": "/a/1 /a/2 /b/1 /eph1", "\x1f": "/a/1 /a/2 /b/1 /eph1", " /e": "", "\u00a0": "", "\u2003": "", // as Java trims
	} {
		if got := strings.Join(slices.Collect(w.s().TreeView().Ephemerals(k.id, []byte(prefix)).All()), " "); got != want {
			t.Errorf("prefix %q: %q, want %q", prefix, got, want)
		}
	}
	k.must(k.delete("/eph1", -1))
	k.must(k.create("/eph1", 0))
	other.must(other.delete("/b/1", -1)) // case 101
	k.must(k.close())
	if got := other.children("/"); !slices.Equal(got, []string{"a", "b", "eph1", "zookeeper"}) {
		t.Errorf("%q", got)
	}
	if got := other.children("/a"); !slices.Equal(got, []string{"3"}) {
		t.Errorf("%q", got)
	}
	// Without a session nothing can be ephemeral.
	w.wantNone(w.run(1, &proto.Txn{Op: int32(jute.OpCreate), Body: createOp("/none", "", 1, jute.OpenACL).Append(nil)}))
}

func (w *world) wantNone(r Result) {
	w.t.Helper()
	if r.Code != jute.SessionExpired {
		w.t.Errorf("%v", r.Code)
	}
}

// Case 268: the number of a node's descendants.
func TestAllChildrenNumber(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	for _, path := range []string{"/a", "/a/b", "/a/b/c", "/ab"} {
		k.must(k.create(path, 0))
	}
	for path, want := range map[string]int32{"/a": 2, "/a/b/c": 0, "/": 7, "": 8} {
		if n, code := w.s().TreeView().AllChildrenNumber([]byte(path), nil); n != want || code != jute.OK {
			t.Errorf("%q: %d, %v", path, n, code)
		}
	}
	if _, code := w.s().TreeView().AllChildrenNumber([]byte("/no"), nil); code != jute.NoNode {
		t.Errorf("%v", code)
	}
}

// Cases 135, 136 and 264: reads of odd paths.
func TestReadPaths(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	for path, want := range map[string]jute.Code{"a": -101, "/x/": -101, "//": -101, "": 0, "/": 0, "/\x00": -101} {
		if got := k.watchData(path); got != want {
			t.Errorf("getData %q: %v", path, got)
		}
	}
	_, _, data := w.s().GetData(nil, nil, nil)
	_, exists := w.s().Exists(nil, nil, nil)
	_, _, children := w.s().Children(nil, nil, nil)
	_, _, list := w.s().GetACL(nil, nil)
	_, number := w.s().TreeView().AllChildrenNumber(nil, nil)
	for i, code := range []jute.Code{data, exists, children, list, number} {
		if code != jute.MarshallingError {
			t.Errorf("null path, read %d: %v", i, code)
		}
	}
}
