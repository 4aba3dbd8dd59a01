package znode

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// worstOps returns the number of operations of a multi. With -short there are far fewer. worstDeletes and worstUndone
// have more.
func worstOps() int {
	if testing.Short() {
		return 100
	}
	return 10_000
}

const (
	worstEntry      = 4096 // of small transactions
	worstIdentities = 64
	worstEntries    = 1000
	worstWatchers   = 200
	requestBytes    = 1 << 20 // of a request, and of an entry
)

// BenchmarkWorst applies the most expensive entries that a client can have committed, each in an entry of its own.
// docs/dev/limits.md has the bounds.
func BenchmarkWorst(b *testing.B) {
	for _, tt := range []struct {
		name string
		make func(k *bench, b *testing.B) (entry func() []*proto.Txn)
	}{
		{"multi of 10000 creates", worstCreates},
		{"multi of 10000 setData", worstSets(1, 0)},
		{"multi of 10000 setData, lists of 1000 entries, 64 identities", worstSets(worstEntries, 0)},
		{"multi of 10000 setData, lists of 16 entries, 64 identities", worstSets(16, 0)},
		{"multi of 10000 setData, 200 recursive watchers", worstSets(1, worstWatchers)},
		{"multi of 10000 setData, lists of 1000 entries, 200 recursive watchers", worstSets(worstEntries, worstWatchers)},
		{"multi of 1000 creates with 64 identities each", worstExpansion},
		{"4096 creates", worstSingles},
		{"4096 new sessions", worstSessions},
		{"ends of sessions with as many nodes as an entry removes", worstEnds},
		{"quota with a text of 900 KB", worstQuotaText},
		{"deep path below a quota, with a recursive watcher", worstDepth},
		{"path of 1 KiB and 512 levels, 1024 times, below a quota, with a recursive watcher", worstLevels},
		{"multi of 10000 checks, lists of 1000 entries, 64 identities", worstChecks},
		{"multi of 10000 deletes, 10 watchers each", worstDeletes(10_000, 10)},
		{"multi of 10000 deletes, 30 watchers each", worstDeletes(10_000, 30)},
		{"multi of as many deletes as may be, 10 watchers each", worstDeletes(mostDeletes, 10)},
		{"multi of as many deletes as may be, 30 watchers each", worstDeletes(mostDeletes, 30)},
		{"multi of as many deletes as may be, undone", worstUndone(mostDeletes, mostDeletes, rm)},
		{"multi of 19000 creates, undone", worstUndone(19_000, 0, func(path string, _ int32) jute.MultiOp { return mk(path, 0) })},
		{"multi of as many setData as may be, lists of 1000 entries, 64 identities, undone", worstUndone(45_000, 1000, put)},
		{"multi of as many checks as may be, lists of 1000 entries, 64 identities, undone", worstUndone(58_000, 1000, check)},
		{"multi of as many checks as may be, lists of networks of all lengths, undone", worstNetworks(check)},
		{"multi of as many setData as may be, lists of networks of all lengths, undone", worstNetworks(put)},
		{"multi of as many checks as may be, lists of 1 entry, 1 identity, undone", worstListed(1, 1, check)},
		{"multi of as many checks as may be, lists of 4 entries, 64 identities, undone", worstListed(4, 64, check)},
		{"multi of as many checks as may be, lists of 16 entries, 64 identities, undone", worstListed(16, 64, check)},
		{"multi of as many checks as may be, lists of 64 entries, 64 identities, undone", worstListed(64, 64, check)},
		{"multi of as many setData as may be, lists of 1 entry, 1 identity, undone", worstListed(1, 1, put)},
		{"multi of as many setData as may be, lists of 4 entries, 64 identities, undone", worstListed(4, 64, put)},
		{"multi of as many setData as may be, lists of 16 entries, 64 identities, undone", worstListed(16, 64, put)},
		{"multi of as many setData as may be, lists of 64 entries, 64 identities, undone", worstListed(64, 64, put)},
		{"multi full of setData below a quota, 1 level, undone", worstQuotas(1, put)},
		{"multi full of setData below a quota, 2 levels, undone", worstQuotas(2, put)},
		{"multi full of setData below a quota, 5 levels, undone", worstQuotas(5, put)},
		{"multi full of setData below a quota, 20 levels, undone", worstQuotas(20, put)},
		{"multi full of creates below a quota, 2 levels, undone", worstQuotas(2, made)},
		{"multi full of creates below a quota, 5 levels, undone", worstQuotas(5, made)},
		{"multi full of deletes below a quota, 2 levels, undone", worstQuotas(2, rm)},
		{"multi full of deletes below a quota, 5 levels, undone", worstQuotas(5, rm)},
		{"multi of 10000 setData, a million watches of 1000 connections", worstHeld(10_000)},
		{"multi of 1000 setData, a million watches of 1000 connections", worstHeld(1000)},
		{"256 identities, each beside 63 others", worstIdentifies},
		{"512 multis of one write with 128 levels, below enforced quotas", worstCopies},
		{"multi of 500 creates below nodes with 1 MB of data each, undone", worstLongData},
		{"reconfig of 255 servers with lines of 548 bytes", worstReconfig},
		{"reconfig of 255 servers, half a million leave", worstLeaving},
		{"multi of 5000 quotas on a million nodes, which fails", worstMeasure},
		{"path of 128 levels, 2048 times, data of another length", worstGrowth},
		{"the same in a multi that fails", worstGrowthUndone},
		{"4096 attaches", worstAttaches},
		{"setACL, 1 MiB of lists", worstSetACLs},
		{"1000 containers of 127 levels", worstContainers},
	} {
		b.Run(tt.name, func(b *testing.B) {
			k := newBench(b, 0)
			next := tt.make(k, b)
			runtime.LockOSThread() // its time is measured, because other processes and the collector take the processor, too
			defer runtime.UnlockOSThread()
			b.ReportAllocs()
			b.ResetTimer()
			b.StopTimer()
			least := time.Duration(math.MaxInt64)
			for range b.N {
				e := k.entry(next()...)
				b.StartTimer()
				began := threadTime(b)
				k.apply(b, e)
				least = min(least, threadTime(b)-began)
				b.StopTimer()
			}
			b.ReportMetric(float64(least.Microseconds())/1000, "least-cpu-ms")
		})
	}
}

