package znode

import (
	"bytes"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// aclBytesPerOp is the size of access control lists that weighs as much as an operation. An entry is 4,096
// operations, and so is 1 MiB.
const aclBytesPerOp = 256

// levelsPerOp is the number of path levels that weighs as much as an operation. If the nodes above must be
// copied, an entry of 4,096 operations then has as many levels as the paths of one request that share none.
const levelsPerOp = 16

// reconfigWeight makes a change of the list of servers weigh as much as an entry, because it reads and writes
// up to 255 lines of 548 bytes.
const reconfigWeight = 4096

// killWeight limits an entry to 64 kills. Each costs every member as much as a few writes, in addition to the
// session's ephemeral nodes.
const killWeight = 64

// An identify rewrites the list of identities in the record, of up to 4 KiB, however little it adds.
// identifyWeight limits an entry to the number of such lists in 1 MiB.
const identifyWeight = 16

// TxnWeight returns the weight of a transaction in apply, in operations: its operations, its levels of paths,
// or its stored lists, whichever weighs most. A short request can store long lists, see ExpandedSize.
func TxnWeight(txn *proto.Txn) int {
	op, body := jute.Op(txn.GetOp()), txn.GetBody()
	n := 1
	switch op {
	case jute.OpReconfig, jute.OpChangeServers:
		return reconfigWeight
	case jute.OpKill:
		return killWeight
	case jute.OpIdentify:
		return identifyWeight
	case jute.OpMulti:
		n = max(1, jute.CountMultiOps(body))
	}
	levels := bytes.Count(body, []byte("/")) // at most so many, because data may have slashes, too
	return max(n, levels/levelsPerOp, int(txn.GetAclBytes()/aclBytesPerOp))
}
