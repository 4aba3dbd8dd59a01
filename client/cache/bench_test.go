package cache

import (
	"fmt"
	"runtime"
	"testing"

	"rollcall/client/internal/fakezk"
)

// BenchmarkLoad opens a Cache of 100,000 nodes without data, with 1,000 nodes per parent, and measures its memory.
func BenchmarkLoad(b *testing.B) {
	const folders, each = 100, 1000
	s := fakezk.New(b)
	s.CreateNode("/a")
	for i := range folders {
		folder := fmt.Sprintf("/a/folder%02d", i)
		s.CreateNode(folder)
		for j := range each {
			s.CreateNode(fmt.Sprintf("%s/node%04d", folder, j))
		}
	}
	c := dial(b, s)
	for b.Loop() {
		before := heap()
		k := open(b, c, "/a", Config{})
		nodes, counted := k.Size()
		b.ReportMetric(float64(heap()-before)/float64(nodes), "B/node")
		b.ReportMetric(float64(counted)/float64(nodes), "counted-B/node")
		k.Close()
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
