package quorum

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// checkSnapshotConfiguration checks the configuration in the newest snapshot. With one without voters raft would start
// and never elect a leader.
func (n *Node) checkSnapshotConfiguration() error {
	list, err := n.disk.Snapshots().List()
	if err != nil || len(list) == 0 {
		return err
	}
	if err := checkSnapshotServers(list[0].Configuration.Servers); err != nil {
		return fmt.Errorf("quorum: snapshot %s: %w", list[0].ID, err)
	}
	return nil
}

func checkSnapshotServers(servers []raft.Server) error {
	peers := wire.PeersIn(raft.Configuration{Servers: servers})
	switch {
	case len(peers) != len(servers):
		return fmt.Errorf("it is %w: its configuration has servers that are no members: %v", disk.ErrDamaged, servers)
	case len(wire.VoterIDs(peers)) == 0:
		return fmt.Errorf("it is %w: its configuration has no voter", disk.ErrDamaged)
	}
	return nil
}

// verifyReceivedSnapshot reads all of a received snapshot, and compares its content with the request. Without this
// check raft would replace this member's log and state with a bad snapshot, and end the process if it cannot be
// read.
func (n *Node) verifyReceivedSnapshot(s io.Reader, req *raft.InstallSnapshotRequest) error {
	if err := checkSnapshotServers(raft.DecodeConfiguration(req.Configuration).Servers); err != nil {
		return err
	}
	if req.LastLogTerm > req.Term || req.ConfigurationIndex > req.LastLogIndex {
		return fmt.Errorf("%w: it ends in term %d, and is of term %d; its configuration is of index %d, and it goes to %d",
			disk.ErrDamaged, req.LastLogTerm, req.Term, req.ConfigurationIndex, req.LastLogIndex)
	}
	c, err := n.cfg.StateMachine.Verify(s)
	if err != nil {
		return err
	}
	return c.CheckMetadata(req.LastLogIndex, req.LastLogTerm)
}

// receivedSnapshots implements wire.Snapshots.
type receivedSnapshots struct{ node *Node }

func (s receivedSnapshots) NewSpool() (disk.Spool, error) { return s.node.disk.NewSpool() }

func (s receivedSnapshots) Verify(contents io.Reader, req *raft.InstallSnapshotRequest) error {
	return s.node.verifyReceivedSnapshot(contents, req)
}

func (s receivedSnapshots) NoteRejected(req *raft.InstallSnapshotRequest, why error) {
	s.node.logger.Error("a received snapshot is rejected; this member's state is unchanged", "from", string(req.ID), "index",
		req.LastLogIndex, "reason", why)
}

func (s receivedSnapshots) NoteInstalled(term uint64) {
	s.node.fsm.appliedTerm.Store(max(s.node.fsm.appliedTerm.Load(), term))
	s.node.cfg.ConfigurationChanged()
}
