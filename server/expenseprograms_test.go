package server

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

const (
	expensePrograms = 16
	programLength   = 64 // bytes; each is a choice
	// programState is the size of the state at which a program ends, so that the test takes little time and memory.
	programState = 24 << 20
	// leastRequests is the least number of requests that must enter the log, and leastLarge the least number of large
	// ones among them. With fewer the programs would find nothing.
	leastRequests, leastLarge = 5000, 80
)

// dice are the choices of a program. When the bytes are used up, each choice is the first one.
type dice struct{ left []byte }

func (d *dice) roll(n int) int {
	if len(d.left) == 0 {
		return 0
	}
	b := d.left[0]
	d.left = d.left[1:]
	return int(b) % n
}

func pick[T any](d *dice, of ...T) T { return of[d.roll(len(of))] }

// No request that clients send within the bounds is expensive. A program makes products: operations, times lengths and
// levels of paths, entries of lists, identities, watchers, quotas. Each of its requests is checked, also the requests
// that only prepare others.
func TestRandomExpenses(t *testing.T) {
	requests, large, refused := 0, 0, 0
	for seed := range uint64(expensePrograms) {
		random := rand.New(rand.NewPCG(seed, 1))
		program := make([]byte, programLength)
		for i := range program {
			program[i] = byte(random.Uint32())
		}
		var e *expenses
		checkExpenses(t, func() *expenses {
			e = play(t, program, jute.DefaultMaxBuffer-8, mostOps, 0)
			return e
		})
		requests, large, refused = requests+len(e.costs), large+e.countLarge(), refused+e.refused
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d requests entered the log, %d of them large; %d were refused", requests, large, refused)
	if requests < leastRequests || large < leastLarge {
		t.Errorf("want at least %d and %d", leastRequests, leastLarge)
	}
}

// countLarge returns the number of requests that take more than half of the bytes or operations that a request may have.
func (e *expenses) countLarge() (n int) {
	for _, c := range e.costs {
		if c.paid > e.longest/2 || c.ops > e.ops/2 {
			n++
		}
	}
	return n
}

// The same with shorter requests, for which the bounds of growth are the same.
func FuzzExpenses(f *testing.F) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 2))
		program := make([]byte, programLength/4)
		for i := range program {
			program[i] = byte(random.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		program = program[:min(len(program), programLength/4)]
		checkExpenses(t, func() *expenses { return play(t, program, 8<<10, 60, 50) })
	})
}

// play runs a program of at most most requests, each with at most longest bytes and ops operations. If most is 0, there
// is no limit on their number.
func play(tb testing.TB, program []byte, longest, ops, most int) *expenses {
	d := &dice{program}
	e := newExpenses(tb, &proto.TermStart{EnforceQuota: d.roll(2) == 0, Sasl: true, TtlNodes: true})
	e.longest, e.ops, e.most = longest, ops, most
	for i := range pick(d, 1, 2, 4) {
		n := pick(d, 1, 8, DefaultMaxIdentities)
		if d.roll(2) == 0 {
			e.client(identities(i, n, "digest", "%d-%d:0123456789012345678901234567"))
		} else {
			e.client(identities(i, n, "sasl", "%d-%d"))
		}
	}
	places := []string{""}
	for len(d.left) > 0 && e.used() < programState && (most == 0 || len(e.costs) < most) {
		places = append(places, e.prepare(d, places[d.roll(len(places))])...)
		places = places[max(0, len(places)-1000):]
	}
	return e
}

// prepare makes some subtrees with all that makes writes of them expensive, and writes them. It returns their paths.
func (e *expenses) prepare(d *dice, base string) (parents []string) {
	c := e.clients[d.roll(len(e.clients))]
	levels, length := pick(d, 1, 0, 20, maxLevels), pick(d, 1, 3, 30, 1000, 16_000)
	for range pick(d, 1, 2, 30, 300) {
		parents = append(parents, e.chain(c, base, levels, length))
		if e.used() > programState {
			break
		}
	}
	if parents[0] == "" {
		return nil
	}
	if d.roll(3) == 1 {
		data := make([]byte, e.longest*9/10)
		for _, p := range parents[:min(len(parents), 10)] {
			_ = e.request(c, jute.OpSetData, jute.SetDataRequest{Path: []byte(p), Data: data[:max(0, len(data)-len(p))], Version: -1})
		}
	}
	for i := range pick(d, 0, 0, 1, 10) {
		e.quota(c, parents[i%len(parents)])
	}
	mode := pick(d, jute.AddWatchPersistentRecursive, jute.AddWatchPersistentRecursive, jute.AddWatchPersistent)
	on := pick(d, 0, 1, 2)
	for i := range pick(d, 0, 1, 20, 200) {
		path := []string{"/", base, parents[i%len(parents)]}[on]
		e.watch(path, mode, e.clients[i%len(e.clients)].ids)
	}
	e.write(d, c, parents)
	return parents
}

