package znode

// The rule DataQuota bounds the bytes of all paths and data. Past it, a create or setData that adds
// bytes is refused with NoRoom. An operation of a multi is checked after the operations before
// it, so a multi may make the room that it needs. Everything else goes on, also in a state that is past
// the quota already, because the leader's quota has become smaller. The rule holds for the super user,
// too. Access control lists count with what they take in memory, each once however many nodes have it. Sessions do not count, nor
// does the data of /zookeeper/config.

// DataUsed returns the bytes that count against Rules.DataQuota. The caller holds at least the read lock.
func (s *State) DataUsed() int64 { return s.dataUsed() }

// dataUsed returns the bytes of all paths, data and access control lists, except those of the data of /zookeeper/config.
// That text is not in the log, so a refusal must not depend on it.
func (t *tree) dataUsed() int64 {
	return t.dataSize + t.aclBytes - int64(t.nodeAt(ConfigPath).data.len())
}

// addedACLBytes returns how many bytes a list adds if a node gets it in place of another one, which may be nil.
func addedACLBytes(list, before *acl) (n int) {
	if list.nodeCount == 0 {
		n = list.memoryBytes()
	}
	if before != nil && before.nodeCount == 1 {
		n -= before.memoryBytes()
	}
	return n
}

// exceedsDataQuota reports whether the quota of all data forbids a change that adds so many bytes. It is not
// for the data of /zookeeper/config: members may have texts of different lengths there.
func (c *replicatedState) exceedsDataQuota(added int) bool {
	return c.term.DataQuota > 0 && added > 0 && uint64(c.dataUsed())+uint64(added) > c.term.DataQuota
}
