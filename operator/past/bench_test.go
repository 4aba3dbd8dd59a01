package past_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"rollcall/operator/past"
	"rollcall/operator/past/pasttest"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// BenchmarkOpen builds the state after a million changes of a million nodes of 100 bytes: from a snapshot before all of them.
// With -short there are far fewer. changes also reports each change.
func BenchmarkOpen(b *testing.B) {
	million, batch := 1_000_000, 100
	if testing.Short() {
		million = 10_000
	}
	e := pasttest.New(b, begin)
	c := e.Connect("10.0.0.7:1")
	c.Create("/group", "", 0)
	data := strings.Repeat("d", 100)
	for i := 0; i < million; i += batch {
		var txns []*proto.Txn
		for k := range batch {
			txns = append(txns, c.CreateTxn(fmt.Sprintf("/group/n-%09d", i+k), data, 0))
		}
		e.Apply(txns...)
	}
	e.Snapshot()
	from := e.State.Zxid()
	for i := 0; i < million; i += batch {
		var txns []*proto.Txn
		for k := range batch {
			switch path := fmt.Sprintf("/group/n-%09d", rand.IntN(million)); k % 4 {
			case 0:
				txns = append(txns, c.CreateTxn(fmt.Sprintf("/group/lock-%09d", i+k), "", jute.Ephemeral))
			case 1:
				txns = append(txns, c.DeleteTxn(fmt.Sprintf("/group/lock-%09d", i+k-1)))
			default:
				txns = append(txns, c.SetTxn(path, data))
			}
		}
		e.Apply(txns...)
	}
	for _, changes := range []bool{false, true} {
		b.Run(fmt.Sprintf("changes=%t", changes), func(b *testing.B) {
			for b.Loop() {
				l, err := past.Open(b.Context(), e, past.AtZxid(from))
				if err != nil {
					b.Fatal(err)
				}
				var take func(*znode.Change) error
				n := 0
				if changes {
					take = func(*znode.Change) error { n++; return nil }
				}
				if err := l.Advance(past.Moment{}, take); err != nil || l.State().Digest() != e.State.Digest() || changes && n < million {
					b.Fatal(n, err)
				}
				l.Close()
			}
		})
	}
}
