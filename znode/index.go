package znode

import "hash/maphash"

// index finds nodes by their paths. It holds only the nodes and 16 bits of a hash of each path,
// about 13 bytes a node. A map would hold every path a second time.
//
// It is cut into parts that grow one by one. Therefore no change waits until everything is
// rehashed: it waits at most while one part is copied, 1/2048 of all. The index does not shrink.
// Its order depends on chance and is never visible outside. The zero value cannot be used.
type index struct {
	seed  maphash.Seed
	parts []part
	n     int
}

// part is a hash table with linear probing. A node's home slot is as far through the table as its
// hash is through the range of hashes. The node lies there, or after it in the same run of taken
// slots; a run may wrap around to the front.
type part struct {
	hashes []uint16 // 0: the slot is free
	nodes  []*node
	n      int
}

const (
	partBits  = 11
	minPlaces = 8
)

func newIndex() *index {
	return &index{seed: maphash.MakeSeed(), parts: make([]part, 1<<partBits)}
}

// part returns the part that path belongs to, and its hash.
func (x *index) part(path string) (p *part, hash uint16) {
	h := maphash.String(x.seed, path)
	return &x.parts[h>>(64-partBits)], max(uint16(h), 1)
}

// get returns the node at path, or nil if there is none.
func (x *index) get(path string) *node {
	p, hash := x.part(path)
	if i := p.find(hash, path); i >= 0 {
		return p.nodes[i]
	}
	return nil
}

// put adds n. Its path must not be in the index yet.
func (x *index) put(n *node) {
	p, hash := x.part(n.path)
	if p.n >= len(p.nodes)-len(p.nodes)/8 { // seven eighths
		p.grow()
	}
	p.put(hash, n)
	x.n++
}

// replace puts n in place of another node with the same path.
func (x *index) replace(n *node) {
	p, hash := x.part(n.path)
	p.nodes[p.find(hash, n.path)] = n
}

// drop removes the node at path, which must exist.
func (x *index) drop(path string) {
	p, hash := x.part(path)
	p.free(p.find(hash, path))
	x.n--
}

// home returns the slot of a node with this hash if that slot is free.
func (p *part) home(hash uint16) int {
	return int(uint64(hash) * uint64(len(p.hashes)) >> 16)
}

// next returns the slot after i.
func (p *part) next(i int) int {
	if i++; i == len(p.hashes) {
		return 0
	}
	return i
}

// find returns the slot of the node at path, or -1 if there is none.
func (p *part) find(hash uint16, path string) int {
	if p.n == 0 {
		return -1
	}
	for i := p.home(hash); p.hashes[i] != 0; i = p.next(i) {
		if p.hashes[i] == hash && p.nodes[i].path == path {
			return i
		}
	}
	return -1
}

func (p *part) put(hash uint16, n *node) {
	i := p.home(hash)
	for p.hashes[i] != 0 {
		i = p.next(i)
	}
	p.hashes[i], p.nodes[i] = hash, n
	p.n++
}

// grow makes the part a quarter larger.
func (p *part) grow() {
	old := *p
	places := max(minPlaces, len(old.nodes)+len(old.nodes)/4)
	*p = part{hashes: make([]uint16, places), nodes: make([]*node, places)}
	for i, hash := range old.hashes {
		if hash != 0 {
			p.put(hash, old.nodes[i])
		}
	}
}

// free empties slot i. Later nodes of the run move back, at most to their home slots, so that they
// are still found.
func (p *part) free(i int) {
	for j := p.next(i); p.hashes[j] != 0; j = p.next(j) {
		if p.distance(p.home(p.hashes[j]), j) >= p.distance(i, j) {
			p.hashes[i], p.nodes[i] = p.hashes[j], p.nodes[j]
			i = j
		}
	}
	p.hashes[i], p.nodes[i] = 0, nil
	p.n--
}

// distance returns how many slots j is after i.
func (p *part) distance(i, j int) int {
	if j < i {
		j += len(p.hashes)
	}
	return j - i
}
