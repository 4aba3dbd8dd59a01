package znode

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// threeServers is a list of three servers.
func threeServers() *proto.ServerList {
	return &proto.ServerList{Ensemble: bytes.Repeat([]byte{7}, 32), Servers: []string{
		"server.1=a:1:2:participant;0.0.0.0:9", "server.2=b:1:2:participant;0.0.0.0:9", "server.3=c:1:2:participant;0.0.0.0:9",
	}}
}

// listedWorld opens a term with a list of three servers. Clients may change it.
func listedWorld(t testing.TB, others ...*State) *world {
	w := newWorld(t, others...)
	w.announce(3, 0, bootOf(3))
	w.list, w.rules.Reconfig = threeServers(), true
	w.rule(w.rules)
	w.heard.log = nil
	return w
}

func (w *world) roster() ServerList {
	w.t.Helper()
	r, ok := w.s().ServerList()
	if !ok {
		w.t.Fatal("there is no list")
	}
	return r
}

// reconfig requests a change, for which the leader reaches all servers.
func (c *client) reconfig(joining, leaving, members string, version int64, reached ...uint32) Result {
	c.w.t.Helper()
	txn := c.txn(jute.OpReconfig, jute.ReconfigRequest{
		JoiningServers: []byte(joining), LeavingServers: []byte(leaving), NewMembers: []byte(members), CurConfigID: version,
	}.Append(nil))
	txn.ReachableServers = reached
	return c.w.run(c.member, txn)
}

// operators requests a change through member 1, as it does for an operator.
func (w *world) operators(req *proto.ChangeServers, reached ...uint32) Result {
	w.t.Helper()
	if req.GetTerm() == 0 {
		req.Term = w.s().Term().Term
	}
	return w.run(1, &proto.Txn{Op: int32(jute.OpChangeServers), Body: message(req), ReachableServers: reached})
}

var everybody = []uint32{1, 2, 3, 4, 5}

// A TermStart sets the list if the state has none. Another one changes it only after a recovery.
func TestTermStartSetsTheList(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	if code := k.watchData(ConfigPath); code != jute.OK {
		t.Fatal(code)
	}
	zxid := w.s().Zxid()
	w.list = threeServers()
	w.startTerm(2, 9)
	list := w.roster()
	if w.s().Zxid() != 2<<32 || list.Version != 2<<32 || zxid >= 2<<32 || list.EnsembleID != [32]byte(w.list.Ensemble) {
		t.Errorf("zxid %#x, list %+v", w.s().Zxid(), list)
	}
	k.wantEvents("Changed(/zookeeper/config)")
	want := strings.Join(threeServers().Servers, "\n") + "\nversion=200000000"
	if got, st, _ := w.s().GetData([]byte(ConfigPath), nil, nil); string(got) != want || st.Version != -1 ||
		st.Mzxid != 2<<32 || st.Mtime != w.now || st.Czxid != 0 {
		t.Errorf("the node has %q, %+v", got, st)
	}
	w.heard.log = nil
	for _, m := range []*proto.ServerList{
		threeServers(),               // the state has one
		{Ensemble: make([]byte, 32)}, // no servers
		{Ensemble: make([]byte, 31), Servers: threeServers().Servers}, // no id
		{Ensemble: make([]byte, 32), Servers: []string{"server.1=a"}},
		{Ensemble: make([]byte, 32), Servers: []string{"server.1=a:1:2:observer"}},
	} {
		w.list = m
		w.startTerm(w.term, w.nonce+1)
		if got := w.roster(); !got.equalList(&list) || w.s().Zxid() != 2<<32 {
			t.Errorf("%v makes the list %+v", m, got)
		}
	}
	w.wantLog("term 2", "end", "term 2", "end", "term 2", "end", "term 2", "end", "term 2", "end")

	after := &proto.ServerList{Ensemble: bytes.Repeat([]byte{8}, 32), Servers: threeServers().Servers[:2]}
	w.list = after
	w.startTerm(w.term, w.nonce+1)
	if got := w.roster(); got.EnsembleID[0] != 8 || len(got.Servers) != 2 || got.Version != 2<<32+1 {
		t.Errorf("the list after a recovery is %+v", got)
	}
	w.wantLog("term 2", "listed 200000001", "end")
	w.list = &proto.ServerList{Ensemble: after.Ensemble, Servers: threeServers().Servers}
	w.startTerm(w.term, w.nonce+1) // a later leader of the same ensemble does not know more
	if got := w.roster(); len(got.Servers) != 2 {
		t.Errorf("the list is %+v", got)
	}
}

