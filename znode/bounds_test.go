package znode

import (
	"strings"
	"testing"
)

// A state remembers removals of exactly as many bytes as it may.
func TestRemovalsFillTheirBytes(t *testing.T) {
	const size = 512
	var k removalHistory
	for i := range 2 * maxRemovalBytes / size {
		k.appendRemoval(Removal{Path: strings.Repeat("x", size), Zxid: int64(i + 1)})
	}
	if want := min(maxRemovals, maxRemovalBytes/size); k.kept.Len() != want {
		t.Errorf("%d removals of %d bytes are kept, want %d", k.kept.Len(), size, want)
	}
}

// The pages of a sorted container stay small, in whatever order its keys come, so that a change copies little.
func TestPagesStaySmall(t *testing.T) {
	const keys = 20 * maxPageKeys * maxPageKeys
	for name, at := range map[string]func(i int) int{
		"ascending":  func(i int) int { return i },
		"descending": func(i int) int { return keys - i },
		"mixed":      func(i int) int { return i * 7919 % keys },
	} {
		var s sortedMap[sessionKey, int]
		for i := range keys {
			s.put(1, sessionKey(at(i)), i)
		}
		var check func(p *page[sessionKey, int], depth int) (deepest int)
		check = func(p *page[sessionKey, int], depth int) int {
			if p.len() > maxPageKeys || len(p.children) > maxPageKeys {
				t.Fatalf("%s: a page of %d keys and %d pages below", name, p.len(), len(p.children))
			}
			deepest := depth
			for _, kid := range p.children {
				deepest = max(deepest, check(kid, depth+1))
			}
			return deepest
		}
		if depth := check(s.root, 0); depth > 4 || depth < 2 {
			t.Errorf("%s: %d levels for %d keys", name, depth, keys)
		}
	}
}
