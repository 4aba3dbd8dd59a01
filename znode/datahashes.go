package znode

import "unsafe"

// longData is the length of data, in bytes, from which their hash is kept until the end of an entry. A create and a delete change
// the parent, and so count its hash anew. Below a node with 1 MB of data, a multi of 10,000 of them would read 20 GB.
const longData = 4 << 10

// sameData names data that do not change. It keeps them in memory, so that no other data have the same name meanwhile.
type sameData struct {
	first *byte
	n     int
}

// hash returns n.hash(). It reads long data once in an entry.
func (t *tree) hash(n *node) uint64 {
	data, version := n.replicated()
	if t.dataHashes == nil || len(data) < longData {
		return n.hashWith(hashData(data), version)
	}
	key := sameData{unsafe.SliceData(data), len(data)}
	sum, ok := t.dataHashes[key]
	if !ok {
		sum = hashData(data)
		t.dataHashes[key] = sum
	}
	return n.hashWith(sum, version)
}

// keepHashes is called when an entry begins, and forgetHashes when it ends. Damage to long data therefore shows with the next entry
// that changes their node.
func (t *tree) keepHashes() {
	if t.dataHashes == nil {
		t.dataHashes = map[sameData]uint64{}
	}
}

func (t *tree) forgetHashes() {
	if len(t.dataHashes) > 0 {
		t.dataHashes = nil
	}
}