// write sends a multi whose operations go round the parents, and ends the session if it has made ephemeral nodes.
func (e *expenses) write(d *dice, c *spender, parents []string) {
	kinds := pick(d, "c", "cd", "s", "cs", "k", "e", "q", "ced", "t", "a")
	list, data, name := e.lists(d), make([]byte, pick(d, 0, 10, 1000, 30_000)), pick(d, 1, 8, 200, 8000)
	most, fails := pick(d, e.ops, e.ops/3, 100, 1), d.roll(4) == 1
	var ops []jute.MultiOp
	last, size := "/none", 0
	for i := 0; len(ops) < most && size < e.longest && i < 2*e.ops; i++ {
		parent, kind := parents[i%len(parents)], kinds[i%len(kinds)]
		if kind == 'a' {
			if i < 100 {
				_ = e.request(c, jute.OpSetACL, jute.SetACLRequest{Path: []byte(parent), ACL: list(i), Version: -1})
			}
			continue
		}
		if kind != 'd' && kind != 's' && kind != 'k' {
			last = parent + "/" + e.name(name)
		}
		ops = append(ops, step(kind, parent, last, data, list, i))
		size += len(jute.AppendMulti(nil, ops[len(ops)-1:]))
	}
	if fails && len(ops) > 1 {
		ops[len(ops)-1] = jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte("/none"), Version: -1}}
	}
	for n := len(ops); n > 0 && !e.multi(c, ops[:n]); n /= 2 { // as many as the bounds allow
	}
	if kinds == "e" {
		e.end(c)
		e.client(c.ids)
	}
}

func step(kind byte, parent, path string, data []byte, list func(i int) []jute.ACL, i int) jute.MultiOp {
	switch kind {
	case 'd':
		return jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte(path), Version: -1}}
	case 's':
		return jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte(parent), Data: data, Version: -1}}
	case 'k':
		return jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte(parent), Version: -1}}
	}
	op := jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: []byte(path), Data: data, ACL: list(i)}}
	switch kind {
	case 'e':
		op.Create.Flags = jute.Ephemeral
	case 'q':
		op.Create.Path, op.Create.Flags = []byte(parent+"/"), jute.PersistentSequential
	case 't':
		op.Op, op.Create.Flags = jute.OpCreateContainer, jute.Container
	}
	return op
}

// lists returns a function that returns the list of the i-th operation.
func (e *expenses) lists(d *dice) func(i int) []jute.ACL {
	entries := pick(d, 1, 2, 17, 200, DefaultMaxACL-1)
	var addresses, owners []jute.ACL
	for i := range entries {
		addresses = append(addresses, entryOf("ip", address(i), jute.PermAll))
		owners = append(owners, entryOf("auth", "", jute.PermAll-jute.Perm(i%31)))
	}
	digests := listOf(entries)
	own := func(list []jute.ACL) []jute.ACL { // with an entry that no list had before
		e.names++
		return append(list[:len(list):len(list)], entryOf("ip", address(1_000_000+e.names), jute.PermAll))
	}
	switch d.roll(6) {
	case 1:
		return func(int) []jute.ACL { return own(digests) }
	case 2:
		return func(int) []jute.ACL { return own(addresses) }
	case 3:
		return func(int) []jute.ACL { return own(owners) }
	case 4:
		return func(i int) []jute.ACL { return [][]jute.ACL{owners, addresses, digests}[i%3] }
	case 5:
		return func(int) []jute.ACL { return addresses }
	}
	return func(int) []jute.ACL { return jute.OpenACL }
}

func entryOf(scheme, id string, perms jute.Perm) jute.ACL {
	return jute.ACL{Perms: perms, ID: jute.ID{Scheme: []byte(scheme), ID: []byte(id)}}
}

// address returns the i-th address for a list, with a number of bits that count.
func address(i int) string { return fmt.Sprintf("%x:%x::/%d", 0x2000+i>>16, i&0xffff, 33+i%96) }
