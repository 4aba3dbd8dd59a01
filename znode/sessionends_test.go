package znode

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// ended returns the ends that the state keeps, newest first.
func (w *world) ended() []SessionEnd { return slices.Collect(w.s().SessionEndsBefore(0)) }

// Each end has all that the log knows about it, whatever the reason.
func TestEnds(t *testing.T) {
	w := newWorld(t)
	closed, expired, killed := w.connect(), w.connect(), w.connect()
	moved, _ := expired.attach(2, expired.since(), password(expired.id))
	moved.create("/e", 1)
	moved.create("/f", 1)
	var want []SessionEnd
	ends := func(k *client, end SessionEnd, run func()) {
		t.Helper()
		s, _ := w.s().Session(k.id)
		run()
		end.Number, end.Session, end.Address, end.Timeout = uint64(len(want)+1), k.id, s.Address, s.Timeout
		end.Member, end.Leader, end.Term, end.AtMs, end.Zxid = s.Owner.Member, 1, w.term, w.now, w.s().Zxid()
		want = slices.Insert(want, 0, end)
		if w.heard.end != end {
			t.Errorf("the hooks are told %+v, want %+v", w.heard.end, end)
		}
	}
	ends(closed, SessionEnd{Reason: ReasonClosed}, func() { closed.must(closed.close()) })
	ends(expired, SessionEnd{Reason: ReasonExpired, SilentFor: 6001 * time.Millisecond, EphemeralCount: 2}, func() {
		body := message(&proto.Expire{OwnerIndex: w.index, SilentMs: 6001})
		w.entry(&proto.Txn{Op: int32(jute.OpExpire), Session: int64(expired.id), Body: body})
	})
	w.rule(w.rules) // another term
	ends(killed, SessionEnd{Reason: ReasonKilled, SilentFor: 1500 * time.Millisecond, RequestedBy: "alice"}, func() { w.kill(killed.id, killed.since(), "alice") })

	if got := w.ended(); !slices.Equal(got, want) {
		t.Errorf("ends %+v\nwant %+v", got, want)
	}
	for before, n := range map[uint64]int{0: 3, 1: 0, 2: 1, 3: 2, 4: 3, 1 << 60: 3} {
		if got := slices.Collect(w.s().SessionEndsBefore(before)); !slices.Equal(got, want[3-n:]) {
			t.Errorf("before %d: %+v", before, got)
		}
	}
	if want[2].EndedAt() != time.UnixMilli(want[2].AtMs) {
		t.Errorf("it ended at %v", want[2].EndedAt())
	}
	for reason, name := range map[EndReason]string{ReasonClosed: "closed", ReasonExpired: "expired", ReasonKilled: "killed", 0: "unknown"} {
		if reason.String() != name {
			t.Errorf("reason %d is %q, want %q", reason, reason, name)
		}
	}
}

// The last ten thousand ends are kept. A copy keeps its own, whatever comes after it.
func TestEndsAreBounded(t *testing.T) {
	w := newWorld(t)
	end := func(n int) {
		for range n {
			k := w.connectUnchecked()
			w.expire(k.id, w.index)
		}
	}
	end(maxSessionEnds)
	first := w.ended()[maxSessionEnds-1]
	if first.Number != 1 || len(w.ended()) != maxSessionEnds {
		t.Fatalf("%d ends, the first is %+v", len(w.ended()), first)
	}
	copied := w.s().Snapshot()
	before := encode(t, copied)
	end(1)
	got := w.ended()
	if len(got) != maxSessionEnds || got[0].Number != maxSessionEnds+1 || got[maxSessionEnds-1].Number != 2 ||
		got[maxSessionEnds-1].Session != first.Session+1 {
		t.Errorf("%d ends, %d to %d", len(got), got[len(got)-1].Number, got[0].Number)
	}
	checkInvariants(t, w.s())
	if !bytes.Equal(encode(t, copied), before) {
		t.Error("the copy changed")
	}
	if s := restored(t, encode(t, w.s().Snapshot())); Diff(w.s(), s) != "" {
		t.Error(Diff(w.s(), s))
	}
}

