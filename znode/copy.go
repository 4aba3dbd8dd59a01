package znode

// TimeMs returns the log's time in the copy, in ms since 1970.
func (sn *Snapshot) TimeMs() int64 { return sn.timeMs }

// Zxid returns the zxid of the last transaction in the copy that took one.
func (sn *Snapshot) Zxid() int64 { return sn.zxid }

// Term returns the last term in the copy.
func (sn *Snapshot) Term() Term { return sn.term }

// NodeCount returns the number of nodes in the copy, the root among them.
func (sn *Snapshot) NodeCount() int { return sn.nodeCount }

// SessionCount returns the number of sessions in the copy.
func (sn *Snapshot) SessionCount() int { return sn.sessions.length }

// DataSize returns the bytes of all paths and data in the copy.
func (sn *Snapshot) DataSize() int64 { return sn.dataSize }