// A reconfig is rejected for the first of these reasons, in this order. It takes a zxid then, too, and
// changes nothing.
func TestReconfigRefuses(t *testing.T) {
	const line = "server.4=d:1:2;9"
	type change struct {
		joining, leaving, members string
		version                   int64
		reached                   []uint32
	}
	good := change{joining: line, version: -1, reached: everybody}
	tests := []struct {
		name    string
		prepare func(w *world, k *client) *client
		change
		want jute.Code
		why  string
	}{
		{"disabled, and all that follows", func(w *world, k *client) *client {
			w.rules.Reconfig = false
			w.rule(w.rules)
			k.must(k.close())
			return k
		}, change{leaving: "x"}, jute.ReconfigDisabled, "reconfigEnabled is not set at the leader"},
		{"session ended, and all that follows", func(_ *world, k *client) *client {
			k.must(k.close())
			return k
		}, change{leaving: "x"}, jute.SessionExpired, ""},
		{"session moved", func(_ *world, k *client) *client {
			_, _ = k.attach(2, k.since(), password(k.id))
			return k
		}, change{leaving: "x"}, jute.SessionMoved, ""},
		{"another version, and all that follows", nil, change{leaving: "x", version: 5}, jute.BadVersion, "the list has version 200000000, not 5; read it again"},
		{"a wrong line", nil, change{joining: "server.4=d", version: -1}, jute.BadArguments, "server.4: must be host:"},
		{"no port for clients", nil, change{joining: "server.4=d:1:2", version: -1}, jute.BadArguments, "server.4 has no port for clients"},
		{"a shared address", nil, change{joining: "server.4=A:2:3;9", version: -1}, jute.BadArguments, "server.1 has the address a:2 too"},
		{"an odd id", nil, change{leaving: "x", version: -1}, jute.BadArguments, `leaving server "x"`},
		{"one voter left", nil, change{leaving: "2,3", version: 0x200000000}, jute.BadArguments, "too few participants would be left: 1, must be at least 2"},
		{"one voter and observers left", nil, change{members: "server.1=a:1:2;9,server.2=b:1:2:observer;9", version: -1}, jute.BadArguments, "participants would be left: 1"},
		{"no majority", nil, change{joining: line, version: -1, reached: []uint32{1, 2, 7}}, jute.NewConfigNoQuorum, "of the 4 participants of the new list the leader does not reach [3 4]"},
		{"nobody reached", nil, change{leaving: "9", version: -1}, jute.NewConfigNoQuorum, "does not reach [1 2 3]"},
		{"no right", func(w *world, _ *client) *client { return w.connect().auth("digest", "u:p") }, good, jute.NoAuth, "WRITE on /zookeeper/config"},
		{"no right, and an address that ZooKeeper takes", func(w *world, _ *client) *client { return w.connect().auth("digest", "u:p") }, change{joining: "server.4=0.0.0.0:1:2:observer;9", version: -1}, jute.NoAuth, "WRITE on /zookeeper/config"},
		{"no right, and a number that ZooKeeper takes", func(w *world, _ *client) *client { return w.connect().auth("digest", "u:p") }, change{joining: "server.999=d:1:2:observer;9", version: -1}, jute.NoAuth, "WRITE on /zookeeper/config"},
		{"no right, and a wrong line", func(w *world, _ *client) *client { return w.connect().auth("digest", "u:p") }, change{joining: "server.4=d", version: -1}, jute.BadArguments, "server.4: must be host:"},
		{"an address for all interfaces", nil, change{joining: "server.4=0.0.0.0:1:2:observer;9", version: -1}, jute.BadArguments, "no member can be reached at 0.0.0.0"},
		{"nothing wrong", nil, good, jute.OK, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := listedWorld(t)
			k := w.connect().auth("super", "")
			if tt.prepare != nil {
				k = tt.prepare(w, k)
			}
			list, zxid := w.roster(), w.s().Zxid()
			w.heard.log = nil
			r := k.reconfig(tt.joining, tt.leaving, tt.members, tt.version, tt.reached...)
			if r.Code != tt.want || !strings.Contains(r.RejectReason, tt.why) || (tt.why == "") != (r.RejectReason == "") {
				t.Errorf("%v, %q, want %v, %q", r.Code, r.RejectReason, tt.want, tt.why)
			}
			if w.s().Zxid() != zxid+1 {
				t.Errorf("zxid %#x after %#x", w.s().Zxid(), zxid)
			}
			if now := w.roster(); tt.want != jute.OK && (!now.equalList(&list) || r.ConfigText != nil) {
				t.Errorf("the list is %+v", now)
			}
		})
	}
	w := newWorld(t)
	w.rules.Reconfig = true
	w.rule(w.rules)
	k := w.connect()
	if r := k.reconfig("", "", "", 5); r.Code != jute.Unimplemented || r.RejectReason != errNoServerList.Error() {
		t.Errorf("without a list: %v, %q", r.Code, r.RejectReason)
	}
	zxid := w.s().Zxid()
	if r := k.do(jute.OpReconfig, []byte{0, 0}); r.Code != jute.MarshallingError || w.s().Zxid() != zxid {
		t.Errorf("a record cut short: %v, zxid %#x", r.Code, w.s().Zxid())
	}
}

