package wire

import (
	"io"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// Durability tells which entries of this member's log are on disks.
type Durability interface {
	// LimitToDurable returns index or, if lower, the index up to which this member's log is on its disk.
	LimitToDurable(index uint64) uint64
	// LimitToSettled does the same, and NoteCommitted raises its limit: the entries up to an index are on the disks of a
	// majority, and committed.
	LimitToSettled(index uint64) uint64
	NoteCommitted(index uint64)
}

// Elections tells whether this member may lead, and hears what the transport observes of other leaders and candidates.
type Elections interface {
	// MayStand returns an error if this member has no vote, is stalled or damaged.
	MayStand() error
	// MayLead returns the reason to send nothing as a leader, or nil.
	MayLead() error
	// MayAcceptLeadership returns nil if this member accepts a leadership transfer, or the reason against it.
	MayAcceptLeadership() error
	// IsStableLeader reports whether this member leads in term, without a transfer in progress.
	IsStableLeader(term uint64) bool
	// AwaitBacklog waits after a pause of this process until what had come before has been read, for a few steps of its clock, and
	// reports whether there was a pause. It returns at once if there was none.
	AwaitBacklog() bool
	// NoteDeclined records that a member declined leadership or did not reply.
	NoteDeclined(by raft.ServerID, why error)
	// NoteConnectionLost records that a server that has sent requests closed or reset its last connection to this member's port.
	NoteConnectionLost(server raft.ServerID)
	// NoteShorterCandidate records that raft has replied to a candidate whose log is shorter than this member's, and which gets no
	// vote.
	NoteShorterCandidate()
}

// Snapshots handles the snapshots that this member receives.
type Snapshots interface {
	// NewSpool opens a file for a received snapshot. It waits for the disk.
	NewSpool() (disk.Spool, error)
	// Verify reads all of a received snapshot, which may take long, and compares it with its request. If it returns an error, the
	// snapshot is rejected.
	Verify(s io.Reader, req *raft.InstallSnapshotRequest) error
	// NoteRejected records that a snapshot is rejected.
	NoteRejected(req *raft.InstallSnapshotRequest, why error)
	// NoteInstalled records that a snapshot whose last entry is of term is installed.
	NoteInstalled(term uint64)
}
