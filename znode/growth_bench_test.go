package znode

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// growth returns the sizes of a curve, and only the first of them with -short.
func growth(sizes ...int) []int {
	if testing.Short() {
		return sizes[:1]
	}
	return sizes
}

// heapBytes returns the bytes of the heap in use, after a collection.
func heapBytes() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkGrowth measures what a node of 100 bytes costs in trees of several sizes.
// lab/bench/growth.sh draws the result.
func BenchmarkGrowth(b *testing.B) {
	for _, n := range growth(1_000, 10_000, 100_000, 1_000_000, 3_000_000) {
		size := fmt.Sprintf("/nodes=%d", n)
		before := heapBytes()
		k := newBench(b, n)
		k.s.runningTxn.createRequest = jute.CreateRequest{}
		k.paths = nil
		memory := heapBytes() - before
		for i := range n {
			k.paths = append(k.paths, fmt.Sprintf("/group/n-%010d", i))
		}
		b.Run("memory"+size, func(b *testing.B) {
			b.ReportMetric(memory/float64(n), "B/node")
			b.ReportMetric(0, "ns/op")
		})
		b.Run("get"+size, func(b *testing.B) { growGet(b, k) })
		b.Run("setData"+size, func(b *testing.B) {
			k.run(b, func() *proto.Txn { return setTxn(k.any(), hundred) })
		})
		growSnapshot(b, k, size)
		made := 0
		b.Run("create"+size, func(b *testing.B) {
			k.run(b, func() *proto.Txn {
				made++
				return createTxn(jute.OpCreate, fmt.Sprintf("/group/x-%010d", made), 0)
			})
		})
	}
}

// growGet reads nodes in random order.
func growGet(b *testing.B, k *bench) {
	paths := make([][]byte, 1<<16)
	for i := range paths {
		paths[i] = []byte(k.paths[rand.IntN(len(k.paths))])
	}
	b.ResetTimer()
	for i := range b.N {
		if _, _, code := k.s.GetData(paths[i%len(paths)], nil, nil); code != jute.OK {
			b.Fatal(code)
		}
	}
}

func growSnapshot(b *testing.B, k *bench, size string) {
	nodes := float64(k.s.TreeView().NodeCount())
	var out bytes.Buffer
	bytesOf, err := k.s.Snapshot().WriteTo(&out)
	if err != nil {
		b.Fatal(err)
	}
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nodes, "ns/node")
		b.ReportMetric(float64(bytesOf)/nodes, "B/node")
	}
	b.Run("snapshot"+size, func(b *testing.B) {
		for range b.N {
			if _, err := k.s.Snapshot().WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
	b.Run("restore"+size, func(b *testing.B) {
		for range b.N {
			if err := New(Config{}).RestoreSnapshot(bytes.NewReader(out.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
}

// BenchmarkWatchGrowth measures what a watch costs among several numbers of watches. It measures
// its memory, and a write that notifies one watcher while 10,000 connections watch other paths.
func BenchmarkWatchGrowth(b *testing.B) {
	all := watchPaths()
	for _, n := range growth(1_000, 10_000, 100_000, 1_000_000) {
		size := fmt.Sprintf("/watches=%d", n)
		k, ears := newBench(b, 0), newCrowd()
		k.create(b, "/group/one")
		before := heapBytes()
		for i, path := range all[:n] {
			_, _ = k.s.Exists(path, nil, ears[i%len(ears)])
		}
		memory := heapBytes() - before
		b.Run("memory"+size, func(b *testing.B) {
			b.ReportMetric(memory/float64(n), "B/watch")
			b.ReportMetric(0, "ns/op")
		})
		_ = k.s.AddWatch([]byte("/group/one"), jute.AddWatchPersistent, ears[0])
		b.Run("event"+size, func(b *testing.B) {
			heard := ears[0].heard
			k.run(b, func() *proto.Txn { return setTxn("/group/one", hundred) })
			if got := ears[0].heard - heard; got != b.N {
				b.Fatalf("%d events heard of %d", got, b.N)
			}
		})
	}
	runtime.KeepAlive(all)
}
