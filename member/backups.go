package member

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"rollcall/operator/backup"
)

const (
	// backupRetry is how long a member waits after a backup of its own failed, if the next one is not due earlier.
	backupRetry = 5 * time.Minute
	// backupRoom is how many bytes a node or session takes in a backup at most, besides its path and data. A list
	// of who may do what is there once.
	backupRoom = 256
	// keptEnds is how many ended sessions a state remembers at most.
	keptEnds = 10_000
)

// ownBackups counts the backups that a member makes by itself.
type ownBackups struct{ written, failed atomic.Uint64 }

// backupLoop makes backups as Config.Backup says.
func (m *Member) backupLoop(ctx context.Context) error {
	s := m.cfg.Backup
	if s.Dir == "" {
		return nil
	}
	every := cmp.Or(s.Every, backup.DefaultEvery)
	for m.Role() == "" || m.Joining() { // it may have no state yet
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(m.cfg.Tick):
		}
	}
	keeper := backup.NewKeeper(s.Dir, m.cfg.ID, cmp.Or(s.Keep, backup.DefaultKeep))
	for {
		wait := m.untilBackup(keeper, every)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		if err := m.backUp(ctx, keeper); err != nil && ctx.Err() == nil {
			m.backups.failed.Add(1)
			m.log.Warn("no backup was made; this member will try again", "dir", s.Dir, "after", min(every, backupRetry), "err", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(min(every, backupRetry)):
			}
		}
	}
}

// untilBackup returns how long it is until the next backup is due. A clock that was set back does not put it off.
func (m *Member) untilBackup(keeper *backup.Keeper, every time.Duration) time.Duration {
	last, err := keeper.Last()
	if err != nil || last.IsZero() {
		return 0
	}
	return min(max(last.Add(every).Sub(m.clock.Now()), 0), every)
}

// backUp makes one backup.
func (m *Member) backUp(ctx context.Context, keeper *backup.Keeper) error {
	c, err := m.copyState(ctx)
	if err != nil {
		return err
	}
	begun, most := time.Now(), mostBytes(c.Head.DataBytes, c.Head.Nodes, c.Head.Sessions)
	name, err := keeper.Save(ctx, c.Head, most, func(w io.Writer) error { return c.Send(ctx, w, backup.DefaultRate) })
	if err != nil {
		return fmt.Errorf("backup of index %d: %w", c.Head.Index, err)
	}
	m.backups.written.Add(1)
	took := time.Since(begun).Round(time.Millisecond)
	if !c.Head.Confirmed {
		m.log.Warn("backup made, but no leader has confirmed it; the last writes may be missing", "file", name, "index", c.Head.Index, "as_of", c.Head.AsOf, "took", took)
		return nil
	}
	m.log.Info("backup made", "file", name, "index", c.Head.Index, "took", took)
	return nil
}

// mostBytes returns how many bytes a state takes at most in a backup or a snapshot. dataSize is the total of its paths and data.
func mostBytes(dataSize int64, nodes, sessions int) int64 {
	return dataSize + int64(nodes+sessions+keptEnds)*backupRoom
}
