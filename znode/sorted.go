package znode

import (
	"iter"
	"sort"
)

// maxKeys is how many keys a page holds. A million keys then lie five pages deep, and copying five
// pages takes about a microsecond.
const maxKeys = 32

// sorted is a sorted map that can be copied in O(1): a B+tree with copy on write. The zero value is
// empty.
//
// Every page carries the generation in which it was made. A method that changes the map takes the
// present generation; it changes pages of that generation in place and copies older ones. To keep
// an unchanging copy, assign the sorted to another variable and count up the generation before the
// next change.
//
// Reads may run concurrently with each other but not with changes. A page that belongs to a copy is
// never written.
type sorted[K ordered[K], V any] struct {
	root *page[K, V]
	n    int
}

// ordered is a key that can be compared with others.
type ordered[K any] interface {
	compare(K) int
}

// keyed is a value that knows its key. The key must not change while the value is in a map, and put must get
// the value under that key.
type keyed[K any] interface {
	key() K
}

// page is a leaf or a branch. In a leaf, kids is nil and vals[i] belongs to keys[i]. If the values are keyed,
// a leaf has no keys, which saves the memory of a key for each value. In a branch, vals is nil, and all keys
// below kids[i] are at or above keys[i]; keys[0] may be too high.
type page[K ordered[K], V any] struct {
	gen  uint64
	keys []K
	vals []V
	kids []*page[K, V]
}

// get returns k's value, and false if there is none.
func (t *sorted[K, V]) get(k K) (v V, ok bool) {
	p := t.root
	if p == nil {
		return v, false
	}
	for p.kids != nil {
		p = p.kids[p.branch(k)]
	}
	i, ok := p.search(k)
	if ok {
		v = p.vals[i]
	}
	return v, ok
}

// slot returns a pointer to k's value that may be written in this generation, or nil if there is no
// such key. It is valid until the next change.
func (t *sorted[K, V]) slot(gen uint64, k K) *V {
	if _, ok := t.get(k); !ok {
		return nil
	}
	p := t.writableRoot(gen)
	for p.kids != nil {
		p = p.writableKid(gen, p.branch(k))
	}
	i, _ := p.search(k)
	return &p.vals[i]
}

// put sets k's value and reports whether k is new.
func (t *sorted[K, V]) put(gen uint64, k K, v V) bool {
	root := t.writableRoot(gen)
	right, fresh := root.put(gen, k, v)
	if right != nil {
		t.root = &page[K, V]{
			gen:  gen,
			keys: append(make([]K, 0, maxKeys), root.key(0), right.key(0)),
			kids: append(make([]*page[K, V], 0, maxKeys), root, right),
		}
	}
	if fresh {
		t.n++
	}
	return fresh
}

// drop removes k and reports whether it was there.
func (t *sorted[K, V]) drop(gen uint64, k K) bool {
	if _, ok := t.get(k); !ok {
		return false
	}
	t.writableRoot(gen).drop(gen, k)
	t.n--
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	if t.root.len() == 0 {
		t.root = nil
	}
	return true
}

// all yields every key with its value, in order. The map must not change meanwhile.
func (t *sorted[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t.root != nil {
			t.root.walk(nil, yield)
		}
	}
}

// values yields every value, in the order of their keys. It is faster than all if the values are keyed.
// The map must not change meanwhile.
func (t *sorted[K, V]) values() iter.Seq[V] {
	return func(yield func(V) bool) {
		if t.root != nil {
			t.root.walkValues(yield)
		}
	}
}

// from yields the keys at or above first with their values, in order. The map must not change
// meanwhile.
func (t *sorted[K, V]) from(first K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t.root != nil {
			t.root.walk(&first, yield)
		}
	}
}

// first returns the lowest key, and false if the map is empty.
func (t *sorted[K, V]) first() (k K, ok bool) {
	for k := range t.all() {
		return k, true
	}
	return k, false
}

