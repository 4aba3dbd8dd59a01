package znode

import (
	"fmt"
	"testing"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// BenchmarkSweep measures how long apply takes when a session with a million ephemeral nodes ends.
// It measures the close, which counts the nodes, and each step, which removes some.
func BenchmarkSweep(b *testing.B) {
	for _, nodes := range []int{250, 500, 1000, 2000} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			var closing, longest, sum time.Duration
			steps := 0
			for range b.N {
				k := newBench(b, 0)
				for n := manyNodes(); n > 0; n -= 1000 {
					var txns []*proto.Txn
					for i := range 1000 {
						txns = append(txns, createTxn(jute.OpCreate, fmt.Sprintf("/group/e-%010d", n-i), jute.Ephemeral))
					}
					k.apply(b, k.entry(txns...))
				}
				timed := func(t *proto.Txn) time.Duration {
					e := k.entry(t)
					begun := time.Now()
					k.apply(b, e)
					return time.Since(begun)
				}
				closing += timed(txn(jute.OpCloseSession, nil))
				for k.s.HasUnswept() {
					took := timed(&proto.Txn{Op: int32(jute.OpSweep), Body: message(&proto.Sweep{Nodes: uint32(nodes)})})
					sum, longest, steps = sum+took, max(longest, took), steps+1
				}
			}
			b.ReportMetric(float64(closing.Microseconds())/float64(b.N), "us/close")
			b.ReportMetric(float64(sum.Microseconds())/float64(steps), "us/step")
			b.ReportMetric(float64(longest.Microseconds()), "us-longest-step")
			b.ReportMetric(0, "ns/op")
		})
	}
}
