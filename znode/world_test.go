package znode

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"rollcall/proto"
	"rollcall/zk/jute"

	pb "google.golang.org/protobuf/proto"
)

// world is a log and the states that apply it. The first state is member 1's, and the calls of its hooks are recorded.
type world struct {
	t      testing.TB
	states []*State
	index  uint64
	term   uint64
	nonce  uint64
	now    int64
	rules  Rules
	list   *proto.ServerList // that the next TermStarts have
	seq    map[uint32]uint64
	log    []logged
	heard  *recorder
	conns  uint64
	read   []weak.Pointer[byte] // the memory of each entry that a state has applied
}

type logged struct {
	*proto.Entry
	index, term uint64
}

// bootOf returns the incarnation of a member in tests.
func bootOf(member uint32) uint64 { return 1000 + uint64(member) }

// newWorld opens term 1 and announces members 1 and 2.
func newWorld(t testing.TB, others ...*State) *world { return newWorldWithHistory(t, 0, others...) }

// newWorldWithHistory is newWorld with a first state that keeps the latest changes, up to so many bytes.
func newWorldWithHistory(t testing.TB, history int64, others ...*State) *world {
	heard := &recorder{}
	s := New(Config{Self: 1, Hooks: heard, ChangeHistory: history})
	w := &world{t: t, states: append([]*State{s}, others...), seq: map[uint32]uint64{}, heard: heard, now: 1000, rules: Rules{TTLNodes: true}}
	w.startTerm(1, 7)
	w.announce(1, 0, bootOf(1))
	w.announce(2, 0, bootOf(2))
	heard.log = nil
	return w
}

func (w *world) s() *State { return w.states[0] }

// editedNode returns the node at path, so that a test can change it. It is in that generation, and the test adds its hash again.
func editedNode(s *State, gen uint64, path string) *node {
	tree := &s.replicated.tree
	return tree.beginEdit(gen, tree.nodeAt(path))
}

// replicated returns the replicated part of the first state.
func (w *world) replicated() *replicatedState { return &w.s().replicated }

// nodeAt returns the first state's node at path, or nil.
func (w *world) nodeAt(path string) *node { return w.replicated().tree.nodeAt(path) }

func (w *world) nodeCount() int { return w.s().TreeView().NodeCount() }

func (w *world) ephemeralCount() int { return w.s().TreeView().EphemeralCount() }

// entry applies an entry of the current term.
func (w *world) entry(txns ...*proto.Txn) {
	w.t.Helper()
	w.now++
	w.append(w.term, &proto.Entry{Format: FormatLevel, Term: w.term, Nonce: w.nonce, TimeMs: w.now, Txns: txns})
}

// append applies any entry.
func (w *world) append(term uint64, e *proto.Entry) {
	w.t.Helper()
	w.index++
	w.log = append(w.log, logged{e, w.index, term})
	for _, s := range w.states {
		decoded, data := decodedCopy(w.t, e)
		s.Lock()
		err := s.ApplyEntry(w.index, term, decoded)
		s.Unlock()
		if err != nil {
			w.t.Fatal(err)
		}
		for i := range data {
			data[i] = 0xfe // if the state kept a part of the entry, that is wrong now
		}
		if data != nil {
			w.read = append(w.read, weak.Make(&data[0]))
		}
	}
}

// kept returns the number of applied entries whose memory the states keep alive.
func (w *world) kept() (n int) {
	runtime.GC()
	for _, data := range w.read {
		if data.Value() != nil {
			n++
		}
	}
	return n
}

// decodedCopy returns an entry as a member reads it from the log, and the bytes whose memory it shares.
func decodedCopy(t testing.TB, e *proto.Entry) (decoded *proto.Entry, data []byte) {
	t.Helper()
	if e == nil {
		return nil, nil // raft's own
	}
	data, err := proto.MarshalEntry(e)
	if err != nil {
		t.Fatal(err)
	}
	if decoded, err = proto.UnmarshalEntry(data); err != nil {
		t.Fatal(err)
	}
	return decoded, data
}

