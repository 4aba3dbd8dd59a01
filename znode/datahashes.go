package znode

// hashedDataMin is the length, in bytes, from which data are stored with their hash. A create or delete
// rehashes the parent: without the stored hash, a multi of 10,000 of them below a node with 1 MB of data
// would read 20 GB.
const hashedDataMin = 4 << 10

// maxHashedBytes limits the bytes of long data that an entry rehashes, which takes a few milliseconds. After
// that the stored hashes are used. Damage to such data then shows with the next entry that reads them, or
// with a snapshot.
const maxHashedBytes = 16 << 20

// hashWithinBudget returns n.hash(), within maxHashedBytes for an entry.
func (t *tree) hashWithinBudget(n *node) uint64 {
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
