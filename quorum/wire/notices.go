package wire

import "slices"

// NotifyDurable sends the replies that waited until entries are on this member's disk, and reports that to the followers
// that commit by it: see earlyCommitTo. Those in first, whose clients wait, hear of it before the others. NotifyDurable does not wait. If this member's
// configuration has more than maxEarlyCommitVoters, only those in first hear of it: see directEarlyCommits.
func (t *Transport) NotifyDurable(first []uint32) {
	r := t.cfg.Raft()
	t.receiver.diskIsLate.Store(false)
	t.receiver.settled.fire()
	t.receiver.recordCommit(r)
	if r != nil {
		isFew := countVoters(r.GetConfiguration().Configuration()) <= maxEarlyCommitVoters
		t.notifyPipelines(first, func(p *pipeline) bool { return isFew || slices.Contains(first, p.conn.peerID) })
	}
}

// NotifyCommitted reports that entries up to index were committed to all members without a notice yet: first to those
// in first, and then to the others. A member to which further entries are about to go hears of the commit with them: see
// takeNextNotice. A member that has the leader's word, and acknowledges the entries soon, needs no notice: see needsCommit.
// NotifyCommitted does not wait.
func (t *Transport) NotifyCommitted(index uint64, first []uint32) {
	t.commitBroadcast.fire()
	t.notifyPipelines(first, func(p *pipeline) bool { return p.commits.needsCommit(index) })
}

// notifyPipelines makes pipelines send a notice, if there is a commit to report: those to members in first before others.
func (t *Transport) notifyPipelines(first []uint32, to func(*pipeline) bool) {
	for _, isFirst := range []bool{true, false} {
		t.openPipelines.Range(func(open, _ any) bool {
			if p := open.(*pipeline); slices.Contains(first, p.conn.peerID) == isFirst && to(p) {
				p.signalCommit()
			}
			return true
		})
	}
}
