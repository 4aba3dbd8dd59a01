package member

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"rollcall/follower"
	"rollcall/internal/stages"
	"rollcall/leader"
	"rollcall/operator/admin"
	"rollcall/operator/archive"
	"rollcall/operator/backup"
	"rollcall/znode"
)

const (
	// backupRetry is the wait after a failed scheduled backup, if the next one is not due earlier.
	backupRetry = 5 * time.Minute
	// backupOverhead limits the bytes of a node or session in a backup, besides its path and data. Each ACL is
	// stored once.
	backupOverhead = 256
	// maxKeptEnds limits the ended sessions that a state remembers.
	maxKeptEnds = 10_000
)

// backups copies the state of this member, for operators and for scheduled backups.
type backups struct {
	cfg          *Config
	wallClock    *leader.Clock
	state        *znode.State
	follower     *follower.Follower
	serverLists  *serverLists
	memberHealth func() admin.Health
	onDamage     func(error) // the copy shows that the state is damaged
	stages       *stages.Recorder
	log          *slog.Logger

	archive *archive.Sender // nil: there is no archive

	writtenBackups, failedBackups atomic.Uint64 // scheduled backups
}

// backupLoop makes backups as the field Backup of config.Config requires.
func (b *backups) backupLoop(ctx context.Context) error {
	s := b.cfg.Backup
	if s.Dir == "" {
		return nil
	}
	every := cmp.Or(s.Interval, backup.DefaultInterval)
	for health := b.memberHealth(); health.Role == "" || health.Joining; health = b.memberHealth() {
		// it may have no state yet
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(b.cfg.Tick):
		}
	}
	keeper := backup.NewKeeper(s.Dir, b.cfg.ID, cmp.Or(s.KeptFiles, backup.DefaultKeptFiles))
	for {
		wait := b.timeUntilNext(keeper, every)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		if err := b.makeBackup(ctx, keeper); err != nil && ctx.Err() == nil {
			b.failedBackups.Add(1)
			b.log.Warn("no backup was made; this member will try again", "dir", s.Dir, "after", min(every, backupRetry), "err",
				err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(min(every, backupRetry)):
			}
		}
	}
}

// timeUntilNext returns the time until the next backup is due. Setting back the clock does not delay it.
func (b *backups) timeUntilNext(keeper *backup.Keeper, every time.Duration) time.Duration {
	last, err := keeper.LastTime()
	if err != nil || last.IsZero() {
		return 0
	}
	return min(max(last.Add(every).Sub(b.wallClock.Now()), 0), every)
}

func (b *backups) makeBackup(ctx context.Context, keeper *backup.Keeper) error {
	c, err := b.copyState(ctx)
	if err != nil {
		return err
	}
	b.stages.BeginCause(stages.Backup)
	defer b.stages.EndCause(stages.Backup)
	begun, most := time.Now(), maxStateBytes(c.Head.DataBytes, c.Head.Nodes, c.Head.Sessions)
	name, err := keeper.Save(ctx, c.Head, most,
		func(w io.Writer) error { return c.WriteBackup(ctx, w, backup.DefaultRate) })
	if err != nil {
		return fmt.Errorf("backup of index %d: %w", c.Head.Index, err)
	}
	b.writtenBackups.Add(1)
	took := time.Since(begun).Round(time.Millisecond)
	if !c.Head.Confirmed {
		b.log.Warn("backup made, but no leader has confirmed it; the last writes may be missing", "file", name, "index",
			c.Head.Index, "as_of", c.Head.AsOf, "took", took)
		return nil
	}
	b.log.Info("backup made", "file", name, "index", c.Head.Index, "took", took)
	return nil
}

// maxStateBytes returns the maximum size of a state in a backup or a snapshot. dataSize is the total of its
// paths and data.
func maxStateBytes(dataSize int64, nodes, sessions int) int64 {
	return dataSize + int64(nodes+sessions+maxKeptEnds)*backupOverhead
}