// threadTime returns the processor time of the thread.
func threadTime(tb testing.TB) time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(at.Nano())
}

func multiOf(ops []jute.MultiOp) *proto.Txn { return txn(jute.OpMulti, jute.AppendMulti(nil, ops)) }

// manyIDs returns an address and so many other identities, of 60 bytes each.
func manyIDs(n int) []*proto.Identity {
	who := []*proto.Identity{{Scheme: "ip", Id: "192.0.2.1"}}
	for i := range n - 1 {
		who = append(who, &proto.Identity{Scheme: "digest", Id: fmt.Sprintf("%055d:%04d", 0, i)})
	}
	return who
}

// longList returns a list of so many entries. Only the last one, for client n, lets anyone in.
func longList(entries, n int) []jute.ACL {
	var list []jute.ACL
	for i := range entries - 1 {
		list = append(list, aclOf(jute.PermAll, "digest", fmt.Sprintf("%d:%d", n, i))...)
	}
	return append(list, aclOf(jute.PermAll, "digest", fmt.Sprintf("%055d:%04d", 0, worstIdentities-2))...)
}

func worstCreates(k *bench, _ *testing.B) func() []*proto.Txn {
	round := 0
	return func() []*proto.Txn {
		round++
		var ops []jute.MultiOp
		for i := range worstOps() {
			ops = append(ops, mk(fmt.Sprintf("/%d-%d", round, i), 0))
		}
		return []*proto.Txn{multiOf(ops)}
	}
}

// silent is a watcher that has a connection's identities.
type silent struct {
	who  []*proto.Identity
	told int
}

func (s *silent) QueueEvent(jute.EventType, string, int64) { s.told++ }
func (s *silent) Identities() []*proto.Identity            { return s.who }
func (s *silent) AdjustWatchMemory(int)                    {}

