package history

import (
	"cmp"
	"slices"
	"strings"

	"rollcall/jute"
)

// writes is what clients did to one path.
type writes struct {
	done    []*Call // creates, sets and deletes that are known to have succeeded, by zxid
	unknown []*Call // without an answer, by invocation; of sequential creates see book.loose
	mortal  bool    // it may vanish without a client's delete: ephemeral, container or TTL
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

// changes reports whether an operation makes, changes or removes a node.
func changes(op jute.Op) bool {
	return op.Creates() || op == jute.OpSetData || op == jute.OpDelete
}

// mortal reports whether a node that c makes may vanish without a client's delete.
func mortal(c *Call) bool {
	return c.Op.Creates() && (c.Mode.IsEphemeral() || c.Mode.IsContainer() || c.Mode.IsTTL() ||
		c.Op == jute.OpCreateContainer || c.Op == jute.OpCreateTTL)
}

// upTo is how many of the successful writes have a zxid of at most z.
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

// may reports whether a write of unknown outcome, of a kind, was under way before seq.
func (w *writes) may(seq uint64, kind func(jute.Op) bool) bool {
	return w != nil && slices.ContainsFunc(w.unknown, func(c *Call) bool { return c.Invoked.Seq < seq && kind(c.Op) })
}

func deletes(op jute.Op) bool { return op == jute.OpDelete }

// digits is the length of the number that a sequential create appends.
const digits = 10

// asked is the path that a sequential create of node was asked for.
func asked(node string) (path string, ok bool) {
	n := len(node) - digits
	if n <= 0 || strings.Trim(node[n:], "0123456789") != "" {
		return "", false
	}
	return node[:n], true
}
