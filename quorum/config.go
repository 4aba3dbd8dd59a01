package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/monotonic"
	"rollcall/internal/stages"
	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/history"
	"rollcall/quorum/wire"
)

// Config configures a Node. Fields without a default are required.
type Config struct {
	MemberID uint32
	// Peers is the configured server list, this member included. Its voter with the lowest id founds a new
	// ensemble. Afterwards the list only names the members to contact first.
	Peers       []wire.Peer
	AddressBook *wire.AddressBook // made with Peers; default: a new one
	// WantedServers returns the server list in the replicated state, which raft's configuration follows while this
	// member leads. It returns false if the state has none, and Peers counts. Once it has returned a list, SendHello asks
	// members at the addresses of that list or of a newer one. See Node.WantedServersChanged.
	// Default: none.
	WantedServers func() ([]wire.Peer, bool)
	// ConfigurationChanged is called when raft has started, when a change of its configuration was committed, and
	// when a snapshot was installed, which may have another one. It must not block. Default: nothing.
	ConfigurationChanged func()
	// EntryStored is called before this member stores a command in its log, committed or not. raft waits for it. Default:
	// nothing.
	EntryStored func(index uint64, data []byte)
	// LeaderDied is called in its own goroutine when the leader's process has died and this member knows no successor.
	// Default: nothing.
	LeaderDied func(member uint32)

	DataDir string
	LogDir  string      // default: DataDir
	Stores  disk.Stores // in place of the directories, for tests; default: on disk
	// SegmentBytes limits the size of a file of the log; default 16 MiB.
	SegmentBytes int

	StreamLayer  raft.StreamLayer // Addr is this member's address in Peers
	StateMachine StateMachine

	// SendHello sends a Hello to another member and returns its reply. A member uses it while it has no data, is
	// not in raft's configuration or knows no leader. A leader uses it to find running disks. If SendHello is nil,
	// this member runs alone, and no other ever joins it.
	SendHello func(ctx context.Context, peer wire.Peer) (*proto.HelloReply, error)
	// FoundByMajority lets the voter with the lowest id found a new ensemble once a majority of the voters has
	// replied that it has no data. Otherwise all members of Peers must reply that.
	FoundByMajority bool
	// SelfJoin means that members may have come by themselves, so that this one's server lines may lack them: a member without
	// data that knows no other one listens for longer before it founds a new ensemble.
	SelfJoin bool

	// HeartbeatTimeout sets the time without a leader's heartbeat after which another member stands for election: 5/3 of it,
	// and up to three times as long on a machine that pauses. All members should have the same.
	HeartbeatTimeout time.Duration
	// Monotonic is the clock by which this member notices pauses of its process. Default: monotonic.System.
	Monotonic monotonic.Clock
	// StallLimit is the time that one operation of a store or the state machine may take before this member gives
	// up leadership; see Node.StallError.
	StallLimit time.Duration
	// SlowSync is the least duration of a write of the log that is logged and recorded as slow; default
	// disk.DefaultSlowSync.
	SlowSync time.Duration

	SnapshotEvery uint64 // log entries between snapshots; default DefaultSnapshotEvery
	SnapshotBytes int64  // bytes of log between snapshots; default DefaultSnapshotBytes
	TrailingBytes int64  // bytes of log kept before a snapshot; default DefaultTrailingBytes

	History history.Limits // of what is kept of the past; default: nothing is kept

	Stages *stages.Recorder // records the times of entries; default: nothing is recorded
	Logger *slog.Logger     // default: discard
}

func (cfg *Config) check() error {
	if err := wire.CheckPeers(cfg.MemberID, cfg.Peers); err != nil {
		return err
	}
	onDisk := cfg.Stores == disk.Stores{}
	switch {
	case cfg.StreamLayer == nil || cfg.StateMachine == nil:
		return errors.New("quorum: StreamLayer and StateMachine are required")
	case cfg.SendHello == nil && len(cfg.Peers) > 1:
		return errors.New("quorum: SendHello is required")
	case cfg.HeartbeatTimeout <= 0:
		return fmt.Errorf("quorum: HeartbeatTimeout is %v, but must be positive", cfg.HeartbeatTimeout)
	case cfg.StallLimit <= 0:
		return fmt.Errorf("quorum: StallLimit is %v, but must be positive", cfg.StallLimit)
	case onDisk == (cfg.DataDir == ""):
		return errors.New("quorum: either DataDir or Stores is required")
	case !onDisk && (cfg.Stores.Log == nil || cfg.Stores.Stable == nil || cfg.Stores.Snapshots == nil):
		return errors.New("quorum: Stores must be complete")
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

// ownDirectories returns the directories of the member's own files.
func (cfg *Config) ownDirectories() history.Directories {
	return history.Directories{Data: disk.OwnDirectory(cfg.DataDir), Log: disk.OwnDirectory(cmp.Or(cfg.LogDir, cfg.DataDir))}
}

// runsAlone reports whether no other member ever joins this one.
func (cfg *Config) runsAlone() bool { return cfg.SendHello == nil }

func (n *Node) raftConfig() *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = n.status.selfPeer().ServerID()
	election := leaseTimeout(n.electionTimeout) // silenceWatch changes it, except the lease
	if n.cfg.runsAlone() {
		election = singleMemberElection
	}
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = election, election, election
	conf.CommitTimeout = commitTimeout
	conf.MaxAppendEntries = disk.MaxAppendEntries
	conf.SnapshotInterval = snapshotInterval
	conf.SnapshotThreshold = n.cfg.SnapshotEvery
	// For the start only: the snapshotTuner soon sets a better value.
	_, conf.TrailingLogs = newSnapshotTuner(n.cfg.SnapshotEvery, n.cfg.SnapshotBytes, n.cfg.TrailingBytes).update(0, 0, 0,
		tuneInterval)
	conf.ShutdownOnRemove = false
	conf.NoLegacyTelemetry = true
	conf.NotifyCh = n.leadershipChanges
	conf.Logger = newRaftLogger(n.logger, n.silenceWatch.awaitBacklog)
	return conf
}
