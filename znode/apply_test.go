package znode

import (
	"fmt"
	"strings"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// Each member's transactions run once and in order. Others are dropped and take neither a zxid nor
// a number.
func TestInTurn(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	w.heard.log = nil
	make := func(boot, seq uint64, path string) *proto.Txn {
		txn := k.txn(jute.OpCreate, createOp(path, "", 0, jute.OpenACL).Append(nil))
		txn.Member, txn.Incarnation, txn.Seq = 1, boot, seq
		return txn
	}
	zxid := w.s().Zxid()
	w.entry(make(bootOf(1), 2, "/a"), make(bootOf(1), 2, "/twice"), make(bootOf(1), 4, "/gap"), make(bootOf(1), 0, "/zero"), make(9, 3, "/other-boot"))
	w.wantLog("applied create 0", "dropped create 2", "dropped create 4", "dropped create 0", "dropped create 3", "end")
	if boot, cursor := w.s().MemberIncarnation(1); boot != bootOf(1) || cursor != 2 || w.s().Zxid() != zxid+1 {
		t.Errorf("cursor %d, zxid %#x", cursor, w.s().Zxid())
	}
	w.entry(make(bootOf(1), 3, "/b"))
	empty := make(bootOf(1), 4, "")
	empty.Op, empty.Body = int32(jute.OpEmpty), nil
	w.entry(empty, make(bootOf(1), 5, "/c"))
	if got := strings.Join(k.children("/"), " "); got != "a b c zookeeper" || w.s().Zxid() != zxid+3 {
		t.Errorf("%s, zxid %#x", got, w.s().Zxid())
	}
	w.wantLog("applied create 0", "end", "applied empty 0", "applied create 0", "end")

	// Member 3 never announced itself, 300 cannot exist, and 0 is a leader.
	for _, member := range []uint32{0, 3, 300} {
		txn := make(0, 1, "/x")
		txn.Member = member
		w.entry(txn)
	}
	w.wantLog("end", "end", "end")
	if w.nodeCount() != len(builtinPaths)+3 {
		t.Error("a write of an unknown member was applied")
	}
}

// The member with the greatest id takes part like any other.
func TestGreatestMember(t *testing.T) {
	w := newWorld(t)
	w.announce(maxMember, 0, bootOf(maxMember))
	c := &client{w: w, member: maxMember, conn: 100, id: jute.SessionID(-1<<56 + 1)} // the id of the member is in the top byte
	c.open()
	if s, ok := w.s().Session(c.id); !ok || s.Owner.Member != maxMember {
		t.Errorf("its session is there: %t, %+v", ok, s)
	}
	if boot, cursor := w.s().MemberIncarnation(maxMember); boot != bootOf(maxMember) || cursor != 1 {
		t.Errorf("boot %d, cursor %d", boot, cursor)
	}
}

// An announcement replaces the run that it names, if that one is current.
func TestAnnounce(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	zxid := w.s().Zxid()
	w.heard.log = nil
	boot := func() (b, c uint64) { return w.s().MemberIncarnation(1) }
	w.announce(1, 0, bootOf(1)) // a repetition
	if b, cursor := boot(); b != bootOf(1) || cursor != 1 {
		t.Errorf("boot %d cursor %d", b, cursor)
	}
	w.announce(1, 5, 77) // names a run that is not current
	w.announce(1, bootOf(1), 0)
	if b, _ := boot(); b != bootOf(1) {
		t.Errorf("boot %d", b)
	}
	w.announce(1, bootOf(1), 88)
	if b, cursor := boot(); b != 88 || cursor != 0 {
		t.Errorf("boot %d cursor %d", b, cursor)
	}
	w.announce(1, bootOf(1), 99) // comes late, from an older run
	w.announce(300, 0, 5)
	w.announce(maxMember+1, 0, 5)
	w.announce(0, 0, 5)
	w.wantLog("dropped announce 0", "end", "dropped announce 0", "end", "dropped announce 0", "end",
		"announced 1 88 1001", "end", "dropped announce 0", "end", "end", "end", "end")
	old := w.next(1, k.txn(jute.OpCreate, createOp("/old", "", 0, jute.OpenACL).Append(nil)))
	w.entry(old)
	w.wantLog("dropped create 1", "end")
	if w.s().Zxid() != zxid || w.s().MinFormat() != 1 {
		t.Errorf("zxid %#x, format %d", w.s().Zxid(), w.s().MinFormat())
	}
}

// Entries count only if they have the term and the nonce that the last TermStart opened.
func TestTerms(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	body := createOp("/x", "", 0, jute.OpenACL).Append(nil)
	e := func(term, nonce uint64) *proto.Entry {
		txn := k.txn(jute.OpCreate, body)
		txn.Member, txn.Incarnation, txn.Seq = 1, bootOf(1), w.seq[1]+1
		return &proto.Entry{Format: 1, Term: term, Nonce: nonce, TimeMs: 1 << 40, Txns: []*proto.Txn{txn}}
	}
	before, now := w.s().Zxid(), w.s().TimeMs()
	w.append(1, e(1, 8)) // another nonce
	w.append(2, e(1, 7)) // sealed in term 1, logged in term 2
	w.append(2, e(2, 7)) // term 2 has not opened
	w.startTerm(2, 9)
	w.append(1, e(1, 7)) // raft never logs an older term, but the rule is the same
	w.append(2, e(1, 7))
	w.append(2, e(2, 7))
	w.append(2, e(1, 9)) // sealed in term 1, with the nonce of term 2
	if w.s().Zxid() != before || w.s().TimeMs() != now || w.nodeCount() != len(builtinPaths) {
		t.Fatalf("zxid %#x, time %d", w.s().Zxid(), w.s().TimeMs())
	}
	if got := w.s().Term(); got != (Term{2, 9, 1, w.index - 4, Rules{TTLNodes: true}}) {
		t.Errorf("%+v", got)
	}
	w.startTerm(2, 10) // the leader opened again in the same term of raft
	w.append(2, e(2, 9))
	w.append(2, nil)
	if w.s().Index() != w.index || w.nodeCount() != len(builtinPaths) {
		t.Errorf("index %d", w.s().Index())
	}
	w.append(2, e(2, 10))
	if w.s().Zxid() != 2<<32 || w.s().TimeMs() != 1<<40 {
		t.Errorf("295: zxid %#x, time %d", w.s().Zxid(), w.s().TimeMs())
	}
	w.seq[1]++
	k.must(k.create("/y", 0)) // stamped with an older time, which counts all the same
	if st := k.stat("/y"); st.Ctime != w.now || st.Czxid != 2<<32+1 {
		t.Errorf("%+v", st)
	}
}

// The log's time is the stamp of the last entry, even if the one before was wrong. A TermStart's
// stamp counts, too.
func TestTimeFollowsTheStamp(t *testing.T) {
	const year = int64(365 * 24 * 3600 * 1000)
	w := newWorld(t)
	k := w.connect()
	right := w.now
	steps := []struct {
		started bool
		stamp   int64
	}{
		{false, right},
		{false, right + year},
		{false, right + 1},
		{false, right - year},
		{false, -year},
		{false, right + 2},
		{true, right + 7},
		{true, right - year},
		{false, right + 8},
	}
	for i, step := range steps {
		w.now = step.stamp
		if step.started {
			w.term, w.nonce = w.term+1, w.nonce+1
			w.append(w.term, &proto.Entry{Format: FormatLevel, TimeMs: w.now, Txns: []*proto.Txn{{
				Op: int32(jute.OpTermStart), Body: message(&proto.TermStart{Leader: 1, Nonce: w.nonce}),
			}}})
		} else {
			path := fmt.Sprintf("/%d", i)
			create := k.txn(jute.OpCreate, createOp(path, "", 0, jute.OpenACL).Append(nil))
			w.append(w.term, &proto.Entry{Format: FormatLevel, Term: w.term, Nonce: w.nonce, TimeMs: w.now, Txns: []*proto.Txn{w.next(1, create)}})
			if st := k.stat(path); st.Ctime != step.stamp || st.Mtime != step.stamp {
				t.Errorf("step %d: made at %d, changed at %d, want %d", i, st.Ctime, st.Mtime, step.stamp)
			}
		}
		if w.s().TimeMs() != step.stamp {
			t.Errorf("step %d: the log's time is %d, want %d", i, w.s().TimeMs(), step.stamp)
		}
	}
	again := New(Config{})
	for _, e := range w.log {
		if err := again.ApplyEntry(e.index, e.term, e.Entry); err != nil {
			t.Fatal(err)
		}
	}
	if d := Diff(w.s(), again); d != "" {
		t.Error(d)
	}
}

// An entry that this version does not know stops the member and changes nothing.
func TestApplyRefuses(t *testing.T) {
	w := newWorld(t)
	s := w.s()
	before := encode(t, s.Snapshot())
	for name, e := range map[string]*proto.Entry{
		"format above": {Format: FormatLevel + 1, Term: 1, Nonce: 7},
		"no format":    {Term: 1, Nonce: 7},
		"term start":   {Format: 1, Txns: []*proto.Txn{{Op: int32(jute.OpTermStart), Body: []byte{0xff}}}},
	} {
		if err := s.ApplyEntry(w.index+1, 1, e); err == nil {
			t.Errorf("%s: applied", name)
		}
	}
	if err := s.ApplyEntry(w.index, 1, nil); err == nil {
		t.Error("an entry was applied a second time")
	}
	if string(before) != string(encode(t, s.Snapshot())) {
		t.Error("the state changed")
	}
}
