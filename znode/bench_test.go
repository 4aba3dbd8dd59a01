package znode

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// manyNodes returns the number of nodes and of watches. With -short there are far fewer.
func manyNodes() int {
	if testing.Short() {
		return 1 << 14
	}
	return 1 << 20
}

var hundred = strings.Repeat("d", 100) // bytes of data

// bench is a state with a million nodes of 100 bytes, all below one parent. Session 1 is owned by
// connection 0 of member 1.
type bench struct {
	s     *State
	index uint64
	seq   uint64
	paths []string
}

// benchHistory is the limit of the history of changes in benchmarks, in bytes: config.DefaultWatchHistory.
const benchHistory = 16 << 20

func newBench(b *testing.B, nodes int) *bench {
	b.Helper()
	k := &bench{s: New(Config{ChangeHistory: benchHistory})}
	k.apply(b, &proto.Entry{Format: FormatLevel, Txns: []*proto.Txn{{Op: int32(jute.OpTermStart), Body: message(&proto.TermStart{Nonce: 7, TtlNodes: true})}}})
	k.apply(b, k.entry(&proto.Txn{Member: 1, Incarnation: 1, Op: int32(jute.OpAnnounce), Body: message(&proto.Announce{})}))
	k.seq = 0
	k.apply(b, k.entry(openTxn(1)))
	k.create(b, "/group")
	for i := range nodes {
		k.paths = append(k.paths, fmt.Sprintf("/group/n-%010d", i))
	}
	for i := 0; i < nodes; i += 1000 {
		k.create(b, k.paths[i:min(i+1000, nodes)]...)
	}
	return k
}

// txn is a transaction of session 1.
func txn(op jute.Op, body []byte) *proto.Txn {
	return &proto.Txn{Member: 1, Incarnation: 1, Session: 1, Op: int32(op), Body: body}
}

func createTxn(op jute.Op, path string, mode jute.CreateMode) *proto.Txn {
	return txn(op, createOp(path, hundred, mode, jute.OpenACL).Append(nil))
}

func setTxn(path, data string) *proto.Txn {
	return txn(jute.OpSetData, jute.SetDataRequest{Path: []byte(path), Data: []byte(data), Version: anyVersion}.Append(nil))
}

func openTxn(id jute.SessionID) *proto.Txn {
	t := txn(jute.OpCreateSession, message(&proto.OpenSession{TimeoutMs: 10_000, Password: password(id), Address: "10.0.0.1:1"}))
	t.Session = int64(id)
	return t
}

func (k *bench) entry(txns ...*proto.Txn) *proto.Entry {
	return &proto.Entry{Format: FormatLevel, Term: 1, Nonce: 7, Txns: txns}
}

// apply numbers the transactions and applies the entry. It fails unless the last one is applied and
// not rejected.
func (k *bench) apply(b *testing.B, e *proto.Entry) {
	for _, t := range e.Txns {
		if t.Member != 0 {
			k.seq++
			t.Seq = k.seq
		}
	}
	k.index++
	if err := k.s.ApplyEntry(k.index, 1, e); err != nil {
		b.Fatal(err)
	}
	if _, cursor := k.s.MemberIncarnation(1); k.seq > 1 && cursor != k.seq || k.s.runningTxn.result.Code != jute.OK {
		b.Fatalf("%d of %d applied: %v", cursor, k.seq, k.s.runningTxn.result.Code)
	}
}

func (k *bench) create(b *testing.B, paths ...string) {
	var txns []*proto.Txn
	for _, path := range paths {
		txns = append(txns, createTxn(jute.OpCreate, path, 0))
	}
	k.apply(b, k.entry(txns...))
}

func (k *bench) any() string { return k.paths[rand.IntN(len(k.paths))] }

// run applies b.N transactions in entries of 100. It makes 50 entries at a time, and does not
// measure that.
func (k *bench) run(b *testing.B, make func() *proto.Txn) {
	k.runEntries(b, 100, make, func() {})
}

