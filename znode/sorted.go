package znode

import (
	"iter"
	"sort"
)

// maxPageKeys is the capacity of a page. A million keys then lie five pages deep, and copying five pages
// takes about a microsecond.
const maxPageKeys = 32

// sortedMap is a sorted map that can be copied in O(1): a B+tree with copy on write. The zero value is empty.
//
// Entries that come in order, such as sequential nodes and session ids, take half the memory that they take in
// google/btree 1.1.3 or tidwall/btree 1.8.1, because a full page is not split in its middle, and a change after a copy
// copies less. Entries that come in an order by chance take up to 8 % more. ci/structures.sh measures that: a library
// within 10 % in time and 15 % in memory would take this one's place.
//
// Every page carries the generation in which it was made. A method that changes the map takes the present
// generation. It changes pages of that generation in place and copies older ones. To keep an unchanging copy,
// assign the map to another variable and increment the generation before the next change.
//
// Reads may run concurrently with each other but not with changes. A page of a copy is never written.
type sortedMap[K ordered[K], V any] struct {
	root   *page[K, V]
	length int
}

type ordered[K any] interface {
	compare(K) int
}

// keyed is a value with a key, which must not change while the value is in a map.
type keyed[K any] interface {
	key() K
}

// page is a leaf or a branch. A leaf has no children, and values[i] belongs to keys[i]. If the values are
// keyed, it has no keys, to save memory. A branch has no values, and all keys below children[i] are at or
// above keys[i]; keys[0] may be too high.
type page[K ordered[K], V any] struct {
	gen      uint64
	keys     []K
	values   []V
	children []*page[K, V]
}

func (t *sortedMap[K, V]) get(k K) (v V, ok bool) {
	p := t.root
	if p == nil {
		return v, false
	}
	for p.children != nil {
		p = p.children[p.childIndex(k)]
	}
	i, ok := p.search(k)
	if ok {
		v = p.values[i]
	}
	return v, ok
}

// writableValue returns a pointer to k's value that may be written in this generation, or nil. It is valid
// until the next change.
func (t *sortedMap[K, V]) writableValue(gen uint64, k K) *V {
	if _, ok := t.get(k); !ok {
		return nil
	}
	p := t.writableRoot(gen)
	for p.children != nil {
		p = p.writableChild(gen, p.childIndex(k))
	}
	i, _ := p.search(k)
	return &p.values[i]
}

// put sets k's value and reports whether k is new.
func (t *sortedMap[K, V]) put(gen uint64, k K, v V) bool {
	root := t.writableRoot(gen)
	right, fresh := root.put(gen, k, v)
	if right != nil {
		t.root = &page[K, V]{
			gen:      gen,
			keys:     append(make([]K, 0, maxPageKeys), root.keyAt(0), right.keyAt(0)),
			children: append(make([]*page[K, V], 0, maxPageKeys), root, right),
		}
	}
	if fresh {
		t.length++
	}
	return fresh
}

// delete removes k and reports whether it was there.
func (t *sortedMap[K, V]) delete(gen uint64, k K) bool {
	if _, ok := t.get(k); !ok {
		return false
	}
	t.writableRoot(gen).delete(gen, k)
	t.length--
	for len(t.root.children) == 1 {
		t.root = t.root.children[0]
	}
	if t.root.len() == 0 {
		t.root = nil
	}
	return true
}

// all yields every key with its value, in order. The map must not change meanwhile.
func (t *sortedMap[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t.root != nil {
			t.root.walkFrom(nil, yield)
		}
	}
}

// values yields every value, in the order of their keys. For keyed values it is faster than all. The map must
// not change meanwhile.
func (t *sortedMap[K, V]) values() iter.Seq[V] {
	return func(yield func(V) bool) {
		if t.root != nil {
			t.root.walkValues(yield)
		}
	}
}

