package znode

import (
	"fmt"
	"math"
	"slices"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"

	pb "google.golang.org/protobuf/proto"
)

// ApplyEntry applies the entry that raft logged at index in term. A nil entry stands for an index without an
// entry of ours. The caller holds the write lock. After an error nothing has changed, but this member cannot
// follow the log and must stop.
func (s *State) ApplyEntry(index, term uint64, entry *proto.Entry) error {
	_, err := s.ApplyEntryThrough(index, term, entry, math.MaxInt64)
	return err
}

// ApplyEntryThrough is ApplyEntry, but stops after the transaction that takes zxid, or the first one that takes a greater
// zxid. If transactions of the entry are left then, rest applies them in the same way, and reports whether there are more.
// Until there are none, nothing else may be applied. Otherwise rest is nil. The caller holds the write lock during all calls.
func (s *State) ApplyEntryThrough(index, term uint64, entry *proto.Entry, zxid int64) (
	rest func(zxid int64) (more bool), err error,
) {
	state := &s.replicated
	if index <= state.lastIndex {
		return nil, fmt.Errorf("znode: log entry %d comes after entry %d", index, state.lastIndex)
	}
	// Skipping an unknown entry would make this member's state differ from the others'.
	if f := entry.GetFormat(); entry != nil && (f < 1 || f > FormatLevel) {
		return nil, fmt.Errorf("znode: log entry %d has format %d, this version knows up to %d; start the version "+
			"that ran here before, or a newer one", index, f, FormatLevel)
	}
	start, err := decodeTermStart(entry)
	if err != nil {
		return nil, fmt.Errorf("znode: log entry %d: %w", index, err)
	}
	state.lastIndex = index
	state.latestMs = max(state.latestMs, entry.GetTimeMs())
	before := state.timeMs
	switch {
	case entry == nil:
	case start != nil:
		state.timeMs = entry.GetTimeMs()
		state.term = Term{
			Term: term, Nonce: start.GetNonce(), Leader: start.GetLeader(), Index: index, Rules: rulesOfTerm(start),
		}
		s.acls.applyRules(state.term.Rules)
		s.hooks.TermStarted(state.term, newLeaderCause(start.GetCause(), term))
		s.runningTxn.adoptServerList(start.GetServerList())
	case entry.GetTerm() != term || term != state.term.Term || entry.GetNonce() != state.term.Nonce:
		// The entry's leader had lost its term or had not opened it yet. All members ignore the entry.
	default:
		state.timeMs = entry.GetTimeMs()
		s.runningTxn.budget.refill()
		s.watches.entrySteps = 0
		state.tree.hashedBytes = 0
		for i, txn := range entry.GetTxns() {
			s.runOrDrop(txn)
			if left := entry.GetTxns()[i+1:]; state.zxid >= zxid && len(left) > 0 {
				return func(zxid int64) (more bool) {
					for len(left) > 0 {
						s.runOrDrop(left[0])
						if left = left[1:]; state.zxid >= zxid && len(left) > 0 {
							return true
						}
					}
					s.stateHashes.appendIfDue(state, false, before)
					s.hooks.EntryFinished(index)
					return false
				}, nil
			}
		}
	}
	s.stateHashes.appendIfDue(state, start != nil, before)
	s.hooks.EntryFinished(index)
	return nil, nil
}

// decodeTermStart returns the entry's TermStart, or nil if the entry is of another kind.
func decodeTermStart(entry *proto.Entry) (*proto.TermStart, error) {
	txns := entry.GetTxns()
	if len(txns) != 1 || jute.Op(txns[0].GetOp()) != jute.OpTermStart || txns[0].GetMember() != 0 {
		return nil, nil
	}
	var start proto.TermStart
	if err := pb.Unmarshal(txns[0].GetBody(), &start); err != nil {
		return nil, fmt.Errorf("term start: %w", err)
	}
	return &start, nil
}

// ReadLeaseOf returns the longest lease for reads that the leader grants whose TermStart an entry of the log is. ok is false if the entry
// is another one, or cannot be decoded.
func ReadLeaseOf(data []byte) (lease time.Duration, ok bool) {
	entry, err := proto.UnmarshalEntry(data)
	if err != nil {
		return 0, false
	}
	start, err := decodeTermStart(entry)
	if err != nil || start == nil {
		return 0, false
	}
	return time.Duration(start.GetReadLeaseMs()) * time.Millisecond, true
}

func rulesOfTerm(start *proto.TermStart) Rules {
	return Rules{
		SkipACL: start.GetSkipAcl(), TTLNodes: start.GetTtlNodes(), EnforceQuota: start.GetEnforceQuota(),
		X509: start.GetX509(), SASL: start.GetSasl(), DataQuota: start.GetDataQuota(), Reconfig: start.GetReconfig(),
		LongNames: start.GetLongNames(), AnySASLUser: start.GetAnySaslUser(), ReadLeaseMs: start.GetReadLeaseMs(),
	}
}

// runOrDrop runs a transaction if it is the next one of its member.
func (s *State) runOrDrop(txn *proto.Txn) {
	members := &s.replicated.members
	own := s.cfg.Self != 0 && txn.GetMember() == s.cfg.Self
	announces := jute.Op(txn.GetOp()) == jute.OpAnnounce
	if announces {
		if replaced, done := members.announceIncarnation(txn, &s.replicated.serverList); done {
			s.hooks.MemberAnnounced(txn.GetMember(), txn.GetIncarnation(), replaced)
			return
		}
	}
	if announces || !members.advanceIfNext(txn) {
		if own {
			s.hooks.TxnDropped(txn)
		}
		return
	}
	s.runningTxn.runTxn(txn)
	r := &s.runningTxn.result
	if own {
		r.Zxid, r.Multi = s.replicated.zxid, slices.Clone(r.Multi)
		s.hooks.TxnApplied(txn, r)
	}
}

// mayLackMember reports whether a transaction of op may have no member, because a leader makes it. A kill has
// the member that submits it, or none while a backup is prepared without an ensemble.
func mayLackMember(op jute.Op) bool {
	switch op {
	case jute.OpExpire, jute.OpKill, jute.OpReap, jute.OpSweep:
		return true
	}
	return false
}
