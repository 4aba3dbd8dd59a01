package kills

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	// window is the number of writes that a session has in flight.
	window = 6
	// slots is the number of nodes that each session overwrites all the time.
	slots = 10
	// pace is the longest pause between two writes of a session.
	pace = 4 * time.Millisecond
)

// kind is the kind of a write. All writes are below the session's own node.
type kind int

const (
	overwrite kind = iota // a slot, with the write's number
	queue                 // creates a sequential node that holds the number
	hold                  // creates an ephemeral node
	both                  // a multi: creates a node, and writes the number into the tally
	drop                  // deletes a node that queue, hold or both created
)

// write is one write of a session, with its outcome.
type write struct {
	kind  kind
	n     int    // in the order of sending
	path  string // the node's path; for queue it is known once it is acknowledged
	call  *cluster.Call
	acked bool // otherwise its outcome is unknown
	zxid  int64
}

// value is the content of the node at path after writes. Some of them may not have happened.
type value struct {
	applied int   // how many writes of known outcome
	last    int   // the number that the last of them wrote; -1: none
	zxid    int64 // the zxid of the last of them; 0: unknown
	maybe   []int // numbers of later writes with unknown outcome
}

// writer is one session, and what must exist of its writes. Its goroutine writes unless it is
// paused. While it is paused, its state may be checked.
type writer struct {
	client *cluster.Client
	dir    string
	rng    *rand.Rand

	n       int
	zxid    int64             // the last acknowledged write's
	pending []*write          // sent, in order
	nodes   map[string]*write // nodes that must exist
	unsure  []*write          // writes of unknown outcome that create or delete
	values  map[string]*value // for slots and the tally
	err     error             // the first error

	acked, unknown int

	mu   sync.Mutex // held while the writer works; taken by others to pause it
	stop context.CancelFunc
	done chan struct{}
}

// newWriter opens a session whose home is the client's first member, and creates its nodes.
func newWriter(client *cluster.Client, dir string, rng *rand.Rand) (*writer, error) {
	w := &writer{client: client, dir: dir, rng: rng, nodes: map[string]*write{}, values: map[string]*value{}, done: make(chan struct{})}
	nodes := []jute.CreateRequest{{Path: []byte(dir), ACL: jute.OpenACL}}
	for i := range slots + 1 {
		nodes = append(nodes, jute.CreateRequest{Path: []byte(w.slot(i)), ACL: jute.OpenACL})
		w.values[w.slot(i)] = &value{last: -1}
	}
	if err := makeAll(client, nodes); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go w.run(ctx)
	return w, nil
}

// slot returns the path of a slot. The last one is the tally.
func (w *writer) slot(i int) string { return fmt.Sprintf("%s/slot%d", w.dir, i) }

// run writes until it is stopped. It pauses while another goroutine holds mu.
func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil {
		w.mu.Lock()
		w.send()
		for len(w.pending) >= window {
			w.awaitOldest()
		}
		w.mu.Unlock()
		time.Sleep(time.Duration(w.rng.Int64N(int64(pace))))
	}
}

// outcomes returns the number of acknowledged writes, and of writes of unknown outcome. It waits while the writer is
// paused.
func (w *writer) outcomes() (acked, unknown int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked, w.unknown
}

// shutDown stops the writer for good.
func (w *writer) shutDown() {
	w.stop()
	w.client.Abandon()
	<-w.done
}

// send chooses a write and sends it, if there is a connection or will be soon.
func (w *writer) send() {
	x := &write{n: w.n, kind: w.choose()}
	w.n++
	number := []byte(strconv.Itoa(x.n))
	create := jute.CreateRequest{Data: number, ACL: jute.OpenACL}
	switch x.kind {
	case overwrite:
		x.path = w.slot(w.rng.IntN(slots))
		x.call = w.client.Go(jute.OpSetData, &jute.SetDataRequest{Path: []byte(x.path), Data: number, Version: -1})
	case queue:
		create.Path, create.Flags = []byte(w.dir+"/q-"), jute.PersistentSequential
		x.call = w.client.Go(jute.OpCreate, &create)
	case hold:
		x.path = fmt.Sprintf("%s/e%d", w.dir, x.n)
		create.Path, create.Flags = []byte(x.path), jute.Ephemeral
		x.call = w.client.Go(jute.OpCreate, &create)
	case both:
		x.path = fmt.Sprintf("%s/m%d", w.dir, x.n)
		create.Path = []byte(x.path)
		tally := jute.SetDataRequest{Path: []byte(w.slot(slots)), Data: number, Version: -1}
		x.call = w.client.Go(jute.OpMulti, multi{{Op: jute.OpCreate, Create: create}, {Op: jute.OpSetData, SetData: tally}})
	case drop:
		for path := range w.nodes { // a random one
			x.path = path
			break
		}
		delete(w.nodes, x.path)
		x.call = w.client.Go(jute.OpDelete, &jute.DeleteRequest{Path: []byte(x.path), Version: -1})
	}
	w.pending = append(w.pending, x)
}

