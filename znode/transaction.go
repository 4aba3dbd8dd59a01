package znode

import (
	"sync/atomic"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// transaction is the running transaction, with its result and its changes so far. A State reuses one for all
// transactions. Its methods need the tree's write lock.
type transaction struct {
	txn    *proto.Txn
	result Result

	state    *replicatedState // changed by editor as far as nodes are concerned
	editor   treeEditor
	quotas   quotaTracker
	gen      *atomic.Uint64
	acls     *aclTable
	watches  *Watches
	removals *removalHistory
	changes  changeLog
	hooks    Hooks

	budget          removalBudget
	sessionEndLimit int // maxSessionEnds outside tests
	multiOps        []jute.MultiOp
	multiResults    []OpResult
	createRequest   jute.CreateRequest // kept for its slice's memory, as are multiOps and multiResults
	sequentialPath  []byte
}

// runTxn runs txn and reports its changes to the hooks. The result is valid until the next call.
func (t *transaction) runTxn(txn *proto.Txn) {
	t.txn, t.result = txn, Result{}
	t.acls.client.resetForTxn(txn)
	t.dispatch()
	t.acls.forgetResolved()
	t.watches.firePending(t.state.zxid, &t.state.term.Rules)
	t.keepClientDeletes()
	if len(t.changes.pending) > 0 {
		t.changes.report(t.state, t.state.clientOrigin(t.txn))
	}
	t.quotas.reportExceeded(t.hooks)
	t.txn = nil // it would keep its whole entry alive
}

// dispatch is the only place where transactions change state. The method of each operation decodes the body
// and takes the zxid.
func (t *transaction) dispatch() {
	switch op := jute.Op(t.txn.GetOp()); op {
	case jute.OpCreateSession:
		t.createSession()
	case jute.OpAttach:
		t.attachSession()
	case jute.OpIdentify:
		t.addIdentities()
	case jute.OpCloseSession:
		t.closeSession()
	case jute.OpKill:
		t.killIfOwnerUnchanged()
	case jute.OpChangeServers:
		t.changeServers()
	case jute.OpExpire, jute.OpReap, jute.OpSweep:
		if t.txn.GetMember() != 0 {
			t.rejectUnknown()
			return
		}
		t.runLeaderOp(op)
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
		t.rejectUnknown()
	}
}

func (t *transaction) runLeaderOp(op jute.Op) {
	switch op {
	case jute.OpExpire:
		t.expireIfOwnerUnchanged()
	case jute.OpReap:
		t.reapIfDue()
	default:
		t.sweepNodes()
	}
}

// rejectUnknown rejects an operation that no member should have forwarded. A new operation raises
// FormatLevel, so it is never unknown to only some of the members.
func (t *transaction) rejectUnknown() {
	t.takeZxid()
	if t.result.Code = t.checkOwnerLoadIdentities(); t.result.Code == jute.OK {
		t.result.Code = jute.Unimplemented
	}
}

func (t *transaction) takeZxid() {
	t.state.zxid = max(t.state.zxid+1, int64(t.state.term.Term)<<32)
}
