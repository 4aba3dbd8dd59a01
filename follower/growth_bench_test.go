package follower

import (
	"fmt"
	"testing"

	protobuf "google.golang.org/protobuf/proto"
)

// BenchmarkGrowth measures a member's reply to a ping with different numbers of touches: flushing, making and encoding
// it. lab/bench/growth.sh plots the results.
func BenchmarkGrowth(b *testing.B) {
	sizes := []int{1_000, 10_000, 100_000, 1_000_000}
	if testing.Short() {
		sizes = sizes[:1]
	}
	for _, n := range sizes {
		f := benchFollower(b, n)
		b.Run(fmt.Sprintf("ping/sessions=%d", n), func(b *testing.B) {
			size := 0
			for b.Loop() { // the batch is never acknowledged, and goes with each answer
				size = 0
				for pong := range f.renewer.flushAsPongs(pingReply{number: 1}) {
					text, err := protobuf.Marshal(pong)
					if err != nil {
						b.Fatal(err)
					}
					size += len(text)
				}
			}
			b.ReportMetric(float64(size)/float64(n), "B/session")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/session")
		})
	}
}