// multi is the record of a multi.
type multi []jute.MultiOp

// Append implements wire.Record.
func (m multi) Append(b []byte) []byte { return jute.AppendMulti(b, m) }

// kept limits the nodes of one session, so that reading all of them is fast.
const kept = 150

func (w *writer) choose() kind {
	switch i := w.rng.IntN(100); {
	case len(w.nodes) > 0 && i < 10, len(w.nodes) > kept && i < 60:
		return drop
	case i < 18:
		return queue
	case i < 24:
		return hold
	case i < 32:
		return both
	}
	return overwrite
}

// awaitOldest waits for the oldest write and records its outcome.
func (w *writer) awaitOldest() {
	x := w.pending[0]
	w.pending = w.pending[1:]
	r, err := x.call.Wait()
	switch {
	case err == nil:
		w.acked++
		w.acknowledged(x, r)
	case errors.Is(err, cluster.ErrLoss):
		w.unknown++
		w.outcomeUnknown(x)
	default:
		w.wrong("write %d (kind %d) of %s: %v", x.n, x.kind, x.path, err)
	}
}

func (w *writer) wrong(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(w.dir+": "+format, args...)
	}
}

// acknowledged records a write that has happened.
func (w *writer) acknowledged(x *write, r wire.Reply) {
	x.acked, x.zxid = true, r.Zxid
	if x.zxid <= w.zxid {
		w.wrong("write %d has zxid %#x, the one before %#x", x.n, x.zxid, w.zxid)
	}
	w.zxid = x.zxid
	switch x.kind {
	case queue:
		var resp jute.CreateResponse
		if err := r.Into(&resp); err != nil {
			w.wrong("write %d: %v", x.n, err)
		}
		x.path = string(resp.Path)
		w.nodes[x.path] = x
	case hold:
		w.nodes[x.path] = x
	case both:
		w.nodes[x.path] = x
		w.values[w.slot(slots)].wrote(x)
	case overwrite:
		w.values[x.path].wrote(x)
	}
}

func (v *value) wrote(x *write) { v.applied, v.last, v.zxid = v.applied+1, x.n, x.zxid }

// outcomeUnknown records a write that may or may not have happened.
func (w *writer) outcomeUnknown(x *write) {
	switch x.kind {
	case overwrite:
		w.values[x.path].maybe = append(w.values[x.path].maybe, x.n)
	case both:
		w.values[w.slot(slots)].maybe = append(w.values[w.slot(slots)].maybe, x.n)
		fallthrough
	default:
		w.unsure = append(w.unsure, x)
	}
}

// pause makes the writer stop. It waits until all its writes have an outcome and the session is
// connected: after that, none of the lost writes can happen any more.
func (w *writer) pause() error {
	w.mu.Lock()
	for len(w.pending) > 0 {
		w.awaitOldest()
	}
	for w.err == nil {
		err := w.client.Sync()
		if err == nil {
			return nil
		}
		if !errors.Is(err, cluster.ErrLoss) {
			w.wrong("sync: %v", err)
		}
	}
	return w.err
}

func (w *writer) resume() { w.mu.Unlock() }

// check compares what must exist with what does, and expects the latter from then on. It also compares the session with the
// state, unless the state is nil. The writer must be paused.
func (w *writer) check(s *znode.State, found tree) error {
	if s != nil {
		w.checkSession(s)
	}
	below := map[string]bool{}
	for _, child := range found[w.dir].children {
		below[w.dir+"/"+child] = true
	}
	w.checkUnsure(s, found, below)
	for path, v := range w.values {
		w.checkValue(path, v, found)
		delete(below, path)
	}
	for path, x := range w.nodes {
		w.checkNode(path, x, found)
		delete(below, path)
	}
	for path := range below {
		w.wrong("%s is there, which nobody made, or which was deleted: %v", path, found[path])
	}
	w.checkOrder(found)
	return w.err
}

