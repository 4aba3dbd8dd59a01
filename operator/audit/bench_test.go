package audit

import (
	"io"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// BenchmarkSetData is one setData of 100 bytes, from apply to its line.
func BenchmarkSetData(b *testing.B) {
	l, err := Open(Config{Settings: Settings{Enable: true}, Out: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	body := jute.SetDataRequest{Path: []byte("/rollcall-bench-abcdefghij/n0000000123"), Data: make([]byte, 100)}.Append(nil)
	var r znode.Result
	b.ReportAllocs()
	for i := range b.N {
		l.AddApplied(int64(i/50), &proto.Txn{Session: 7, Op: int32(jute.OpSetData), Body: body}, bob, &r)
		if i%256 == 0 {
			l.writeQueue()
		}
	}
}
