package member

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"rollcall/quorum/disk"
	"rollcall/server"
)

// While a member's disk hangs, a majority of the other disks commits the entries, and the member serves on (package
// quorum/disk). But it cannot enter another term: if the leader changes, it serves nobody until its disk is back. And
// what waits for the disk takes memory. So before there is too much, or when the disk has been away for long, it gives
// leadership and its clients to the others.

// diskAwayLimits times the key storeStallLimit is the duration of one write of the log from which the disk counts as away. With
// the default this is 30 s: a disk that pauses for so long is back as a rule, and nobody notices.
const diskAwayLimits = 10

// isDiskAway reports whether a member must not wait for its disk any longer. A disk that is slow and writes is not away,
// however much waits for it.
func isDiskAway(d disk.QueueDelay, stallLimit time.Duration) bool {
	return d.Write >= diskAwayLimits*stallLimit || d.Write >= stallLimit && d.Bytes >= disk.MaxQueueDelayBytes
}

// diskReturn decides when a disk that was away is back. The zero value is ready.
type diskReturn struct{ soundChecks int } // in a row

// isBack takes one check of the disk, and reports whether it is back: it has written everything or, under a load with which
// something always waits, no check in a stall limit has found a write that had taken half of that.
func (r *diskReturn) isBack(d disk.QueueDelay, stallLimit time.Duration) bool {
	r.soundChecks++
	if d.Write >= stallLimit/2 {
		r.soundChecks = 0
	}
	return d.Write == 0 || r.soundChecks >= stallChecksPerLimit
}

// diskAwayLoop gives the clients and leadership to other members when this member's disk is away, and serves again when the
// disk is back. The clients go first: after the hand-over this member is in no term. A member that runs
// alone has no others: its entries are not committed meanwhile, and stallLoop acts.
func (h *health) diskAwayLoop(ctx context.Context) error {
	ticker := time.NewTicker(h.cfg.StoreStallLimit / stallChecksPerLimit)
	defer ticker.Stop()
	var comes diskReturn
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		d := h.node.Disk().Delay()
		switch isBack := comes.isBack(d, h.cfg.StoreStallLimit); {
		case h.diskAway.Load() && isBack:
			h.diskAway.Store(false)
			h.server.Resume(server.DiskAway)
			h.log.Info("the disk has written the log: this member serves again")
		case h.diskAway.Load() || !h.cfg.isStandalone() && isDiskAway(d, h.cfg.StoreStallLimit):
			if !h.diskAway.Swap(true) {
				h.log.Warn("this member gives its clients and leadership to the others: its disk hangs, so the log is not written", "for",
					d.Write.Round(time.Millisecond), "bytes", d.Bytes)
			}
			h.server.Suspend(server.DiskAway)
			h.handOverWithoutDisk(ctx)
		}
	}
}

// handOverWithoutDisk hands leadership over, if this member leads, and then ends its term: raft waits for the disk before it
// reports that another member leads.
func (h *health) handOverWithoutDisk(ctx context.Context) {
	if h.terms.currentLeader.Load() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.handOverTime())
	defer cancel()
	if err := h.node.Transfer().ToAny(ctx); err != nil {
		h.log.Warn("leadership not handed over", "err", err)
		return
	}
	h.terms.abandonTerm()
}

// stallReason returns why this member does not serve because of its disk or its state machine, or "".
func (h *health) stallReason() string {
	if err := h.node.StallError(); err != nil {
		return err.Error()
	}
	if h.diskAway.Load() {
		return cmp.Or(h.diskProblem(), "its disk writes again, after it had not for long")
	}
	return ""
}

// diskProblem returns a problem of this member's disk that operators should know, or "". The member may serve in spite of it.
func (h *health) diskProblem() string {
	if d := h.node.Disk().Delay(); d.Write >= h.cfg.StoreStallLimit {
		return fmt.Sprintf("its disk hangs: the log is not written for %v", d.Write.Round(time.Millisecond))
	}
	return ""
}
