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

// removed returns the removals that a state remembers, newest first.
func removed(s *State) []Removal { return slices.Collect(s.RemovalsBefore(0, 0)) }

// Every member remembers what removed a node, and the same: a delete, alone or in a multi, the end of a
// session, at once or in steps, or the reaper. A multi that fails removes nothing.
func TestRemovals(t *testing.T) {
	other := New(Config{Self: 2})
	w := newWorld(t, other)
	for _, s := range w.states {
		s.allow(2)
	}
	k, brief, large := w.connect(), w.connect(), w.connect()
	var want []Removal
	removes := func(of Removal, run func(), paths ...string) {
		t.Helper()
		run()
		of.Zxid, of.AtMs = w.s().Zxid(), w.now
		for i, path := range paths {
			of.Path, of.TxnPart = path, uint32(i+1)
			want = slices.Insert(want, 0, of)
		}
		for i, s := range w.states {
			if got := removed(s); !slices.Equal(got, want) {
				t.Fatalf("member %d remembers %+v\nwant %+v", i+1, got, want)
			}
		}
	}
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		k.must(k.create(path, 0))
	}
	for i, c := range []*client{brief, large} {
		for j := range 2 + i {
			c.must(c.create(fmt.Sprintf("/e%d%d", i, j), 1))
		}
	}
	k.must(k.createTTL("/ttl", jute.PersistentWithTTL, 1))
	k.must(k.container("/container"))

	mine := Removal{Cause: CauseDeleted, Member: 1, Session: k.id, Address: "127.0.0.1:5"}
	removes(mine, func() { k.must(k.delete("/a", -1)) }, "/a")
	removes(mine, func() { k.delete("/none", -1) })
	removes(mine, func() { k.must(k.multi(rm("/b", -1), mk("/b", 0), rm("/b", -1), rm("/c", -1))) }, "/b", "/b", "/c")
	removes(mine, func() { k.multi(rm("/d", -1), check("/none", 0)) })
	removes(Removal{Cause: CauseDeleted, Member: 2, Address: "10.0.0.9"}, func() {
		w.run(2, &proto.Txn{Op: int32(jute.OpDelete), Body: jute.DeleteRequest{Path: []byte("/d"), Version: -1}.Append(nil), Ids: []*proto.Identity{{Scheme: "super"}, {Scheme: "ip", Id: "10.0.0.9"}}})
	}, "/d")
	removes(Removal{Cause: CauseSessionEnded, Member: 1, Session: brief.id, Address: "127.0.0.1:5"}, func() { w.expire(brief.id, w.index) }, "/e00", "/e01")
	removes(Removal{}, func() { w.expire(large.id, w.index) })
	removes(Removal{Cause: CauseSessionEnded, Session: large.id}, func() { w.sweep(2) }, "/e10", "/e11")
	removes(Removal{Cause: CauseSessionEnded, Session: large.id}, func() { w.sweep(2) }, "/e12")
	w.now += 1000
	removes(Removal{Cause: CauseTTLExpired}, func() { w.reap("/ttl", 0) }, "/ttl")
	removes(Removal{Cause: CauseEmptyContainer}, func() { w.reap("/container", 1) }, "/container")

	for i := range want { // from each removal on
		if got := slices.Collect(w.s().RemovalsBefore(want[i].Zxid, want[i].TxnPart)); !slices.Equal(got, want[i+1:]) {
			t.Errorf("before %+v: %+v", want[i], got)
		}
	}
	if got := slices.Collect(w.s().RemovalsBefore(1, 0)); got != nil {
		t.Errorf("before everything: %+v", got)
	}
}

// Each removal in a sweep that goes over several sessions names its own session.
func TestRemovalsOfOneSweep(t *testing.T) {
	w := newWorld(t)
	w.s().allow(3)
	var want []jute.SessionID
	for i := range 2 {
		k := w.connect()
		for j := range 4 {
			k.must(k.create(fmt.Sprintf("/e%d%d", i, j), 1))
		}
		k.must(k.close())
		want = append(want, k.id)
	}
	w.sweep(3)
	w.sweep(3)
	for i, r := range removed(w.s())[:3] { // newest first: two of the second session, one of the first
		if session := want[[]int{1, 1, 0}[i]]; r.Session != session || r.TxnPart != uint32(3-i) {
			t.Errorf("removal %d: %+v, want session %v", i, r, session)
		}
	}
}

// A state remembers a bounded number of removals with a bounded number of bytes. A very long path is
// left out, and pushes out nothing.
func TestRemovalsAreBounded(t *testing.T) {
	var k removalHistory
	bytes := func() (sum int) {
		for i := range k.kept.Len() {
			sum += k.kept.At(i).keptBytes()
		}
		return sum
	}
	for i := range maxRemovals + 5 {
		k.appendRemoval(Removal{Path: "/a", Zxid: int64(i + 1)})
	}
	if n := k.kept.Len(); n != maxRemovals || k.kept.At(0).Zxid != 6 {
		t.Errorf("%d removals, from %#x on", n, k.kept.At(0).Zxid)
	}
	long := strings.Repeat("x", maxRemovedPath)
	for i := range 200 {
		k.appendRemoval(Removal{Path: long, Address: "10.0.0.1:1", Zxid: int64(100_000 + i)})
	}
	if n := k.kept.Len(); k.keptBytes != bytes() || k.keptBytes > maxRemovalBytes || n != maxRemovalBytes/(maxRemovedPath+10) {
		t.Errorf("%d removals with %d bytes, which are %d", n, k.keptBytes, bytes())
	}
	before := k.kept.Len()
	k.appendRemoval(Removal{Path: strings.Repeat("x", maxRemovalBytes), Zxid: 200_000})
	k.appendRemoval(Removal{Path: "/b", Zxid: 200_000})
	if last := k.kept.At(k.kept.Len() - 1); k.kept.Len() != before+1 || last.Path != "/b" || last.TxnPart != 2 {
		t.Errorf("after a longer path: %d removals, the last %s, part %d", k.kept.Len(), last.Path, last.TxnPart)
	}
	if k.kept.Cap() > 2*maxRemovals {
		t.Errorf("room for %d removals", k.kept.Cap())
	}
}

// What a member remembers is no part of the state: a snapshot and the digest do not have it, and a
// member that gets a snapshot begins anew.
func TestRemovalsAreNotReplicated(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/a", 0))
	k.must(k.delete("/a", -1))
	with := encode(t, w.s().Snapshot())
	digest := w.s().Digest()
	w.s().removals = removalHistory{}
	if !bytes.Equal(encode(t, w.s().Snapshot()), with) || w.s().Digest() != digest {
		t.Error("the snapshot or the digest depends on the removals that are remembered")
	}
	k.must(k.create("/a", 0))
	k.must(k.delete("/a", -1))
	if err := w.s().RestoreSnapshot(bytes.NewReader(with)); err != nil {
		t.Fatal(err)
	}
	if got := removed(w.s()); got != nil {
		t.Errorf("after a snapshot: %+v", got)
	}
}
