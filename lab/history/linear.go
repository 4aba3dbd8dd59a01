package history

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"rollcall/zk/jute"
)

// linearizeLimit bounds porcupine's search of one path, in real time. A path with hundreds of
// operations takes milliseconds, unless dozens of them were unanswered at once.
const linearizeLimit = 10 * time.Second

// checkLinear judges (g): there is an order of the writes to each path, and of the reads after a
// sync, that agrees with the times at which they were in flight. porcupine searches for such an
// order. It is a fault if there is none, and also if the search does not end in time.
//
//   - A path is a register: whether the node exists, its data and its version. At first it does not
//     exist, so everything that creates a node must have been recorded.
//   - A read counts if the request before it on its connection was a successful sync. It is then in
//     flight from the sync's beginning. With History.Linear every read counts.
//   - A write without an answer may take effect at any time after it was sent, or never.
//   - Answers that say nothing about the node are ignored: the parent is missing, the session has
//     moved, or permission is denied.
//   - Paths made by sequential creates are ignored, since their names are not known beforehand, and
//     so are nodes that may vanish by themselves.
func checkLinear(b *indexedHistory, found func(Violation)) {
	b.judgeLinearizable(linearizeLimit, found)
}

func (b *indexedHistory) judgeLinearizable(limit time.Duration, found func(Violation)) {
	registers := b.operationsByPath()
	for _, path := range slices.Sorted(maps.Keys(registers)) {
		ops := registers[path]
		switch result, info := porcupine.CheckOperationsVerbose(registerModel, ops, limit); result {
		case porcupine.Illegal:
			c := firstUnplacedCall(ops, info)
			found(c.newViolation(notLinear, fmt.Sprintf("%s, a %s answered %q, does not fit in behind any order of what was under way before", path, c.Op, c.Reply.Code.Error())))
		case porcupine.Unknown:
			v := ops[len(ops)-1].Input.(*Call).newViolation(undecided, fmt.Sprintf("%s, %d operations, %v", path, len(ops), limit))
			found(v)
			return // the other paths would take as long
		}
	}
}

// operationsByPath returns the operations that are judged, by path.
func (b *indexedHistory) operationsByPath() map[string][]porcupine.Operation {
	out := map[string][]porcupine.Operation{}
	before := map[uint64]*Call{} // the previous request on each connection
	for i := range b.Calls {
		c := &b.Calls[i]
		from := c.Invoked
		prev := before[c.Conn]
		before[c.Conn] = c
		switch {
		case c.Mode.IsSequential() || !b.isRegister(c.Path):
			continue
		case changesNode(c.Op):
			if c.hasReply() && !revealsNode(c) {
				continue
			}
		case c.Op == jute.OpGetData || c.Op == jute.OpExists:
			synced := prev != nil && prev.Op == jute.OpSync && prev.Done()
			if !revealsNode(c) || !synced && !b.Linear {
				continue
			}
			if !b.Linear {
				from = prev.Invoked
			}
		default:
			continue
		}
		to := int64(math.MaxInt64)
		if c.hasReply() {
			to = int64(c.Returned.Seq)
		}
		out[c.Path] = append(out[c.Path], porcupine.Operation{Input: c, Call: int64(from.Seq), Return: to})
	}
	return out
}

// isRegister reports whether a path is judged.
func (b *indexedHistory) isRegister(path string) bool {
	w := b.writesByPath[path]
	if w != nil && (w.mayVanish || w.sequential) {
		return false
	}
	prefix, ok := sequentialPrefix(path)
	return !ok || len(b.unansweredSequential[prefix]) == 0
}

// revealsNode reports whether the answer says something about the node itself.
func revealsNode(c *Call) bool {
	if !c.hasReply() {
		return false
	}
	switch c.Reply.Code {
	case jute.OK:
		return true
	case jute.NoNode:
		return !c.Op.IsCreate() // after a create, it is the parent that is missing
	case jute.NodeExists, jute.BadVersion:
		return true
	}
	return false
}

// registerState is the content of a register.
type registerState struct {
	exists  bool
	data    string
	version int32
}

// registerModel is the model of one path.
var registerModel = porcupine.Model{
	Init:  func() any { return registerState{} },
	Step:  func(s, input, _ any) (bool, any) { return replayCall(s.(registerState), input.(*Call)) },
	Equal: func(x, y any) bool { return x.(registerState) == y.(registerState) },
	Hash: func(s any) uint64 {
		return uint64(len(s.(registerState).data))<<32 | uint64(uint32(s.(registerState).version))
	},
}

// replayCall applies one call, and reports whether its answer is possible.
func replayCall(s registerState, c *Call) (bool, any) {
	next, code := s.applyCall(c)
	switch {
	case !c.hasReply():
		return true, next
	case code != c.Reply.Code:
		return false, s
	case code != jute.OK:
		return true, s
	}
	switch c.Op {
	case jute.OpGetData:
		return s.data == c.Reply.Data && s.version == c.Reply.Version, s
	case jute.OpExists:
		return s.version == c.Reply.Version, s
	case jute.OpSetData:
		return c.Reply.Mzxid == 0 || next.version == c.Reply.Version, next
	}
	return true, next
}

// applyCall does what a server does.
func (s registerState) applyCall(c *Call) (registerState, jute.Code) {
	switch {
	case c.Op.IsCreate() && s.exists:
		return s, jute.NodeExists
	case c.Op.IsCreate():
		return registerState{exists: true, data: c.Data}, jute.OK
	case !s.exists:
		return s, jute.NoNode
	case changesNode(c.Op) && c.Version != -1 && c.Version != s.version:
		return s, jute.BadVersion
	case c.Op == jute.OpSetData:
		return registerState{exists: true, data: c.Data, version: s.version + 1}, jute.OK
	case c.Op == jute.OpDelete:
		return registerState{}, jute.OK
	}
	return s, jute.OK
}

// firstUnplacedCall returns the answered call that fits into no order: of the calls missing in the longest
// partial order, the one that returned first.
func firstUnplacedCall(ops []porcupine.Operation, info porcupine.LinearizationInfo) *Call {
	fits := map[*Call]bool{}
	longest := 0
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) <= longest {
				continue
			}
			longest = len(order)
			clear(fits)
			for _, op := range order {
				fits[op.Input.(*Call)] = true
			}
		}
	}
	first := ops[0]
	for _, op := range ops {
		if !fits[op.Input.(*Call)] && (fits[first.Input.(*Call)] || op.Return < first.Return) {
			first = op
		}
	}
	return first.Input.(*Call)
}
