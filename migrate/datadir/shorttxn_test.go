package datadir

import (
	"testing"

	"rollcall/zk/jute"
)

// A transaction whose body ends too early is rejected, whatever it does. A complete one is not.
func TestShortTransactions(t *testing.T) {
	for _, whole := range []logged{
		{kind: jute.OpCreateSession, body: jute.AppendInt32(nil, 6000)},
		{kind: jute.OpError, body: jute.AppendInt32(nil, -101)},
		{kind: jute.OpSetData, body: setBody("/a", "x", 1)},
		{kind: jute.OpDelete, body: pathBody("/a")},
		{kind: jute.OpMulti, body: multiBody(logged{kind: jute.OpDelete, body: pathBody("/a")})},
	} {
		whole.client, whole.zxid = 5, 7
		s := NewState()
		if _, err := s.decodeTxn(whole.txnBytes()); err != nil {
			t.Errorf("%v: %v", whole.kind, err)
		}
		for n := range whole.body {
			short := whole
			short.body = whole.body[:n]
			if _, err := s.decodeTxn(short.txnBytes()); err == nil {
				t.Errorf("%v with %d of %d bytes is not refused", whole.kind, n, len(whole.body))
			}
		}
	}
}
