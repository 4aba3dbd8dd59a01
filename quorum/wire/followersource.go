package wire

import "github.com/hashicorp/raft"

// followerSource is the pipelineSource for one follower.
type followerSource struct {
	transport *Transport
	follower  raft.ServerID
}

func (s followerSource) logPosition() (commit, last, term uint64) { return s.transport.logPosition() }

func (s followerSource) clampCommit(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	return s.transport.clampCommit(req)
}

func (s followerSource) limitToReleased(term, index uint64) uint64 {
	return s.transport.cfg.Releases.Limit(term, index)
}

func (s followerSource) earlyCommit(req *raft.AppendEntriesRequest) uint64 {
	return s.transport.earlyCommitTo(s.follower, req)
}

func (s followerSource) directPart(req *raft.AppendEntriesRequest) *directPart {
	return directEarlyCommits{&s.transport.cfg}.to(s.follower, req)
}

func (s followerSource) noteAccepted(req *raft.AppendEntriesRequest) {
	s.transport.durableAcks.noteAccepted(&s.transport.cfg, s.follower, req)
}

func (s followerSource) mayLead() error { return s.transport.cfg.Elections.MayLead() }

func (s followerSource) mayReceive(req *raft.AppendEntriesRequest) bool {
	return s.transport.mayReceive(s.follower, req)
}
