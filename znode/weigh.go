package znode

import (
	"bytes"

	"rollcall/jute"
	"rollcall/proto"
)

// countWeight is what the count of a subtree weighs, in operations: as much as an entry, because the subtree may be the whole tree.
const countWeight = 4096

// listWeight is how many bytes of access control lists weigh as much as an operation. 4,096 operations are an entry, and so is 1 MiB.
const listWeight = 256

// Weigh returns what a transaction weighs in apply, in operations: one for each operation of a multi, countWeight for each node
// of a quota that it creates, and the lists that it stores. A short request can store long lists, see Expanded.
func Weigh(txn *proto.Txn) int {
	return max(weighOps(jute.Op(txn.GetOp()), txn.GetBody()), int(txn.GetLists()/listWeight))
}

func weighOps(op jute.Op, body []byte) int {
	n := 1
	switch {
	case op == jute.OpMulti:
		n = max(1, jute.CountMulti(body))
	case !op.Creates():
		return n
	}
	if bytes.Contains(body, []byte(quotaPath+"/")) {
		n += countWeight * (bytes.Count(body, []byte(limitsName)) + bytes.Count(body, []byte(usageName)))
	}
	return n
}