// runEntries does what run does with entries of batch transactions. It calls before ahead of each
// entry.
func (k *bench) runEntries(b *testing.B, batch int, make func() *proto.Txn, before func()) {
	b.ReportAllocs()
	b.ResetTimer()
	b.StopTimer()
	for left := b.N; left > 0; {
		var entries []*proto.Entry
		for ; left > 0 && len(entries) < 50; left -= min(left, batch) {
			var txns []*proto.Txn
			for range min(batch, left) {
				txns = append(txns, make())
			}
			entries = append(entries, k.entry(txns...))
		}
		b.StartTimer()
		for _, e := range entries {
			before()
			k.apply(b, e)
		}
		b.StopTimer()
	}
}

// BenchmarkApply measures a transaction in a tree of a million nodes.
func BenchmarkApply(b *testing.B) {
	k := newBench(b, manyNodes())
	n := 0
	fresh := func(prefix string) string { n++; return fmt.Sprintf("%s%010d", prefix, n) }
	creates := func(op jute.Op, mode jute.CreateMode) func() *proto.Txn {
		return func() *proto.Txn { return createTxn(op, fresh("/group/x-"), mode) }
	}
	bench := func(name string, make func() *proto.Txn) {
		b.Run(name, func(b *testing.B) { k.run(b, make) })
	}
	set := func() *proto.Txn { return setTxn(k.any(), hundred) }
	multi := func(ops ...jute.MultiOp) *proto.Txn { return txn(jute.OpMulti, jute.AppendMulti(nil, ops)) }

	bench("empty", func() *proto.Txn { return txn(jute.OpEmpty, nil) })
	bench("create", creates(jute.OpCreate, 0))
	bench("create2", creates(jute.OpCreate2, 0))
	bench("create sequential", func() *proto.Txn { return createTxn(jute.OpCreate, "/group/s-", jute.PersistentSequential) })
	bench("create ephemeral", creates(jute.OpCreate, jute.Ephemeral))
	bench("createContainer", creates(jute.OpCreateContainer, jute.Container))
	bench("createTTL", func() *proto.Txn {
		body := createOp(fresh("/group/x-"), hundred, jute.PersistentWithTTL, jute.OpenACL).Append(nil)
		return txn(jute.OpCreateTTL, jute.AppendInt64(body, 1000))
	})
	bench("delete", func() *proto.Txn {
		path := fresh("/group/d-")
		k.create(b, path)
		return txn(jute.OpDelete, jute.DeleteRequest{Path: []byte(path), Version: anyVersion}.Append(nil))
	})
	bench("setData", set)
	b.Run("setData after a snapshot", func(b *testing.B) { // each entry meets a fresh copy
		k.runEntries(b, 100, set, func() { kept = k.s.Snapshot() })
		kept = nil
	})
	bench("setACL", func() *proto.Txn {
		return txn(jute.OpSetACL, jute.SetACLRequest{Path: []byte(k.any()), ACL: jute.OpenACL, Version: anyVersion}.Append(nil))
	})
	bench("multi of check and setData", func() *proto.Txn { path := k.any(); return multi(check(path, anyVersion), put(path, anyVersion)) })
	bench("multi of two setData", func() *proto.Txn { return multi(put(k.any(), anyVersion), put(k.any(), anyVersion)) })
	bench("multi that fails", func() *proto.Txn { return multi(put(k.any(), anyVersion), check(k.any(), 1<<30)) })

	id := jute.SessionID(1 << 56)
	opened := func() jute.SessionID { id++; k.apply(b, k.entry(openTxn(id))); return id }
	owning := func(nodes int) jute.SessionID {
		id := opened()
		for range nodes {
			t := createTxn(jute.OpCreate, fresh("/group/e-"), jute.Ephemeral)
			t.Session = int64(id)
			k.apply(b, k.entry(t))
		}
		return id
	}
	of := func(id jute.SessionID, t *proto.Txn) *proto.Txn { t.Session = int64(id); return t }
	bench("createSession", func() *proto.Txn { id++; return openTxn(id) })
	bench("attach", func() *proto.Txn {
		return txn(jute.OpAttach, message(&proto.Attach{TimeoutMs: 10_000, Password: password(1)}))
	})
	bench("closeSession", func() *proto.Txn { return of(opened(), txn(jute.OpCloseSession, nil)) })
	bench("closeSession of ten nodes", func() *proto.Txn { return of(owning(10), txn(jute.OpCloseSession, nil)) })
	bench("expire", func() *proto.Txn {
		return &proto.Txn{Session: int64(opened()), Op: int32(jute.OpExpire), Body: message(&proto.Expire{OwnerIndex: 1 << 60})}
	})
	bench("reap", func() *proto.Txn {
		path := fresh("/group/r-")
		t := createTxn(jute.OpCreateContainer, path, jute.Container)
		child := createTxn(jute.OpCreate, path+"/child", 0)
		gone := txn(jute.OpDelete, jute.DeleteRequest{Path: []byte(path + "/child"), Version: anyVersion}.Append(nil))
		k.apply(b, k.entry(t, child, gone))
		return &proto.Txn{Op: int32(jute.OpReap), Body: message(&proto.Reap{Path: path})}
	})
	for _, n := range [][2]string{{quotaPath + "/group", ""}, {quotaPath + "/group" + limitsSuffix, "count=1,bytes=-1"}, {quotaPath + "/group" + usageSuffix, ""}} {
		k.apply(b, k.entry(txn(jute.OpCreate, createOp(n[0], n[1], 0, jute.OpenACL).Append(nil))))
	}
	bench("setData of a quota", func() *proto.Txn { n++; return setTxn(k.any(), hundred[n%2:]) })
}