// from yields the keys at or above first with their values, in order. The map must not change meanwhile.
func (t *sortedMap[K, V]) from(first K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t.root != nil {
			t.root.walkFrom(&first, yield)
		}
	}
}

// first returns the lowest key, or false if the map is empty.
func (t *sortedMap[K, V]) first() (k K, ok bool) {
	for k := range t.all() {
		return k, true
	}
	return k, false
}

// countWhile returns the number of keys from first on that satisfy in, which must be contiguous. It visits
// every page but not every key: a million keys take 4 ms.
func (t *sortedMap[K, V]) countWhile(first K, in func(K) bool) (n int) {
	if t.root != nil {
		t.root.countWhile(&first, in, &n)
	}
	return n
}

func (t *sortedMap[K, V]) writableRoot(gen uint64) *page[K, V] {
	switch {
	case t.root == nil:
		t.root = &page[K, V]{gen: gen}
	case t.root.gen != gen:
		t.root = t.root.copy(gen)
	}
	return t.root
}

func (p *page[K, V]) writableChild(gen uint64, i int) *page[K, V] {
	if p.children[i].gen != gen {
		p.children[i] = p.children[i].copy(gen)
	}
	return p.children[i]
}

// copy keeps the slices' capacities: a page that has grown is likely to grow more.
func (p *page[K, V]) copy(gen uint64) *page[K, V] {
	c := &page[K, V]{gen: gen}
	if p.keys != nil {
		c.keys = append(make([]K, 0, cap(p.keys)), p.keys...)
	}
	if p.children != nil {
		c.children = append(make([]*page[K, V], 0, cap(p.children)), p.children...)
	} else {
		c.values = append(make([]V, 0, cap(p.values)), p.values...)
	}
	return c
}

func (p *page[K, V]) len() int { return max(len(p.values), len(p.children)) }

func (p *page[K, V]) keyAt(i int) K {
	if p.keys != nil {
		return p.keys[i]
	}
	return any(p.values[i]).(keyed[K]).key()
}

