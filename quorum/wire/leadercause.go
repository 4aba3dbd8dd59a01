package wire

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
)

// LeaderCauses records why this member stands for election, so that it can report the cause once it leads. It uses what
// passes the transport: the leader's requests, hand-overs, and this member's own requests for votes. Package quorum adds the
// deaths that it has detected, and the terms that this member has led. raft reports none of this. It is safe for concurrent
// use, and nothing blocks.
type LeaderCauses struct {
	self         uint32
	mu           sync.Mutex
	followed     uint32 // the leader that this member has followed last; 0: none since the start
	followedTerm uint64
	heardAt      time.Time   // when its last accepted request arrived
	ending       leaderCause // why followed does not lead any more; zero: not known
	endedAt      time.Time   // when ending became known
	handOver     leaderCause // of the last accepted hand-over that raft may not have acted on yet; zero: none
	stood        leaderCause // for stoodTerm
	stoodTerm    uint64      // the last in which this member requested votes
	ledTerm      uint64      // the last in which this member has begun to lead
}

// NewLeaderCauses returns the LeaderCauses of the member self, which has known no leader yet.
func NewLeaderCauses(self uint32) *LeaderCauses { return &LeaderCauses{self: self} }

// leaderCause is a proto.LeaderCause without its term.
type leaderCause struct {
	kind   proto.LeaderCauseKind
	former uint32
	silent time.Duration
}

// noteFollowed records that raft has accepted a leader's request of its present term, which arrived at a time. A later
// leader ends what was known of the one before. A leader that is heard after its detected death lives.
func (l *LeaderCauses) noteFollowed(leader uint32, term uint64, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if leader == 0 || term < l.followedTerm {
		return // noted late
	}
	isAlive := l.ending.kind == proto.LeaderCauseKind_LEADER_CAUSE_DIED && at.After(l.endedAt)
	if term > l.followedTerm || isAlive {
		l.ending = leaderCause{}
	}
	l.followed, l.followedTerm = leader, term
	if at.After(l.heardAt) {
		l.heardAt = at
	}
}

// noteHandOver records that a leader hands over to this member. It must be called before raft gets the request.
func (l *LeaderCauses) noteHandOver(leader uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handOver = leaderCause{kind: proto.LeaderCauseKind_LEADER_CAUSE_HANDED_OVER, former: leader}
	if leader == l.followed {
		l.ending, l.endedAt = l.handOver, time.Now()
	}
}

// NoteDeath records that the process of a leader has ended, as the cause of the next election. An earlier hand-over does not
// count any more.
func (l *LeaderCauses) NoteDeath(leader uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handOver = leaderCause{}
	if leader == l.followed {
		l.ending, l.endedAt = leaderCause{kind: proto.LeaderCauseKind_LEADER_CAUSE_DIED, former: leader}, time.Now()
	}
}

// noteCandidacy records that raft requests votes in a term. atOnce reports whether a request made it stand. The first request
// of a term decides the cause of that term.
func (l *LeaderCauses) noteCandidacy(term uint64, atOnce bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term <= l.stoodTerm {
		return
	}
	l.stoodTerm, l.stood = term, l.presentCause()
	if atOnce && l.handOver != (leaderCause{}) { // it may have come late, when raft followed another leader
		l.stood, l.handOver = l.handOver, leaderCause{}
	}
}

// presentCause returns the cause of an election that begins now. The caller holds the lock.
func (l *LeaderCauses) presentCause() leaderCause {
	switch {
	case l.ledTerm > l.followedTerm:
		return leaderCause{kind: proto.LeaderCauseKind_LEADER_CAUSE_ELECTED_AGAIN}
	case l.followed == 0:
		return leaderCause{kind: proto.LeaderCauseKind_LEADER_CAUSE_STARTED}
	case l.ending != leaderCause{}:
		return l.ending
	}
	return leaderCause{
		kind: proto.LeaderCauseKind_LEADER_CAUSE_SILENT, former: l.followed, silent: time.Since(l.heardAt),
	}
}

// ofTerm returns the cause of a term that this member leads.
func (l *LeaderCauses) ofTerm(term uint64) leaderCause {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch term {
	case l.ledTerm:
		return leaderCause{kind: proto.LeaderCauseKind_LEADER_CAUSE_RESUMED}
	case l.stoodTerm:
		return l.stood
	}
	return l.presentCause() // the only voter requests no votes
}

// NoteLed records that this member has begun to lead in a term: the first entry of that term is applied here.
func (l *LeaderCauses) NoteLed(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ledTerm = term
}

// Cause returns the reason for which this member leads in a term of raft's, for the first entry of that term. After NoteLed
// for the term, the reason is that this member resumes.
func (l *LeaderCauses) Cause(term uint64) *proto.LeaderCause {
	cause := l.ofTerm(term)
	former := cause.former
	switch cause.kind {
	case proto.LeaderCauseKind_LEADER_CAUSE_ELECTED_AGAIN, proto.LeaderCauseKind_LEADER_CAUSE_RESUMED:
		former = l.self
	}
	return &proto.LeaderCause{Term: term, Kind: cause.kind, Former: former, SilentMs: uint64(cause.silent.Milliseconds())}
}

// noteResponse records a request that raft has responded to and that arrived at a time, for this member's last leader, for
// the cause of its next election, and for when that leader led.
func (rc *receiver) noteResponse(in *inConn, request, response any) {
	rc.lastLeader.note(in.serverID, request, response)
	req, isEntries := request.(*raft.AppendEntriesRequest)
	resp, isResponse := response.(*raft.AppendEntriesResponse)
	if isEntries && isResponse && resp.Term == req.Term {
		rc.cfg.LeaderCauses.noteFollowed(in.peerID, req.Term, in.requestBegun)
		if isHeartbeat(req) {
			rc.cfg.LeadTimes.noteHeartbeat(req.Term, in.lastSent)
		}
	}
}
