package znode

// Now returns the log's time in the copy, in ms since 1970.
func (sn *Snapshot) Now() int64 { return sn.timeMs }

// Zxid returns the zxid of the last transaction in the copy that took one.
func (sn *Snapshot) Zxid() int64 { return sn.zxid }

// Term returns the last term in the copy.
func (sn *Snapshot) Term() Term { return sn.term }

// Nodes returns the number of nodes in the copy, the root among them.
func (sn *Snapshot) Nodes() int { return sn.nodeCount }

// Sessions returns the number of sessions in the copy.
func (sn *Snapshot) Sessions() int { return sn.sessions.length }

// DataSize returns the bytes of all paths and data in the copy.
func (sn *Snapshot) DataSize() int64 { return sn.dataSize }
