package znode

import (
	"testing"

	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// A run that replaces another one counts from 1 again. A member that leaves the list keeps only its highest session.
func TestMembersTakeTurns(t *testing.T) {
	var m memberTable
	announce := func(replaces, boot uint64) bool {
		_, done := m.announceIncarnation(&proto.Txn{Member: 3, Incarnation: boot, Body: message(&proto.Announce{Replaces: replaces, Format: 1})}, &ServerList{})
		return done
	}
	turn := func(boot, seq uint64) bool {
		return m.advanceIfNext(&proto.Txn{Member: 3, Incarnation: boot, Seq: seq})
	}
	for i, got := range []bool{
		!turn(0, 1), announce(0, 7), !announce(0, 7), !announce(5, 8), !turn(7, 2), turn(7, 1), !turn(7, 1), turn(7, 2),
		!announce(7, 7), !turn(7, 1), // a run does not replace itself, and its transactions are not applied again
		announce(7, 8), !turn(7, 3), !turn(8, 3), turn(8, 1), m.advanceIfNext(&proto.Txn{Op: int32(jute.OpSweep)}), !m.advanceIfNext(&proto.Txn{Op: int32(jute.OpCreate)}),
	} {
		if !got {
			t.Errorf("step %d", i)
		}
	}
	m[3].highestSession = 3<<56 + 1
	list, err := serverlist.ParseLines([]string{"server.1=a:1:2:participant;0.0.0.0:3"})
	if err != nil {
		t.Fatal(err)
	}
	if m.dropUnlisted(&ServerList{Version: 1, Servers: list}); m[3] != (member{highestSession: 3<<56 + 1}) {
		t.Errorf("%+v", m[3])
	}
}

// The last state hashes are kept, oldest first, and a list that was read does not change.
func TestMarksAreTheLast(t *testing.T) {
	var m stateHashLog
	for i := range uint64(keptStateHashes + 2) {
		m.append(StateHash{Index: i})
	}
	before := m.snapshot()
	m.append(StateHash{Index: 99})
	if all := m.snapshot(); len(all) != keptStateHashes || all[0].Index != 3 || all[keptStateHashes-1].Index != 99 || before[0].Index != 2 {
		t.Errorf("%v, before %v", all, before)
	}
	if m.clear(); m.snapshot() != nil {
		t.Error("state hashes are left")
	}
}
