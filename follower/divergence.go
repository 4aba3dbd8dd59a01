package follower

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"rollcall/proto"
	"rollcall/znode"
)

const (
	// checksPerTick limits the verdicts that are checked in a tick. The leader repeats them every half tick.
	checksPerTick = 2

	// wrongLeaderInterval is the least time between two log lines about a leader that is wrong: it may send a
	// verdict with every ping.
	wrongLeaderInterval = time.Minute
)

// divergence checks the verdicts by which a leader says that this member's state is wrong. The leader may be the
// one that is wrong, or worse, so the member requests the marks of all others itself:
//
//   - If a majority of the ensemble has the digest of the verdict, the member stops serving for good.
//   - If a majority has the member's own digest, the member continues.
//   - Otherwise it is unknown which side is right. The member does not serve for as long as the leader repeats
//     the verdict, because one side must continue and that is the leader's. It keeps its state.
//
// The majority is one of the voters. An observer requests their marks too, and is not one of them. Make one with
// newDivergence.
type divergence struct {
	cfg *Config
	log *slog.Logger

	pendingReport chan verdictReport // one place: a verdict to be checked
	lastWrong     time.Time          // when a wrong leader was last logged; only checkLoop uses it
}

// verdictReport is a verdict of the member that leads in a term.
type verdictReport struct {
	*proto.Verdict
	term   uint64
	leader uint32
}

func newDivergence(cfg *Config, log *slog.Logger) *divergence {
	return &divergence{cfg: cfg, log: log, pendingReport: make(chan verdictReport, 1)}
}

// queueVerdict passes a ping's verdict, if it has one, on to checkLoop. A verdict does not count if it is about an
// earlier process of this member, or about a state that a snapshot has replaced since. It never waits:
// while a verdict is being checked, others are dropped.
func (d *divergence) queueVerdict(ping *proto.Ping) {
	v := ping.Verdict
	if v == nil || v.Own == v.Theirs || !d.isCurrent(v) {
		return
	}
	select {
	case d.pendingReport <- verdictReport{v, ping.Term, ping.Leader}:
	default:
	}
}

// isCurrent reports whether a verdict is about the present state.
func (d *divergence) isCurrent(v *proto.Verdict) bool {
	return slices.Contains(d.cfg.State.StateHashes(), znode.StateHash{Index: v.Index, Digest: v.Own})
}

// checkLoop checks verdicts, one after the other.
func (d *divergence) checkLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-d.pendingReport:
			d.verifyVerdict(ctx, r)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(d.cfg.Tick / checksPerTick):
		}
	}
}

// verifyVerdict compares a verdict with the marks of the other members.
func (d *divergence) verifyVerdict(ctx context.Context, r verdictReport) {
	voters := d.cfg.Raft.Voters()
	theirs, own := d.pollDigests(ctx, r.Verdict, voters)
	if ctx.Err() != nil || !d.isCurrent(r.Verdict) || d.cfg.Raft.Term() != r.term {
		return // the verdict may have become wrong meanwhile
	}
	const text = "after log entry %d this member's state has the digest %016x, that of %d of %d members has %016x"
	why := fmt.Sprintf(text, r.Index, r.Own, theirs, len(voters), r.Theirs)
	switch {
	case theirs > len(voters)/2:
		d.cfg.OnDamage(why)
	case own > len(voters)/2:
		if now := time.Now(); d.lastWrong.IsZero() || now.Sub(d.lastWrong) >= wrongLeaderInterval {
			d.lastWrong = now
			d.log.Error("the leader says that this member's state is wrong, but a majority has the same state: check the leader",
				"leader", r.leader, "index", r.Index, "digest", fmt.Sprintf("%016x", r.Own), "leaders",
				fmt.Sprintf("%016x", r.Theirs), "agree", own)
		}
	case r.leader != d.cfg.Self:
		d.cfg.OnDivergence(why)
	}
}

// pollDigests requests the marks of the voters. It returns the number of voters with a verdict's digest theirs,
// and the number with its digest own, this member included. A voter that does not reply within a tick, or that
// has no such mark, counts for neither.
func (d *divergence) pollDigests(ctx context.Context, v *proto.Verdict, voters []uint32) (theirs, own int) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Tick)
	defer cancel()
	var requests sync.WaitGroup
	digests := make(chan uint64, len(voters))
	for _, id := range voters {
		if id == d.cfg.Self {
			digests <- v.Own
			continue
		}
		requests.Go(func() {
			if digest, ok := d.fetchDigest(ctx, id, v.Index); ok {
				digests <- digest
			}
		})
	}
	requests.Wait()
	close(digests)
	for digest := range digests {
		switch digest {
		case v.Theirs:
			theirs++
		case v.Own:
			own++
		}
	}
	return theirs, own
}

// fetchDigest returns the digest with which another member has marked an index, if it replies in time and in
// the version of this member's digests.
func (d *divergence) fetchDigest(ctx context.Context, id uint32, index uint64) (digest uint64, ok bool) {
	marks, err := d.cfg.Peers.StateHashes(ctx, id)
	if err != nil || marks.GetVersion() != znode.DigestVersion || len(marks.GetIndexes()) != len(marks.GetDigests()) {
		return 0, false
	}
	i := slices.Index(marks.GetIndexes(), index)
	if i < 0 {
		return 0, false
	}
	return marks.Digests[i], true
}
