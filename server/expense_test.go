package server

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	// mostApply is the most processor time that apply may spend on one request of a client, on a machine where yardstick
	// takes usualYardstick.
	mostApply = 100 * time.Millisecond
	// usualYardstick is the result of BenchmarkYardstick on an idle machine, on which the requests take the times of
	// docs/dev/limits.md.
	usualYardstick = 5 * time.Millisecond
	// mostOps is more operations than a multi of the usual length has room for.
	mostOps = 60_000
	// mostGrowth bounds the bytes that a request may add to State.DataUsed, besides freeStoredBytes, as a multiple of
	// its own length with its client's identities.
	mostGrowth = 4
	// mostMemory bounds the memory that a request may take, besides freeMemory, as a multiple of its length with its
	// client's identities. Containers with names of a few letters take 5.6 times as much, and long lists 5.3 times.
	mostMemory = 6
	// freeMemory is the memory for the lists of a short request, see freeStoredBytes, and for the error of the
	// measurement.
	freeMemory = 16 << 10
	// mostTold is the most bytes of paths that the events of one request may have.
	mostTold = 80 << 20
	// expenseTries is the number of runs of a slow program. The least time of each request counts, because the collector
	// and other processes take the processor, too.
	expenseTries = 12
)

// spender is a client that spends as much as it may, as the state sees its connection.
type spender struct {
	session int64
	ids     []*proto.Identity
	told    int // bytes of paths in events
}

func (c *spender) QueueEvent(_ jute.EventType, path string, _ int64) { c.told += len(path) }
func (c *spender) Identities() []*proto.Identity                     { return c.ids }
func (*spender) AdjustWatchMemory(int)                               {}

// cost is the cost of a request that entered the log.
type cost struct {
	what  string
	ops   int
	paid  int           // bytes of the request and its client's identities
	took  time.Duration // of the thread's own time
	grown int64         // of State.DataUsed
	told  int           // bytes of paths in events
}

// expenses are a state, the server that admits transactions to its log, and clients.
type expenses struct {
	last     stepsWaiter // of the last request
	tb       testing.TB
	member   *fakeMember
	srv      *Server
	clients  []*spender
	watchers []*spender
	costs    []cost
	refused  int
	names    int // for names that were not used yet
	longest  int // bytes of a request
	ops      int // of a multi
	most     int // requests; 0: any number
}

func newExpenses(tb testing.TB, rules *proto.TermStart) *expenses {
	m := newFakeMember()
	srv, err := New(Config{Member: m, State: m.state, Tick: testTick})
	if err != nil {
		tb.Fatal(err)
	}
	m.srv = srv
	rules.Leader, rules.Nonce = self, nonce
	m.apply(&proto.Txn{Op: int32(jute.OpTermStart), Body: encode(rules)})
	return &expenses{tb: tb, member: m, srv: srv, longest: jute.DefaultMaxBuffer - 8, ops: mostOps}
}

// identities returns an address and so many other identities, or as many as a connection may have.
func identities(of, n int, scheme, text string) (ids []*proto.Identity) {
	ids = append(ids, newIdentity("ip", "192.0.2.1"))
	for size := len("ip192.0.2.1"); len(ids) < min(n, DefaultMaxIdentities); {
		id := fmt.Sprintf(text, of, len(ids))
		if size += len(scheme) + len(id); size > maxIdentityBytes {
			break
		}
		ids = append(ids, newIdentity(scheme, id))
	}
	return ids
}

// client opens a session.
func (e *expenses) client(ids []*proto.Identity) *spender {
	c := &spender{session: self<<56 + int64(e.names) + 1, ids: ids}
	e.names++
	e.clients = append(e.clients, c)
	_ = e.commit(c, &proto.Txn{Op: int32(jute.OpCreateSession), Body: encode(&proto.OpenSession{TimeoutMs: 1 << 20, Password: make([]byte, 16)})})
	return c
}

// commit applies a transaction of a client as an entry of its own, and returns the processor time of the thread for it.
func (e *expenses) commit(c *spender, txn *proto.Txn) time.Duration {
	txn.Member, txn.Incarnation, txn.Session, txn.Conn = self, testBoot, c.session, uint64(c.session)
	if txn.Op == int32(jute.OpCreateSession) {
		txn.Ids = c.ids
	}
	e.member.seq[self]++
	txn.Seq = e.member.seq[self]
	e.member.waiters[txn.Seq] = &e.last
	return e.apply(txn)
}