// checkSession checks that the session exists and is owned by the client's connection.
func (w *writer) checkSession(s *znode.State) {
	s.RLock()
	defer s.RUnlock()
	record, ok := s.Session(w.client.Session())
	if !ok || record.Timeout != sessionTimeout || record.Owner.Member != w.client.Member() {
		w.wrong("session %v, connected to member %d: %+v", w.client.Session(), w.client.Member(), record)
	}
}

// checkUnsure finds out the outcome of writes that were not answered.
func (w *writer) checkUnsure(s *znode.State, found tree, below map[string]bool) {
	for _, x := range w.unsure {
		switch x.kind {
		case drop:
			delete(below, x.path) // it may exist or not
			if _, ok := found[x.path]; ok {
				w.nodes[x.path] = &write{kind: drop, path: x.path} // whatever created it
			}
		case queue:
			number := strconv.Itoa(x.n)
			for path := range below {
				if strings.HasPrefix(path, w.dir+"/q-") && string(found[path].data) == number {
					x.path = path
					w.nodes[path] = x
				}
			}
		default:
			if below[x.path] {
				w.nodes[x.path] = x
			}
		}
		if _, there := w.nodes[x.path]; x.kind == both && there {
			// The tally changes with it, in the order of the writes.
			v := w.values[w.slot(slots)]
			v.maybe = slices.DeleteFunc(v.maybe, func(n int) bool { return n == x.n })
			if v.applied++; x.n > v.last {
				v.last, v.zxid = x.n, 0
			}
		} else if x.kind == both {
			v := w.values[w.slot(slots)]
			v.maybe = slices.DeleteFunc(v.maybe, func(n int) bool { return n == x.n })
		}
	}
	w.unsure = nil
}

// checkValue checks that there are as many versions as writes, and that the data hold the last
// one's number.
func (w *writer) checkValue(path string, v *value, found tree) {
	n, ok := found[path]
	if !ok {
		w.wrong("%s is gone", path)
		return
	}
	last := -1
	if n.data != nil {
		var err error
		if last, err = strconv.Atoi(string(n.data)); err != nil {
			w.wrong("%s holds %q", path, n.data)
		}
	}
	version := int(n.stat.Version)
	known := last == v.last && (v.zxid == 0 || n.stat.Mzxid == v.zxid)
	switch {
	case version < v.applied || version > v.applied+len(v.maybe):
		w.wrong("%s has version %d after %d acknowledged writes and %d of unknown outcome: %v", path, version, v.applied, len(v.maybe), n)
	case !known && !(last > v.last && slices.Contains(v.maybe, last)):
		w.wrong("%s: want the data of write %d, zxid %#x, or of one of %v: %v", path, v.last, v.zxid, v.maybe, n)
	}
	*v = value{applied: version, last: last, zxid: n.stat.Mzxid}
	if last < 0 {
		v.zxid = 0
	}
}

// checkNode checks that a node that was created and not deleted is as it was created.
func (w *writer) checkNode(path string, x *write, found tree) {
	n, ok := found[path]
	owner := jute.SessionID(n.stat.EphemeralOwner)
	switch {
	case !ok:
		w.wrong("%s, of acknowledged write %d, is gone", path, x.n)
	case x.kind != drop && string(n.data) != strconv.Itoa(x.n):
		w.wrong("%s is of write %d: %v", path, x.n, n)
	case x.acked && n.stat.Czxid != x.zxid:
		w.wrong("%s was made at zxid %#x: %v", path, x.zxid, n)
	case x.kind == hold && owner != w.client.Session(), x.kind != hold && x.kind != drop && owner != 0:
		w.wrong("%s is owned by %v, the session is %v", path, owner, w.client.Session())
	case n.stat.Version != 0:
		w.wrong("%s was written again: %v", path, n)
	}
}

// checkOrder checks that what the session queued is there in the order of its writes, each once.
func (w *writer) checkOrder(found tree) {
	previous, zxid := -1, int64(0)
	for _, child := range found[w.dir].children { // sorted, since all counters have ten digits
		if !strings.HasPrefix(child, "q-") {
			continue
		}
		n := found[w.dir+"/"+child]
		i, err := strconv.Atoi(string(n.data))
		if err != nil || i <= previous || n.stat.Czxid <= zxid {
			w.wrong("%s holds %q behind write %d: %v", child, n.data, previous, n)
		}
		previous, zxid = i, n.stat.Czxid
	}
}
