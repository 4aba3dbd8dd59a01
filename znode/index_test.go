package znode

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A part does what a map does, under random changes. The hashes are spread, or all the same, or so near the end that
// their run of slots continues at the front.
func TestIndexPart(t *testing.T) {
	for name, hash := range map[string]func(i int) uint16{
		"spread": func(i int) uint16 { return uint16(i+1) * 40503 },
		"equal":  func(int) uint16 { return 1 },
		"at end": func(i int) uint16 { return math.MaxUint16 - uint16(i%3)<<8 },
	} {
		t.Run(name, func(t *testing.T) {
			const paths = 60
			rng := rand.New(rand.NewPCG(1, 1))
			var p indexShard
			want := map[int]*node{}
			for step := range 4000 {
				i := rng.IntN(paths)
				n := &node{path: fmt.Sprint("/", i), data: packedData{version: int32(step)}}
				if want[i] == nil {
					if p.used >= len(p.nodes)-len(p.nodes)/8 {
						p.grow()
					}
					p.insert(hash(i), n)
					want[i] = n
				} else {
					p.freeSlot(p.findSlot(hash(i), n.path))
					delete(want, i)
				}
				for i := range paths {
					at := p.findSlot(hash(i), fmt.Sprint("/", i))
					if (at >= 0) != (want[i] != nil) || at >= 0 && p.nodes[at] != want[i] {
						t.Fatalf("step %d: /%d is at %d", step, i, at)
					}
				}
			}
			if p.used != len(want) {
				t.Errorf("%d nodes, want %d", p.used, len(want))
			}
		})
	}
}

// An index grows and finds every node, and allocates no more slots than it needs.
func TestIndex(t *testing.T) {
	const nodes = 50_000
	x := newIndex()
	path := func(i int) string { return fmt.Sprint("/", i) }
	for i := range nodes {
		x.put(&node{path: path(i)})
	}
	for i := 0; i < nodes; i += 2 {
		x.replace(&node{path: path(i), data: packedData{version: 1}})
	}
	for i := 0; i < nodes; i += 3 {
		x.remove(path(i))
	}
	for i := range nodes + 1 {
		n := x.get(path(i))
		if want := i%3 != 0 && i < nodes; (n != nil) != want || want && (n.path != path(i) || n.data.version != int32(1-i%2)) {
			t.Fatalf("%s: %+v", path(i), n)
		}
	}
	if x.nodeCount != nodes-(nodes+2)/3 {
		t.Errorf("%d nodes", x.nodeCount)
	}
	places := 0
	for i := range x.shards {
		places += len(x.shards[i].nodes)
	}
	if places > nodes*2 {
		t.Errorf("%d slots for %d nodes", places, nodes)
	}
}

// A search for a node costs few steps, however many nodes there are: they lie near their homes.
func TestIndexFindsNodesNearTheirHomes(t *testing.T) {
	x := newIndex()
	const nodes = 100_000
	for i := range nodes {
		x.put(&node{path: fmt.Sprint("/", i)})
	}
	steps := 0
	for i := range nodes {
		path := fmt.Sprint("/", i)
		p, hash := x.shardOf(path)
		steps += p.distance(p.homeSlot(hash), p.findSlot(hash, path))
	}
	if mean := float64(steps) / nodes; mean > 8 {
		t.Errorf("a node lies %.1f slots after its home on the average", mean)
	}
}
