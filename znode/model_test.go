package znode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"rollcall/jute"
)

// Two states apply the same random log; one of them is again and again replaced by what
// a snapshot of it restores. They stay equal, and a plain model of maps agrees with
// them about which nodes there are, whose they are, and what they hold.
func TestRandomLogs(t *testing.T) {
	logs, steps := 30, 600
	if testing.Short() {
		logs = 5
	}
	for seed := range logs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomLog(t, uint64(seed), steps) })
	}
}

// drive is a random log under way.
type drive struct {
	*rand.Rand
	w       *world
	clients []*client
	model   map[string]modelNode
}

type modelNode struct {
	data    string
	version int32
	owner   jute.SessionID
	creates int
}

func randomLog(t *testing.T, seed uint64, steps int) {
	other := New(Config{})
	w := newWorld(t, other)
	d := &drive{Rand: rand.New(rand.NewPCG(seed, 1)), w: w, model: map[string]modelNode{}}
	for _, path := range builtin {
		d.model[path] = modelNode{}
	}
	var fixed *Snapshot
	var bytesThen []byte
	for i := range steps {
		d.step()
		if d.IntN(20) == 0 {
			snapshot := encode(t, other.Snapshot())
			if err := other.Restore(bytes.NewReader(snapshot)); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		if d.IntN(30) == 0 {
			if fixed != nil && !bytes.Equal(encode(t, fixed), bytesThen) {
				t.Fatalf("step %d: a copy changed", i)
			}
			fixed = w.s().Snapshot()
			bytesThen = encode(t, fixed)
		}
		if d.IntN(10) == 0 || i == steps-1 {
			if diff := Diff(w.s(), other); diff != "" {
				t.Fatalf("step %d: %s", i, diff)
			}
			checkInvariants(t, w.s())
			checkInvariants(t, other)
			d.compare()
		}
		if t.Failed() {
			t.Fatalf("step %d", i)
		}
	}
}

// path is one of few, so that operations meet.
func (d *drive) path() string {
	names := []string{"/a", "/b", "/a/c", "/a/d", "/b/e", "/a/c/f", "/zookeeper/x", "/a/c/", "/", ""}
	return names[d.IntN(len(names))]
}

func (d *drive) someone() *client {
	if len(d.clients) == 0 {
		d.clients = append(d.clients, d.w.connect())
	}
	return d.clients[d.IntN(len(d.clients))]
}

func (d *drive) step() {
	w := d.w
	k := d.someone()
	switch n := d.IntN(100); {
	case n < 3:
		d.clients = append(d.clients, w.connect())
	case n < 5:
		if k.close().Code == jute.OK {
			d.forget(k.id)
		}
	case n < 8:
		since := k.since()
		if d.IntN(3) == 0 {
			since--
		}
		_, alive := w.s().Session(k.id)
		w.expire(k.id, since)
		if _, now := w.s().Session(k.id); alive && !now {
			d.forget(k.id)
		}
	case n < 12: // an attach; the old connection stays among the clients
		moved, r := k.attach(1, k.since(), password(k.id))
		if r.Code == jute.OK && d.IntN(2) == 0 {
			d.clients = append(d.clients, moved)
		}
	case n < 14: // what is not in turn
		txn := w.next(1, k.txn(jute.OpCreate, createOp("/never", "", 0, jute.OpenACL).Append(nil)))
		w.seq[1]--
		txn.Seq += uint64(d.IntN(3)) * 2
		if txn.Seq == w.seq[1]+1 {
			txn.Boot++
		}
		w.entry(txn)
	case n < 15:
		w.startTerm(w.term+uint64(d.IntN(2)), d.Uint64())
	case n < 30:
		var ops []jute.MultiOp
		for range d.IntN(5) {
			ops = append(ops, d.op())
		}
		d.multi(k, ops)
	case n < 33:
		k.setACL(d.path(), []jute.ACL{{Perms: 31, ID: jute.OpenACL[0].ID}, {Perms: jute.Perm(d.IntN(3)), ID: jute.ID{Scheme: []byte("digest"), ID: []byte("u:p")}}}, -1)
	default:
		d.single(k, d.op())
	}
	switch d.IntN(8) {
	case 0:
		_ = k.watchData(d.path())
	case 1:
		_ = k.watchChildren(d.path())
	}
}

func (d *drive) op() jute.MultiOp {
	path, version := d.path(), int32(d.IntN(4)-1)
	switch d.IntN(8) {
	case 0, 1, 2, 3:
		return jute.MultiOp{Op: jute.OpCreate, Create: createOp(path, fmt.Sprint(d.IntN(1000)), jute.CreateMode(d.IntN(4)), jute.OpenACL)}
	case 4:
		return jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte(path), Version: version}}
	case 5, 6:
		return jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte(path), Data: fmt.Append(nil, d.IntN(1000)), Version: version}}
	default:
		return jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte(path), Version: version}}
	}
}

