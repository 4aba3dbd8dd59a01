package server

import (
	"testing"

	"rollcall/zk/jute"
)

// The table serves exactly the opcodes that a client may send according to package jute.
func TestOperations(t *testing.T) {
	table := operations()
	for op := range jute.AllOps() {
		how, served := table[op]
		switch class := op.Class(); class {
		case jute.ClassOther, jute.ClassLog:
			if served {
				t.Errorf("%v: no client may send it, and it is served", op)
			}
		default:
			if !served || how.handle == nil {
				t.Errorf("%v: it is not served", op)
			}
			if reads := how.appendRecord != nil || how.queueEventsBefore != nil; reads && op.IsWrite() || !reads && class == jute.ClassRead {
				t.Errorf("%v: answered from the tree here: %t", op, reads)
			}
		}
		delete(table, op)
	}
	for op := range table {
		t.Errorf("%v is served, and package jute has no such opcode", op)
	}
}

// The server accepts every opcode that a client may send. It rejects a record that ends too early, does not put it into
// the log, and keeps the connection. Any other opcode ends the connection. A multi that ends too early does go to the
// log, where it takes a zxid.
func TestEveryOpcode(t *testing.T) {
	w := newWorld(t, false, nil)
	for op := range jute.AllOps() {
		c := w.connect()
		before := w.countForwarded()
		switch op.Class() {
		case jute.ClassOther, jute.ClassLog:
			c.send(jute.RequestHeader{Xid: 1, Op: op})
			c.expect(1, jute.Unimplemented)
			c.expectClosed()
		case jute.ClassIdentity, jute.ClassSession: // a record that ends too early ends the connection, or the opcode has no record
		default:
			c.send(jute.RequestHeader{Xid: 1, Op: op})
			c.expect(1, jute.MarshallingError)
			c.must(jute.OpPing)
			if w.countForwarded() != before && op != jute.OpMulti {
				t.Errorf("%v: a record that ends too early is in the log", op)
			}
		}
	}
}
