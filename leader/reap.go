package leader

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Nodes finds nodes for the leader to remove.
type Nodes interface {
	// DueReapCandidates returns up to limit of the candidates that follow after and are due at now, in ms since 1970.
	// A container that never had a child is due if it is older than neverUsedMs, unless that is 0. An empty
	// result means that there are no more. It may wait for apply, but not for the log.
	DueReapCandidates(now, neverUsedMs int64, after znode.ReapCandidate, limit int) []znode.ReapCandidate

	// HasUnswept reports whether ended sessions have left nodes. It may wait for apply, but not for
	// the log. It is called between two entries.
	HasUnswept() bool
}

// Reaping limits the reaper. Zero values stand for the defaults.
type Reaping struct {
	Interval  time.Duration // between the starts of two rounds; default 1 min
	PerMinute int           // greatest number of nodes removed in a minute; default 10,000
	NeverUsed time.Duration // age, in whole ms, at which a container that never had a child is removed; default: never
}

// Defaults of Reaping. The table of keys in package config takes them from here.
const (
	DefaultReapInterval  = time.Minute
	DefaultReapPerMinute = 10_000
)

const (
	reapPage = 256 // candidates in a query: apply waits for this many steps in an index
	maxReaps = 64  // reaps that wait for an entry, and so the most in one: a slow log slows the reaper, not the writes
)

// reaper removes the nodes that are due.
type reaper struct {
	cfg    *Config
	log    *slog.Logger
	clocks *clocks
	intake *intake
}

// reapLoop proposes to remove the nodes that are due, one by one. It spreads the removals evenly over time, so
// clients notice a million of them no more than a few. Apply checks again whether the node is due. The first
// round starts after an interval. Nothing is removed while this member's clock is at fault; see
// clocks.clockFault.
func (r *reaper) reapLoop(ctx context.Context) error {
	ticker := time.NewTicker(r.cfg.Reaping.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		n, err := r.reapRound(ctx)
		if err != nil {
			return err
		}
		if n > 0 {
			r.log.Debug("nodes due", "count", n)
		}
	}
}

// reapRound runs one round, over the nodes that are due when it begins, and returns the number of removals that it
// proposed. It ends early if this member's clock becomes faulty.
func (r *reaper) reapRound(ctx context.Context) (n int, err error) {
	pace := time.NewTicker(time.Minute / time.Duration(r.cfg.Reaping.PerMinute))
	defer pace.Stop()
	now, neverUsed := r.cfg.WallClock.Now().UnixMilli(), r.cfg.Reaping.NeverUsed.Milliseconds()
	var last znode.ReapCandidate
	for {
		page := r.cfg.Nodes.DueReapCandidates(now, neverUsed, last, reapPage)
		if len(page) == 0 {
			return n, nil
		}
		for _, c := range page {
			if _, agreed := r.clocks.clockFault(); !agreed {
				return n, nil
			}
			body, err := pb.Marshal(&proto.Reap{Path: c.Path, NeverUsedMs: neverUsed})
			if err != nil {
				return n, fmt.Errorf("leader: encode removal of a node: %w", err)
			}
			if !r.intake.enqueueReapWhenRoom(&proto.Txn{Op: int32(jute.OpReap), Body: body}) {
				return n, nil
			}
			n++
			select {
			case <-ctx.Done():
				return n, nil
			case <-pace.C:
			}
		}
		last = page[len(page)-1]
	}
}
