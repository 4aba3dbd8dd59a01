package member

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"rollcall/quorum/wire"
	"rollcall/server"
)

// A dispute is a divergence from the leader's state without a majority for either side: one of two members
// differs, or the third is down. No member knows the right state. The leader and the members that agree with it
// keep serving, because one side must. This member stops serving, so clients do not read two different states.
// It keeps its state, and remains a voter and a candidate, because its state may be the right one.

// disputeTicks is the duration of a dispute after the last report, in ticks. While it lasts, there is a report at least
// every two ticks.
const disputeTicks = 3

type dispute struct {
	reason  string
	expires time.Time
}

// recordDispute implements follower.Config.OnDivergence. It never blocks.
func (h *health) recordDispute(why string) {
	h.lastDispute.Store(&dispute{
		"its state differs from the leader's, and no majority says who is right: " + why,
		time.Now().Add(disputeTicks * h.cfg.Tick),
	})
	select {
	case h.disputeReported <- struct{}{}:
	default:
	}
}

// claimLifetime is the time for which a claim counts. A leader dials a member of its list more often.
const claimLifetime = 5 * time.Second

// claim is a Hello of a member of another ensemble, which serves, and has this member's number and address in its list.
type claim struct {
	peer    wire.Peer // with the address of its raft
	expires time.Time
}

// recordClaim records a Hello of a member of another ensemble. It counts only if that ensemble serves: then there are two
// states that clients see.
func (h *health) recordClaim(from wire.Peer, serves bool) {
	if _, _, err := net.SplitHostPort(from.Addr); !serves || err != nil || len(from.Addr) > maxClaimAddress {
		return
	}
	h.lastClaim.Store(&claim{from, time.Now().Add(claimLifetime)})
}

// maxClaimAddress limits the address in a claim: a name of 253 bytes, a port, and two brackets.
const maxClaimAddress = 264

// claimReason returns the reason not to serve while another ensemble serves that has this member's number and address in
// its list, and this member has begun its own one alone and without data; otherwise "". Its directory was probably emptied,
// and its server lines name no other member. One of the two must stop, and the other one has the older state. An ensemble
// that was recovered, imported or reduced to this member keeps serving, because an operator has decided that.
func (h *health) claimReason() string {
	c := h.lastClaim.Load()
	if c == nil || time.Now().After(c.expires) || !h.node.Record().FoundedAlone() {
		return ""
	}
	return fmt.Sprintf("member %d (%q) is of another ensemble, which serves, and has this member's number and address in its "+
		"list. If this member should be in that one, stop it, copy its data directory if clients may have written to it, then "+
		"empty that directory, and start it with the server lines of the other members; if not, stop that one, or remove this "+
		"member from its list", c.peer.ID, c.peer.Addr)
}

// divergenceReason returns the reason of the dispute, or "" if there is none. If this member leads, it keeps serving, because
// one side must.
func (h *health) divergenceReason() string {
	d := h.lastDispute.Load()
	if d == nil || time.Now().After(d.expires) || h.terms.currentLeader.Load() != nil {
		return ""
	}
	return d.reason
}

// disputeReason returns why it is not known whether this member's state is the right one, or "".
func (h *health) disputeReason() string { return cmp.Or(h.divergenceReason(), h.claimReason()) }

// disputeLoop suspends the server while there is a dispute or a claim. Nothing else sets or clears these two obstacles.
func (h *health) disputeLoop(ctx context.Context) error {
	ticker := time.NewTicker(h.cfg.Tick / 2)
	defer ticker.Stop()
	for wasDisputed, wasClaimed := "", ""; ; {
		if len(h.node.Status().Servers()) > 1 {
			_ = h.node.Record().EndFoundedAlone() // an error of the disk ends the member
		}
		disputed, claimed := h.divergenceReason(), h.claimReason()
		h.applyReason(server.Disputed, wasDisputed, disputed, "this member does not serve for now: its state differs from the "+
			"leader's, and no majority says who is right; start the members that are away, or empty the data directory of the "+
			"member that is wrong")
		h.applyReason(server.Claimed, wasClaimed, claimed,
			"this member does not serve for now: another ensemble has its number and address")
		wasDisputed, wasClaimed = disputed, claimed
		select {
		case <-ctx.Done():
			return nil
		case <-h.disputeReported:
		case <-ticker.C:
		}
	}
}

// applyReason suspends or resumes the server if a reason has come or gone. message is logged when it has come.
func (h *health) applyReason(why server.Obstacle, before, now, message string) {
	switch {
	case before == "" && now != "":
		h.server.Suspend(why)
		h.log.Error(message, "reason", now)
	case before != "" && now == "":
		h.server.Resume(why)
		h.log.Info("what kept this member from serving is not reported any more", "was", before)
	}
}
