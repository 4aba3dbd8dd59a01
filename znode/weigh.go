package znode

import (
	"bytes"

	"rollcall/jute"
)

// countWeight is what the count of a subtree weighs, in operations: as much as an entry, because the subtree may be the whole tree.
const countWeight = 4096

// Weigh returns what a transaction weighs in apply, in operations: one for each operation of a multi, and countWeight for each node
// of a quota that it creates. Lists and identities weigh what their bytes do: see Expanded.
func Weigh(op jute.Op, body []byte) int {
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
