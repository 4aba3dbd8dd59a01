package member_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/stateview"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

func endsOf(e *cluster.Ensemble, id uint32) []znode.SessionEnd {
	return slices.Collect(e.Member(id).SessionEnds(stateview.EndFilter{}))
}

// Every member knows how sessions ended: by a close or by silence, for how long, and under which
// leader. A member that starts again still knows it.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, timeout = 2 * time.Second, 8 * time.Second
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		away := e.Followers()[0]
		polite, silent := e.Connect(timeout, leader), e.Connect(timeout, away)
		for _, path := range []string{"/a", "/b"} {
			if _, err := silent.Create(path, nil, jute.Ephemeral); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * tick)
		silent.Abandon()
		abandoned := time.Now()
		e.Wait("the silent one to end", 2*timeout, func() bool { return len(endsOf(e, leader)) == 1 })
		ended := time.Now()
		if _, err := polite.Do(jute.OpCloseSession, nil); err != nil {
			t.Fatal(err)
		}
		e.Equal()

		if n := e.Member(leader).Tracked(); n != 0 {
			t.Errorf("the leader's table has %d sessions, and none lives", n)
		}
		got := endsOf(e, leader)
		if len(got) != 2 {
			t.Fatalf("ends: %+v, want two", got)
		}
		term := raftTerm(e, leader)
		closed, expired := got[0], got[1]
		if closed.Session != polite.Session() || closed.Reason != znode.ReasonClosed || closed.SilentFor != 0 || closed.Member != leader || closed.Leader != leader || closed.Term != term {
			t.Errorf("closed by its client: %+v", closed)
		}
		if expired.Session != silent.Session() || expired.Reason != znode.ReasonExpired || expired.EphemeralCount != 2 || expired.Member != away ||
			expired.Leader != leader || expired.Term != term || expired.Timeout != timeout || expired.Address == "" || expired.Zxid >= closed.Zxid {
			t.Errorf("silent: %+v", expired)
		}
		// It was last heard from at most a third of its timeout before it was abandoned, and the
		// table's step is half a tick.
		if since := abandoned.Sub(expired.EndedAt().Add(-expired.SilentFor)); since < -tick/2 || since > timeout/3+tick/2 {
			t.Errorf("heard %v before it was abandoned", since)
		}
		if late := ended.Sub(expired.EndedAt()); late < 0 || late > tick/2 {
			t.Errorf("it ended %v before that was seen", late)
		}

		e.Kill(away)
		e.Boot(away)
		e.Ready()
		e.Equal()
		for _, id := range e.IDs() {
			if other := endsOf(e, id); !slices.Equal(other, got) {
				t.Errorf("member %d knows %+v, want %+v", id, other, got)
			}
		}
	})
}

// applied returns a state of member 1 with n sessions that have ended.
// Session i came from host i%7, port i.
func applied(t *testing.T, n int) *znode.State {
	t.Helper()
	body := func(m protobuf.Message) []byte {
		b, err := protobuf.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	s := znode.New(znode.Config{})
	index, seq := uint64(0), uint64(0)
	apply := func(txn *proto.Txn) {
		index++
		if err := s.ApplyEntry(index, 1, &proto.Entry{Format: znode.FormatLevel, Term: 1, Nonce: 7, Txns: []*proto.Txn{txn}}); err != nil {
			t.Fatal(err)
		}
	}
	apply(&proto.Txn{Op: int32(jute.OpTermStart), Body: body(&proto.TermStart{Nonce: 7, Leader: 1})})
	apply(&proto.Txn{Member: 1, Incarnation: 5, Op: int32(jute.OpAnnounce), Body: body(&proto.Announce{Format: znode.FormatLevel})})
	for i := range n {
		id := int64(1<<56 + i)
		seq++
		address := fmt.Sprintf("[fd00::%d]:%d", i%7, i)
		apply(&proto.Txn{Member: 1, Incarnation: 5, Seq: seq, Session: id, Op: int32(jute.OpCreateSession), Body: body(&proto.OpenSession{TimeoutMs: 1000, Password: make([]byte, 16), Address: address})})
		apply(&proto.Txn{Session: id, Op: int32(jute.OpExpire), Body: body(&proto.Expire{OwnerIndex: index})})
	}
	return s
}

// The ends of one session, of one address, of one host or below a number are found among many.
func TestEndsOf(t *testing.T) {
	const n = 3000 // some parts of a listing
	m := member.Over(applied(t, n))
	var all []znode.SessionEnd
	for end := range m.SessionEnds(stateview.EndFilter{}) {
		if want := uint64(n - len(all)); end.Number != want {
			t.Fatalf("end %d comes where %d should", end.Number, want)
		}
		all = append(all, end)
	}
	if len(all) != n {
		t.Fatalf("%d ends, want %d", len(all), n)
	}
	of := func(match func(end znode.SessionEnd) bool) []znode.SessionEnd {
		return slices.DeleteFunc(slices.Clone(all), func(end znode.SessionEnd) bool { return !match(end) })
	}
	for _, tt := range []struct {
		of    stateview.EndFilter
		want  []znode.SessionEnd
		count int
	}{
		{stateview.EndFilter{Session: 1<<56 + 5}, of(func(end znode.SessionEnd) bool { return end.Session == 1<<56+5 }), 1},
		{stateview.EndFilter{Session: 1}, nil, 0},
		{stateview.EndFilter{Address: "[fd00::3]:3"}, of(func(end znode.SessionEnd) bool { return end.Address == "[fd00::3]:3" }), 1},
		{stateview.EndFilter{Address: "fd00::3"}, of(func(end znode.SessionEnd) bool { return end.Session%7 == all[n-1-3].Session%7 }), 429},
		{stateview.EndFilter{Address: "[fd00:0::3]:3"}, of(func(end znode.SessionEnd) bool { return end.Address == "[fd00::3]:3" }), 1},
		{stateview.EndFilter{Address: "fd00::"}, of(func(end znode.SessionEnd) bool { return end.Session%7 == all[n-1-7].Session%7 }), 429},
		{stateview.EndFilter{Address: "fd00:"}, nil, 0},
		{stateview.EndFilter{Before: 1100}, of(func(end znode.SessionEnd) bool { return end.Number < 1100 }), 1099},
		{stateview.EndFilter{Before: 1}, nil, 0},
		{stateview.EndFilter{Session: 1<<56 + 5, Address: "fd00::5", Before: 7}, of(func(end znode.SessionEnd) bool { return end.Number == 6 }), 1},
		{stateview.EndFilter{Session: 1<<56 + 5, Before: 6}, nil, 0},
	} {
		if got := slices.Collect(m.SessionEnds(tt.of)); !slices.Equal(got, tt.want) || len(got) != tt.count {
			t.Errorf("%+v: %d ends, want %d", tt.of, len(got), tt.count)
		}
	}
	for end := range m.SessionEnds(stateview.EndFilter{}) { // stops when it is told to
		if end.Number != n {
			t.Errorf("end %d comes first", end.Number)
		}
		break
	}
}
