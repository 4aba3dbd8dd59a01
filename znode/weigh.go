package znode

import (
	"bytes"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// aclBytesPerOp is how many bytes of access control lists weigh as much as an operation. 4,096 operations are an entry, and so is 1 MiB.
const aclBytesPerOp = 256

// levelsPerOp is how many levels of paths weigh as much as an operation. Where the nodes above must be copied, 4,096 operations,
// an entry, are then as many levels as the paths of one request may have that share none.
const levelsPerOp = 16

// reconfigWeight is what a change of the list of servers weighs: as much as an entry, because the list has up to 255 lines of 548
// bytes, and each is read and written.
const reconfigWeight = 4096

// killWeight is what the end of a session for an operator weighs: an entry then has at most 64 of them. Each costs every member as
// much as a few writes, in addition to the session's ephemeral nodes.
const killWeight = 64

// identifyWeight is what an identify weighs: the list of identities in the record, of up to 4 KiB, is made anew, however short the one
// is that is added. An entry then has as many of them as of such lists in 1 MiB.
const identifyWeight = 16

// TxnWeight returns what a transaction weighs in apply, in operations: one for each operation of a multi, the levels of its paths, and
// the lists that it stores. A short request can store long lists, see Expanded.
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
	levels := bytes.Count(body, []byte("/")) // or fewer: data may have slashes, too
	return max(n, levels/levelsPerOp, int(txn.GetLists()/aclBytesPerOp))
}