// count returns the number of keys from first on that satisfy in. The keys that satisfy it must be
// contiguous, starting at first. It visits every page but not every key: a million keys take 4 ms.
func (t *sorted[K, V]) count(first K, in func(K) bool) (n int) {
	if t.root != nil {
		t.root.count(&first, in, &n)
	}
	return n
}

// writableRoot returns the root, after making or copying it if it is not of this generation.
func (t *sorted[K, V]) writableRoot(gen uint64) *page[K, V] {
	switch {
	case t.root == nil:
		t.root = &page[K, V]{gen: gen}
	case t.root.gen != gen:
		t.root = t.root.copy(gen)
	}
	return t.root
}

// writableKid does the same for the i-th kid of p, which is of this generation.
func (p *page[K, V]) writableKid(gen uint64, i int) *page[K, V] {
	if p.kids[i].gen != gen {
		p.kids[i] = p.kids[i].copy(gen)
	}
	return p.kids[i]
}

// copy keeps the slices' capacities: a page that has grown is likely to grow more.
func (p *page[K, V]) copy(gen uint64) *page[K, V] {
	c := &page[K, V]{gen: gen}
	if p.keys != nil {
		c.keys = append(make([]K, 0, cap(p.keys)), p.keys...)
	}
	if p.kids != nil {
		c.kids = append(make([]*page[K, V], 0, cap(p.kids)), p.kids...)
	} else {
		c.vals = append(make([]V, 0, cap(p.vals)), p.vals...)
	}
	return c
}

// len returns how many keys p has.
func (p *page[K, V]) len() int { return max(len(p.vals), len(p.kids)) }

// key returns p's i-th key.
func (p *page[K, V]) key(i int) K {
	if p.keys != nil {
		return p.keys[i]
	}
	return any(p.vals[i]).(keyed[K]).key()
}

