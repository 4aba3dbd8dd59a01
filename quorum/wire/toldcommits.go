package wire

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// slowAck is the time after which a follower's acknowledgement is late: its disk may take long, and it learns of a commit by
// a notice instead. It is longer than a sync takes as a rule.
const slowAck = 2 * time.Millisecond

// toldCommits is what a follower knows of commits: what it was told on its pipeline, and what it can tell by the leader's word
// and its own disk. It is safe for concurrent use.
type toldCommits struct {
	signalCommit func() // there may be a commit to send; it does not wait

	mu       sync.Mutex
	commit   uint64 // highest commit index sent, which may be the leader's word
	majority uint64 // highest majority index sent
	direct   uint64 // highest index of a word that needs direct messages
	acked    uint64 // last entry that the follower has acknowledged

	ackTimer     *time.Timer // runs while awaitsAck; nil: not used yet
	awaitsAck    bool        // an acknowledgement may still come in time
	awaitedIndex uint64      // of the entry that must be acknowledged when the timer fires
	newestIndex  uint64      // of the newest entry that is to be acknowledged
	acksLate     bool        // the follower's disk takes long: see signalLateAck
}

// newToldCommits returns what a follower knows after accepted, the last request that it has accepted, or the zero request.
func newToldCommits(accepted *raft.AppendEntriesRequest, signalCommit func()) *toldCommits {
	return &toldCommits{
		signalCommit: signalCommit, acked: accepted.PrevLogEntry,
		commit: accepted.LeaderCommitIndex, majority: accepted.LeaderCommitIndex,
	}
}

// noteSent records the indexes of a request that is about to be sent.
func (k *toldCommits) noteSent(commit, majority uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.commit, k.majority = max(k.commit, commit), max(k.majority, majority)
}

// takeDirect returns what to send of a direct part with a commit index, or nil: its word only if it goes further than that index, and than the word before.
func (k *toldCommits) takeDirect(d *directPart, commit uint64) *directPart {
	if d == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if d.index <= max(k.direct, k.commit, commit) {
		d.index, d.copies, d.voters = 0, 0, nil
	}
	k.direct = max(k.direct, d.index)
	if d.index == 0 && len(d.tell) == 0 {
		return nil
	}
	return d
}

// noteAcked records that the follower has acknowledged entries up to last. It acknowledges them when they are on its disk, or
// when it was told that a majority has them. In the first case its disk is well.
func (k *toldCommits) noteAcked(last uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acked = max(k.acked, last)
	k.acksLate = k.acksLate && k.majority >= last
}

// isNews reports whether a notice with these indexes tells the follower something that it does not know, or must not wait
// for.
func (k *toldCommits) isNews(commit, majority uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	isLate := k.acksLate || majority > k.commit // an entry that is not released may wait for this follower's disk
	return commit > k.commit || isLate && majority > k.majority && min(k.commit, k.acked) < majority
}

// needsCommit reports whether the follower is to get a notice that index is committed. It is not if it was told already, or
// if it has the leader's word and the entries on its own disk. If it has the word and its acknowledgement may still come in
// time, it gets a notice later if that does not come.
func (k *toldCommits) needsCommit(index uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.knows(index):
		return false
	case k.commit < index || k.acksLate:
		return true
	}
	k.newestIndex = index
	if !k.awaitsAck {
		k.awaitAck()
	}
	return false
}

// awaitAck gives the follower slowAck to acknowledge the newest entry that is committed. The caller holds mu.
func (k *toldCommits) awaitAck() {
	k.awaitsAck, k.awaitedIndex = true, k.newestIndex
	if k.ackTimer == nil {
		k.ackTimer = time.AfterFunc(slowAck, k.signalLateAck)
	} else {
		k.ackTimer.Reset(slowAck)
	}
}

// knows reports whether the follower knows that index is committed: it was told so, or it has the leader's word and the entry
// on its own disk. The caller holds mu.
func (k *toldCommits) knows(index uint64) bool {
	return k.commit >= index && max(k.majority, k.acked) >= index
}

// signalLateAck signals a commit of which the follower does not know by its own disk. From then on it gets all commits at
// once, until it acknowledges entries before it was told that a majority has them. An entry that was committed while the
// timer ran has its own time.
func (k *toldCommits) signalLateAck() {
	k.mu.Lock()
	k.awaitsAck = false
	isLate := !k.knows(k.awaitedIndex)
	k.acksLate = k.acksLate || isLate
	if !isLate && !k.knows(k.newestIndex) {
		k.awaitAck()
	}
	k.mu.Unlock()
	if isLate {
		k.signalCommit()
	}
}

// stop ends the timer.
func (k *toldCommits) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ackTimer != nil {
		k.ackTimer.Stop()
	}
}