// worstSets writes 10,000 nodes, each with a list of its own, below so many recursive watchers.
func worstSets(entries, watchers int) func(k *bench, b *testing.B) func() []*proto.Txn {
	return func(k *bench, b *testing.B) func() []*proto.Txn {
		who := manyIDs(worstIdentities)
		var ops []jute.MultiOp
		for i := range worstOps() {
			path := fmt.Sprintf("/n%d", i)
			list := jute.OpenACL
			if entries > 1 {
				list = longList(entries, i/10)
			}
			made := txn(jute.OpCreate, createOp(path, "", 0, list).Append(nil))
			k.apply(b, k.entry(made))
			ops = append(ops, put(path, anyVersion))
		}
		body := jute.AppendMulti(nil, ops)
		k.identify(b, who)
		return func() []*proto.Txn {
			for range watchers {
				_ = k.s.AddWatch([]byte("/"), jute.AddWatchPersistentRecursive, &silent{who: who})
			}
			return []*proto.Txn{txn(jute.OpMulti, body)}
		}
	}
}

// worstExpansion creates nodes whose lists stand for all identities of the client, and differ in one entry.
func worstExpansion(k *bench, b *testing.B) func() []*proto.Txn {
	k.identify(b, manyIDs(worstIdentities))
	round := 0
	return func() []*proto.Txn {
		round++
		var ops []jute.MultiOp
		for i := range 1000 {
			list := aclOf(jute.PermAll, "auth", "", "digest", fmt.Sprintf("%d:%d", round, i))
			ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: createOp(fmt.Sprintf("/%d-%d", round, i), "", 0, list)})
		}
		return []*proto.Txn{multiOf(ops)}
	}
}

// identify gives the session of all transactions these identities.
func (k *bench) identify(b *testing.B, who []*proto.Identity) {
	t := txn(jute.OpIdentify, nil)
	t.Ids = who
	k.apply(b, k.entry(t))
}

// worstIdentifies adds an identity to as many sessions as an entry has room for, each of which has as many others as it may have.
func worstIdentifies(k *bench, b *testing.B) func() []*proto.Txn {
	id := jute.SessionID(1 << 56)
	return func() (txns []*proto.Txn) {
		for range worstEntry / identifyWeight {
			id++
			open := openTxn(id)
			open.Ids = append(manyIDs(worstIdentities-2), &proto.Identity{Scheme: "digest", Id: fmt.Sprintf("%055d:", id)}) // a list that no other session has
			k.apply(b, k.entry(open))
			t := txn(jute.OpIdentify, nil)
			t.Session, t.Ids = int64(id), []*proto.Identity{{Scheme: "digest", Id: "u:p"}}
			txns = append(txns, t)
		}
		return txns
	}
}

// worstChecks checks the versions of nodes with long lists.
func worstChecks(k *bench, b *testing.B) func() []*proto.Txn {
	k.identify(b, manyIDs(worstIdentities))
	var ops []jute.MultiOp
	for i := range worstOps() {
		path := fmt.Sprintf("/n%d", i)
		k.apply(b, k.entry(txn(jute.OpCreate, createOp(path, "", 0, longList(worstEntries, i/10)).Append(nil))))
		ops = append(ops, check(path, anyVersion))
	}
	body := jute.AppendMulti(nil, ops)
	return func() []*proto.Txn { return []*proto.Txn{txn(jute.OpMulti, body)} }
}

// worstLevels writes a node with as many levels as a path may have, below a quota and a recursive watcher, as often as a request
// can: it has at most 256 Ki levels.
func worstLevels(k *bench, b *testing.B) func() []*proto.Txn {
	const levels, allLevels = 128, 256 << 10
	path := ""
	for range levels {
		path += "/x"
		quotaNode(k, b, path, "")
	}
	quotaNode(k, b, quotaPath+"/x", "")
	quotaNode(k, b, quotaPath+"/x"+limitsSuffix, "count=5")
	quotaNode(k, b, quotaPath+"/x"+usageSuffix, "")
	_ = k.s.AddWatch([]byte(path), jute.AddWatchPersistentRecursive, &silent{})
	var ops []jute.MultiOp
	for range allLevels / levels {
		ops = append(ops, put(path, anyVersion))
	}
	body := jute.AppendMulti(nil, ops)
	return func() []*proto.Txn { return []*proto.Txn{txn(jute.OpMulti, body)} }
}

