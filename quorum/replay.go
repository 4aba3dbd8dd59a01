package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// ReplayConfig holds the parameters of Replay.
type ReplayConfig struct {
	DataDir, LogDir string       // as in Config
	StateMachine    StateMachine // an empty one
	Logger          *slog.Logger

	SegmentBytes int // as in Config
}

// replayBatchSize limits the entries of one batch, so that Replay never holds a whole log in memory.
const replayBatchSize = 64

// Replay brings a state machine to the state of a stopped member: its newest snapshot, and all entries of its log
// after it. The last entries may not be stored by a majority; the next leader would commit them if this member
// became it. Replay changes no more than a start would. It rejects a member that had not caught up when it
// stopped, and one with a damaged state, because other members have a better state.
func Replay(r ReplayConfig) (e disk.DataEnd, err error) {
	defer func() { err = disk.WithAdvice(err, true) }()
	logger := newRaftLogger(cmp.Or(r.Logger, slog.New(slog.DiscardHandler)), nil)
	data, err := disk.OpenStopped(disk.Config{
		DataDir: r.DataDir, LogDir: r.LogDir, SegmentBytes: r.SegmentBytes,
		RaftLogger: logger,
	})
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	if err := repairAndCheckReplayable(data, r.StateMachine); err != nil {
		return e, err
	}
	if e, err = restoreNewestSnapshot(data, r.StateMachine); err != nil {
		return e, err
	}
	return replayLog(data, r.StateMachine, e)
}

// repairAndCheckReplayable returns an error if a member could not serve the state in a directory.
func repairAndCheckReplayable(data *disk.Data, m StateMachine) error {
	if !data.HasData() {
		return disk.ErrNoData
	}
	stable := data.Stable()
	reason, err := stable.Value(keyDamage)
	if err != nil {
		return err
	}
	if len(reason) > 0 {
		return fmt.Errorf("quorum: the state of this member is %w: %s; take the data of another one", disk.ErrDamaged, reason)
	}
	if err := data.RepairLog(m.Verify); err != nil {
		return err
	}
	if err := data.CheckReadable(m.Verify); err != nil {
		return err
	}
	return checkCaughtUp(data)
}

// restoreNewestSnapshot restores the newest sound snapshot, and returns its end. If the newest one is not
// sound, the log reaches as far: see disk.Data.CheckReadable.
func restoreNewestSnapshot(data *disk.Data, m StateMachine) (e disk.DataEnd, err error) {
	list, err := data.Snapshots().List()
	if err != nil {
		return e, fmt.Errorf("quorum: list snapshots: %w", err)
	}
	var failed error
	for _, meta := range list {
		_, from, err := data.Snapshots().Open(meta.ID)
		if err == nil {
			err = m.Restore(from)
		}
		if err == nil {
			return disk.DataEnd{Index: meta.Index, Term: meta.Term}, nil
		}
		failed = errors.Join(failed, fmt.Errorf("quorum: snapshot %s: %w", meta.ID, err))
	}
	return e, failed
}

// replayLog applies the entries after a snapshot, and returns the end of the result.
func replayLog(data *disk.Data, m StateMachine, e disk.DataEnd) (disk.DataEnd, error) {
	last, err := data.Log().LastIndex()
	if err != nil {
		return e, fmt.Errorf("quorum: read log: %w", err)
	}
	batch := make([]CommittedEntry, 0, replayBatchSize)
	for e.Index < last {
		batch = batch[:0]
		for len(batch) < replayBatchSize && e.Index < last {
			var l raft.Log
			if err := data.Log().GetLog(e.Index+1, &l); err != nil {
				return e, fmt.Errorf("quorum: read log: entry %d: %w", e.Index+1, err)
			}
			c := CommittedEntry{Index: l.Index, Term: l.Term}
			if l.Type == raft.LogCommand && len(l.Data) > 0 {
				c.Data = l.Data
			}
			batch, e = append(batch, c), disk.DataEnd{Index: l.Index, Term: l.Term, LastTime: l.AppendedAt}
		}
		if err := m.Apply(batch); err != nil {
			return e, err
		}
	}
	return e, nil
}