// A kill ends the session that the operator saw, with its nodes, and no other.
func TestKill(t *testing.T) {
	t.Run("a session", func(t *testing.T) {
		w := newWorld(t)
		k := w.connect()
		k.must(k.create("/e", 1))
		zxid := w.s().Zxid()
		w.heard.log = nil
		w.kill(k.id, k.since(), "alice")
		w.wantLog(fmt.Sprintf("killed %v of {1 %d} ephemerals 1", k.id, k.conn), "applied kill 0", "end")
		if _, code := k.exists("/e"); code != jute.NoNode || w.s().Zxid() != zxid+1 {
			t.Errorf("/e: %v, zxid %#x", code, w.s().Zxid())
		}
		if r := k.create("/x", 0); r.Code != jute.SessionExpired {
			t.Errorf("a write after the kill: %v", r.Code)
		}
		if _, r := k.attach(1, 0, password(k.id)); r.Code != jute.SessionExpired {
			t.Errorf("a resume after the kill: %v", r.Code)
		}
	})
	longest := strings.Repeat("x", MaxRequesterBytes)
	for name, tt := range map[string]struct {
		make func(k *client, seen uint64) *proto.Txn
		want jute.Code
	}{
		"that moved on": {func(k *client, seen uint64) *proto.Txn {
			_, r := k.attach(1, seen, password(k.id))
			k.must(r)
			return killTxn(k.id, &proto.Kill{OwnerIndex: seen})
		}, jute.SessionMoved},
		"as it will be": {func(k *client, seen uint64) *proto.Txn { return killTxn(k.id, &proto.Kill{OwnerIndex: seen + 1}) }, jute.SessionMoved},
		"that is not there": {func(k *client, seen uint64) *proto.Txn {
			return killTxn(k.id+100, &proto.Kill{OwnerIndex: seen})
		}, jute.SessionExpired},
		"for a name that is too long": {func(k *client, seen uint64) *proto.Txn {
			return killTxn(k.id, &proto.Kill{OwnerIndex: seen, Operator: longest + "x"})
		}, jute.MarshallingError},
		"with a body that is none": {func(k *client, _ uint64) *proto.Txn {
			return &proto.Txn{Op: int32(jute.OpKill), Session: int64(k.id), Body: []byte{0xff}}
		}, jute.MarshallingError},
	} {
		t.Run("not a session "+name, func(t *testing.T) {
			w := newWorld(t)
			k := w.connect()
			txn := tt.make(k, k.since())
			zxid := w.s().Zxid()
			if r := w.run(1, txn); r.Code != tt.want {
				t.Errorf("%v, want %v", r.Code, tt.want)
			}
			if _, ok := w.s().Session(k.id); !ok || w.s().Zxid() != zxid || len(w.ended()) != 0 {
				t.Errorf("session there: %t, zxid %#x, %d ends", ok, w.s().Zxid(), len(w.ended()))
			}
		})
	}
	t.Run("a session once", func(t *testing.T) {
		w := newWorld(t)
		k := w.connect()
		since := k.since()
		first, second := killTxn(k.id, &proto.Kill{OwnerIndex: since, Operator: "alice"}), killTxn(k.id, &proto.Kill{OwnerIndex: since, Operator: "bob"})
		w.heard.log = nil
		w.entry(w.next(1, first), w.next(1, second), first) // the first one is in the log twice
		w.wantLog(fmt.Sprintf("killed %v of {1 %d} ephemerals 0", k.id, k.conn), "applied kill 0", fmt.Sprintf("applied kill %d", jute.SessionExpired), "dropped kill 2", "end")
		if got := w.ended(); len(got) != 1 || got[0].RequestedBy != "alice" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("for the longest name", func(t *testing.T) {
		w := newWorld(t)
		k := w.connect()
		w.kill(k.id, k.since(), longest)
		if got := w.ended(); len(got) != 1 || got[0].RequestedBy != longest {
			t.Errorf("%+v", got)
		}
	})
}