// worstDeletes deletes so many nodes, each of which has so many watchers of its own.
func worstDeletes(nodes, watchers int) func(k *bench, b *testing.B) func() []*proto.Txn {
	return func(k *bench, b *testing.B) func() []*proto.Txn {
		return func() []*proto.Txn {
			var ops []jute.MultiOp
			for i := range min(nodes, worstOps()*nodes/10_000) {
				path := fmt.Sprintf("/n%d", i)
				quotaNode(k, b, path, "")
				for range watchers {
					w := &silent{}
					k.s.watches.addDataWatch(path, w)
					k.s.watches.addChildWatch(path, w)
				}
				ops = append(ops, rm(path, anyVersion))
			}
			return []*proto.Txn{multiOf(ops)}
		}
	}
}

// worstUndone runs so many operations, which are undone because the last one fails. They are on so many nodes by turns, if there are
// any. A thousand nodes have long lists.
func worstUndone(most, nodes int, op func(path string, version int32) jute.MultiOp) func(k *bench, b *testing.B) func() []*proto.Txn {
	return func(k *bench, b *testing.B) func() []*proto.Txn {
		identities := 1
		if nodes == 1000 {
			identities = worstIdentities
			k.identify(b, manyIDs(identities))
		}
		name := func(i int) string { return "/" + strconv.FormatInt(int64(i), 36) }
		list := jute.OpenACL
		for i := range nodes {
			if nodes == 1000 {
				list = longList(worstEntries, i)
			}
			k.apply(b, k.entry(txn(jute.OpCreate, createOp(name(i), "", 0, list).Append(nil))))
		}
		var ops []jute.MultiOp
		for i := range min(most, mostUndone(op, identities)) {
			if nodes > 0 {
				i %= nodes
			}
			ops = append(ops, op(name(i), anyVersion))
		}
		body := jute.AppendMulti(nil, append(ops, check("/none", anyVersion)))
		return func() []*proto.Txn { return []*proto.Txn{txn(jute.OpMulti, body)} }
	}
}

// mostDeletes is the largest number of deletes of a client without many identities.
const mostDeletes = MaxMultiSteps / deleteSteps

// mostUndone returns the largest number of operations of a kind of a client with so many identities, with a check that
// undoes them. A request has no room for more than 58,000 with short paths.
func mostUndone(op func(path string, version int32) jute.MultiOp, identities int) int {
	if testing.Short() {
		return worstOps()
	}
	return min(58_000, (MaxMultiSteps-MultiOpSteps(jute.OpCheck, identities))/MultiOpSteps(op("/", 0).Op, identities))
}

// worstListed runs so many operations, which are undone, each on a node whose list no other node has. The last entry lets the client in,
// by the last of its identities.
func worstListed(entries, identities int, op func(path string, version int32) jute.MultiOp) func(k *bench, b *testing.B) func() []*proto.Txn {
	return func(k *bench, b *testing.B) func() []*proto.Txn {
		who := manyIDs(worstIdentities)
		k.identify(b, append(who[:1:1], who[worstIdentities-identities+1:]...))
		var ops []jute.MultiOp
		for i := range mostUndone(op, identities) {
			path := "/" + strconv.FormatInt(int64(i), 36)
			list := longList(entries, i)
			if entries == 1 {
				list = jute.OpenACL
			}
			k.apply(b, k.entry(txn(jute.OpCreate, createOp(path, "", 0, list).Append(nil))))
			ops = append(ops, op(path, anyVersion))
		}
		body := jute.AppendMulti(nil, append(ops, check("/none", anyVersion)))
		return func() []*proto.Txn { return []*proto.Txn{txn(jute.OpMulti, body)} }
	}
}

// made creates a node, which has no version.
func made(path string, _ int32) jute.MultiOp { return mk(path, 0) }