// search returns the index of the first key at or above k, and reports whether it is k.
func (p *page[K, V]) search(k K) (int, bool) {
	low, high := 0, p.len()
	for low < high {
		mid := int(uint(low+high) >> 1)
		c := p.key(mid).compare(k)
		if c == 0 {
			return mid, true
		}
		if c < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, false
}

// branch returns the index of the kid under which k belongs.
func (p *page[K, V]) branch(k K) int {
	i, found := p.search(k)
	if found || i == 0 {
		return i
	}
	return i - 1
}

// put sets k's value below p, which is of this generation, and reports whether k is new. If p
// overflowed, right is the new page with its upper part.
func (p *page[K, V]) put(gen uint64, k K, v V) (right *page[K, V], fresh bool) {
	if p.kids == nil {
		i, found := p.search(k)
		if found {
			p.vals[i] = v
			return nil, false
		}
		if p.len() == maxKeys {
			right = p.split(gen, i)
			if n := p.len(); i > n || n == maxKeys {
				p, i = right, i-n
			}
		}
		if _, ok := any(v).(keyed[K]); !ok {
			p.keys = insert(p.keys, i, k)
		}
		p.vals = insert(p.vals, i, v)
		return right, true
	}
	i := p.branch(k)
	kid := p.writableKid(gen, i)
	below, fresh := kid.put(gen, k, v)
	if below == nil {
		return nil, fresh
	}
	if i++; len(p.keys) == maxKeys {
		right = p.split(gen, i)
		if n := len(p.keys); i > n || n == maxKeys {
			p, i = right, i-n
		}
	}
	p.keys, p.kids = insert(p.keys, i, below.key(0)), insert(p.kids, i, below)
	return right, fresh
}

// drop removes k, which is below p; p is of this generation. A kid without keys is removed. If a
// small kid and a neighbour fill no more than half a page together, they are merged, so the number
// of nearly empty pages stays bounded.
func (p *page[K, V]) drop(gen uint64, k K) {
	if p.kids == nil {
		i, _ := p.search(k)
		if p.keys != nil {
			p.keys = remove(p.keys, i)
		}
		p.vals = remove(p.vals, i)
		return
	}
	i := p.branch(k)
	kid := p.writableKid(gen, i)
	kid.drop(gen, k)
	switch {
	case kid.len() == 0:
		p.keys, p.kids = remove(p.keys, i), remove(p.kids, i)
		return
	case i > 0 && p.kids[i-1].len()+kid.len() <= maxKeys/2:
		i--
	case i+1 < len(p.kids) && p.kids[i+1].len()+kid.len() <= maxKeys/2:
	default:
		return
	}
	left, right, seam := p.writableKid(gen, i), p.kids[i+1], p.kids[i].len()
	left.keys = append(left.keys, right.keys...)
	left.vals = append(left.vals, right.vals...)
	left.kids = append(left.kids, right.kids...)
	if left.kids != nil {
		left.keys[seam] = p.keys[i+1] // right's first key may have been too high
	}
	p.keys, p.kids = remove(p.keys, i+1), remove(p.kids, i+1)
}

// split moves p's upper half to a new page. If the next key goes to the end of p, it moves nothing:
// keys that arrive in order then fill their pages.
func (p *page[K, V]) split(gen uint64, next int) *page[K, V] {
	n := p.len() / 2
	if next == p.len() {
		n = next
	}
	right := &page[K, V]{gen: gen}
	if p.keys != nil {
		right.keys = append(make([]K, 0, maxKeys), p.keys[n:]...)
		clear(p.keys[n:])
		p.keys = p.keys[:n]
	}
	if p.kids != nil {
		right.kids = append(make([]*page[K, V], 0, maxKeys), p.kids[n:]...)
		clear(p.kids[n:])
		p.kids = p.kids[:n]
	} else {
		right.vals = append(make([]V, 0, maxKeys), p.vals[n:]...)
		clear(p.vals[n:])
		p.vals = p.vals[:n]
	}
	return right
}

// walk yields the keys and values below p in order and reports whether to go on. If first is not
// nil, it starts at the first key at or above *first.
func (p *page[K, V]) walk(first *K, yield func(K, V) bool) bool {
	i := 0
	if p.kids == nil {
		if first != nil {
			i, _ = p.search(*first)
		}
		for ; i < p.len(); i++ {
			if !yield(p.key(i), p.vals[i]) {
				return false
			}
		}
		return true
	}
	if first != nil {
		i = p.branch(*first)
	}
	for ; i < len(p.kids); i++ {
		if !p.kids[i].walk(first, yield) {
			return false
		}
		first = nil
	}
	return true
}

// walkValues yields the values below p in order and reports whether to go on.
func (p *page[K, V]) walkValues(yield func(V) bool) bool {
	for _, v := range p.vals {
		if !yield(v) {
			return false
		}
	}
	for _, kid := range p.kids {
		if !kid.walkValues(yield) {
			return false
		}
	}
	return true
}

// count adds to n the number of keys below p that satisfy in, and reports whether the last key
// satisfied it. If first is not nil, it starts at *first.
func (p *page[K, V]) count(first *K, in func(K) bool, n *int) bool {
	i := 0
	if p.kids != nil {
		if first != nil {
			i = p.branch(*first)
		}
		for ; i < len(p.kids); i++ {
			if !p.kids[i].count(first, in, n) {
				return false
			}
			first = nil
		}
		return true
	}
	if first != nil {
		i, _ = p.search(*first)
	}
	end := p.len()
	if !in(p.key(end - 1)) {
		end = i + sort.Search(end-i, func(j int) bool { return !in(p.key(i + j)) })
	}
	*n += end - i
	return end == p.len()
}

// insert puts v at index i.
func insert[T any](s []T, i int, v T) []T {
	var zero T
	s = append(s, zero)
	copy(s[i+1:], s[i:])
	s[i] = v
	return s
}

// remove removes the element at index i and clears the slot that becomes unused.
func remove[T any](s []T, i int) []T {
	var zero T
	copy(s[i:], s[i+1:])
	s[len(s)-1] = zero
	return s[:len(s)-1]
}