func (d *drive) single(k *client, op jute.MultiOp) {
	if op.Op == jute.OpCheck {
		return
	}
	var body []byte
	switch op.Op {
	case jute.OpCreate:
		body = op.Create.Append(nil)
	case jute.OpDelete:
		body = op.Delete.Append(nil)
	case jute.OpSetData:
		body = op.SetData.Append(nil)
	}
	r := k.do(op.Op, body)
	want := jute.OK
	if _, alive := d.w.s().Session(k.id); !alive {
		want = jute.SessionExpired
	} else if s, _ := d.w.s().Session(k.id); s.Owner.Conn != k.conn {
		want = jute.SessionMoved
	}
	path := ""
	if want == jute.OK {
		path, want = d.apply(k, op)
	}
	if r.Code != want || r.Path != path {
		d.w.t.Errorf("%v %+v: %v path %q, want %v path %q", op.Op, op, r.Code, r.Path, want, path)
	}
}

func (d *drive) multi(k *client, ops []jute.MultiOp) {
	r := k.multi(ops...)
	s, alive := d.w.s().Session(k.id)
	if !alive || s.Owner.Conn != k.conn {
		return
	}
	before := map[string]modelNode{}
	for path, n := range d.model {
		before[path] = n
	}
	want := []string{}
	failed := false
	for _, op := range ops {
		_, code := d.apply(k, op)
		if failed = code != jute.OK; failed {
			d.model = before
			for i := range ops {
				switch {
				case i < len(want):
					want[i] = "-1/0"
				case i == len(want):
					want = append(want, fmt.Sprintf("-1/%d", code))
					code = jute.RuntimeInconsistency
				}
			}
			break
		}
		want = append(want, fmt.Sprintf("%d/0", op.Op))
	}
	if got := outcome(r); !slices.Equal(got, want) {
		d.w.t.Errorf("%+v: %q, want %q", ops, got, want)
	}
}

// apply runs op on the model.
func (d *drive) apply(k *client, op jute.MultiOp) (string, jute.Code) {
	version := func(n modelNode, v int32) bool { return v == -1 || v == n.version }
	switch op.Op {
	case jute.OpCreate:
		return d.create(k, string(op.Create.Path), string(op.Create.Data), op.Create.Flags)
	case jute.OpDelete:
		path := string(op.Delete.Path)
		n, ok := d.model[path]
		switch {
		case path == "" || path == "/":
			return "", jute.BadArguments
		case !ok:
			return "", jute.NoNode
		case !version(n, op.Delete.Version):
			return "", jute.BadVersion
		case d.hasChildren(path):
			return "", jute.NotEmpty
		}
		delete(d.model, path)
	case jute.OpSetData:
		path := string(op.SetData.Path)
		n, ok := d.model[path]
		switch {
		case path == "" || path != "/" && strings.HasSuffix(path, "/"):
			return "", jute.BadArguments
		case !ok:
			return "", jute.NoNode
		case !version(n, op.SetData.Version):
			return "", jute.BadVersion
		}
		n.version, n.data = n.version+1, string(op.SetData.Data)
		d.model[path] = n
	case jute.OpCheck:
		path := string(op.Check.Path)
		n, ok := d.model[path]
		switch {
		case path == "" || path != "/" && strings.HasSuffix(path, "/"):
			return "", jute.BadArguments
		case !ok:
			return "", jute.NoNode
		case !version(n, op.Check.Version):
			return "", jute.BadVersion
		}
	}
	return "", jute.OK
}

