package server

import (
	"testing"

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
