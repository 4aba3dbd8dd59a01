package znode

import (
	"hash/maphash"
	"math/bits"
)

// trie finds nodes by path, and is copied in O(1): a hash trie of 64 ways with copy on
// write, by the same rules as sorted. A million nodes lie three or four branches deep.
// The hash is seeded at random, so that nobody can choose paths that collide; which
// seed it is shows nowhere, for a trie has no order.
type trie struct {
	hash func(round int, path string) uint64
	root *branch // nil if empty
	n    int
}

// branch holds up to 64 kids, those that exist in the order of their digits.
type branch struct {
	gen  uint64
	used uint64 // the digits of kids, as bits
	kids []kid
}

// kid is a node or, if several share the digits so far, a branch.
type kid struct {
	node *node
	sub  *branch
}

const (
	digitBits = 6
	digits    = 10 // in one hash; a path has further hashes for the rare case that these are equal
)

func newTrie() trie {
	seed := maphash.MakeSeed()
	return trie{hash: func(round int, path string) uint64 {
		if round == 0 {
			return maphash.String(seed, path)
		}
		var h maphash.Hash
		h.SetSeed(seed)
		h.WriteString(path)
		h.WriteByte(byte(round)) // the same for all rounds of one path would never part two
		return h.Sum64()
	}}
}

// steps yields the digits of a path, one by one.
type steps struct {
	trie  *trie
	path  string
	level int
	hash  uint64 // what is left of it
}

// next returns the next digit as a bit.
func (s *steps) next() uint64 {
	if s.level%digits == 0 {
		s.hash = s.trie.hash(s.level/digits, s.path)
	}
	bit := uint64(1) << (s.hash & (1<<digitBits - 1))
	s.hash >>= digitBits
	s.level++
	return bit
}

// get returns the node at path, nil if there is none. It keeps nothing of path.
func (t *trie) get(path string) *node {
	b := t.root
	for s := (steps{trie: t, path: path}); b != nil; {
		bit := s.next()
		if b.used&bit == 0 {
			return nil
		}
		k := &b.kids[b.index(bit)]
		if k.node != nil {
			if k.node.path != path {
				return nil
			}
			return k.node
		}
		b = k.sub
	}
	return nil
}

// edit returns the node at path, which exists, to be changed: it is of generation gen.
func (t *trie) edit(gen uint64, path string) *node {
	b := t.own(gen)
	for s := (steps{trie: t, path: path}); ; {
		k := &b.kids[b.index(s.next())]
		if k.node != nil {
			if k.node.gen != gen {
				k.node = k.node.copy(gen)
			}
			return k.node
		}
		b = k.own(gen)
	}
}

// add puts in a node whose path is not there yet.
func (t *trie) add(gen uint64, n *node) {
	t.n++
	b := t.own(gen)
	for s := (steps{trie: t, path: n.path}); ; {
		bit := s.next()
		i := b.index(bit)
		if b.used&bit == 0 {
			b.used |= bit
			b.kids = insert(b.kids, i, kid{node: n})
			return
		}
		k := &b.kids[i]
		if old := k.node; old != nil {
			o := steps{trie: t, path: old.path, level: s.level}
			o.hash = t.hash(o.level/digits, o.path) >> (o.level % digits * digitBits)
			*k = kid{sub: &branch{gen: gen, used: o.next(), kids: []kid{{node: old}}}}
		}
		b = k.own(gen)
	}
}

// drop takes out the node at path, which exists.
func (t *trie) drop(gen uint64, path string) {
	t.n--
	t.own(gen).drop(gen, &steps{trie: t, path: path})
}

func (b *branch) drop(gen uint64, s *steps) {
	bit := s.next()
	i := b.index(bit)
	k := &b.kids[i]
	if k.node != nil {
		b.used &^= bit
		b.kids = remove(b.kids, i)
		return
	}
	sub := k.own(gen)
	sub.drop(gen, s)
	if len(sub.kids) == 1 && sub.kids[0].node != nil {
		*k = sub.kids[0]
	}
}

// own returns the root, made or copied first if it is not of this generation.
func (t *trie) own(gen uint64) *branch {
	switch {
	case t.root == nil:
		t.root = &branch{gen: gen}
	case t.root.gen != gen:
		t.root = t.root.copy(gen)
	}
	return t.root
}

// own is the same for k's branch; k itself lies in a branch of this generation.
func (k *kid) own(gen uint64) *branch {
	if k.sub.gen != gen {
		k.sub = k.sub.copy(gen)
	}
	return k.sub
}

func (b *branch) copy(gen uint64) *branch {
	return &branch{gen: gen, used: b.used, kids: append(make([]kid, 0, cap(b.kids)), b.kids...)}
}

// index returns where the kid of a digit is, or would be.
func (b *branch) index(bit uint64) int {
	return bits.OnesCount64(b.used & (bit - 1))
}
