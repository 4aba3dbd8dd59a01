package member

import (
	"context"
	"time"

	"rollcall/leader"
	"rollcall/proto"
)

// followerRaft implements follower.Raft. It reads m.node late, because the node is made after the follower.
type followerRaft struct{ m *Member }

func (r followerRaft) DiskID() uint64   { return uint64(r.m.node.DiskID()) }
func (r followerRaft) Term() uint64     { return r.m.node.Status().Term() }
func (r followerRaft) Leader() uint32   { return r.m.node.Status().LeaderID() }
func (r followerRaft) IsJoining() bool  { return r.m.node.IsJoining() }
func (r followerRaft) Voters() []uint32 { return raftVoters(r.m.node) }

// LastLead subtracts what has passed since raft's time of another clock.
func (r followerRaft) LastLead(term uint64) time.Time {
	at := r.m.node.Reachability().Contact().LastLead(term)
	if at.IsZero() {
		return at
	}
	return r.m.cfg.Monotonic.Now().Add(-time.Since(at))
}

// leaderRaft implements leader.Raft.
type leaderRaft struct{ followerRaft }

func (r leaderRaft) Members() []leader.Member { return raftMembers(r.m.node) }

// followerPeers implements follower.Peers.
type followerPeers struct{ m *Member }

func (p followerPeers) Leader(ctx context.Context, id uint32) (proto.LeaderClient, error) {
	return p.m.terms.leaderClient(ctx, id)
}

func (p followerPeers) Probe(ctx context.Context, id uint32) error {
	return p.m.helloClient.probeMember(ctx, id)
}

func (p followerPeers) StateHashes(ctx context.Context, id uint32) (*proto.StateHashes, error) {
	return p.m.peerConns.fetchStateHashes(ctx, id)
}