// worstQuotas runs as many operations as may be, which are undone, on nodes at so many levels below a quota. There are a thousand other
// quotas, and all are enforced. Writes make data longer.
func worstQuotas(levels int, kind func(path string, version int32) jute.MultiOp) func(k *bench, b *testing.B) func() []*proto.Txn {
	return func(k *bench, b *testing.B) func() []*proto.Txn {
		k.rules(b, &proto.TermStart{Nonce: 7, EnforceQuota: true})
		const limits = "count=5000000,bytes=5000000,countHardLimit=5000000,byteHardLimit=5000000"
		quotaNode(k, b, quotaPath+"/q", "")
		for i := range 1001 {
			path := "/q"
			if i > 0 {
				path = fmt.Sprint("/q/", i)
				quotaNode(k, b, quotaPath+path, "")
			}
			quotaNode(k, b, quotaPath+path+limitsSuffix, limits)
			quotaNode(k, b, quotaPath+path+usageSuffix, "count=1,bytes=0")
		}
		above := ""
		for i := range levels {
			above += "/q"
			quotaNode(k, b, above, strings.Repeat("d", i))
		}
		var ops []jute.MultiOp
		size, steps := 100, 0
		for i := range 100_000 {
			op := kind(above+"/"+strconv.FormatInt(int64(i), 36), anyVersion)
			if op.Op == jute.OpSetData {
				op.SetData.Data = []byte("d")
			}
			size += len(jute.AppendMulti(nil, []jute.MultiOp{op}))
			steps += MultiOpSteps(op.Op, 1) + quotaSteps + levelSteps*(levels+1)
			if size > requestBytes || steps > MaxMultiSteps-checkSteps || i == 10*worstOps() {
				break
			}
			if op.Op != jute.OpCreate {
				k.apply(b, k.entry(txn(jute.OpCreate, createOp(string(op.Path()), "", 0, jute.OpenACL).Append(nil))))
			}
			ops = append(ops, op)
		}
		b.ReportMetric(float64(len(ops)), "ops")
		body := jute.AppendMulti(nil, append(ops, check("/none", anyVersion)))
		return func() []*proto.Txn { return []*proto.Txn{txn(jute.OpMulti, body)} }
	}
}

// worstNetworks runs so many operations, which are undone, on a thousand nodes whose lists have networks of all lengths. The client's
// address is in each of IPv6.
func worstNetworks(op func(path string, version int32) jute.MultiOp) func(k *bench, b *testing.B) func() []*proto.Txn {
	return func(k *bench, b *testing.B) func() []*proto.Txn {
		who := manyIDs(worstIdentities)
		who[0].Id = "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"
		k.identify(b, who)
		const nodes = 1000
		for i := range nodes {
			list := aclOf(jute.PermAll, "digest", fmt.Sprint(i, ":x"))
			for bits := range 128 {
				list = append(list, aclOf(jute.PermAll, "ip", fmt.Sprint(who[0].Id, "/", bits+1))...)
			}
			for bits := range 32 {
				list = append(list, aclOf(jute.PermAll, "ip", fmt.Sprint("10.255.255.255/", bits+1))...)
			}
			k.apply(b, k.entry(txn(jute.OpCreate, createOp(fmt.Sprint("/", i), "", 0, list).Append(nil))))
		}
		var ops []jute.MultiOp
		for i := range mostUndone(op, worstIdentities) {
			ops = append(ops, op(fmt.Sprint("/", i%nodes), anyVersion))
		}
		body := jute.AppendMulti(nil, append(ops, check("/none", anyVersion)))
		return func() []*proto.Txn { return []*proto.Txn{txn(jute.OpMulti, body)} }
	}
}

// worstLongData creates nodes below parents with data of the longest request, and a last one that fails.
func worstLongData(k *bench, b *testing.B) func() []*proto.Txn {
	const parents = 500
	var ops []jute.MultiOp
	for i := range parents {
		path := fmt.Sprintf("/l%d", i)
		quotaNode(k, b, path, strings.Repeat("x", 1_000_000))
		ops = append(ops, mk(path+"/c", 0))
	}
	ops = append(ops, mk("/none/c", 0))
	return func() []*proto.Txn { return []*proto.Txn{multiOf(ops)} }
}

