package znode

import (
	"bytes"
	"testing"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// A snapshot has the time of leases for reads. States with other times have other digests, and a state without leases has the snapshot that
// it had before there were any.
func TestReadLeaseAfterRestore(t *testing.T) {
	snapshotOf := func(rules Rules) (*world, []byte) {
		w := newWorld(t)
		w.rule(rules)
		return w, encode(t, w.s().Snapshot())
	}
	rules := Rules{SASL: true, AnySASLUser: "alice", ReadLeaseMs: 70}
	w, snapshot := snapshotOf(rules)
	other, _ := snapshotOf(Rules{SASL: true, AnySASLUser: "alice", ReadLeaseMs: 71})
	none, plain := snapshotOf(Rules{SASL: true, AnySASLUser: "alice"})
	if w.s().Digest() == other.s().Digest() || w.s().Digest() == none.s().Digest() {
		t.Error("the digest lacks the time")
	}
	if d := Diff(w.s(), other.s()); d == "" {
		t.Error("no difference between states with other times")
	}
	if len(snapshot) != len(plain)+8 {
		t.Errorf("a snapshot of %d bytes, and of %d without leases", len(snapshot), len(plain))
	}
	if _, _, err := VerifySnapshot(bytes.NewReader(snapshot)); err != nil {
		t.Error(err)
	}
	back := restored(t, snapshot)
	if got := back.Term().Rules; got != rules {
		t.Errorf("rules %+v, want %+v", got, rules)
	}
	if d := Diff(w.s(), back); d != "" || w.s().Digest() != back.Digest() {
		t.Errorf("after a restore: %q, digests %x and %x", d, w.s().Digest(), back.Digest())
	}
}

// The lease of a term is read from its first entry alone.
func TestReadLeaseOf(t *testing.T) {
	entryOf := func(txns ...*proto.Txn) []byte {
		data, err := proto.MarshalEntry(&proto.Entry{Format: FormatLevel, TimeMs: 1, Txns: txns})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	start := func(ms uint64) *proto.Txn {
		return &proto.Txn{Op: int32(jute.OpTermStart), Body: message(&proto.TermStart{Leader: 1, Nonce: 2, ReadLeaseMs: ms})}
	}
	write := &proto.Txn{Member: 1, Incarnation: 1, Seq: 1, Op: int32(jute.OpAnnounce), Body: message(&proto.Announce{Format: 1})}
	for _, tt := range []struct {
		name string
		data []byte
		want time.Duration
		ok   bool
	}{
		{"with leases", entryOf(start(70)), 70 * time.Millisecond, true},
		{"without leases", entryOf(start(0)), 0, true},
		{"of a member", entryOf(write), 0, false},
		{"not an entry", []byte("\xff\xff"), 0, false},
		{"a broken TermStart", entryOf(&proto.Txn{Op: int32(jute.OpTermStart), Body: []byte("\xff")}), 0, false},
	} {
		if lease, ok := ReadLeaseOf(tt.data); lease != tt.want || ok != tt.ok {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, lease, ok, tt.want, tt.ok)
		}
	}
}
