package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// RecoverConfig holds the parameters of Recover.
type RecoverConfig struct {
	DataDir, LogDir string       // as in Config
	Stores          disk.Stores  // as in Config
	MemberID        uint32       // the id that the member will have
	Peers           []wire.Peer  // the new server list, MemberID included
	StateMachine    StateMachine // an empty one, which must not be used afterwards
	Logger          *slog.Logger

	SegmentBytes int // as in Config
}

// Recover rewrites a stopped member's directory so that it can start without the members it knew, under the old
// server list or a new one. It is the last resort when a majority has lost its data. Entries that only the lost
// members had are gone, although their clients got an acknowledgement. Entries that were never acknowledged may
// take effect. If members of the former list still run, there are two ensembles.
//
// Afterwards MemberID is the only voter of a new ensemble. The other members must start with empty directories,
// and join as they do when an ensemble begins. Only one member may be recovered. If Recover is interrupted, it can
// be repeated.
func Recover(rec RecoverConfig) (err error) {
	defer func() { err = disk.WithAdvice(err, true) }()
	if err := wire.CheckPeers(rec.MemberID, rec.Peers); err != nil {
		return err
	}
	if self, _ := findPeer(rec.Peers, rec.MemberID); self.Observer {
		return fmt.Errorf("quorum: member %d has no vote in the new server list, and would be alone in it", rec.MemberID)
	}
	logger := newRaftLogger(cmp.Or(rec.Logger, slog.New(slog.DiscardHandler)), nil)
	data, err := disk.OpenStopped(disk.Config{
		DataDir: rec.DataDir, LogDir: rec.LogDir, Stores: rec.Stores,
		SegmentBytes: rec.SegmentBytes, RaftLogger: logger,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	if err := rewriteForRecovery(rec, data, logger); err != nil {
		return err
	}
	return data.WriteIdentity(rec.MemberID, wire.CanonicalLines(rec.Peers))
}

// ReadServerList returns the list that Record.StoreServerList has stored last in the directories of a stopped member, and
// the id of its ensemble. The list is nil if there is none. It changes nothing.
func ReadServerList(dir, logDir string) (list []byte, ensemble wire.EnsembleID, err error) {
	data, err := disk.OpenStopped(disk.Config{
		DataDir: dir, LogDir: logDir, RaftLogger: newRaftLogger(slog.New(slog.DiscardHandler), nil),
	})
	if err != nil {
		return nil, ensemble, err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	if list, err = data.Stable().Value(keyServerList); err != nil {
		return nil, ensemble, err
	}
	id, err := data.Stable().Value(keyEnsemble)
	copy(ensemble[:], id)
	return list, ensemble, err
}

func rewriteForRecovery(rec RecoverConfig, data *disk.Data, logger hclog.Logger) error {
	if !data.HasData() {
		return disk.ErrNoData
	}
	if err := data.RepairLog(rec.StateMachine.Verify); err != nil {
		return err
	}
	stable := data.Stable()
	if err := data.CheckReadable(rec.StateMachine.Verify); err != nil {
		return err
	}
	if err := checkCaughtUp(data); err != nil {
		return err
	}
	if err := data.ReplaceOwner(rec.MemberID); err != nil {
		return err
	}
	if err := renewEnsembleAndTerm(data); err != nil {
		return err
	}
	if err := clearDamage(stable, logger); err != nil {
		return err
	}
	var failed error
	f := &fsm{
		stateMachine:  rec.StateMachine,
		endMember:     func(err error) { failed = errors.Join(failed, err) },
		disk:          appliedDisk{data},
		awaitReleased: func(uint64, func()) bool { return true }, onCommit: func(uint64) {}, onConfiguration: func() {},
		metrics:     new(Metrics),
		raftRunning: func() bool { return true }, // a snapshot that cannot be restored is not skipped
	}
	f.noPauses.Store(true)
	conf := raft.DefaultConfig()
	self, _ := findPeer(rec.Peers, rec.MemberID)
	self.DiskID = data.ID()
	conf.LocalID = self.ServerID()
	conf.Logger = logger
	_, trans := raft.NewInmemTransport("") // only encodes addresses
	err := raft.RecoverCluster(conf, f, data.EntriesAsCommands(), stable, data.Snapshots(), trans,
		wire.RaftConfiguration([]wire.Peer{self}))
	if errors.Is(failed, disk.ErrNewerFormat) {
		data.NoteRejectedSnapshot(failed)
		return data.ExplainStartError(failed)
	}
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("quorum: recover: %w", err)
	}
	return nil
}

// recoveryTerms is added to raft's term by a recovery. It is more elections than the lost members can have held
// since the surviving member last heard of one. So no entry of theirs has the index and term of one written
// afterwards, and no client has seen a later zxid.
const recoveryTerms = 1 << 16

// renewEnsembleAndTerm gives the data a new ensemble id, so that members of the former ensemble cannot join with their
// data, and raises the term above theirs.
func renewEnsembleAndTerm(data *disk.Data) error {
	stable := data.Stable()
	if err := writeEnsembleID(stable, newEnsembleID()); err != nil {
		return err
	}
	term, err := stable.Term()
	if err == nil {
		err = stable.SetTerm(term + recoveryTerms)
	}
	if err != nil {
		return fmt.Errorf("quorum: raise term: %w", err)
	}
	return nil
}

// clearDamage removes the record of damage: this is the best state that is left.
func clearDamage(stable *disk.Stable, logger hclog.Logger) error {
	reason, err := stable.Value(keyDamage)
	if err != nil || len(reason) == 0 {
		return err
	}
	logger.Warn("the state of the member that is recovered was found to be damaged", "reason", string(reason))
	return stable.SetValue(keyDamage, nil)
}