func (w *world) startTerm(term, nonce uint64) {
	w.t.Helper()
	w.term, w.nonce = term, nonce
	w.append(term, &proto.Entry{Format: FormatLevel, TimeMs: w.now, Txns: []*proto.Txn{{
		Op: int32(jute.OpTermStart), Body: message(&proto.TermStart{
			Leader: 1, Nonce: nonce, SkipAcl: w.rules.SkipACL, TtlNodes: w.rules.TTLNodes, EnforceQuota: w.rules.EnforceQuota, X509: w.rules.X509,
			Sasl: w.rules.SASL, DataQuota: w.rules.DataQuota, Reconfig: w.rules.Reconfig, LongNames: w.rules.LongNames, AnySaslUser: w.rules.AnySASLUser,
			ReadLeaseMs: w.rules.ReadLeaseMs, ServerList: w.list,
		}),
	}}})
}

// rule opens a term whose leader has other rules.
func (w *world) rule(r Rules) {
	w.t.Helper()
	w.rules = r
	w.startTerm(w.term+1, w.nonce+1)
}

func (w *world) announce(member uint32, replaces, boot uint64) {
	w.t.Helper()
	w.seq[member] = 0
	w.entry(&proto.Txn{Member: member, Incarnation: boot, Op: int32(jute.OpAnnounce), Body: message(&proto.Announce{Replaces: replaces, Format: 1})})
}

// next makes a transaction the next one of a member.
func (w *world) next(member uint32, txn *proto.Txn) *proto.Txn {
	w.seq[member]++
	txn.Member, txn.Incarnation, txn.Seq = member, bootOf(member), w.seq[member]
	return txn
}

// run applies a transaction in an entry of its own. The result is the first state's.
func (w *world) run(member uint32, txn *proto.Txn) Result {
	w.t.Helper()
	w.heard.result = Result{Code: -9999}
	w.entry(w.next(member, txn))
	return w.heard.result
}

func (w *world) expire(id jute.SessionID, since uint64) {
	w.t.Helper()
	w.entry(&proto.Txn{Op: int32(jute.OpExpire), Session: int64(id), Body: message(&proto.Expire{OwnerIndex: since})})
}

// kill ends a session through member 1.
func (w *world) kill(id jute.SessionID, since uint64, by string) Result {
	w.t.Helper()
	return w.run(1, killTxn(id, &proto.Kill{OwnerIndex: since, SilentMs: 1500, Operator: by}))
}

func killTxn(id jute.SessionID, kill *proto.Kill) *proto.Txn {
	kill.Session = int64(id)
	return &proto.Txn{Op: int32(jute.OpKill), Body: message(kill)}
}