// BenchmarkRead reads one of a million nodes, in random order. A map of paths is measured for
// comparison.
func BenchmarkRead(b *testing.B) {
	k := newBench(b, manyNodes())
	paths := make([][]byte, len(k.paths))
	for i, o := range rand.Perm(len(paths)) {
		paths[i] = []byte(k.paths[o])
	}
	const few = "/group/n-0000000007"
	for i := range 100 {
		k.create(b, fmt.Sprintf("%s/%02d", few, i))
	}
	runtime.GC()
	each := func(name string, read func(path []byte) jute.Code) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if code := read(paths[i%len(paths)]); code != jute.OK {
					b.Fatal(code)
				}
			}
		})
	}
	each("exists", func(path []byte) jute.Code { _, code := k.s.Exists(path, nil, nil); return code })
	each("getData", func(path []byte) jute.Code { _, _, code := k.s.GetData(path, nil, nil); return code })
	each("getACL", func(path []byte) jute.Code { _, _, code := k.s.GetACL(path, nil); return code })
	each("getChildren of none", func(path []byte) jute.Code { _, _, code := k.s.Children(path, nil, nil); return code })
	each("getChildren of 100", func([]byte) jute.Code { _, _, code := k.s.Children([]byte(few), nil, nil); return code })
	b.Run("getChildren of all", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if names, _, _ := k.s.Children([]byte("/group"), nil, nil); names.Count() < len(paths) {
				b.Fatal(names.Count())
			}
		}
	})
	b.Run("a map", func(b *testing.B) {
		m := map[string]*node{}
		tree := &k.s.replicated.tree
		tree.walkFrom(tree.nodeAt("/group"), func(n *node) bool { m[n.path] = n; return true })
		runtime.GC()
		sum := int32(0)
		b.ResetTimer()
		for i := range b.N {
			sum += m[string(paths[i%len(paths)])].data.version
		}
	})
}

var kept *Snapshot // so that the compiler does not leave the copy out

// BenchmarkSnapshot copies, writes, verifies and restores a million nodes.
func BenchmarkSnapshot(b *testing.B) {
	k := newBench(b, manyNodes())
	var out bytes.Buffer
	size, err := k.s.Snapshot().WriteTo(&out)
	if err != nil {
		b.Fatal(err)
	}
	perNode := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(k.s.TreeView().NodeCount()), "ns/node")
	}
	b.Run("copy", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			kept = k.s.Snapshot()
		}
	})
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(size)
		for range b.N {
			if _, err := k.s.Snapshot().WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
		perNode(b)
	})
	nodes := k.s.TreeView().NodeCount()
	k.s, k.paths = nil, nil // a member that restores has nothing else in memory
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(size)
		for range b.N {
			if _, _, err := VerifySnapshot(bytes.NewReader(out.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(nodes), "ns/node")
	})
	b.Run("restore", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(size)
		for range b.N {
			if err := New(Config{}).RestoreSnapshot(bytes.NewReader(out.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(nodes), "ns/node")
	})
}