// stepsWaiter notes whether apply has rejected a multi whose operations, with those for quotas, take too many steps.
type stepsWaiter struct{ exceeded bool }

func (w *stepsWaiter) ReceiveResult(r *znode.Result) {
	w.exceeded = len(r.Multi) > 0 && r.Multi[0].Op == jute.OpError && r.Multi[0].Code == jute.BadArguments
}

func (e *expenses) apply(txn *proto.Txn) time.Duration {
	began := threadTime(e.tb)
	e.member.apply(txn)
	return threadTime(e.tb) - began
}

// threadTime returns the processor time of the thread.
func threadTime(tb testing.TB) time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(at.Nano())
}

// request has a request committed if the server lets it into the log, and reports whether it does, and apply runs it.
func (e *expenses) request(c *spender, op jute.Op, rec record) bool {
	body := rec.Append(nil)
	n := 1
	if op == jute.OpMulti {
		n = jute.CountMultiOps(body)
	}
	lists, code := e.srv.WriteLimits().CheckCost(op, body, c.ids)
	if e.most > 0 && len(e.costs) >= e.most || len(body) > e.longest || n > e.ops || code != jute.OK {
		e.refused++
		return false
	}
	before, told := e.used(), e.told()
	took := e.commit(c, &proto.Txn{Op: int32(op), Body: body, AclBytes: lists})
	e.costs = append(e.costs, cost{
		what: fmt.Sprintf("%v of %d operations, %d bytes", op, n, len(body)), ops: n, paid: len(body) + identityBytes(c.ids),
		took: took, grown: e.used() - before, told: e.told() - told,
	})
	return op != jute.OpMulti || !e.last.exceeded
}

// end ends a client's session, and removes what it leaves as a leader does.
func (e *expenses) end(c *spender) {
	e.clients = slices.DeleteFunc(e.clients, func(other *spender) bool { return other == c })
	_ = e.request(c, jute.OpCloseSession, raw(nil))
	for sweeps := true; sweeps; {
		took := e.apply(&proto.Txn{Op: int32(jute.OpSweep), Body: encode(&proto.Sweep{Nodes: 500})})
		e.costs = append(e.costs, cost{what: "sweep", took: took})
		e.member.state.RLock()
		sweeps = e.member.state.HasUnswept()
		e.member.state.RUnlock()
	}
}

func (e *expenses) used() int64 {
	e.member.state.RLock()
	defer e.member.state.RUnlock()
	return e.member.state.DataUsed()
}

func (e *expenses) told() (n int) {
	for _, w := range e.watchers {
		n += w.told
	}
	return n
}

// name returns a name of so many bytes, or more, that was not used yet.
func (e *expenses) name(length int) string {
	e.names++
	return fmt.Sprintf("%0*x", max(length, 1), e.names)
}

// multi sends operations, as many as fit one request.
func (e *expenses) multi(c *spender, ops []jute.MultiOp) bool {
	size := 0
	for i := range ops {
		if size += len(jute.AppendMulti(nil, ops[i:i+1])); size > e.longest || i == e.ops {
			ops = ops[:i]
			break
		}
	}
	return e.request(c, jute.OpMulti, raw(jute.AppendMulti(nil, ops)))
}

func createOp(path string) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCreate, Create: node(path, jute.OpenACL)}
}

func setDataOp(path string) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte(path), Version: -1}}
}

// chain creates so many nodes, each below the other, and returns the path of the last one.
func (e *expenses) chain(c *spender, path string, levels, length int) string {
	var ops []jute.MultiOp
	size := 0
	for range min(levels, maxLevels-1-strings.Count(path, "/")) {
		next := path + "/" + e.name(length)
		if len(next)*strings.Count(next, "/") > maxPathReads {
			break
		}
		if path = next; size+len(path)+100 > e.longest || len(ops) == e.ops {
			_ = e.multi(c, ops)
			ops, size = nil, 0
		}
		size += len(path) + 100
		ops = append(ops, createOp(path))
	}
	_ = e.multi(c, ops)
	return path
}