// worstHeld writes nodes that 1,000 connections watch: each node has as many watches as the others, a million together.
func worstHeld(nodes int) func(k *bench, b *testing.B) func() []*proto.Txn {
	return func(k *bench, b *testing.B) func() []*proto.Txn {
		var ops []jute.MultiOp
		for i := range nodes {
			path := fmt.Sprintf("/n%d", i)
			quotaNode(k, b, path, "")
			ops = append(ops, put(path, anyVersion))
		}
		body := jute.AppendMulti(nil, ops)
		var held []*silent
		return func() []*proto.Txn {
			for _, w := range held {
				for k.s.Watches().DropWatches(w) {
					continue
				}
			}
			held = make([]*silent, 1000)
			for i := range held {
				held[i] = &silent{}
			}
			for i := range manyNodes() {
				path := fmt.Sprintf("/n%d", i%nodes)
				_ = k.s.AddWatch([]byte(path), jute.AddWatchPersistent, held[(i+i/nodes)%len(held)])
			}
			return []*proto.Txn{txn(jute.OpMulti, body)}
		}
	}
}

func quotaNode(k *bench, b *testing.B, path, data string) {
	k.apply(b, k.entry(txn(jute.OpCreate, createOp(path, data, 0, jute.OpenACL).Append(nil))))
}

// worstMeasure creates and deletes the limits of a quota on a million nodes, again and again, and then fails.
func worstMeasure(k *bench, b *testing.B) func() []*proto.Txn {
	quotaNode(k, b, "/big", "")
	for i := range manyNodes() {
		if i%1000 == 0 {
			k.create(b, fmt.Sprintf("/big/%d", i/1000))
		}
		k.create(b, fmt.Sprintf("/big/%d/%d", i/1000, i%1000))
	}
	quotaNode(k, b, quotaPath+"/big", "")
	quotaNode(k, b, quotaPath+"/big"+usageSuffix, "")
	var ops []jute.MultiOp
	for len(ops) < worstOps() {
		ops = append(ops, data(quotaPath+"/big"+limitsSuffix, ""), rm(quotaPath+"/big"+limitsSuffix, anyVersion))
	}
	ops[len(ops)-1] = rm("/none", anyVersion)
	return func() []*proto.Txn { return []*proto.Txn{multiOf(ops)} }
}

// worstGrowth writes a node with as many levels as a path may have, as often as a request can. Each time the data have another
// length, which counts for each node above.
func worstGrowth(k *bench, b *testing.B) func() []*proto.Txn {
	ops := k.growing(b)
	return func() []*proto.Txn { return []*proto.Txn{multiOf(ops)} }
}

func worstGrowthUndone(k *bench, b *testing.B) func() []*proto.Txn {
	ops := append(k.growing(b), rm("/none", anyVersion))
	return func() []*proto.Txn { return []*proto.Txn{multiOf(ops)} }
}

func (k *bench) growing(b *testing.B) (ops []jute.MultiOp) {
	const levels, allLevels = 128, 256 << 10
	path := ""
	for range levels {
		path += "/x"
		quotaNode(k, b, path, "")
	}
	for i := range allLevels/levels - 1 {
		op := put(path, anyVersion)
		op.SetData.Data = make([]byte, i%2)
		ops = append(ops, op)
	}
	return ops
}

// worstAttaches moves sessions to another connection.
func worstAttaches(k *bench, b *testing.B) func() []*proto.Txn {
	first := jute.SessionID(1 << 56)
	for i := range jute.SessionID(worstEntry) {
		k.apply(b, k.entry(openTxn(first+1+i)))
	}
	return func() (txns []*proto.Txn) {
		for i := range jute.SessionID(worstEntry) {
			t := txn(jute.OpAttach, message(&proto.Attach{Password: password(first + 1 + i), TimeoutMs: 10_000}))
			t.Session = int64(first + 1 + i)
			txns = append(txns, t)
		}
		return txns
	}
}

