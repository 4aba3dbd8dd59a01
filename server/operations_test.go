package server

import (
	"testing"

	"rollcall/jute"
)

// The table serves what package jute says a client may send, and nothing else.
func TestOperations(t *testing.T) {
	table := operations()
	for op := range jute.Ops() {
		how, served := table[op]
		switch class := op.Class(); class {
		case jute.ClassOther, jute.ClassLog:
			if served {
				t.Errorf("%v: no client may send it, and it is served", op)
			}
		default:
			if !served || how.take == nil {
				t.Errorf("%v: it is not served", op)
			}
			if reads := how.answer != nil || how.before != nil; reads && op.IsWrite() || !reads && class == jute.ClassRead {
				t.Errorf("%v: answered from the tree here: %t", op, reads)
			}
		}
		delete(table, op)
	}
	for op := range table {
		t.Errorf("%v is served, and package jute has no such opcode", op)
	}
}

// The server takes every opcode that a client may send. It refuses a record that ends too
// early, which does not go to the log, and the connection stays. Any other opcode ends the
// connection. (A multi that ends too early does go to the log, and takes a zxid there.)
func TestEveryOpcode(t *testing.T) {
	w := newWorld(t, false, nil)
	for op := range jute.Ops() {
		c := w.connect()
		before := w.forwarded()
		switch op.Class() {
		case jute.ClassOther, jute.ClassLog:
			c.send(jute.RequestHeader{Xid: 1, Op: op})
			c.expect(1, jute.Unimplemented)
			c.expectClosed()
		case jute.ClassIdentity, jute.ClassSession: // such a record ends the connection, or there is none
		default:
			c.send(jute.RequestHeader{Xid: 1, Op: op})
			c.expect(1, jute.MarshallingError)
			c.must(jute.OpPing)
			if w.forwarded() != before && op != jute.OpMulti {
				t.Errorf("%v: the log has got a record that ends too early", op)
			}
		}
	}
}
