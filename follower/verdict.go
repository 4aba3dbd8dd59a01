package follower

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"rollcall/proto"
	"rollcall/znode"
)

// A leader that says that this member's state is wrong is not believed by its word: it may be the one
// that is wrong, or worse. The member asks all others for their marks itself. It stops serving for good
// only if a majority of the ensemble has the digest of the verdict. If a majority has its own, it goes
// on. Otherwise nobody knows who is right: it does not serve for as long as the leader says so, because
// one side must continue and that is the leader's, but it keeps its state.
//
// The majority is one of the voters. An observer asks them too, and is not one of them.

// judgements is how many verdicts are judged in a tick at most. The leader repeats them every half tick.
const judgements = 2

// refutedInterval is how often it is logged that a leader is wrong: it may say so with every ping.
const refutedInterval = time.Minute

// accusation is a verdict of the member that leads in a term.
type accusation struct {
	*proto.Verdict
	term   uint64
	leader uint32
}

// handleVerdict passes a verdict on to judgeLoop, if it is about the present state. It does not count if
// it is about an earlier process of this member, or about a state that a snapshot has replaced since. v
// is nil if the leader says nothing. handleVerdict never waits: while a verdict is judged, others are
// dropped.
func (f *Follower) handleVerdict(ping *proto.Ping) {
	v := ping.Verdict
	if v == nil || v.Own == v.Theirs || !f.fits(v) {
		return
	}
	select {
	case f.accused <- accusation{v, ping.Term, ping.Leader}:
	default:
	}
}

// fits reports whether a verdict is about the present state.
func (f *Follower) fits(v *proto.Verdict) bool {
	return slices.Contains(f.cfg.State.Marks(), znode.Mark{Index: v.Index, Digest: v.Own})
}

// judgeLoop judges verdicts, one after the other.
func (f *Follower) judgeLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case a := <-f.accused:
			f.judge(ctx, a)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.cfg.Tick / judgements):
		}
	}
}

// judge asks the other members what they have where a verdict says that this one is wrong.
func (f *Follower) judge(ctx context.Context, a accusation) {
	voters := f.cfg.Members()
	theirs, own := f.witnesses(ctx, a.Verdict, voters)
	if ctx.Err() != nil || !f.fits(a.Verdict) || f.cfg.RaftTerm() != a.term {
		return // it may have become wrong while the others were asked
	}
	const text = "after log entry %d this member's state has the digest %016x, that of %d of %d members has %016x"
	why := fmt.Sprintf(text, a.Index, a.Own, theirs, len(voters), a.Theirs)
	switch {
	case theirs > len(voters)/2:
		f.cfg.Damaged(why)
	case own > len(voters)/2:
		if now := time.Now(); f.refuted.IsZero() || now.Sub(f.refuted) >= refutedInterval {
			f.refuted = now
			f.log.Error("the leader says that this member's state is wrong, but a majority has the same state: check the leader",
				"leader", a.leader, "index", a.Index, "digest", fmt.Sprintf("%016x", a.Own), "leaders", fmt.Sprintf("%016x", a.Theirs), "agree", own)
		}
	case a.leader != f.cfg.Self:
		f.cfg.Disputed(why)
	}
}

// witnesses asks the voters for their marks, and returns how many of them have the digest theirs of a
// verdict, and how many have the digest own. It knows that of this member without asking. A voter that
// does not answer within a tick, or that has no such mark, counts for neither.
func (f *Follower) witnesses(ctx context.Context, v *proto.Verdict, voters []uint32) (theirs, own int) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Tick)
	defer cancel()
	var asking sync.WaitGroup
	answers := make(chan uint64, len(voters))
	for _, id := range voters {
		if id == f.cfg.Self {
			answers <- v.Own
			continue
		}
		asking.Go(func() {
			if digest, ok := f.witness(ctx, id, v.Index); ok {
				answers <- digest
			}
		})
	}
	asking.Wait()
	close(answers)
	for digest := range answers {
		switch digest {
		case v.Theirs:
			theirs++
		case v.Own:
			own++
		}
	}
	return theirs, own
}

// witness returns the digest with which another member has marked an index, if it says so in time and in
// the version of this member's digests.
func (f *Follower) witness(ctx context.Context, id uint32, index uint64) (digest uint64, ok bool) {
	marks, err := f.cfg.Ask(ctx, id)
	if err != nil || marks.GetVersion() != znode.DigestVersion || len(marks.GetIndexes()) != len(marks.GetDigests()) {
		return 0, false
	}
	i := slices.Index(marks.GetIndexes(), index)
	if i < 0 {
		return 0, false
	}
	return marks.Digests[i], true
}