// worstSetACLs gives nodes lists of their own, as long as an entry has room for.
func worstSetACLs(k *bench, b *testing.B) func() []*proto.Txn {
	const n = requestBytes / (worstEntries * 24)
	k.identify(b, manyIDs(worstIdentities))
	for i := range n {
		quotaNode(k, b, fmt.Sprint("/a", i), "")
	}
	round := 0
	return func() (txns []*proto.Txn) {
		round++
		for i := range n {
			list := longList(worstEntries, round*n+i)
			txns = append(txns, txn(jute.OpSetACL, jute.SetACLRequest{Path: fmt.Append(nil, "/a", i), ACL: list, Version: anyVersion}.Append(nil)))
		}
		return txns
	}
}

// worstContainers creates containers, and deletes each, below paths with as many levels as there may be.
func worstContainers(k *bench, b *testing.B) func() []*proto.Txn {
	path := ""
	for range 127 {
		path += "/x"
		quotaNode(k, b, path, "")
	}
	var ops []jute.MultiOp
	for i := range 1000 {
		at := fmt.Sprintf("%s/%d", path, i)
		made := mk(at, jute.Container)
		made.Op = jute.OpCreateContainer
		ops = append(ops, made, rm(at, anyVersion))
	}
	return func() []*proto.Txn { return []*proto.Txn{multiOf(ops)} }
}

func worstQuotaText(k *bench, b *testing.B) func() []*proto.Txn {
	quotaNode(k, b, "/q", "")
	quotaNode(k, b, quotaPath+"/q", "")
	quotaNode(k, b, quotaPath+"/q"+limitsSuffix, strings.Repeat("count=5,", 900_000/8))
	quotaNode(k, b, quotaPath+"/q"+usageSuffix, "")
	var ops []jute.MultiOp
	for i := range worstOps() {
		if i%2 == 0 {
			ops = append(ops, mk("/q/a", 0))
		} else {
			ops = append(ops, rm("/q/a", anyVersion))
		}
	}
	return func() []*proto.Txn { return []*proto.Txn{multiOf(ops)} }
}

// worstDepth writes a node with as many levels as a path may have, as often as one request can.
func worstDepth(k *bench, b *testing.B) func() []*proto.Txn {
	const levels, length = 128, 2 << 10
	part := "/" + strings.Repeat("x", length/levels-1)
	path, quotas := "", quotaPath
	for range levels {
		path += part
		quotaNode(k, b, path, "")
	}
	for range levels - 3 - len(quotaPath)/len(part) {
		if len(quotas)+len(part)+len(limitsSuffix) > length {
			break
		}
		quotas += part
		quotaNode(k, b, quotas, "")
	}
	quotaNode(k, b, quotas+limitsSuffix, "count=5")
	quotaNode(k, b, quotas+usageSuffix, "")
	_ = k.s.AddWatch([]byte(path), jute.AddWatchPersistentRecursive, &silent{})
	var ops []jute.MultiOp
	for range 500 {
		ops = append(ops, put(path, anyVersion))
	}
	return func() []*proto.Txn { return []*proto.Txn{multiOf(ops)} }
}

func worstSingles(k *bench, _ *testing.B) func() []*proto.Txn {
	n := 0
	return func() (txns []*proto.Txn) {
		for range worstEntry {
			n++
			txns = append(txns, createTxn(jute.OpCreate, fmt.Sprint("/s", n), jute.Ephemeral))
		}
		return txns
	}
}

func worstSessions(k *bench, _ *testing.B) func() []*proto.Txn {
	id := jute.SessionID(1 << 56)
	return func() (txns []*proto.Txn) {
		for range worstEntry {
			id++
			txns = append(txns, openTxn(id))
		}
		return txns
	}
}