// BenchmarkMemory reports the memory of a node of 100 bytes, among a million: in the heap, and
// resident with the collector's usual setting. The nodes are made by writes, and by a restore.
func BenchmarkMemory(b *testing.B) {
	var before, after runtime.MemStats
	measure := func(name string, fill func() *State) {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				debug.FreeOSMemory()
				runtime.ReadMemStats(&before)
				s := fill()
				rss := residentBytes()
				runtime.GC()
				runtime.ReadMemStats(&after)
				runtime.KeepAlive(s)
				b.ReportMetric(float64(rss)/(1<<20), "MiB-RSS")
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(manyNodes()), "B/node")
			b.ReportMetric(0, "ns/op")
		})
	}
	var out bytes.Buffer
	measure("written", func() *State {
		k := newBench(b, manyNodes())
		k.s.runningTxn.createRequest = jute.CreateRequest{}
		return k.s
	})
	if _, err := newBench(b, manyNodes()).s.Snapshot().WriteTo(&out); err != nil {
		b.Fatal(err)
	}
	measure("restored", func() *State {
		s := New(Config{})
		if err := s.RestoreSnapshot(bytes.NewReader(out.Bytes())); err != nil {
			b.Fatal(err)
		}
		return s
	})
}

// residentBytes returns the memory of this process, in bytes, or 0 if that is unknown.
func residentBytes() int64 {
	text, _ := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(text)); len(fields) > 1 {
		pages, _ := strconv.ParseInt(fields[1], 10, 64)
		return pages * int64(os.Getpagesize())
	}
	return 0
}

// BenchmarkClose ends a session with 1,000 to a million ephemeral nodes, in steps of 500 as the leader does. There are no
// watches.
func BenchmarkClose(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000, manyNodes()} {
		b.Run(fmt.Sprintf("ephemerals=%d", n), func(b *testing.B) {
			k := newBench(b, 0)
			for b.Loop() {
				b.StopTimer()
				k.apply(b, k.entry(openTxn(2)))
				for i := 0; i < n; i += 1000 {
					var txns []*proto.Txn
					for j := i; j < min(i+1000, n); j++ {
						t := createTxn(jute.OpCreate, fmt.Sprintf("/group/e-%010d", j), jute.Ephemeral)
						t.Session = 2
						txns = append(txns, t)
					}
					k.apply(b, k.entry(txns...))
				}
				end := txn(jute.OpCloseSession, nil)
				end.Session = 2
				b.StartTimer()
				k.apply(b, k.entry(end))
				for left := k.s.TreeView().EphemeralCount(); left > 0; left = k.s.TreeView().EphemeralCount() {
					k.apply(b, k.entry(&proto.Txn{Op: int32(jute.OpSweep), Body: message(&proto.Sweep{Nodes: 500})}))
					if k.s.TreeView().EphemeralCount() == left {
						b.Fatalf("%d ephemeral nodes are left", left)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/node")
		})
	}
}

// BenchmarkEnds measures the expiry of a session without nodes, when its end is one of few, and when it takes the
// place of the oldest one. It has sessions ready for that.
func BenchmarkEnds(b *testing.B) {
	for _, bench := range []struct {
		name   string
		kept   int
		before func(k *bench)
	}{
		{"few kept", 0, func(*bench) {}},
		{"all kept", maxSessionEnds, func(*bench) {}},
		{"all kept, after a snapshot", maxSessionEnds, func(k *bench) { kept = k.s.Snapshot() }}, // each entry meets a fresh copy
	} {
		b.Run(bench.name, func(b *testing.B) {
			k := newBench(b, 0)
			id := jute.SessionID(1 << 56)
			expire := func() *proto.Txn {
				id++
				k.apply(b, k.entry(openTxn(id)))
				return &proto.Txn{Session: int64(id), Op: int32(jute.OpExpire), Body: message(&proto.Expire{OwnerIndex: 1 << 60})}
			}
			for range bench.kept {
				k.apply(b, k.entry(expire()))
			}
			k.runEntries(b, 100, expire, func() { bench.before(k) })
			kept = nil
		})
	}
}
