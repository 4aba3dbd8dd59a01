package znode

import (
	"fmt"
	"slices"

	"rollcall/proto"
	"rollcall/zk/jute"

	pb "google.golang.org/protobuf/proto"
)

// Apply changes the state by an entry that raft logged at index in term. A nil entry stands for an
// index that holds no entry of ours. The caller holds the write lock. If Apply returns an error,
// nothing has changed; this member cannot follow the log and must stop.
func (s *State) Apply(index, term uint64, entry *proto.Entry) error {
	if index <= s.index {
		return fmt.Errorf("znode: log entry %d comes after entry %d", index, s.index)
	}
	// If this member skipped an entry that it does not know, its state would differ from that of
	// members that know it.
	if f := entry.GetFormat(); entry != nil && (f < 1 || f > FormatLevel) {
		return fmt.Errorf("znode: log entry %d has format %d, this version knows up to %d; start the version that ran here before, or a newer one", index, f, FormatLevel)
	}
	start, err := termStart(entry)
	if err != nil {
		return fmt.Errorf("znode: log entry %d: %w", index, err)
	}
	s.index = index
	before := s.now
	switch {
	case entry == nil:
	case start != nil:
		s.now = entry.GetTimeMs()
		s.term = Term{Term: term, Nonce: start.GetNonce(), Leader: start.GetLeader(), Index: index, Rules: rulesOf(start)}
		s.acls.obey(s.term.Rules)
		s.hooks.TermStarted(s.term)
		s.running.beginRoster(start.GetRoster())
	case entry.GetTerm() != term || term != s.term.Term || entry.GetNonce() != s.term.Nonce:
		// The entry comes from a leader whose term was over or had not opened yet. All members
		// ignore it.
	default:
		s.now = entry.GetTimeMs()
		s.running.budget.begin()
		s.watches.steps = 0
		s.hashed = 0
		for _, txn := range entry.GetTxns() {
			s.step(txn)
		}
	}
	if s.markDue(start != nil, before) {
		s.marks.add(Mark{Index: s.index, Digest: s.digest()})
	}
	s.hooks.EntryEnd(index)
	return nil
}

// termStart returns the entry's TermStart, or nil if the entry is of another kind.
func termStart(entry *proto.Entry) (*proto.TermStart, error) {
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

// rulesOf returns the rules of a term that begins with start.
func rulesOf(start *proto.TermStart) Rules {
	return Rules{
		SkipACL: start.GetSkipAcl(), TTLNodes: start.GetTtlNodes(), EnforceQuota: start.GetEnforceQuota(),
		X509: start.GetX509(), SASL: start.GetSasl(), DataQuota: start.GetDataQuota(), Reconfig: start.GetReconfig(),
	}
}

// step runs one transaction if it is in turn.
func (s *State) step(txn *proto.Txn) {
	own := s.cfg.Self != 0 && txn.GetMember() == s.cfg.Self
	announces := jute.Op(txn.GetOp()) == jute.OpAnnounce
	if announces {
		if replaced, done := s.members.announce(txn, &s.roster); done {
			s.hooks.Announced(txn.GetMember(), txn.GetBoot(), replaced)
			return
		}
	}
	if announces || !s.members.inTurn(txn) {
		if own {
			s.hooks.Dropped(txn)
		}
		return
	}
	s.running.run(txn)
	r := &s.running.result
	if own {
		r.Zxid, r.Multi = s.zxid, slices.Clone(r.Multi)
		s.hooks.Applied(txn, r)
	}
}

// leadersOwn reports whether a transaction of op may belong to no member, because a leader makes it. A kill belongs
// to the member that submits it, or to none if no ensemble runs: then a backup is being prepared.
func leadersOwn(op jute.Op) bool {
	switch op {
	case jute.OpExpire, jute.OpKill, jute.OpReap, jute.OpSweep:
		return true
	}
	return false
}