// worstEnds ends as many sessions as an entry may, each of which leaves many nodes.
func worstEnds(k *bench, b *testing.B) func() []*proto.Txn {
	id, n := jute.SessionID(1<<56), 0
	return func() (txns []*proto.Txn) {
		for range 128 {
			id++
			k.apply(b, k.entry(openTxn(id)))
			for range 200 {
				n++
				t := createTxn(jute.OpCreate, fmt.Sprint("/e", n), jute.Ephemeral)
				t.Session = int64(id)
				k.apply(b, k.entry(t))
			}
			txns = append(txns, &proto.Txn{Session: int64(id), Op: int32(jute.OpExpire), Body: message(&proto.Expire{OwnerIndex: 1 << 60})})
		}
		return txns
	}
}

// worstCopies writes nodes of long paths that share no level, each in a multi of its own, so that the nodes above are copied each
// time. These are as many as an entry has room for.
func worstCopies(k *bench, b *testing.B) func() []*proto.Txn {
	k.rules(b, &proto.TermStart{Nonce: 7, EnforceQuota: true})
	quotaNode(k, b, quotaPath+"/q", "")
	quotaNode(k, b, quotaPath+"/q"+limitsSuffix, "count=5")
	const levels = 128
	var paths []string
	for i := range worstEntry * levelsPerOp / levels {
		path := fmt.Sprintf("/c%d", i)
		quotaNode(k, b, path, "")
		for range levels - 1 {
			path += "/x"
			quotaNode(k, b, path, "")
		}
		paths = append(paths, path)
	}
	return func() (txns []*proto.Txn) {
		weight := 0
		for _, path := range paths {
			t := multiOf([]jute.MultiOp{put(path, anyVersion)})
			if weight += TxnWeight(t); weight > worstEntry {
				b.Fatalf("the entry weighs %d", weight)
			}
			txns = append(txns, t)
		}
		return txns
	}
}

// rules opens the term again, with other rules.
func (k *bench) rules(b *testing.B, start *proto.TermStart) {
	k.apply(b, &proto.Entry{Format: FormatLevel, Txns: []*proto.Txn{{Op: int32(jute.OpTermStart), Body: message(start)}}})
}

// worstReconfig replaces the longest list of servers: their names have 253 bytes, for members and for clients. An entry has room for
// one such change.
func worstReconfig(k *bench, b *testing.B) func() []*proto.Txn {
	reached := k.longRoster(b)
	lists := [][]string{longLines(50_000), longLines(60_000)}
	round := 0
	return func() []*proto.Txn {
		round++
		t := txn(jute.OpReconfig, jute.ReconfigRequest{NewMembers: []byte(strings.Join(lists[round%2], ",")), CurConfigID: anyVersion}.Append(nil))
		t.ReachableServers = reached
		return []*proto.Txn{t}
	}
}

// worstLeaving removes as many servers as a request has room for. None of them is in the list, and one server gets
// another line.
func worstLeaving(k *bench, b *testing.B) func() []*proto.Txn {
	reached := k.longRoster(b)
	leaving := strings.Repeat("0,", (requestBytes-1000)/2)
	lines := []string{longLines(50_000)[0], longLines(60_000)[0]}
	round := 0
	return func() []*proto.Txn {
		round++
		t := txn(jute.OpReconfig, jute.ReconfigRequest{JoiningServers: []byte(lines[round%2]), LeavingServers: []byte(leaving), CurConfigID: anyVersion}.Append(nil))
		t.ReachableServers = reached
		return []*proto.Txn{t}
	}
}

// longRoster begins a term with the longest list of servers, and returns their ids.
func (k *bench) longRoster(b *testing.B) (reached []uint32) {
	list := &proto.ServerList{Ensemble: make([]byte, 32), Servers: longLines(50_000)}
	for id := range uint32(255) {
		reached = append(reached, id+1)
	}
	k.rules(b, &proto.TermStart{Nonce: 7, SkipAcl: true, Reconfig: true, ServerList: list})
	return reached
}

// longLines returns the longest lines of 255 servers. port is the number of the first of their ports.
func longLines(port int) (lines []string) {
	for id := range 255 {
		host := fmt.Sprintf("%s%03d", strings.Repeat("_", 250), id)
		lines = append(lines, fmt.Sprintf("server.%d=%s:%d:%d:participant;%s:%d", id+1, host, port, port+1, host, port+2))
	}
	return lines
}
