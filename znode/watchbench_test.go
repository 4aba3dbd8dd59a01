package znode

import (
	"fmt"
	"runtime"
	"testing"

	"rollcall/jute"
	"rollcall/proto"
)

// ear is a Watcher that counts.
type ear struct{ heard int }

func (e *ear) Event(jute.EventType, string, int64) { e.heard++ }
func (e *ear) Identities() []*proto.Identity       { return nil }

const crowd = 10_000 // watchers

// watchPaths are a million paths that are watched and have no node, of 37 characters.
func watchPaths() [][]byte {
	paths := make([][]byte, million)
	for i := range paths {
		paths[i] = fmt.Appendf(nil, "/watched/by-somebody/group-%02d/%07d", i%100, i)
	}
	return paths
}

// setMany sets a million watches for a crowd: of ten, eight one-shot, one persistent and
// one recursive.
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

// BenchmarkEvent is a setData with a million watches elsewhere, by how many hear it.
func BenchmarkEvent(b *testing.B) {
	ears := make([]*ear, crowd)
	for i := range ears {
		ears[i] = &ear{}
	}
	const deep = "/group/2/3/4/5/6/7/8"
	k := newBench(b, 0)
	for _, path := range []string{"/group/quiet", "/group/one", "/group/crowd", "/group/spent", "/group/2", "/group/above", "/group/above/node"} {
		k.create(b, path)
	}
	for i := len("/group/2") + 2; i <= len(deep); i += 2 {
		k.create(b, deep[:i])
	}
	set := func(path string) func(int) *proto.Txn {
		body := jute.SetDataRequest{Path: []byte(path), Data: []byte("16 other bytes.."), Version: -1}.Append(nil)
		return func(int) *proto.Txn { return k.txn(jute.OpSetData, body) }
	}
	b.Run("no watches at all", func(b *testing.B) { k.run(b, set("/group/quiet")) })
	setMany(k.s, ears)
	_ = k.s.AddWatch([]byte("/group/one"), jute.AddWatchPersistent, ears[0])
	for _, e := range ears {
		_ = k.s.AddWatch([]byte("/group/crowd"), jute.AddWatchPersistent, e)
		_ = k.s.AddWatch([]byte("/group/above"), jute.AddWatchPersistentRecursive, e)
	}
	runtime.GC()
	b.Run("0 watchers", func(b *testing.B) { k.run(b, set("/group/quiet")) })
	b.Run("0 watchers, eight deep", func(b *testing.B) { k.run(b, set(deep)) })
	b.Run("1 watcher", func(b *testing.B) { k.run(b, set("/group/one")) })
	b.Run("10000 watchers", func(b *testing.B) { k.run(b, set("/group/crowd")) })
	b.Run("10000 watchers above", func(b *testing.B) { k.run(b, set("/group/above/node")) })
	b.Run("10000 watchers, once", func(b *testing.B) {
		path, next := []byte("/group/spent"), set("/group/spent")
		for range b.N {
			b.StopTimer()
			for _, e := range ears {
				_, _, _ = k.s.GetData(path, nil, e)
			}
			entry := k.entry(next(0))
			b.StartTimer()
			k.apply(b, entry)
		}
	})
}

// BenchmarkWatchMemory reports what a watch costs, of a million by ten thousand
// connections: each on a path of its own, or a hundred paths watched by all.
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
			for i := range million {
				once(s, paths[i/len(ears)], ears[i%len(ears)])
			}
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			ears := make([]*ear, crowd)
			for i := range ears {
				ears[i] = &ear{}
			}
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
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/million, "B/watch")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkDropWatcher drops a connection's million watches.
func BenchmarkDropWatcher(b *testing.B) {
	paths := watchPaths()
	s, e := New(Config{}), &ear{}
	for range b.N {
		b.StopTimer()
		for _, path := range paths {
			_, _ = s.Exists(path, nil, e)
		}
		b.StartTimer()
		for s.DropWatcher(e) {
			continue
		}
	}
}