func (d *drive) create(k *client, path, data string, mode jute.CreateMode) (string, jute.Code) {
	slash := strings.LastIndex(path, "/")
	if slash < 0 {
		return "", jute.BadArguments
	}
	above := path[:max(slash, 1)]
	parent, ok := d.model[above]
	if !ok {
		return "", jute.NoNode
	}
	if mode.IsSequential() {
		path += fmt.Sprintf("%010d", parent.creates)
	}
	if path != "/" && strings.HasSuffix(path, "/") {
		return "", jute.BadArguments
	}
	if _, ok := d.model[path]; ok {
		return "", jute.NodeExists
	}
	if parent.owner != 0 {
		return "", jute.NoChildrenForEphemerals
	}
	n := modelNode{data: data}
	if mode.IsEphemeral() {
		n.owner = k.id
	}
	parent.creates++
	d.model[above], d.model[path] = parent, n
	return path, jute.OK
}

func (d *drive) hasChildren(path string) bool {
	for p := range d.model {
		if strings.HasPrefix(p, path+"/") {
			return true
		}
	}
	return false
}

// forget is the end of a session.
func (d *drive) forget(id jute.SessionID) {
	for path, n := range d.model {
		if n.owner == id {
			delete(d.model, path)
		}
	}
	if len(d.clients) > 6 {
		d.clients = slices.DeleteFunc(d.clients, func(k *client) bool { return k.id == id })
	}
}

func (d *drive) compare() {
	d.w.t.Helper()
	s := d.w.s()
	if s.NodeCount() != len(d.model) {
		d.w.t.Errorf("%d nodes, the model has %d", s.NodeCount(), len(d.model))
	}
	for path, m := range d.model {
		n := s.get(path)
		if n == nil {
			d.w.t.Errorf("%s is missing", path)
			continue
		}
		if string(n.data) != m.data || n.version != m.version || n.owner != m.owner || int(n.creates) != m.creates {
			d.w.t.Errorf("%s: %s, the model has %+v", path, n.describe(), m)
		}
	}
}

// The two containers against plain maps, with copies taken and kept.
func TestSortedAgainstMap(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		var s sorted[name, int]
		model := map[name]int{}
		type copied struct {
			s sorted[name, int]
			m map[name]int
		}
		var copies []copied
		gen := uint64(1)
		keys := 1 + r.IntN(3000)
		for i := range 6000 {
			k := name(fmt.Sprint(r.IntN(keys)))
			if seed%3 == 0 {
				k = name(fmt.Sprintf("%08d", i)) // in order
			}
			if r.IntN(10) < 4+int(seed%4) {
				_, there := model[k]
				model[k] = i
				if s.put(gen, k, i) == there {
					t.Fatalf("put %s: new %t", k, there)
				}
			} else {
				if seed%3 == 0 && i > 100 {
					k = name(fmt.Sprintf("%08d", i-r.IntN(100)))
				}
				_, there := model[k]
				delete(model, k)
				if s.drop(gen, k) != there {
					t.Fatalf("drop %s: there %t", k, there)
				}
			}
			if p := s.slot(gen, k); p != nil {
				*p = -i
				model[k] = -i
			} else if _, there := model[k]; there {
				t.Fatalf("no slot for %s", k)
			}
			if r.IntN(700) == 0 {
				m := map[name]int{}
				for k, v := range model {
					m[k] = v
				}
				copies = append(copies, copied{s, m})
				gen++
			}
		}
		copies = append(copies, copied{s, model})
		for _, c := range copies {
			compareSorted(t, &c.s, c.m)
		}
		for k := range model {
			s.drop(gen, k)
		}
		if s.root != nil || s.n != 0 {
			t.Errorf("%d keys left", s.n)
		}
	}
}

