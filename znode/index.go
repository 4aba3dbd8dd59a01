package znode

import "hash/maphash"

// index finds nodes by their paths. It holds nothing but the nodes and 32 bits of a hash
// of each path, at about 15 bytes a node, where a map would hold every path a second time.
//
// It is cut into parts that grow one by one, so that no change waits for all to be filed
// anew: a change takes at most the time to copy one part, 1/2048 of all. It does not
// shrink. Its order depends on chance and never shows. The zero value cannot be used.
type index struct {
	seed  maphash.Seed
	parts []part
	n     int
}

// part is a hash table with linear probing. A node's home is at the same part of the way
// through the table as its hash is through all hashes; it lies there or right behind, in
// a run of places that are taken, which may go on at the front.
type part struct {
	hashes []uint32 // 0: free
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

// part returns where path belongs.
func (x *index) part(path string) (p *part, hash uint32) {
	h := maphash.String(x.seed, path)
	return &x.parts[h>>(64-partBits)], max(uint32(h), 1)
}

// get returns the node at path, nil if there is none.
func (x *index) get(path string) *node {
	p, hash := x.part(path)
	if i := p.find(hash, path); i >= 0 {
		return p.nodes[i]
	}
	return nil
}

// put adds n, whose path is not there yet.
func (x *index) put(n *node) {
	p, hash := x.part(n.path)
	if p.n >= len(p.nodes)-len(p.nodes)/8 { // seven eighths
		p.grow()
	}
	p.put(hash, n)
	x.n++
}

// replace puts n where another node with its path is.
func (x *index) replace(n *node) {
	p, hash := x.part(n.path)
	p.nodes[p.find(hash, n.path)] = n
}

// drop removes the node at path, which is there.
func (x *index) drop(path string) {
	p, hash := x.part(path)
	p.free(p.find(hash, path))
	x.n--
}

// home is where a node with this hash lies if the place is free.
func (p *part) home(hash uint32) int {
	return int(uint64(hash) * uint64(len(p.hashes)) >> 32)
}

// next is the place behind i.
func (p *part) next(i int) int {
	if i++; i == len(p.hashes) {
		return 0
	}
	return i
}

// find returns the place of the node at path, -1 if there is none.
func (p *part) find(hash uint32, path string) int {
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

func (p *part) put(hash uint32, n *node) {
	i := p.home(hash)
	for p.hashes[i] != 0 {
		i = p.next(i)
	}
	p.hashes[i], p.nodes[i] = hash, n
	p.n++
}

// grow makes room for a quarter more.
func (p *part) grow() {
	old := *p
	places := max(minPlaces, len(old.nodes)+len(old.nodes)/4)
	*p = part{hashes: make([]uint32, places), nodes: make([]*node, places)}
	for i, hash := range old.hashes {
		if hash != 0 {
			p.put(hash, old.nodes[i])
		}
	}
}

// free makes i free. What follows in the run moves up where its home allows that, so that
// it is still found.
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

// distance is how far behind i the place j is.
func (p *part) distance(i, j int) int {
	if j < i {
		j += len(p.hashes)
	}
	return j - i
}
