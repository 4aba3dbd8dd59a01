package znode

import (
	"sync/atomic"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// transaction is the transaction that is being applied, with its result and its changes so far. A State has
// one, and reuses its memory for the next transaction. Its methods need the tree's write lock.
type transaction struct {
	txn    *proto.Txn
	result Result

	state   *content // what it changes, of which nodes changes the tree
	nodes   editor
	quotas  quotaUse
	gen     *atomic.Uint64
	acls    *acls
	watches *Watches
	removed *removedNodes
	hooks   Hooks

	budget   removalBudget
	mostEnds int // maxEnds
	ops      []jute.MultiOp
	results  []OpResult
	create   jute.CreateRequest // kept for its slice's memory, as are ops and results
	path     []byte             // the path of a sequential node
}

// run runs txn and reports its changes to the hooks. The result is valid until the next call.
func (t *transaction) run(txn *proto.Txn) {
	t.txn, t.result = txn, Result{}
	t.acls.sender.begin(txn)
	t.execute()
	t.acls.forget()
	t.watches.fire(t.state.zxid, &t.state.term.Rules)
	t.rememberDeletes()
	t.quotas.report(t.hooks)
}

// execute is the one place where a transaction changes state. Each operation is a method that decodes
// the body and takes the zxid.
func (t *transaction) execute() {
	switch op := jute.Op(t.txn.GetOp()); op {
	case jute.OpCreateSession:
		t.createSession()
	case jute.OpAttach:
		t.attach()
	case jute.OpIdentify:
		t.identify()
	case jute.OpCloseSession:
		t.closeSession()
	case jute.OpKill:
		t.kill()
	case jute.OpChangeServers:
		t.changeServers()
	case jute.OpExpire, jute.OpReap, jute.OpSweep:
		if t.txn.GetMember() != 0 {
			t.unimplemented()
			return
		}
		t.runLeaders(op)
	case jute.OpEmpty:
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		t.runCreate()
	case jute.OpDelete:
		t.runDelete()
	case jute.OpSetData:
		t.runSetData()
	case jute.OpSetACL:
		t.runSetACL()
	case jute.OpMulti:
		t.runMulti()
	case jute.OpReconfig:
		t.runReconfig()
	default:
		t.unimplemented()
	}
}

// runLeaders runs a transaction that only a leader makes.
func (t *transaction) runLeaders(op jute.Op) {
	switch op {
	case jute.OpExpire:
		t.expire()
	case jute.OpReap:
		t.reap()
	default:
		t.sweep()
	}
}

// unimplemented rejects an operation that no member should have forwarded. A new operation raises
// FormatLevel, so it can never be unknown to only some of the members.
func (t *transaction) unimplemented() {
	t.take()
	if t.result.Code = t.refuse(); t.result.Code == jute.OK {
		t.result.Code = jute.Unimplemented
	}
}

// take gives the running transaction its zxid.
func (t *transaction) take() {
	t.state.zxid = max(t.state.zxid+1, int64(t.state.term.Term)<<32)
}
