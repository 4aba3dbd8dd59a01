package leader

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// proposedOf returns the transactions of op that were proposed.
func (f *fakeLog) proposedOf(op jute.Op) (txns []*proto.Txn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, entry := range f.proposed {
		for _, txn := range entry.Txns {
			if txn.Op == int32(op) {
				txns = append(txns, txn)
			}
		}
	}
	return txns
}

// kills returns a message of kills of a session, with these seqs.
func kills(t *testing.T, member uint32, id jute.SessionID, seqs ...uint64) *proto.Forwarded {
	t.Helper()
	body, err := pb.Marshal(&proto.Kill{Session: int64(id), OwnerIndex: 10, Operator: "alice", SilentMs: 7})
	if err != nil {
		t.Fatal(err)
	}
	f := writes(member, 0, seqs...)
	for _, txn := range f.Txns {
		txn.Session, txn.Op, txn.Body = 0, int32(jute.OpKill), body
	}
	return f
}

// A transaction that changes the list says in the log which servers the leader reaches, whatever the sender wrote there.
// No other transaction says that.
func TestReachedIsTheLeaders(t *testing.T) {
	for _, op := range []jute.Op{jute.OpReconfig, jute.OpChangeServers} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t)
			e.run()
			e.answering.Store(&[]uint32{1, 2})
			f := writes(2, 10, 1, 2)
			f.Txns[1].Op, f.Txns[1].ReachableServers = int32(op), []uint32{1, 2, 3, 4}
			o := e.openOwnLink()
			own := writes(1, 10, 1)
			own.Txns[0].Op = int32(op)
			stream, _, hangUp := e.forward(1)
			stream.in <- f
			if err := o.Send(own); err != nil {
				t.Fatal(err)
			}
			e.at(time.Second)
			got := e.log.proposedOf(op)
			if len(got) != 2 {
				t.Fatalf("%d changes in the log", len(got))
			}
			for _, txn := range got {
				if !slices.Equal(txn.ReachableServers, []uint32{1, 2}) || txn.Incarnation != 77 || len(txn.Body) != 10 {
					t.Errorf("in the log: %v", txn)
				}
			}
			if got := e.log.proposedOf(jute.OpSetData); len(got) != 1 || got[0].ReachableServers != nil {
				t.Errorf("another write: %v", got)
			}
			if own.Txns[0].ReachableServers != nil {
				t.Error("the transaction that the own member may send again was changed")
			}
			hangUp()
			o.hangUp(nil)
			e.end()
		})
	}
}

// A kill says in the log for how long the leader has not heard from the session, whatever the sender wrote there. It is
// no sign of the session's client. One that cannot be decoded is in the log as it came.
func TestSilenceIsTheLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(10, 6))
		e.run()
		e.at(3 * time.Second)
		e.expiry.hasUndecided.Store(true) // the writers' sessions are touched
		o := e.openOwnLink()
		own := kills(t, 1, 10, 1, 2)
		own.Txns[1].Body = []byte{0xff}
		sent := pb.CloneOf(own)
		if err := o.Send(own); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := e.log.proposedOf(jute.OpKill)
		if len(got) != 2 || len(got[1].Body) != 1 {
			t.Fatalf("in the log: %v", got)
		}
		var body proto.Kill
		if err := pb.Unmarshal(got[0].Body, &body); err != nil {
			t.Fatal(err)
		}
		if want := (&proto.Kill{Session: 10, OwnerIndex: 10, SilentMs: 3000, Operator: "alice"}); !pb.Equal(&body, want) ||
			got[0].Member != 1 || got[0].Incarnation != 77 || got[0].Seq != 1 {
			t.Errorf("%v with %v, want %v", got[0], &body, want)
		}
		if !pb.Equal(own, sent) {
			t.Error("the transaction that the own member may send again was changed")
		}
		if heard, _ := e.table.LastHeard(10, time.Now()); heard.Ago != 3*time.Second {
			t.Errorf("the session was heard %v ago", heard.Ago)
		}
		o.hangUp(nil)
		e.end()
	})
}

// However many kills wait, an entry has a limited number of them.
func TestKillsInAnEntry(t *testing.T) {
	const most = 64 // a 64th of an entry each
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		seqs := make([]uint64, 1000)
		for i := range seqs {
			seqs[i] = uint64(i + 1)
		}
		stream, _, hangUp := e.forward(1)
		stream.in <- kills(t, 2, 10, seqs...)
		e.at(time.Second)
		if n := len(e.log.proposedOf(jute.OpKill)); n != len(seqs) {
			t.Fatalf("%d kills in the log", n)
		}
		for i, entry := range e.log.proposed {
			if len(entry.Txns) > most {
				t.Errorf("entry %d has %d kills", i, len(entry.Txns))
			}
		}
		hangUp()
		e.end()
	})
}
