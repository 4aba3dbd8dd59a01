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
	"rollcall/leader"
	"rollcall/operator/admin"
	"rollcall/operator/backup"
	"rollcall/znode"
)

const (
	// backupRetry is the wait after a backup of the member's own has failed, if the next one is not due earlier.
	backupRetry = 5 * time.Minute
	// backupRoom is the most bytes that a node or session takes in a backup, besides its path and data. An access control list
	// is stored once.
	backupRoom = 256
	// keptEnds is the most ended sessions that a state remembers.
	keptEnds = 10_000
)

// backups copies the state of this member, for operators and for the backups that it makes by itself.
type backups struct {
	cfg      *Config
	clock    *leader.Clock
	state    *znode.State
	follower *follower.Follower
	lists    *serverLists
	health   func() admin.Health
	damaged  func(error) // the copy shows that the state is damaged
	log      *slog.Logger

	written, failed atomic.Uint64 // by itself
}

// run makes backups as Config.Backup requires.
func (b *backups) run(ctx context.Context) error {
	s := b.cfg.Backup
	if s.Dir == "" {
		return nil
	}
	every := cmp.Or(s.Every, backup.DefaultEvery)
	for health := b.health(); health.Role == "" || health.Joining; health = b.health() { // it may have no state yet
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(b.cfg.Tick):
		}
	}
	keeper := backup.NewKeeper(s.Dir, b.cfg.ID, cmp.Or(s.Keep, backup.DefaultKeep))
	for {
		wait := b.untilNext(keeper, every)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		if err := b.backUp(ctx, keeper); err != nil && ctx.Err() == nil {
			b.failed.Add(1)
			b.log.Warn("no backup was made; this member will try again", "dir", s.Dir, "after", min(every, backupRetry), "err", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(min(every, backupRetry)):
			}
		}
	}
}

// untilNext returns the time until the next backup is due. A clock that was set back does not put it off.
func (b *backups) untilNext(keeper *backup.Keeper, every time.Duration) time.Duration {
	last, err := keeper.Last()
	if err != nil || last.IsZero() {
		return 0
	}
	return min(max(last.Add(every).Sub(b.clock.Now()), 0), every)
}

// backUp makes one backup.
func (b *backups) backUp(ctx context.Context, keeper *backup.Keeper) error {
	c, err := b.copyState(ctx)
	if err != nil {
		return err
	}
	begun, most := time.Now(), mostBytes(c.Head.DataBytes, c.Head.Nodes, c.Head.Sessions)
	name, err := keeper.Save(ctx, c.Head, most, func(w io.Writer) error { return c.Send(ctx, w, backup.DefaultRate) })
	if err != nil {
		return fmt.Errorf("backup of index %d: %w", c.Head.Index, err)
	}
	b.written.Add(1)
	took := time.Since(begun).Round(time.Millisecond)
	if !c.Head.Confirmed {
		b.log.Warn("backup made, but no leader has confirmed it; the last writes may be missing", "file", name, "index", c.Head.Index, "as_of", c.Head.AsOf, "took", took)
		return nil
	}
	b.log.Info("backup made", "file", name, "index", c.Head.Index, "took", took)
	return nil
}

// mostBytes returns the most bytes that a state takes in a backup or a snapshot. dataSize is the total of its paths and data.
func mostBytes(dataSize int64, nodes, sessions int) int64 {
	return dataSize + int64(nodes+sessions+keptEnds)*backupRoom
}
