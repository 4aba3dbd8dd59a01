package znode

import "hash/maphash"

// pathIndex finds nodes by their paths. It holds only the nodes and 16 bits of a hash of each path, about 13
// bytes a node. A map would hold every path a second time. A map from a hash of 64 bits to the node takes 44 % more
// memory at 100,000 nodes, and 136 % more at a million, and lookups in it are no faster. It is built faster, and
// takes less for 1,000 nodes. ci/structures.sh measures that.
//
// Its shards grow one by one, so a change waits at most until one shard, 1/2048 of all, is copied. The index
// does not shrink. Its order is random and never visible outside. The zero value cannot be used.
type pathIndex struct {
	seed      maphash.Seed
	shards    []indexShard
	nodeCount int
}

// indexShard is a hash table with linear probing. A node's home slot is as far through the table as its hash
// is through the range of hashes. The node lies there, or after it in the same run of taken slots. A run may
// wrap around to the front.
type indexShard struct {
	hashes []uint16 // 0 if the slot is free
	nodes  []*node
	used   int
}

const (
	shardBits = 11
	minSlots  = 8
)

func newIndex() *pathIndex {
	return &pathIndex{seed: maphash.MakeSeed(), shards: make([]indexShard, 1<<shardBits)}
}

func (x *pathIndex) shardOf(path string) (p *indexShard, hash uint16) {
	h := maphash.String(x.seed, path)
	return &x.shards[h>>(64-shardBits)], max(uint16(h), 1)
}

func (x *pathIndex) get(path string) *node {
	p, hash := x.shardOf(path)
	if i := p.findSlot(hash, path); i >= 0 {
		return p.nodes[i]
	}
	return nil
}

// put adds n, whose path must not be in the index yet.
func (x *pathIndex) put(n *node) {
	p, hash := x.shardOf(n.path)
	if p.used >= len(p.nodes)-len(p.nodes)/8 { // seven eighths
		p.grow()
	}
	p.insert(hash, n)
	x.nodeCount++
}

// replace puts n in place of the node with the same path.
func (x *pathIndex) replace(n *node) {
	p, hash := x.shardOf(n.path)
	p.nodes[p.findSlot(hash, n.path)] = n
}

// remove removes the node at path, which must exist.
func (x *pathIndex) remove(path string) {
	p, hash := x.shardOf(path)
	p.freeSlot(p.findSlot(hash, path))
	x.nodeCount--
}

// homeSlot is the slot of a node with this hash if that slot is free.
func (p *indexShard) homeSlot(hash uint16) int {
	return int(uint64(hash) * uint64(len(p.hashes)) >> 16)
}

func (p *indexShard) nextSlot(i int) int {
	if i++; i == len(p.hashes) {
		return 0
	}
	return i
}

// findSlot returns the slot of the node at path, or -1.
func (p *indexShard) findSlot(hash uint16, path string) int {
	if p.used == 0 {
		return -1
	}
	for i := p.homeSlot(hash); p.hashes[i] != 0; i = p.nextSlot(i) {
		if p.hashes[i] == hash && p.nodes[i].path == path {
			return i
		}
	}
	return -1
}

func (p *indexShard) insert(hash uint16, n *node) {
	i := p.homeSlot(hash)
	for p.hashes[i] != 0 {
		i = p.nextSlot(i)
	}
	p.hashes[i], p.nodes[i] = hash, n
	p.used++
}

// grow makes the shard a quarter larger.
func (p *indexShard) grow() {
	old := *p
	places := max(minSlots, len(old.nodes)+len(old.nodes)/4)
	*p = indexShard{hashes: make([]uint16, places), nodes: make([]*node, places)}
	for i, hash := range old.hashes {
		if hash != 0 {
			p.insert(hash, old.nodes[i])
		}
	}
}

// freeSlot empties slot i. Later nodes of the run move back, at most to their home slots, so that they are
// still found.
func (p *indexShard) freeSlot(i int) {
	for j := p.nextSlot(i); p.hashes[j] != 0; j = p.nextSlot(j) {
		if p.distance(p.homeSlot(p.hashes[j]), j) >= p.distance(i, j) {
			p.hashes[i], p.nodes[i] = p.hashes[j], p.nodes[j]
			i = j
		}
	}
	p.hashes[i], p.nodes[i] = 0, nil
	p.used--
}

// distance returns the number of slots from i to j.
func (p *indexShard) distance(i, j int) int {
	if j < i {
		j += len(p.hashes)
	}
	return j - i
}