// Cases 300 and 301: a client with the right changes the list. The reply has the new text, whose version is the zxid of
// the change, and watchers are notified.
func TestReconfig(t *testing.T) {
	w := listedWorld(t)
	super, user, watcher := w.connect().auth("super", ""), w.connect().auth("digest", "u:p"), w.connect()
	super.must(super.setACL(ConfigPath, append(aclOf(jute.PermRead, "world", "anyone"), aclOf(jute.PermWrite, "digest", "u:p")...), -1))
	one, two, three, four := "server.1=a:1:2:participant;0.0.0.0:9", "server.2=b:1:2:participant;0.0.0.0:9", "server.3=c:1:2:participant;0.0.0.0:9", "server.4=d:1:2:observer;0.0.0.0:9"
	before := w.roster()
	for i, step := range []struct {
		k                         *client
		joining, leaving, members string
		want                      []string
	}{
		{super, "server.4=d:1:2:observer;9", "", "", []string{one, two, three, four}},
		{user, "", "3", "", []string{one, two, four}},
		{super, "", "77", "", []string{one, two, four}}, // changes nothing but the version
		{user, "", "", one + "\n" + three, []string{one, three}},
	} {
		if code := watcher.watchData(ConfigPath); code != jute.OK {
			t.Fatal(code)
		}
		r := step.k.must(step.k.reconfig(step.joining, step.leaving, step.members, before.Version, everybody...))
		list := w.roster()
		want := strings.Join(step.want, "\n") + fmt.Sprintf("\nversion=%x", r.Zxid)
		if string(r.ConfigText) != want || list.ConfigText() != want || list.Version != r.Zxid || r.Zxid != w.s().Zxid() {
			t.Errorf("step %d: %q at %#x, the list is %q, want %q", i, r.ConfigText, r.Zxid, list.ConfigText(), want)
		}
		data, st, _ := w.s().GetData([]byte(ConfigPath), nil, nil)
		if string(data) != want || st != r.Stat || st.Version != -1 || st.Mzxid != r.Zxid || st.Aversion != 0 {
			t.Errorf("step %d: the node has %q, %+v, the answer %+v", i, data, st, r.Stat)
		}
		if list.EnsembleID != before.EnsembleID {
			t.Errorf("step %d: the ensemble is another one: %+v", i, list)
		}
		watcher.wantEvents("Changed(/zookeeper/config)")
		before = list
		checkInvariants(t, w.s())
	}
}