// Growing and shrinking by ranges joins branches, too, and leaves keys in between.
func TestSortedByRanges(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 4))
		var s sorted[name, int]
		model := map[name]int{}
		for round := range 60 {
			from, length := r.IntN(20000), r.IntN(4000)
			grow := round%3 != 2
			for i := from; i < from+length; i++ {
				k := name(fmt.Sprintf("%08d", i))
				switch {
				case grow && r.IntN(4) == 0:
					s.put(1, k, i)
					model[k] = i
				case !grow:
					s.drop(1, k)
					delete(model, k)
				}
			}
			compareSorted(t, &s, model)
		}
	}
}

func compareSorted(t *testing.T, s *sorted[name, int], model map[name]int) {
	t.Helper()
	var want, got []name
	for k, v := range model {
		want = append(want, k)
		if g, ok := s.get(k); !ok || g != v {
			t.Fatalf("%s = %d %t, want %d", k, g, ok, v)
		}
	}
	slices.Sort(want)
	for k := range s.all() {
		got = append(got, k)
	}
	if !slices.Equal(got, want) || s.n != len(want) {
		t.Fatalf("%d keys, want %d", len(got), len(want))
	}
	for _, first := range []name{"", "5", "00000500", "00000500x", "9999999999"} {
		got = got[:0]
		for k := range s.from(first) {
			got = append(got, k)
		}
		i, _ := slices.BinarySearch(want, first)
		if !slices.Equal(got, want[i:]) {
			t.Fatalf("from %q: %d keys, want %d", first, len(got), len(want)-i)
		}
	}
}

func TestTrieAgainstMap(t *testing.T) {
	hashes := map[string]func(round int, path string) uint64{
		"random": nil,
		"equal in the first hashes": func(round int, path string) uint64 {
			if round < 2 {
				return 42
			}
			return newTrieHash(path)
		},
		"equal in few digits": func(round int, path string) uint64 {
			if round == 0 {
				return newTrieHash(path) & 0xfff0000000000000
			}
			return newTrieHash(path)
		},
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 3))
			tr := newTrie()
			if hash != nil {
				tr.hash = hash
			}
			model := map[string]int32{}
			gen := uint64(1)
			type copied struct {
				tr trie
				m  map[string]int32
			}
			var copies []copied
			for i := range 20000 {
				path := fmt.Sprint("/", r.IntN(2000))
				_, there := model[path]
				if (tr.get(path) != nil) != there {
					t.Fatalf("%s: want it there %t", path, there)
				}
				switch {
				case !there:
					tr.add(gen, &node{gen: gen, path: path, version: int32(i)})
					model[path] = int32(i)
				case r.IntN(2) == 0:
					tr.drop(gen, path)
					delete(model, path)
				default:
					tr.edit(gen, path).version = int32(-i)
					model[path] = int32(-i)
				}
				if r.IntN(2000) == 0 {
					m := map[string]int32{}
					for k, v := range model {
						m[k] = v
					}
					copies = append(copies, copied{tr, m})
					gen++
				}
			}
			for _, c := range append(copies, copied{tr, model}) {
				if c.tr.n != len(c.m) {
					t.Errorf("%d nodes, want %d", c.tr.n, len(c.m))
				}
				for path, v := range c.m {
					if n := c.tr.get(path); n == nil || n.version != v {
						t.Fatalf("%s: %v, want %d", path, n, v)
					}
				}
			}
			for path := range model {
				tr.drop(gen, path)
			}
			if len(tr.root.kids) != 0 || tr.n != 0 {
				t.Errorf("%d kids left", len(tr.root.kids))
			}
		})
	}
}

// The further hashes of a path differ from each other, and from those of other paths.
func TestTrieHashes(t *testing.T) {
	tr := newTrie()
	seen := map[uint64]bool{}
	for round := range 4 {
		for _, path := range []string{"/a", "/b", "/c"} {
			seen[tr.hash(round, path)] = true
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d different hashes of 12", len(seen))
	}
}

func newTrieHash(path string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(path) {
		h = (h ^ uint64(path[i])) * 1099511628211
	}
	return h
}
