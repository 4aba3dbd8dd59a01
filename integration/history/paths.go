package history

import (
	"cmp"
	"slices"
	"strings"

	"rollcall/zk/jute"
)

// writes are the writes of clients to one path.
type writes struct {
	done    []*Call // creates, sets and deletes that are known to have succeeded, by zxid
	unknown []*Call // unanswered, in the order of invocation; for sequential creates see book.loose
	mortal  bool    // it may vanish without a client's delete: an ephemeral, container or TTL node
	counted bool    // a sequential create made it
}

// gatherWrites sorts the clients' writes by path.
func (b *book) gatherWrites() {
	b.paths = make(map[string]*writes)
	b.loose = make(map[string][]*Call)
	for i := range b.Calls {
		c := &b.Calls[i]
		if !changes(c.Op) || c.answered() && c.Reply.Code != jute.OK {
			continue
		}
		if c.Mode.IsSequential() && !c.Done() {
			b.loose[c.Path] = append(b.loose[c.Path], c)
			continue
		}
		w := b.paths[c.node()]
		if w == nil {
			w = &writes{}
			b.paths[c.node()] = w
		}
		if c.Done() {
			w.done = append(w.done, c)
		} else {
			w.unknown = append(w.unknown, c)
		}
		w.mortal = w.mortal || mortal(c)
		w.counted = w.counted || c.Mode.IsSequential()
	}
	for _, w := range b.paths {
		slices.SortStableFunc(w.done, func(x, y *Call) int { return cmp.Compare(x.Reply.Zxid, y.Reply.Zxid) })
	}
}

// changes reports whether an operation creates, changes or deletes a node.
func changes(op jute.Op) bool {
	return op.IsCreate() || op == jute.OpSetData || op == jute.OpDelete
}

// mortal reports whether a node that c creates may vanish without a client's delete.
func mortal(c *Call) bool {
	return c.Op.IsCreate() && (c.Mode.IsEphemeral() || c.Mode.IsContainer() || c.Mode.IsTTL() ||
		c.Op == jute.OpCreateContainer || c.Op == jute.OpCreateTTL)
}

// upTo returns how many of the successful writes have a zxid of at most z.
func (w *writes) upTo(z int64) int {
	if w == nil {
		return 0
	}
	i, _ := slices.BinarySearchFunc(w.done, z, func(c *Call, z int64) int {
		if c.Reply.Zxid <= z {
			return -1
		}
		return 1
	})
	return i
}

// may reports whether a write of unknown outcome and of the given kind was in flight before seq.
func (w *writes) may(seq uint64, kind func(jute.Op) bool) bool {
	return w != nil && slices.ContainsFunc(w.unknown, func(c *Call) bool { return c.Invoked.Seq < seq && kind(c.Op) })
}

func deletes(op jute.Op) bool { return op == jute.OpDelete }

// digits is how many digits a sequential create appends.
const digits = 10

// asked returns the path that the sequential create of node asked for.
func asked(node string) (path string, ok bool) {
	n := len(node) - digits
	if n <= 0 || strings.Trim(node[n:], "0123456789") != "" {
		return "", false
	}
	return node[:n], true
}
