package recipes

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/shared"
	"rollcall/rollcalltest"
)

// BenchmarkCounter adds to one counter from 64 goroutines, on one session and on 64. The servers are the ones in the
// environment variable SERVERS, or else three members in this process, over TCP. It reports the adds in a second of all
// goroutines, and the slowest add.
func BenchmarkCounter(b *testing.B) {
	const adders = 64
	servers := os.Getenv("SERVERS")
	if servers == "" {
		servers = rollcalltest.StartEnsemble(b, 3).ConnectString()
	}
	for _, sessions := range []int{1, adders} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			path := fmt.Sprintf("/counter-%d-%d", sessions, time.Now().UnixNano())
			counters := make([]*shared.Counter, sessions)
			for i := range counters {
				c, err := client.Dial(b.Context(), servers, client.Config{})
				if err != nil {
					b.Fatal(err)
				}
				defer c.Abandon()
				counters[i] = shared.NewCounter(c, path, shared.CounterConfig{Encoding: shared.Int64})
			}
			var left, slowest atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			b.ResetTimer()
			for i := range adders {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						begun := time.Now()
						if _, err := counters[i%sessions].Add(b.Context(), 1); err != nil {
							b.Error(err)
							return
						}
						for took := int64(time.Since(begun)); took > slowest.Load(); {
							slowest.Store(took)
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "adds/s")
			b.ReportMetric(time.Duration(slowest.Load()).Seconds(), "slowest-s")
			n, err := counters[0].Get(b.Context())
			if err != nil || n != int64(b.N) {
				b.Errorf("the counter is %d after %d adds, %v", n, b.N, err)
			}
		})
	}
}