func message(m pb.Message) []byte {
	b, err := pb.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func password(id jute.SessionID) []byte {
	return bytes.Repeat([]byte{byte(id), 7}, 8)
}

// recorder is a Hooks that records each call.
type recorder struct {
	log    []string
	result Result     // of the last transaction of member 1
	end    SessionEnd // the last one
}

func (o *recorder) note(format string, args ...any) {
	o.log = append(o.log, fmt.Sprintf(format, args...))
}

func (o *recorder) TermStarted(t Term, _ LeaderCause) { o.note("term %d", t.Term) }
func (o *recorder) MemberAnnounced(member uint32, boot, replaced uint64) {
	o.note("announced %d %d %d", member, boot, replaced)
}
func (o *recorder) SessionOpened(s Session) { o.note("opened %v", s.ID) }
func (o *recorder) SessionAttached(s Session, old SessionOwner) {
	o.note("attached %v %v after %v", s.ID, s.Owner, old)
}

func (o *recorder) SessionClosed(s Session, end SessionEnd) {
	o.end = end
	o.note("%v %v of %v ephemerals %d", end.Reason, s.ID, s.Owner, end.EphemeralCount)
}

func (o *recorder) SessionSwept(id jute.SessionID, last bool) { o.note("swept %v last %t", id, last) }
func (*recorder) NodesRemoved(Removal, []string)              {}

func (o *recorder) TxnApplied(txn *proto.Txn, r *Result) {
	o.result = *r
	o.note("applied %v %d", jute.Op(txn.Op), r.Code)
}

func (o *recorder) TxnDropped(txn *proto.Txn)      { o.note("dropped %v %d", jute.Op(txn.Op), txn.Seq) }
func (o *recorder) ServerListChanged(r ServerList) { o.note("listed %x", r.Version) }
func (o *recorder) QuotaExceeded(q ExceededQuota)  { o.note("overused %+v", q) }
func (o *recorder) EntryFinished(uint64)           { o.note("end") }
func (o *recorder) SnapshotRestored()              { o.note("restored") }

// wantLog checks the calls that were recorded since the last check.
func (w *world) wantLog(want ...string) {
	w.t.Helper()
	if got := w.heard.log; !slices.Equal(got, want) {
		w.t.Errorf("heard %q, want %q", got, want)
	}
	w.heard.log = nil
}

// client is a connection of a session through member 1, and a Watcher.
type client struct {
	w        *world
	member   uint32
	conn     uint64
	id       jute.SessionID
	ids      []*proto.Identity
	events   []string
	watching int  // bytes of its watches
	noted    bool // its events are recorded between the calls of the hooks
}

func (w *world) connect() *client {
	w.t.Helper()
	w.conns++
	c := &client{w: w, member: 1, conn: 100 + w.conns, id: jute.SessionID(1<<56 + w.conns)}
	c.ids = []*proto.Identity{{Scheme: "ip", Id: "127.0.0.1"}}
	if r := c.open(); r.Code != jute.OK {
		w.t.Fatalf("createSession: %v", r.Code)
	}
	return c
}

func (c *client) open() Result {
	c.w.t.Helper()
	return c.do(jute.OpCreateSession, message(&proto.OpenSession{TimeoutMs: 6000, Password: password(c.id), Address: "127.0.0.1:5"}))
}

func (c *client) auth(scheme, id string) *client {
	c.ids = append(slices.Clip(c.ids), &proto.Identity{Scheme: scheme, Id: id})
	c.do(jute.OpIdentify, nil) // has no effect if the session has ended or moved
	return c
}

func (c *client) txn(op jute.Op, body []byte) *proto.Txn {
	txn := &proto.Txn{Session: int64(c.id), Conn: c.conn, Op: int32(op), Body: body}
	switch op {
	case jute.OpCreateSession, jute.OpAttach:
		txn.Ids = c.ids
	case jute.OpIdentify: // the others are in the record
		txn.Ids = c.ids[len(c.ids)-1:]
	}
	return txn
}

func (c *client) do(op jute.Op, body []byte) Result {
	c.w.t.Helper()
	return c.w.run(c.member, c.txn(op, body))
}

func aclOf(perms jute.Perm, entries ...string) []jute.ACL {
	list := []jute.ACL{}
	for i := 0; i < len(entries); i += 2 {
		list = append(list, jute.ACL{Perms: perms, ID: jute.ID{Scheme: []byte(entries[i]), ID: []byte(entries[i+1])}})
	}
	return list
}

func createOp(path, data string, flags jute.CreateMode, acl []jute.ACL) jute.CreateRequest {
	return jute.CreateRequest{Path: []byte(path), Data: []byte(data), ACL: acl, Flags: flags}
}

func (c *client) create(path string, flags jute.CreateMode) Result {
	c.w.t.Helper()
	return c.createACL(path, flags, jute.OpenACL)
}

func (c *client) createACL(path string, flags jute.CreateMode, acl []jute.ACL) Result {
	c.w.t.Helper()
	return c.do(jute.OpCreate, createOp(path, "x", flags, acl).Append(nil))
}

func (c *client) createTTL(path string, flags jute.CreateMode, ttl int64) Result {
	c.w.t.Helper()
	return c.do(jute.OpCreateTTL, jute.CreateTTLRequest{CreateRequest: createOp(path, "x", flags, jute.OpenACL), TTL: ttl}.Append(nil))
}

func (c *client) container(path string) Result {
	c.w.t.Helper()
	return c.do(jute.OpCreateContainer, createOp(path, "", jute.Container, jute.OpenACL).Append(nil))
}

// setQuota makes the nodes of a quota as clients do: the limits first, then the usage.
func (c *client) setQuota(path, limits string) {
	c.w.t.Helper()
	above := quotaPath
	for part := range strings.SplitSeq(path[1:], "/") {
		above += "/" + part
		if r := c.create(above, 0); r.Code != jute.NodeExists {
			c.must(r)
		}
	}
	c.must(c.do(jute.OpCreate, createOp(above+limitsSuffix, limits, 0, jute.OpenACL).Append(nil)))
	c.must(c.do(jute.OpCreate, createOp(above+usageSuffix, "count=0,bytes=0", 0, jute.OpenACL).Append(nil)))
}

func (c *client) delete(path string, version int32) Result {
	c.w.t.Helper()
	return c.do(jute.OpDelete, jute.DeleteRequest{Path: []byte(path), Version: version}.Append(nil))
}

func (c *client) setData(path, data string, version int32) Result {
	c.w.t.Helper()
	return c.do(jute.OpSetData, jute.SetDataRequest{Path: []byte(path), Data: []byte(data), Version: version}.Append(nil))
}

func (c *client) setACL(path string, acl []jute.ACL, version int32) Result {
	c.w.t.Helper()
	return c.do(jute.OpSetACL, jute.SetACLRequest{Path: []byte(path), ACL: acl, Version: version}.Append(nil))
}

func (c *client) multi(ops ...jute.MultiOp) Result {
	c.w.t.Helper()
	return c.do(jute.OpMulti, jute.AppendMulti(nil, ops))
}

func (c *client) close() Result {
	c.w.t.Helper()
	return c.do(jute.OpCloseSession, nil)
}

// attach takes c's session over for another connection, on the given member.
func (c *client) attach(member uint32, since uint64, password []byte) (*client, Result) {
	c.w.t.Helper()
	c.w.conns++
	d := &client{w: c.w, member: member, conn: 100 + c.w.conns, id: c.id, ids: c.ids}
	return d, d.do(jute.OpAttach, message(&proto.Attach{Password: password, TimeoutMs: 9000, OwnerIndex: since, Address: "127.0.0.1:6"}))
}

func (c *client) since() uint64 {
	s, _ := c.w.s().Session(c.id)
	return s.OwnerIndex
}

// must fails the test unless r is OK.
func (c *client) must(r Result) Result {
	c.w.t.Helper()
	if r.Code != jute.OK {
		c.w.t.Fatalf("%v (%d)", r.Code, r.Code)
	}
	return r
}

func (c *client) exists(path string) (jute.Stat, jute.Code) {
	c.w.s().RLock()
	defer c.w.s().RUnlock()
	return c.w.s().Exists([]byte(path), c.ids, nil)
}

func (c *client) stat(path string) jute.Stat {
	c.w.t.Helper()
	st, code := c.exists(path)
	if code != jute.OK {
		c.w.t.Fatalf("exists %s: %v", path, code)
	}
	return st
}

func (c *client) AdjustWatchMemory(more int) { c.watching += more }

func (c *client) QueueEvent(t jute.EventType, path string, zxid int64) {
	if zxid != c.w.s().Zxid() {
		c.w.t.Errorf("event with zxid %#x during %#x", zxid, c.w.s().Zxid())
	}
	c.events = append(c.events, fmt.Sprintf("%s(%s)", names[t], path))
	if c.noted {
		c.w.heard.note("event")
	}
}

func (c *client) Identities() []*proto.Identity { return c.ids }

var names = map[jute.EventType]string{
	jute.EventNodeCreated: "Created", jute.EventNodeDeleted: "Deleted",
	jute.EventNodeDataChanged: "Changed", jute.EventNodeChildrenChanged: "Children",
}

// wantEvents checks the events since the last check.
func (c *client) wantEvents(want ...string) {
	c.w.t.Helper()
	if !slices.Equal(c.events, want) {
		c.w.t.Errorf("events %q, want %q", c.events, want)
	}
	c.events = nil
}

func (c *client) watchExists(path string) jute.Code {
	c.w.s().RLock()
	defer c.w.s().RUnlock()
	_, code := c.w.s().Exists([]byte(path), c.ids, c)
	return code
}

func (c *client) watchData(path string) jute.Code {
	c.w.s().RLock()
	defer c.w.s().RUnlock()
	_, _, code := c.w.s().GetData([]byte(path), c.ids, c)
	return code
}

func (c *client) watchChildren(path string) jute.Code {
	c.w.s().RLock()
	defer c.w.s().RUnlock()
	_, _, code := c.w.s().Children([]byte(path), c.ids, c)
	return code
}

func (c *client) children(path string) []string {
	c.w.s().RLock()
	defer c.w.s().RUnlock()
	list, _, _ := c.w.s().Children([]byte(path), c.ids, nil)
	return slices.Collect(list.All())
}

// encode returns a snapshot's bytes.
func encode(t testing.TB, sn *Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	if n, err := sn.WriteTo(&b); err != nil || n != int64(b.Len()) {
		t.Fatalf("WriteTo = %d, %v with %d bytes written", n, err, b.Len())
	}
	return b.Bytes()
}

// connectUnchecked is connect without a check, for a world whose hooks are not recorded.
func (w *world) connectUnchecked() *client {
	w.conns++
	c := &client{w: w, member: 1, conn: 100 + w.conns, id: jute.SessionID(1<<56 + w.conns)}
	c.open()
	return c
}
