package history

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"rollcall/jute"
)

// linearizeLimit is how long porcupine may search one path, by the wall clock: a path with
// hundreds of operations takes milliseconds unless dozens of them went unanswered at once.
const linearizeLimit = 10 * time.Second

// checkLinear judges (g): the writes to each path, and the reads behind a sync, can be
// put into one order that keeps to the times at which they were under way. porcupine
// searches for it; not to find one, nor that there is none, is a fault.
//
//   - A path is a register: a node that is there or not, its data, its version. It begins as
//     not there: everything that makes a node must have been recorded.
//   - A read counts if the request before it on its connection was a sync that succeeded. It
//     is then under way from the sync's beginning. With History.Linear every read counts.
//   - A write without an answer may take effect at any time after it was asked for, or
//     never.
//   - Answers that say nothing of the node (a parent missing, a session moved, no right) are
//     left out.
//   - Left out are paths that sequential creates made, as their names are not known
//     beforehand, and those that may vanish by themselves.
func checkLinear(b *book, found func(Violation)) { b.linear(linearizeLimit, found) }

func (b *book) linear(limit time.Duration, found func(Violation)) {
	registers := b.registers()
	for _, path := range slices.Sorted(maps.Keys(registers)) {
		ops := registers[path]
		switch result, info := porcupine.CheckOperationsVerbose(register, ops, limit); result {
		case porcupine.Illegal:
			c := stuck(ops, info)
			found(c.violation(notLinear, fmt.Sprintf("%s, a %s answered %q, does not fit in behind any order of what was under way before", path, c.Op, c.Reply.Code.Error())))
		case porcupine.Unknown:
			v := ops[len(ops)-1].Input.(*Call).violation(undecided, fmt.Sprintf("%s, %d operations, %v", path, len(ops), limit))
			found(v)
			return // the others would take as long
		}
	}
}

// registers are the operations that are judged, by path.
func (b *book) registers() map[string][]porcupine.Operation {
	out := map[string][]porcupine.Operation{}
	before := map[uint64]*Call{} // the request before, on each connection
	for i := range b.Calls {
		c := &b.Calls[i]
		from := c.Invoked
		prev := before[c.Conn]
		before[c.Conn] = c
		switch {
		case c.Mode.IsSequential() || !b.isRegister(c.Path):
			continue
		case changes(c.Op):
			if c.answered() && !tells(c) {
				continue
			}
		case c.Op == jute.OpGetData || c.Op == jute.OpExists:
			synced := prev != nil && prev.Op == jute.OpSync && prev.Done()
			if !tells(c) || !synced && !b.Linear {
				continue
			}
			if !b.Linear {
				from = prev.Invoked
			}
		default:
			continue
		}
		to := int64(math.MaxInt64)
		if c.answered() {
			to = int64(c.Returned.Seq)
		}
		out[c.Path] = append(out[c.Path], porcupine.Operation{Input: c, Call: int64(from.Seq), Return: to})
	}
	return out
}

// isRegister reports whether a path is judged.
func (b *book) isRegister(path string) bool {
	w := b.paths[path]
	if w != nil && (w.mortal || w.counted) {
		return false
	}
	prefix, ok := asked(path)
	return !ok || len(b.loose[prefix]) == 0
}

// tells reports whether the answer says something of the node itself.
func tells(c *Call) bool {
	if !c.answered() {
		return false
	}
	switch c.Reply.Code {
	case jute.OK:
		return true
	case jute.NoNode:
		return !c.Op.Creates() // of a create it is the parent that is missing
	case jute.NodeExists, jute.BadVersion:
		return true
	}
	return false
}

// state is what a register holds.
type state struct {
	exists  bool
	data    string
	version int32
}

// register is the model of one path.
var register = porcupine.Model{
	Init:  func() any { return state{} },
	Step:  func(s, input, _ any) (bool, any) { return step(s.(state), input.(*Call)) },
	Equal: func(x, y any) bool { return x.(state) == y.(state) },
	Hash:  func(s any) uint64 { return uint64(len(s.(state).data))<<32 | uint64(uint32(s.(state).version)) },
}

// step applies one call, and reports whether it can have had its answer.
func step(s state, c *Call) (bool, any) {
	next, code := s.apply(c)
	switch {
	case !c.answered():
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

// apply is what a server does.
func (s state) apply(c *Call) (state, jute.Code) {
	switch {
	case c.Op.Creates() && s.exists:
		return s, jute.NodeExists
	case c.Op.Creates():
		return state{exists: true, data: c.Data}, jute.OK
	case !s.exists:
		return s, jute.NoNode
	case changes(c.Op) && c.Version != -1 && c.Version != s.version:
		return s, jute.BadVersion
	case c.Op == jute.OpSetData:
		return state{exists: true, data: c.Data, version: s.version + 1}, jute.OK
	case c.Op == jute.OpDelete:
		return state{}, jute.OK
	}
	return s, jute.OK
}

// stuck is the answered call that fits into no order: of those missing from the longest
// one, the first that returned.
func stuck(ops []porcupine.Operation, info porcupine.LinearizationInfo) *Call {
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