// search returns the index of the first key at or above k, and whether it is k.
func (p *page[K, V]) search(k K) (int, bool) {
	low, high := 0, p.len()
	for low < high {
		mid := int(uint(low+high) >> 1)
		c := p.keyAt(mid).compare(k)
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

// childIndex returns the index of the child for k.
func (p *page[K, V]) childIndex(k K) int {
	i, found := p.search(k)
	if found || i == 0 {
		return i
	}
	return i - 1
}

// put sets k's value below p, which is of this generation, and reports whether k is new. If p overflows,
// right is the new page with its upper part.
func (p *page[K, V]) put(gen uint64, k K, v V) (right *page[K, V], fresh bool) {
	if p.children == nil {
		i, found := p.search(k)
		if found {
			p.values[i] = v
			return nil, false
		}
		if p.len() == maxPageKeys {
			right = p.splitUpper(gen, i)
			if n := p.len(); i > n || n == maxPageKeys {
				p, i = right, i-n
			}
		}
		if _, ok := any(v).(keyed[K]); !ok {
			p.keys = insertAt(p.keys, i, k)
		}
		p.values = insertAt(p.values, i, v)
		return right, true
	}
	i := p.childIndex(k)
	kid := p.writableChild(gen, i)
	below, fresh := kid.put(gen, k, v)
	if below == nil {
		return nil, fresh
	}
	if i++; len(p.keys) == maxPageKeys {
		right = p.splitUpper(gen, i)
		if n := len(p.keys); i > n || n == maxPageKeys {
			p, i = right, i-n
		}
	}
	p.keys, p.children = insertAt(p.keys, i, below.keyAt(0)), insertAt(p.children, i, below)
	return right, fresh
}

// delete removes k below p, which is of this generation. A child without keys is removed. If a small child
// and a neighbour fill no more than half a page together, they are merged, so the number of nearly empty
// pages stays bounded.
func (p *page[K, V]) delete(gen uint64, k K) {
	if p.children == nil {
		i, _ := p.search(k)
		if p.keys != nil {
			p.keys = removeAt(p.keys, i)
		}
		p.values = removeAt(p.values, i)
		return
	}
	i := p.childIndex(k)
	kid := p.writableChild(gen, i)
	kid.delete(gen, k)
	switch {
	case kid.len() == 0:
		p.keys, p.children = removeAt(p.keys, i), removeAt(p.children, i)
		return
	case i > 0 && p.children[i-1].len()+kid.len() <= maxPageKeys/2:
		i--
	case i+1 < len(p.children) && p.children[i+1].len()+kid.len() <= maxPageKeys/2:
	default:
		return
	}
	left, right, seam := p.writableChild(gen, i), p.children[i+1], p.children[i].len()
	left.keys = append(left.keys, right.keys...)
	left.values = append(left.values, right.values...)
	left.children = append(left.children, right.children...)
	if left.children != nil {
		left.keys[seam] = p.keys[i+1] // right's first key may have been too high
	}
	p.keys, p.children = removeAt(p.keys, i+1), removeAt(p.children, i+1)
}

// splitUpper moves p's upper half to a new page. If the next key goes to the end of p, it moves nothing: keys
// that arrive in order then fill their pages.
func (p *page[K, V]) splitUpper(gen uint64, next int) *page[K, V] {
	n := p.len() / 2
	if next == p.len() {
		n = next
	}
	right := &page[K, V]{gen: gen}
	if p.keys != nil {
		right.keys = append(make([]K, 0, maxPageKeys), p.keys[n:]...)
		clear(p.keys[n:])
		p.keys = p.keys[:n]
	}
	if p.children != nil {
		right.children = append(make([]*page[K, V], 0, maxPageKeys), p.children[n:]...)
		clear(p.children[n:])
		p.children = p.children[:n]
	} else {
		right.values = append(make([]V, 0, maxPageKeys), p.values[n:]...)
		clear(p.values[n:])
		p.values = p.values[:n]
	}
	return right
}

// walkFrom yields the keys and values below p in order, until yield returns false. A first that is not nil is
// the lower bound.
func (p *page[K, V]) walkFrom(first *K, yield func(K, V) bool) bool {
	i := 0
	if p.children == nil {
		if first != nil {
			i, _ = p.search(*first)
		}
		for ; i < p.len(); i++ {
			if !yield(p.keyAt(i), p.values[i]) {
				return false
			}
		}
		return true
	}
	if first != nil {
		i = p.childIndex(*first)
	}
	for ; i < len(p.children); i++ {
		if !p.children[i].walkFrom(first, yield) {
			return false
		}
		first = nil
	}
	return true
}

func (p *page[K, V]) walkValues(yield func(V) bool) bool {
	for _, v := range p.values {
		if !yield(v) {
			return false
		}
	}
	for _, kid := range p.children {
		if !kid.walkValues(yield) {
			return false
		}
	}
	return true
}

// countWhile adds to n the number of keys below p that satisfy in, and reports whether the last key does. A
// first that is not nil is the lower bound.
func (p *page[K, V]) countWhile(first *K, in func(K) bool, n *int) bool {
	i := 0
	if p.children != nil {
		if first != nil {
			i = p.childIndex(*first)
		}
		for ; i < len(p.children); i++ {
			if !p.children[i].countWhile(first, in, n) {
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
	if !in(p.keyAt(end - 1)) {
		end = i + sort.Search(end-i, func(j int) bool { return !in(p.keyAt(i + j)) })
	}
	*n += end - i
	return end == p.len()
}

func insertAt[T any](s []T, i int, v T) []T {
	var zero T
	s = append(s, zero)
	copy(s[i+1:], s[i:])
	s[i] = v
	return s
}

// removeAt also clears the slot that becomes unused.
func removeAt[T any](s []T, i int) []T {
	var zero T
	copy(s[i:], s[i+1:])
	s[len(s)-1] = zero
	return s[:len(s)-1]
}
