package recipes

import (
	"fmt"
	"sync"
	"testing"

	"rollcall/client"
	"rollcall/client/cache"
	"rollcall/rollcalltest"
)

// BenchmarkCacheLoad opens a cache of 100,000 nodes of 100 bytes, 1,000 per parent, over TCP.
func BenchmarkCacheLoad(b *testing.B) {
	e := rollcalltest.StartEnsembleWith(b, 1, rollcalltest.Config{})
	c := dialForWatch(b, e)
	var sent sync.WaitGroup
	create := func(path string) {
		sent.Add(1)
		done := func(string, client.Stat, error) { sent.Done() }
		err := c.Pipeline().Create(b.Context(), path, make([]byte, 100), client.Persistent, done)
		if err != nil {
			b.Fatal(err)
		}
	}
	create("/a")
	for i := range 100 {
		create(fmt.Sprintf("/a/folder%02d", i))
		for j := range 1000 {
			create(fmt.Sprintf("/a/folder%02d/node%04d", i, j))
		}
	}
	sent.Wait()
	for b.Loop() {
		k, err := cache.Open(b.Context(), c, "/a", cache.Config{})
		if err != nil {
			b.Fatal(err)
		}
		nodes, _ := k.Size()
		b.ReportMetric(float64(nodes), "nodes")
		k.Close()
	}
}
