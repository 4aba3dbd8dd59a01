package archive

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// BenchmarkEncodeRun encodes an object with 8 MiB of entries, each with ten writes of 100 random letters.
func BenchmarkEncodeRun(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var entries []*raft.Log
	size := 0
	for index := uint64(1); size < batchBytes; index++ {
		e := &proto.Entry{Format: 1, Term: 1, Nonce: 1 << 60, TimeMs: 1_772_000_000_000 + int64(index)}
		for range 10 {
			data := make([]byte, 100)
			for i := range data {
				data[i] = 'a' + byte(r.IntN(26))
			}
			path := fmt.Sprintf("/services/group-%d/member-%d", r.IntN(100), r.IntN(1000))
			e.Txns = append(e.Txns, &proto.Txn{
				Member: 1, Incarnation: 7, Seq: index, Session: 1 << 56, Conn: 9, Op: int32(jute.OpSetData),
				Body: jute.SetDataRequest{Path: []byte(path), Data: data, Version: -1}.Append(nil),
			})
		}
		data, err := proto.MarshalEntry(e)
		if err != nil {
			b.Fatal(err)
		}
		size += len(data)
		entries = append(entries, &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data})
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		_, content, err := encodeRun("ensemble-00", 1, EntryID{}, entries)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(size)/float64(len(content)), "ratio")
	}
}
