package quorum

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// checkSnapshot compares the configuration in the newest snapshot with the server list. With the
// configuration of another ensemble, or with none, raft would start and never elect a leader.
func (n *Node) checkSnapshot() error {
	list, err := n.disk.Snapshots().List()
	if err != nil || len(list) == 0 {
		return err
	}
	if err := n.checkSnapshotServers(list[0].Configuration.Servers); err != nil {
		return fmt.Errorf("quorum: snapshot %s: %w", list[0].ID, err)
	}
	return nil
}

// checkSnapshotServers compares the servers in a snapshot with the server list.
func (n *Node) checkSnapshotServers(servers []raft.Server) error {
	if len(servers) == 0 {
		return fmt.Errorf("it is %w: it has no configuration", disk.ErrDamaged)
	}
	return checkServers(servers, n.cfg.Peers, n.Recovery() != 0)
}

// inspect reads all of a received snapshot, and compares its content with the request. Without this
// check raft would replace this member's log and state with whatever was received, and end the
// process if it cannot be read.
func (n *Node) inspect(s io.Reader, req *raft.InstallSnapshotRequest) error {
	if err := n.checkSnapshotServers(raft.DecodeConfiguration(req.Configuration).Servers); err != nil {
		return err
	}
	if req.LastLogTerm > req.Term || req.ConfigurationIndex > req.LastLogIndex {
		return fmt.Errorf("%w: it ends in term %d, and is of term %d; its configuration is of index %d, and it goes to %d",
			disk.ErrDamaged, req.LastLogTerm, req.Term, req.ConfigurationIndex, req.LastLogIndex)
	}
	c, err := n.cfg.Machine.Verify(s)
	if err != nil {
		return err
	}
	return c.Check(req.LastLogIndex, req.LastLogTerm, n.Recovery() != 0)
}