// A member that leaves the list has no progress any more. Its writes and announcements are dropped until it
// is back, and the ids of its sessions are never used again.
func TestRemovedMemberHasNoProgress(t *testing.T) {
	w := listedWorld(t)
	super := w.connect().auth("super", "")
	w.announce(2, bootOf(2), bootOf(2)+1)
	w.seq[2] = 0
	old := &proto.Txn{Member: 3, Incarnation: bootOf(3), Seq: 1, Op: int32(jute.OpCreateSession), Session: 3<<56 + 5, Conn: 7, Body: message(&proto.OpenSession{TimeoutMs: 6000, Password: password(3)})}
	w.entry(old)
	w.heard.log = nil
	super.must(super.reconfig("", "3", "", -1, everybody...))
	w.wantLog(fmt.Sprintf("listed %x", w.s().Zxid()), "applied reconfig 0", "end")
	if boot, cursor := w.s().MemberIncarnation(3); boot != 0 || cursor != 0 || w.s().HighestSession(3) != 3<<56+5 ||
		w.replicated().members[3].format != 0 {
		t.Errorf("boot %d, cursor %d, highest %v", boot, cursor, w.s().HighestSession(3))
	}
	if boot, _ := w.s().MemberIncarnation(2); boot != bootOf(2)+1 {
		t.Errorf("the boot of member 2 is %d", boot)
	}
	if _, lives := w.s().Session(3<<56 + 5); !lives {
		t.Error("its session is gone; it must have time to go elsewhere")
	}
	zxid := w.s().Zxid()
	next := &proto.Txn{Member: 3, Incarnation: bootOf(3), Seq: 2, Op: int32(jute.OpCreate), Session: 3<<56 + 5, Conn: 7, Body: createOp("/late", "", 0, jute.OpenACL).Append(nil)}
	w.entry(next)
	w.announce(3, 0, 99)
	w.announce(3, bootOf(3), 99)
	if boot, _ := w.s().MemberIncarnation(3); boot != 0 || w.s().Zxid() != zxid {
		t.Errorf("boot %d, zxid %#x", boot, w.s().Zxid())
	}
	w.seq[1] = super.w.seq[1]
	super.must(super.reconfig("server.3=c:1:2:observer;9", "", "", -1, everybody...))
	w.announce(3, 0, bootOf(3))
	w.entry(next) // of the time before
	if boot, cursor := w.s().MemberIncarnation(3); boot != bootOf(3) || cursor != 0 {
		t.Errorf("boot %d, cursor %d", boot, cursor)
	}
	if _, code := super.exists("/late"); code != jute.NoNode {
		t.Errorf("a write from before the removal was applied: %v", code)
	}
}

// A member that is not in the list does not hold back the format of entries.
func TestRemovedMemberHoldsBackNoFormat(t *testing.T) {
	w := listedWorld(t)
	w.entry(&proto.Txn{Member: 1, Incarnation: 5, Op: int32(jute.OpAnnounce), Body: message(&proto.Announce{Replaces: bootOf(1), Format: 6})})
	w.entry(&proto.Txn{Member: 2, Incarnation: 5, Op: int32(jute.OpAnnounce), Body: message(&proto.Announce{Replaces: bootOf(2), Format: 6})})
	if got := w.s().MinFormat(); got != 1 {
		t.Errorf("the lowest format is %d", got)
	}
	w.entry(&proto.Txn{Member: 1, Incarnation: 5, Seq: 1, Op: int32(jute.OpChangeServers), Body: message(&proto.ChangeServers{Leaving: "3", Version: -1, Term: w.s().Term().Term}), ReachableServers: everybody})
	if got := w.s().MinFormat(); got != 6 {
		t.Errorf("the lowest format is %d", got)
	}
}

// An operator's change needs no session, right or rule, and may leave one voter if it is forced.
func TestReconfigForOperators(t *testing.T) {
	w := listedWorld(t)
	w.rules.Reconfig = false
	w.rule(w.rules)
	long := strings.Repeat("x", MaxRequesterBytes+1)
	for _, tt := range []struct {
		name    string
		req     *proto.ChangeServers
		reached []uint32
		want    jute.Code
		why     string
	}{
		{"long name", &proto.ChangeServers{Version: -1, Operator: long}, everybody, jute.MarshallingError, ""},
		{"asked for in another term", &proto.ChangeServers{Version: -1, Leaving: "2,3", Force: true, Term: 99}, everybody, jute.ReconfigInProgress, "the leader has changed"},
		{"another version", &proto.ChangeServers{Version: 5}, everybody, jute.BadVersion, "read it again"},
		{"a wrong line", &proto.ChangeServers{Version: -1, Joining: "x"}, everybody, jute.BadArguments, `"x"`},
		{"one voter", &proto.ChangeServers{Version: -1, Leaving: "2,3"}, everybody, jute.BadArguments, "at least 2"},
		{"no voter", &proto.ChangeServers{Version: -1, Leaving: "1,2,3", Force: true}, everybody, jute.BadArguments, "no server line"},
		{"no majority", &proto.ChangeServers{Version: -1, Force: true}, []uint32{1}, jute.NewConfigNoQuorum, "[2 3]"},
		{"a member leaves", &proto.ChangeServers{Version: -1, Leaving: "3", Operator: long[1:]}, everybody, jute.OK, ""},
		{"one voter by force", &proto.ChangeServers{Version: -1, Leaving: "2", Force: true}, []uint32{1}, jute.OK, ""},
		{"an observer beside one voter", &proto.ChangeServers{Version: -1, Joining: "server.4=d:1:2:observer;9"}, []uint32{1}, jute.OK, ""},
	} {
		w.heard.log = nil
		before := w.roster()
		r := w.operators(tt.req, tt.reached...)
		if r.Code != tt.want || !strings.Contains(r.RejectReason, tt.why) || (tt.want == jute.OK) != (r.ConfigText != nil) {
			t.Errorf("%s: %v %q %q, want %v %q", tt.name, r.Code, r.RejectReason, r.ConfigText, tt.want, tt.why)
		}
		if r.Zxid != w.s().Zxid() || (w.roster().Version != before.Version) != (tt.want == jute.OK) {
			t.Errorf("%s: zxid %#x, list %+v", tt.name, r.Zxid, w.roster())
		}
		if last := w.heard.log[len(w.heard.log)-2]; last != fmt.Sprintf("applied changeServers %d", tt.want) {
			t.Errorf("%s: heard %q", tt.name, w.heard.log)
		}
	}
	if got := w.roster().Servers.Voters(); !slices.Equal(got, []uint32{1}) {
		t.Errorf("the voters are %v", got)
	}
}

