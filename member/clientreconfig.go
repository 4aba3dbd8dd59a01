package member

import (
	"sync/atomic"
	"time"

	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// followPollInterval is the time between two checks of raft's configuration while the reply to a reconfig waits
// for it. A change takes as long as a write to the disks of a majority.
const followPollInterval = 10 * time.Millisecond

// clientReconfig is the last reconfig of this member's clients. Its reply waits until raft's configuration
// follows it. It is safe for concurrent use.
type clientReconfig struct {
	reachedServers atomic.Pointer[[]uint32] // servers that replied to the leader; nil: there was no reconfig
}

// recordReachedServers records the servers that replied to the leader when it accepted a reconfig of this
// member's clients.
func (c *clientReconfig) recordReachedServers(txn *proto.Txn, r *znode.Result) {
	if jute.Op(txn.GetOp()) == jute.OpReconfig && r.Code == jute.OK {
		reached := txn.GetReachableServers()
		c.reachedServers.Store(&reached)
	}
}

// raftFollows reports whether raft's configuration follows that reconfig, as far as the recorded servers are concerned.
// Otherwise it returns a channel that is closed when the caller should check again.
func (c *clientReconfig) raftFollows(node *quorum.Node) (done bool, changed <-chan struct{}) {
	reached := c.reachedServers.Load()
	if reached == nil || node.FollowsServerList(*reached) {
		return true, nil
	}
	later := make(chan struct{})
	time.AfterFunc(followPollInterval, func() { close(later) })
	return false, later
}
