package znode

// hashedDataMin is the length of data, in bytes, from which their hash is kept beside them. A create and a delete change the parent, and so
// count its hash anew: a multi of 10,000 of them below a node with 1 MB of data would read 20 GB, and one below 1,000 such nodes 2 GB.
const hashedDataMin = 4 << 10

// maxHashedBytes is how many bytes of long data an entry reads for their hashes: a few milliseconds. After that the hashes that
// are kept count, and damage to these data shows with the next entry that reads them, or with a snapshot.
const maxHashedBytes = 16 << 20

// hashNode returns n.hash(). It reads at most maxHashed bytes of long data in an entry.
func (t *tree) hashNode(n *node) uint64 {
	data, version := n.replicatedData()
	if len(data) < hashedDataMin {
		return n.hashWithData(hashData(data), version)
	}
	if t.hashedBytes >= maxHashedBytes {
		return n.hashWithData(n.data.storedHash(), version)
	}
	t.hashedBytes += len(data)
	return n.hashWithData(hashData(data), version)
}