// A client's reconfig is never taken for an operator's change, whatever its body is.
func TestReconfigOfAClientIsNotAnOperators(t *testing.T) {
	w := listedWorld(t)
	k := w.connect()
	if r := k.do(jute.OpReconfig, message(&proto.ChangeServers{Version: -1, Leaving: "3"})); r.Code != jute.MarshallingError ||
		len(w.roster().Servers) != 3 {
		t.Errorf("%v, %+v", r.Code, w.roster())
	}
}

// A client that may write /zookeeper/config can replace the text until the list changes. The list stays.
func TestConfigNodeIsNotTheList(t *testing.T) {
	w := listedWorld(t)
	super := w.connect().auth("super", "")
	before := w.roster()
	super.must(super.setData(ConfigPath, "mine", -1))
	if now := w.roster(); !now.equalList(&before) {
		t.Errorf("the list is %+v", now)
	}
	checkInvariants(t, w.s())
	s := restored(t, encode(t, w.s().Snapshot()))
	if data, st, _ := s.GetData([]byte(ConfigPath), nil, nil); string(data) != "mine" || st.Version != 0 {
		t.Errorf("restored: %q, %+v", data, st)
	}
	r := super.must(super.reconfig("", "", "", -1, everybody...))
	if data, st, _ := w.s().GetData([]byte(ConfigPath), nil, nil); string(data) != w.roster().ConfigText() ||
		st.Version != -1 || st != r.Stat {
		t.Errorf("%q, %+v", data, st)
	}
}

// The text of the list counts in no quota, and the list can change when the data quota is exhausted.
func TestRosterCountsInNoQuota(t *testing.T) {
	w := listedWorld(t)
	super := w.connect().auth("super", "")
	w.rules.DataQuota = 1
	w.rule(w.rules)
	used := w.s().DataUsed()
	super.must(super.reconfig("server.4=d:1:2;9", "", "", -1, everybody...))
	if w.s().DataUsed() != used {
		t.Errorf("%d bytes are used, %d before", w.s().DataUsed(), used)
	}
}

// Messages have all of a list.
func TestRosterMessage(t *testing.T) {
	r := listedWorld(t).roster()
	again, err := ServerListFromProto(r.ToProto())
	if err != nil || !again.equalList(&r) {
		t.Errorf("%+v, %v, want %+v", again, err, r)
	}
	for _, tt := range []struct {
		change func(m *proto.ServerList)
		err    string
	}{
		{func(m *proto.ServerList) { m.Ensemble = m.Ensemble[1:] }, "znode: the id of the ensemble has 31 bytes, want 32"},
		{func(m *proto.ServerList) { m.Servers = nil }, "znode: the list of servers: no server line; write one for each server"},
		{func(m *proto.ServerList) { m.Servers[1] = m.Servers[0] }, "znode: the list of servers: server 1 is named twice; remove one of the two"},
	} {
		m := r.ToProto()
		tt.change(m)
		if _, err := ServerListFromProto(m); err == nil || err.Error() != tt.err {
			t.Errorf("%v, want %s", err, tt.err)
		}
	}
}
