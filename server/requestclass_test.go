package server

import (
	"testing"

	"rollcall/internal/stages"
	"rollcall/zk/jute"
)

// Every operation that clients send counts in a class of its own kind.
func TestClasses(t *testing.T) {
	others := map[jute.Op]bool{jute.OpWhoAmI: true, jute.OpAuth: true, jute.OpSASL: true}
	table := newOperationTable()
	for op := range operations() {
		if class := table.of(op).class; (class == classOther) != others[op] || class != classOf(op) {
			t.Errorf("%v is of class %s", op, classNames[class])
		}
	}
	for op, want := range map[jute.Op]string{
		jute.OpCreateTTL: "write", jute.OpMulti: "write", jute.OpMultiRead: "read", jute.OpGetEphemerals: "read", jute.OpSync: "sync",
		jute.OpSetWatches: "watch", jute.OpRemoveWatches: "watch", jute.OpPing: "ping", jute.OpCloseSession: "close", jute.Op(7777): "other",
	} {
		if got := classNames[table.of(op).class]; got != want {
			t.Errorf("%v is of class %s, want %s", op, got, want)
		}
	}
}

// Every operation has the threshold of its kind.
func TestSlowClasses(t *testing.T) {
	table := newOperationTable()
	for op, want := range map[jute.Op]stages.Class{
		jute.OpCreateTTL: stages.Writes, jute.OpSetData: stages.Writes, jute.OpMulti: stages.Writes, jute.OpMultiRead: stages.Reads,
		jute.OpGetData: stages.Reads, jute.OpSync: stages.Reads, jute.OpSetWatches: stages.Reads, jute.OpAuth: stages.Reads,
		jute.OpPing: stages.Sessions, jute.OpCloseSession: stages.Sessions,
	} {
		if got := slowClasses[table.of(op).class]; got != want {
			t.Errorf("%v has the threshold of class %d, want %d", op, got, want)
		}
	}
}
