package znode

import (
	"fmt"
	"runtime"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// ear is a Watcher that counts events.
type ear struct{ heard int }

func (*ear) AdjustWatchMemory(int)                      {}
func (e *ear) QueueEvent(jute.EventType, string, int64) { e.heard++ }
func (e *ear) Identities() []*proto.Identity            { return nil }

// countWatchers returns the number of watchers. With -short there are far fewer.
func countWatchers() int {
	if testing.Short() {
		return 100
	}
	return 10_000
}

func newCrowd() []*ear {
	ears := make([]*ear, countWatchers())
	for i := range ears {
		ears[i] = &ear{}
	}
	return ears
}

// watchPaths returns a million paths of 37 characters, which are watched and have no node.
func watchPaths() [][]byte {
	paths := make([][]byte, manyNodes())
	for i := range paths {
		paths[i] = fmt.Appendf(nil, "/watched/by-somebody/group-%02d/%07d", i%100, i)
	}
	return paths
}

// setMany sets a million watches for a crowd. Of ten watches of each watcher, eight are one-shot,
// one is persistent and one is recursive.
func setMany(s *State, ears []*ear) {
	for i, path := range watchPaths() {
		who := ears[i%len(ears)]
		switch i / len(ears) % 10 {
		case 0:
			_ = s.AddWatch(path, jute.AddWatchPersistent, who)
		case 1:
			_ = s.AddWatch(path, jute.AddWatchPersistentRecursive, who)
		default:
			_, _ = s.Exists(path, nil, who)
		}
	}
}

// BenchmarkEvent measures a setData while a million watches are set on other paths, by how many
// watchers it notifies.
func BenchmarkEvent(b *testing.B) {
	ears := newCrowd()
	const deep = "/group/2/3/4/5/6/7/8"
	k := newBench(b, 0)
	for _, path := range []string{"/group/quiet", "/group/one", "/group/crowd", "/group/spent", "/group/2", "/group/above", "/group/above/node"} {
		k.create(b, path)
	}
	for i := len("/group/2") + 2; i <= len(deep); i += 2 {
		k.create(b, deep[:i])
	}
	set := func(path string) func() *proto.Txn {
		return func() *proto.Txn { return setTxn(path, hundred) }
	}
	b.Run("no watches at all", func(b *testing.B) { k.run(b, set("/group/quiet")) })
	setMany(k.s, ears)
	_ = k.s.AddWatch([]byte("/group/one"), jute.AddWatchPersistent, ears[0])
	for _, e := range ears {
		_ = k.s.AddWatch([]byte("/group/crowd"), jute.AddWatchPersistent, e)
		_ = k.s.AddWatch([]byte("/group/above"), jute.AddWatchPersistentRecursive, e)
	}
	runtime.GC()
	many := fmt.Sprintf("watchers=%d", len(ears))
	b.Run("watchers=0", func(b *testing.B) { k.run(b, set("/group/quiet")) })
	b.Run("watchers=0/eight deep", func(b *testing.B) { k.run(b, set(deep)) })
	b.Run("watchers=1", func(b *testing.B) { k.run(b, set("/group/one")) })
	b.Run(many, func(b *testing.B) { k.run(b, set("/group/crowd")) })
	b.Run(many+"/above", func(b *testing.B) { k.run(b, set("/group/above/node")) })
	b.Run(many+"/once", func(b *testing.B) {
		b.ReportAllocs()
		path, next := []byte("/group/spent"), set("/group/spent")
		for range b.N {
			b.StopTimer()
			for _, e := range ears {
				_, _, _ = k.s.GetData(path, nil, e)
			}
			entry := k.entry(next())
			b.StartTimer()
			k.apply(b, entry)
		}
	})
}

// BenchmarkWatchMemory reports the memory of a watch, with a million watches of ten thousand
// connections. Each watch has a path of its own, or all connections watch the same hundred paths.
func BenchmarkWatchMemory(b *testing.B) {
	alone := func(set func(s *State, path []byte, who *ear)) func(*State, [][]byte, []*ear) {
		return func(s *State, paths [][]byte, ears []*ear) {
			for i, path := range paths {
				set(s, path, ears[i%len(ears)])
			}
		}
	}
	once := func(s *State, path []byte, who *ear) { _, _ = s.Exists(path, nil, who) }
	add := func(mode jute.AddWatchMode) func(*State, []byte, *ear) {
		return func(s *State, path []byte, who *ear) { _ = s.AddWatch(path, mode, who) }
	}
	for _, bb := range []struct {
		name string
		set  func(*State, [][]byte, []*ear)
	}{
		{"once", alone(once)},
		{"persistent", alone(add(jute.AddWatchPersistent))},
		{"recursive", alone(add(jute.AddWatchPersistentRecursive))},
		{"mix", func(s *State, _ [][]byte, ears []*ear) { setMany(s, ears) }},
		{"a hundred paths", func(s *State, paths [][]byte, ears []*ear) {
			for i := range manyNodes() {
				once(s, paths[i/len(ears)], ears[i%len(ears)])
			}
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			ears := newCrowd()
			paths := watchPaths()
			var before, after runtime.MemStats
			for range b.N {
				s := New(Config{})
				runtime.GC()
				runtime.ReadMemStats(&before)
				bb.set(s, paths, ears)
				runtime.GC()
				runtime.ReadMemStats(&after)
				runtime.KeepAlive(s)
			}
			runtime.KeepAlive(paths)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(manyNodes()), "B/watch")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkDropWatcher drops a connection's million watches.
func BenchmarkDropWatcher(b *testing.B) {
	paths := watchPaths()
	s, e := New(Config{}), &ear{}
	b.ReportAllocs()
	for range b.N {
		b.StopTimer()
		for _, path := range paths {
			_, _ = s.Exists(path, nil, e)
		}
		b.StartTimer()
		for s.Watches().DropWatches(e) {
			continue
		}
	}
}
