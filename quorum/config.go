package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// Config is what a Node is opened with. Fields without a default are required.
type Config struct {
	MemberID uint32 // this member's id
	// Peers is the configured server list, this member included. Its voter with the lowest id begins a new ensemble.
	// Afterwards the list only names the members that this one asks first.
	Peers       []wire.Peer
	AddressBook *wire.AddressBook // this member's, made with Peers; default: a new one
	// WantedServers returns the server list in the state of the machine, which raft's configuration follows while
	// this member leads; false: the state has none, and Peers counts. See Node.WantedChanged. Default: none.
	WantedServers func() ([]wire.Peer, bool)
	// ConfigurationChanged is called when raft runs and has its configuration, when a change of that was committed, and when a
	// snapshot was installed, which may have another one. It must not block. Default: nothing.
	ConfigurationChanged func()
	// LeaderDied is called in a goroutine of its own when the process of the leader has died. Default: nothing.
	LeaderDied func(member uint32)

	DataDir string      // data directory
	LogDir  string      // directory of the log; default: Dir
	Stores  disk.Stores // in place of the directories, for tests; default: on disk
	// LogKind says how the log is stored; default: as the directory is, or disk.DefaultLogKind.
	LogKind disk.LogKind
	// SegmentBytes is the size of a file of the log, if LogKind is disk.LogWAL; default 16 MiB.
	SegmentBytes int

	StreamLayer  raft.StreamLayer // raft's connections; Addr is this member's address in Peers
	StateMachine StateMachine

	// SendHello sends a Hello to another member and returns its reply. A member uses it while it has no data, is not in
	// raft's configuration or knows no leader, and a leader uses it to find the disks that run. If Ask is nil, this
	// member is alone, and no other ever joins it.
	SendHello func(ctx context.Context, peer wire.Peer) (*proto.HelloReply, error)
	// FoundByMajority lets the voter with the lowest id begin a new ensemble once a majority of the voters has replied that
	// it has no data. Otherwise all members of Peers must have replied that.
	FoundByMajority bool

	// HeartbeatTimeout is for how long a leader may not be heard before another member stands for election. raft draws each
	// wait from once to twice that long. All members should have the same.
	HeartbeatTimeout time.Duration
	// StallLimit is how long a store or the state machine may take for one operation before this
	// member gives up leadership; see Node.Stalled.
	StallLimit time.Duration

	SnapshotEvery uint64 // log entries between snapshots; default DefaultSnapshotEvery
	SnapshotBytes int64  // bytes of log between snapshots; default DefaultSnapshotBytes
	TrailingBytes int64  // bytes of log kept before a snapshot; default DefaultTrailingBytes

	Logger *slog.Logger // default: discard
}

func (cfg *Config) check() error {
	if err := wire.CheckPeers(cfg.MemberID, cfg.Peers); err != nil {
		return err
	}
	onDisk := cfg.Stores == disk.Stores{}
	switch {
	case cfg.StreamLayer == nil || cfg.StateMachine == nil:
		return errors.New("quorum: Stream and Machine are required")
	case cfg.SendHello == nil && len(cfg.Peers) > 1:
		return errors.New("quorum: Ask is required")
	case cfg.HeartbeatTimeout <= 0:
		return fmt.Errorf("quorum: Heartbeat is %v, but must be positive", cfg.HeartbeatTimeout)
	case cfg.StallLimit <= 0:
		return fmt.Errorf("quorum: StallLimit is %v, but must be positive", cfg.StallLimit)
	case onDisk == (cfg.DataDir == ""):
		return errors.New("quorum: either Dir or Stores is required")
	case !onDisk && (cfg.Stores.Log == nil || cfg.Stores.Stable == nil || cfg.Stores.Snapshots == nil):
		return errors.New("quorum: Stores must be complete")
	case cfg.LogKind != "" && !cfg.LogKind.IsKnown():
		return fmt.Errorf("quorum: log store %q is neither %s nor %s", cfg.LogKind, disk.LogBolt, disk.LogWAL)
	case cfg.SegmentBytes < 0 || cfg.SnapshotBytes < 0 || cfg.TrailingBytes < 0:
		return errors.New("quorum: SegmentBytes, SnapshotBytes and TrailingBytes must not be negative")
	}
	for _, p := range cfg.Peers {
		if p.ID == cfg.MemberID && cfg.StreamLayer.Addr().String() != p.Addr {
			return fmt.Errorf("quorum: the stream's address %q is not this member's, %q", cfg.StreamLayer.Addr(), p.Addr)
		}
	}
	return nil
}

// runsAlone reports whether no other member ever joins this one.
func (n *Node) runsAlone() bool { return n.cfg.SendHello == nil }

func (n *Node) raftConfig() *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = n.status.selfPeer().ServerID()
	election := n.electionTimeout
	if n.runsAlone() {
		election = singleMemberElection
	}
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = election, election, election
	conf.CommitTimeout = commitTimeout
	conf.MaxAppendEntries = disk.MaxAppendEntries
	conf.SnapshotInterval = snapshotInterval
	conf.SnapshotThreshold = n.cfg.SnapshotEvery
	// For the start only: the meter soon sets a better value.
	_, conf.TrailingLogs = newSnapshotTuner(n.cfg.SnapshotEvery, n.cfg.SnapshotBytes, n.cfg.TrailingBytes).update(0, 0, 0, tuneInterval)
	conf.ShutdownOnRemove = false
	conf.NoLegacyTelemetry = true
	conf.NotifyCh = n.leadershipChanges
	conf.Logger = newRaftLog(n.logger)
	return conf
}
