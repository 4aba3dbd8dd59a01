//go:build structures

package structures

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	google "github.com/google/btree"
	tidwall "github.com/tidwall/btree"
)

var sizes = []int{1_000, 100_000, 1_000_000}

// node stands in for znode's node and has the same size. name is its key among its parent's
// children.
type node struct {
	path string
	_    [13]uint64
}

type name string

func (n name) compare(m name) int { return strings.Compare(string(n), string(m)) }

const directory = "/services/web/"

// set returns n nodes and a random order of them.
func set(n int) (nodes []*node, order []int) {
	nodes = make([]*node, n)
	for i := range nodes {
		nodes[i] = &node{path: fmt.Sprintf(directory+"node-%010d", i)}
	}
	return nodes, rand.New(rand.NewPCG(1, 2)).Perm(n)
}

// each calls f with one index after another, as often as the benchmark asks.
func each(b *testing.B, order []int, f func(i int)) {
	b.ReportAllocs()
	for at := 0; b.Loop(); at++ {
		f(order[at%len(order)])
	}
}

// build measures the time that build needs per entry, for n entries, and the memory of its result.
func build(b *testing.B, n int, build func() any) {
	begun := time.Now()
	for b.Loop() {
		build()
	}
	b.ReportMetric(float64(time.Since(begun).Nanoseconds())/float64(b.N)/float64(n), "ns/op")
	before := heapBytes()
	kept := build()
	b.ReportMetric(float64(heapBytes()-before)/float64(n), "B/entry")
	runtime.KeepAlive(kept)
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// paths is an index that finds nodes by their paths.
type paths interface {
	get(path string) *node
	put(n *node)
	remove(path string)
}

// hashes is an index that uses Go's map, keyed by a 64-bit hash. If another path has the same hash,
// the path is in others.
type hashes struct {
	seed   maphash.Seed
	nodes  map[uint64]*node
	others map[string]*node
}

func (h *hashes) get(path string) *node {
	if n := h.nodes[maphash.String(h.seed, path)]; n != nil && n.path == path {
		return n
	}
	return h.others[path]
}

func (h *hashes) put(n *node) {
	hash := maphash.String(h.seed, n.path)
	if h.nodes[hash] == nil {
		h.nodes[hash] = n
	} else {
		h.others[n.path] = n
	}
}

func (h *hashes) remove(path string) {
	hash := maphash.String(h.seed, path)
	if n := h.nodes[hash]; n != nil && n.path == path {
		delete(h.nodes, hash)
	} else {
		delete(h.others, path)
	}
}

func BenchmarkIndex(b *testing.B) {
	for _, n := range sizes {
		nodes, order := set(n)
		for _, who := range []string{"ours", "map"} {
			fill := func() paths {
				var x paths = newIndex()
				if who == "map" {
					x = &hashes{maphash.MakeSeed(), map[uint64]*node{}, map[string]*node{}}
				}
				for _, n := range nodes {
					x.put(n)
				}
				return x
			}
			b.Run(fmt.Sprintf("build/%d/%s", n, who), func(b *testing.B) { build(b, n, func() any { return fill() }) })
			x := fill()
			b.Run(fmt.Sprintf("get/%d/%s", n, who), func(b *testing.B) {
				each(b, order, func(i int) { x.get(nodes[i].path) })
			})
			b.Run(fmt.Sprintf("drop-put/%d/%s", n, who), func(b *testing.B) {
				each(b, order, func(i int) { x.remove(nodes[i].path); x.put(nodes[i]) })
			})
		}
	}
}

// tree is a sorted map that can be copied in O(1).
type tree interface {
	get(name) *node
	put(name, *node)
	drop(name)
	copy()
	walk() int
}

type ourTree struct {
	now, kept sortedMap[name, *node]
	gen       uint64
}

func (t *ourTree) get(k name) *node    { n, _ := t.now.get(k); return n }
func (t *ourTree) put(k name, n *node) { t.now.put(t.gen, k, n) }
func (t *ourTree) drop(k name)         { t.now.delete(t.gen, k) }
func (t *ourTree) copy()               { t.kept = t.now; t.gen++ }
func (t *ourTree) walk() (n int) {
	for range t.now.all() {
		n++
	}
	return n
}

// pair is an entry of the libraries' trees.
type pair struct {
	k name
	n *node
}

func less(a, b pair) bool { return a.k < b.k }

type googleTree struct{ now, kept *google.BTreeG[pair] }

func (t *googleTree) get(k name) *node    { p, _ := t.now.Get(pair{k: k}); return p.n }
func (t *googleTree) put(k name, n *node) { t.now.ReplaceOrInsert(pair{k, n}) }
func (t *googleTree) drop(k name)         { t.now.Delete(pair{k: k}) }
func (t *googleTree) copy()               { t.kept = t.now.Clone() }
func (t *googleTree) walk() (n int)       { t.now.Ascend(func(pair) bool { n++; return true }); return n }

type tidwallTree struct{ now, kept *tidwall.BTreeG[pair] }

func (t *tidwallTree) get(k name) *node    { p, _ := t.now.Get(pair{k: k}); return p.n }
func (t *tidwallTree) put(k name, n *node) { t.now.Set(pair{k, n}) }
func (t *tidwallTree) drop(k name)         { t.now.Delete(pair{k: k}) }
func (t *tidwallTree) copy()               { t.kept = t.now.Copy() }
func (t *tidwallTree) walk() (n int)       { t.now.Scan(func(pair) bool { n++; return true }); return n }

// newTree returns an empty tree. All have pages of about 32 keys, as ours.
func newTree(who string) tree {
	switch who {
	case "google":
		return &googleTree{now: google.NewG(16, less)}
	case "tidwall":
		return &tidwallTree{now: tidwall.NewBTreeGOptions(less, tidwall.Options{Degree: 16, NoLocks: true})}
	}
	return &ourTree{gen: 1}
}

func BenchmarkSorted(b *testing.B) {
	for _, n := range sizes {
		nodes, order := set(n)
		key := func(i int) name { return name(nodes[i].path[len(directory):]) }
		for _, who := range []string{"ours", "google", "tidwall"} {
			fill := func(place func(i int) int) tree {
				t := newTree(who)
				for i := range nodes {
					t.put(key(place(i)), nodes[place(i)])
				}
				return t
			}
			inOrder := func(i int) int { return i }
			run := func(what string, f func(b *testing.B)) { b.Run(fmt.Sprintf("%s/%d/%s", what, n, who), f) }
			run("build-in-order", func(b *testing.B) { build(b, n, func() any { return fill(inOrder) }) })
			run("build-by-chance", func(b *testing.B) { build(b, n, func() any { return fill(func(i int) int { return order[i] }) }) })
			t := fill(inOrder)
			run("get", func(b *testing.B) { each(b, order, func(i int) { t.get(key(i)) }) })
			run("drop-put", func(b *testing.B) { each(b, order, func(i int) { t.drop(key(i)); t.put(key(i), nodes[i]) }) })
			run("put-after-copy", func(b *testing.B) { each(b, order, func(i int) { t.copy(); t.put(key(i), nodes[i]) }) })
			run("walk", func(b *testing.B) {
				begun := time.Now()
				for b.Loop() {
					t.walk()
				}
				b.ReportMetric(float64(time.Since(begun).Nanoseconds())/float64(b.N)/float64(n), "ns/op")
			})
		}
	}
}
