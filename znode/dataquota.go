package znode

// The rule DataQuota limits the bytes of all paths and data. Above it, a create or setData that adds bytes is
// rejected with NoRoom, also for the super user. Everything else continues, even if the state is above the
// limit because the leader's quota was lowered. An operation of a multi is checked after the operations
// before it, so a multi may free the room that it needs. Each access control list counts once with its
// memory. Sessions and the data of /zookeeper/config do not count.

// DataUsed returns the bytes that count against Rules.DataQuota. The caller holds at least the read lock.
func (s *State) DataUsed() int64 { return s.replicated.tree.dataUsed() }

// dataUsed leaves the data of /zookeeper/config out. They are not in the log, so a rejection must not depend on them.
func (t *tree) dataUsed() int64 {
	return t.dataSize + t.aclBytes - int64(t.nodeAt(ConfigPath).data.len())
}

// addedACLBytes returns the bytes that list adds if it replaces before, which may be nil.
func addedACLBytes(list, before *acl) (n int) {
	if list.nodeCount == 0 {
		n = list.memoryBytes()
	}
	if before != nil && before.nodeCount == 1 {
		n -= before.memoryBytes()
	}
	return n
}

// wouldExceedDataQuota reports whether the quota forbids a change that adds so many bytes. It must not be used
// for /zookeeper/config, whose data may differ between members.
func (c *replicatedState) wouldExceedDataQuota(added int) bool {
	return c.term.DataQuota > 0 && added > 0 && uint64(c.tree.dataUsed())+uint64(added) > c.term.DataQuota
}
