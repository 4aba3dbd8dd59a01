package znode

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"rollcall/jute"
	"rollcall/proto"
)

const million = 1 << 20

// bench is a state with a million nodes, all below one parent, and member 1's turn.
type bench struct {
	s     *State
	index uint64
	seq   uint64
	paths []string
}

func newBench(b *testing.B, nodes int) *bench {
	b.Helper()
	k := &bench{s: New(Config{})}
	k.apply(b, &proto.Entry{Format: 1, Txns: []*proto.Txn{{Op: int32(jute.OpTermStart), Body: message(&proto.TermStart{Nonce: 7})}}})
	k.apply(b, k.entry(&proto.Txn{Member: 1, Boot: 1, Op: int32(jute.OpAnnounce), Body: message(&proto.Announce{})}))
	k.create(b, "/group")
	for i := range nodes {
		k.paths = append(k.paths, fmt.Sprintf("/group/n-%010d", i))
	}
	const batch = 1000
	for i := 0; i < nodes; i += batch {
		var txns []*proto.Txn
		for _, path := range k.paths[i:min(i+batch, nodes)] {
			txns = append(txns, k.txn(jute.OpCreate, createOp(path, "16 bytes of data", 0, jute.OpenACL).Append(nil)))
		}
		k.apply(b, k.entry(txns...))
	}
	return k
}

func (k *bench) txn(op jute.Op, body []byte) *proto.Txn {
	k.seq++
	return &proto.Txn{Member: 1, Boot: 1, Seq: k.seq, Op: int32(op), Body: body}
}

func (k *bench) entry(txns ...*proto.Txn) *proto.Entry {
	return &proto.Entry{Format: 1, Term: 1, Nonce: 7, Txns: txns}
}

func (k *bench) apply(b *testing.B, e *proto.Entry) {
	k.index++
	if err := k.s.Apply(k.index, 1, e); err != nil {
		b.Fatal(err)
	}
}

func (k *bench) create(b *testing.B, path string) {
	k.apply(b, k.entry(k.txn(jute.OpCreate, createOp(path, "16 bytes of data", 0, jute.OpenACL).Append(nil))))
}

// run applies b.N transactions in entries of 100, made outside of the measured time.
func (k *bench) run(b *testing.B, make func(i int) *proto.Txn) {
	const batch = 100
	var txns []*proto.Txn
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += batch {
		b.StopTimer()
		txns = txns[:0]
		for j := range min(batch, b.N-i) {
			txns = append(txns, make(i+j))
		}
		e := k.entry(txns...)
		b.StartTimer()
		k.apply(b, e)
	}
}

func BenchmarkLookup(b *testing.B) {
	k := newBench(b, million)
	order := rand.Perm(million)
	paths := make([][]byte, million)
	for i, o := range order {
		paths[i] = []byte(k.paths[o])
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, code := k.s.Exists(paths[i%million], nil, nil); code != jute.OK {
			b.Fatal(code)
		}
	}
}

// BenchmarkMap is what Lookup can be compared with on the same machine.
func BenchmarkMap(b *testing.B) {
	m := map[string]*node{}
	paths := make([][]byte, million)
	for i, o := range rand.Perm(million) {
		path := fmt.Sprintf("/group/n-%010d", o)
		paths[i] = []byte(path)
		m[path] = &node{path: path}
	}
	sum := int32(0)
	b.ResetTimer()
	for i := range b.N {
		sum += m[string(paths[i%million])].version
	}
}

func BenchmarkCreate(b *testing.B) {
	k := newBench(b, million)
	k.run(b, func(i int) *proto.Txn {
		return k.txn(jute.OpCreate, createOp(fmt.Sprintf("/group/x-%010d", i), "16 bytes of data", 0, jute.OpenACL).Append(nil))
	})
}

func BenchmarkSetData(b *testing.B) {
	k := newBench(b, million)
	k.run(b, func(int) *proto.Txn {
		return k.txn(jute.OpSetData, jute.SetDataRequest{Path: []byte(k.paths[rand.IntN(million)]), Data: []byte("16 other bytes.."), Version: -1}.Append(nil))
	})
}

// As SetData, below a quota.
func BenchmarkSetDataOfQuota(b *testing.B) {
	k := newBench(b, million)
	for _, n := range [][2]string{{quotaPath + "/group", ""}, {quotaPath + "/group" + limitsName, "count=1,bytes=-1"}, {quotaPath + "/group" + usageName, ""}} {
		k.apply(b, k.entry(k.txn(jute.OpCreate, createOp(n[0], n[1], 0, jute.OpenACL).Append(nil))))
	}
	k.run(b, func(i int) *proto.Txn {
		return k.txn(jute.OpSetData, jute.SetDataRequest{Path: []byte(k.paths[rand.IntN(million)]), Data: []byte("16 other bytes.")[:15-i%2], Version: -1}.Append(nil))
	})
}

// As SetData, but every entry meets a fresh copy: the worst case for copy on write.
func BenchmarkSetDataAfterSnapshot(b *testing.B) {
	k := newBench(b, million)
	k.run(b, func(i int) *proto.Txn {
		if i%100 == 0 {
			k.s.Snapshot()
		}
		return k.txn(jute.OpSetData, jute.SetDataRequest{Path: []byte(k.paths[rand.IntN(million)]), Data: []byte("16 other bytes.."), Version: -1}.Append(nil))
	})
}

func BenchmarkCheckAndSet(b *testing.B) {
	k := newBench(b, million)
	k.run(b, func(int) *proto.Txn {
		path := k.paths[rand.IntN(million)]
		return k.txn(jute.OpMulti, jute.AppendMulti(nil, []jute.MultiOp{check(path, -1), put(path, -1)}))
	})
}

// A multi of two notes how to take back its first change.
func BenchmarkMultiOfTwo(b *testing.B) {
	k := newBench(b, million)
	k.run(b, func(int) *proto.Txn {
		return k.txn(jute.OpMulti, jute.AppendMulti(nil, []jute.MultiOp{put(k.paths[rand.IntN(million)], -1), put(k.paths[rand.IntN(million)], -1)}))
	})
}

func BenchmarkSnapshotCopy(b *testing.B) {
	k := newBench(b, million)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		kept = k.s.Snapshot()
	}
}

var kept *Snapshot // so that the copy is really made

func BenchmarkSnapshotWrite(b *testing.B) {
	k := newBench(b, million)
	b.ResetTimer()
	for range b.N {
		n, err := k.s.Snapshot().WriteTo(io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(n)
	}
}

func BenchmarkRestore(b *testing.B) {
	k := newBench(b, million)
	var out bytes.Buffer
	if _, err := k.s.Snapshot().WriteTo(&out); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(out.Len()))
	b.ResetTimer()
	for range b.N {
		if err := New(Config{}).Restore(bytes.NewReader(out.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChildren(b *testing.B) {
	k := newBench(b, million)
	b.ResetTimer()
	for range b.N {
		names, _, _ := k.s.Children([]byte("/group"), nil, nil)
		if len(names) < million {
			b.Fatal(len(names))
		}
	}
}

// BenchmarkMemory reports what a small node costs: 16 bytes of data, a name of 12.
func BenchmarkMemory(b *testing.B) {
	var before, after runtime.MemStats
	for range b.N {
		runtime.GC()
		runtime.ReadMemStats(&before)
		k := newBench(b, million)
		k.paths, k.s.create = nil, jute.CreateRequest{}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(k)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/million, "B/node")
	b.ReportMetric(0, "ns/op")
}