// quota puts a quota on a path.
func (e *expenses) quota(c *spender, on string) {
	path := "/zookeeper/quota"
	for part := range strings.SplitSeq(on[1:], "/") {
		path += "/" + part
		_ = e.request(c, jute.OpCreate, node(path, jute.OpenACL))
	}
	e.quotaNodes(c, path)
}

// quotaAt creates a node and both nodes of a quota below it.
func (e *expenses) quotaAt(c *spender, path string) {
	_ = e.request(c, jute.OpCreate, node(path, jute.OpenACL))
	e.quotaNodes(c, path)
}

func (e *expenses) quotaNodes(c *spender, path string) {
	_ = e.request(c, jute.OpCreate, jute.CreateRequest{Path: []byte(path + "/zookeeper_limits"), Data: []byte("count=1000000,bytes=-1=;countHardLimit=10000000;byteHardLimit=-1"), ACL: jute.OpenACL})
	_ = e.request(c, jute.OpCreate, node(path+"/zookeeper_stats", jute.OpenACL))
}

// watch sets a watch of a connection of its own.
func (e *expenses) watch(path string, mode jute.AddWatchMode, ids []*proto.Identity) {
	w := &spender{ids: ids}
	e.watchers = append(e.watchers, w)
	e.member.state.RLock()
	defer e.member.state.RUnlock()
	_ = e.member.state.AddWatch([]byte(path), mode, w)
}

// checkExpenses runs a program, and again if a request was slow. The test fails if a request was slow in each run, or has added
// more memory than it may. The speed of the machine at that time is the yardstick for a slow request: other processes on
// the same core have made a request of 54 ms take 104.
func checkExpenses(tb testing.TB, run func() *expenses) {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var least []cost
	for try := 1; ; try++ {
		e := run()
		slowdown := 1.0
		if slices.ContainsFunc(e.costs, cost.slow) {
			slowdown = max(1, float64(yardstick(tb))/float64(usualYardstick))
		}
		slow := false
		for i, c := range e.costs {
			c.took = time.Duration(float64(c.took) / slowdown)
			if try == 1 {
				least = append(least, c)
			}
			least[i].took = min(least[i].took, c.took)
			slow = slow || least[i].slow()
		}
		if !slow || try == expenseTries {
			break
		}
		tb.Logf("attempt %d: a request was slow, on a machine that takes %.1f times as long as usual", try, slowdown)
	}
	var slowest cost
	for _, c := range least {
		if c.took > slowest.took {
			slowest = c
		}
		switch {
		case c.slow():
			tb.Errorf("%s: apply took %v, want at most %v", c.what, c.took, mostApply)
		case c.grown > int64(mostGrowth*c.paid+freeStoredBytes):
			tb.Errorf("%s: %d bytes added, want at most %d times %d", c.what, c.grown, mostGrowth, c.paid)
		case c.told > mostTold:
			tb.Errorf("%s: %d bytes of events, want at most %d", c.what, c.told, mostTold)
		}
	}
	tb.Logf("%d requests; the slowest, %s, took %v", len(least), slowest.what, slowest.took)
}

func (c cost) slow() bool { return c.took > mostApply }

// yardstick returns the time that the thread takes for a fixed piece of apply's work: the least of three multis with
// 10,000 writes each, of nodes at 10 levels.
func yardstick(tb testing.TB) time.Duration {
	e := newExpenses(tb, &proto.TermStart{})
	c := e.client(nil)
	var ops []jute.MultiOp
	for range 100 {
		path := e.chain(c, "", 10, 1)
		for range 100 {
			ops = append(ops, setDataOp(path))
		}
	}
	least := time.Duration(math.MaxInt64)
	for range 3 {
		if !e.multi(c, ops) {
			tb.Fatal("the server refused the writes that the machine is measured by")
		}
		least = min(least, e.costs[len(e.costs)-1].took)
	}
	return least
}

// BenchmarkYardstick measures the machine, see usualYardstick.
func BenchmarkYardstick(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took []time.Duration
	for b.Loop() {
		took = append(took, yardstick(b))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
}
