package member

import (
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// settlePause is the time between two looks at raft's configuration while the answer to a reconfig waits for it. A
// change of the configuration takes as long as a write to the disks of a majority.
const settlePause = 10 * time.Millisecond

// reconfigured notes which servers answered the leader when it took in a reconfig of this member's clients.
func (m *Member) reconfigured(txn *proto.Txn, r *znode.Result) {
	if jute.Op(txn.GetOp()) == jute.OpReconfig && r.Code == jute.OK {
		reached := txn.GetReached()
		m.reached.Store(&reached)
	}
}

// settled implements server.Config.Settled. The servers that count are those that answered the leader when it took
// in the last reconfig of this member's clients.
func (m *Member) settled() (done bool, changed <-chan struct{}) {
	reached := m.reached.Load()
	if reached == nil || m.node.Follows(*reached) {
		return true, nil
	}
	later := make(chan struct{})
	time.AfterFunc(settlePause, func() { close(later) })
	return false, later
}
