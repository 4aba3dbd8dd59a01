package znode

import (
	"fmt"
	"runtime"
	"testing"

	"rollcall/zk/jute"
)

// A list takes as much memory as ACLMemory says, within a tenth: with the places of names in an index, which need less, and the ranges of
// addresses.
func TestACLMemory(t *testing.T) {
	for name, entry := range map[string]func(list, i int) []jute.ACL{
		"digest": func(list, i int) []jute.ACL { return aclOf(31, "digest", fmt.Sprintf("%x:%x", list, i)) },
		"addresses": func(list, i int) []jute.ACL { // none beside another, so each has two ranges
			return aclOf(31, "ip", fmt.Sprintf("10.%d.%d.%d", list&255, i>>7&255, i<<1&255))
		},
		"networks": func(list, i int) []jute.ACL {
			return aclOf(31, "ip", fmt.Sprintf("%x:%x:%x::/48", list+1, i>>15, i<<1&0xffff))
		},
	} {
		for _, n := range []int{1, 2, indexedACLEntries, indexedACLEntries + 1, 9, 16, 17, 33, 100, 129, 1000} {
			const lists = 200
			var requested [lists][]jute.ACL
			for i := range requested {
				for k := range n {
					requested[i] = append(requested[i], entry(i, k)...)
				}
			}
			var kept [lists]*acl
			table, before := new(aclTable), heapInUse()
			for i := range kept {
				kept[i], _ = table.internList(requested[i])
			}
			took, said := (heapInUse()-before)/lists, kept[0].memoryBytes()
			t.Logf("%d %s: %d bytes, of %d: %.1f for each entry beside its text",
				n, name, took, said, float64(took-int64(len(kept[0].text)))/float64(n))
			if least := int64(said) * 9 / 10; took > int64(said)*11/10 || name != "digest" && took < least {
				t.Errorf("%d %s take %d bytes, and ACLMemory says %d", n, name, took, said)
			}
			runtime.KeepAlive(table)
			runtime.KeepAlive(kept)
			runtime.KeepAlive(requested)
		}
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
