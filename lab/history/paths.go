package history

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"rollcall/zk/jute"
)

// pathWrites are the writes of clients to one path.
type pathWrites struct {
	succeeded  []*Call // creates, sets and deletes that are known to have succeeded, by zxid
	unknown    []*Call // unanswered, in the order of invocation; for sequential creates see indexedHistory.unansweredSequential
	mayVanish  bool    // it may vanish without a client's delete: an ephemeral, container or TTL node
	sequential bool    // a sequential create made it
}

// gatherWrites sorts the clients' writes by path.
func (b *indexedHistory) gatherWrites() {
	b.writesByPath = make(map[string]*pathWrites)
	b.unansweredSequential = make(map[string][]*Call)
	for i := range b.Calls {
		c := &b.Calls[i]
		if !changesNode(c.Op) || c.hasReply() && c.Reply.Code != jute.OK {
			continue
		}
		if c.Mode.IsSequential() && !c.Done() {
			b.unansweredSequential[c.Path] = append(b.unansweredSequential[c.Path], c)
			continue
		}
		w := b.writesByPath[c.nodePath()]
		if w == nil {
			w = &pathWrites{}
			b.writesByPath[c.nodePath()] = w
		}
		if c.Done() {
			w.succeeded = append(w.succeeded, c)
		} else {
			w.unknown = append(w.unknown, c)
		}
		w.mayVanish = w.mayVanish || createsVanishingNode(c)
		w.sequential = w.sequential || c.Mode.IsSequential()
	}
	for _, w := range b.writesByPath {
		slices.SortStableFunc(w.succeeded, func(x, y *Call) int { return cmp.Compare(x.Reply.Zxid, y.Reply.Zxid) })
	}
}

// changesNode reports whether an operation creates, changes or deletes a node.
func changesNode(op jute.Op) bool {
	return op.IsCreate() || op == jute.OpSetData || op == jute.OpDelete
}

// createsVanishingNode reports whether a node that c creates may vanish without a client's delete.
func createsVanishingNode(c *Call) bool {
	return c.Op.IsCreate() && (c.Mode.IsEphemeral() || c.Mode.IsContainer() || c.Mode.IsTTL() ||
		c.Op == jute.OpCreateContainer || c.Op == jute.OpCreateTTL)
}

// countUpTo returns the number of successful writes with a zxid of at most z.
func (w *pathWrites) countUpTo(z int64) int {
	if w == nil {
		return 0
	}
	return sort.Search(len(w.succeeded), func(i int) bool { return w.succeeded[i].Reply.Zxid > z })
}

// mayHaveHappened reports whether a write of unknown outcome and of the given kind was in flight before seq.
func (w *pathWrites) mayHaveHappened(seq uint64, kind func(jute.Op) bool) bool {
	return w != nil && slices.ContainsFunc(w.unknown, func(c *Call) bool { return c.Invoked.Seq < seq && kind(c.Op) })
}

func isDelete(op jute.Op) bool { return op == jute.OpDelete }

// sequenceDigits is the number of digits that a sequential create appends.
const sequenceDigits = 10

// sequentialPrefix returns the path in the request of the sequential create that made node.
func sequentialPrefix(node string) (path string, ok bool) {
	n := len(node) - sequenceDigits
	if n <= 0 || strings.Trim(node[n:], "0123456789") != "" {
		return "", false
	}
	return node[:n], true
}
