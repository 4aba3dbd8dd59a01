package quorum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

const (
	// askInterval is the pause between two rounds of questions, askTimeout the limit of one round.
	askInterval = 500 * time.Millisecond
	askTimeout  = 2 * time.Second
)

// keyJoining marks, in the stable store, a member that is joining.
var keyJoining = []byte("RollcallJoining")

// start is a way in which a member begins.
type start int

const (
	startRunning   start = iota // with the data that it has
	startBootstrap              // as a member of a new ensemble
	startJoining                // empty, or not fully caught up, in an ensemble that has data
)

// decide returns how this member may begin. It waits while it must not begin, and returns ctx's
// error if ctx ends first.
//
// A member that has lost its disk has forgotten its votes and the entries that others count on. It
// must not be taken for a new member, and must not vote before it has caught up. Only if no member
// has data is there nothing to lose.
func (n *Node) decide(ctx context.Context) (start, error) {
	joining, err := n.disk.Stable().GetUint64(keyJoining)
	if err != nil {
		return 0, fmt.Errorf("quorum: read state: %w", err)
	}
	switch first, err := n.disk.Log().FirstIndex(); {
	case err != nil:
		return 0, fmt.Errorf("quorum: read log: %w", err)
	case n.HasData() && joining != 0:
		return startJoining, nil // the term to join at is already stored
	case n.planted.index != 0:
		return n.awaitPlanted(ctx)
	case n.HasData() && n.Recovery() != 0:
		return startRunning, n.awaitNoRivals(ctx)
	case n.HasData():
		return startRunning, nil
	case first == disk.BootstrapIndex && joining == 0:
		// It bootstrapped when no member had data, has kept that, and has since promised nothing
		// that it does not know.
		return startRunning, nil
	case len(n.cfg.Peers) == 1:
		return startBootstrap, nil
	}
	var waiting string
	for {
		answers := n.askAll(ctx)
		verdict := n.evaluate(answers)
		if verdict.start == startJoining {
			if verdict.waiting, err = n.adoptTerm(verdict); err != nil {
				return 0, err
			}
		}
		if verdict.waiting == "" {
			return verdict.start, nil
		}
		if verdict.waiting != waiting && ctx.Err() == nil {
			waiting = verdict.waiting
			n.logger.Info("this member has no data and waits", "for", waiting)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(askInterval):
		}
	}
}

// askAll asks every other member once, and returns the usable answers by member.
func (n *Node) askAll(ctx context.Context) map[uint32]*proto.HelloReply {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	hash := wire.ConfigHash(n.cfg.Peers)
	answers := map[uint32]*proto.HelloReply{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range n.cfg.Peers {
		if p.ID == n.cfg.Self {
			continue
		}
		wg.Go(func() {
			reply, err := n.cfg.Ask(ctx, p)
			if err != nil || reply.GetMember() != p.ID || !bytes.Equal(reply.GetConfigHash(), hash) {
				n.logger.Debug("no usable answer", "peer", p.ID, "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[p.ID] = reply
		})
	}
	wg.Wait()
	return answers
}

// verdict is what one round of answers allows. waiting says what is missing, if anything.
type verdict struct {
	start    start
	waiting  string
	full     []wire.Peer // voters with data
	need     int         // how many of them are needed to join
	recovery uint64      // number of the recovery that their data went through
}

// evaluate applies the rules to the answers of one round.
func (n *Node) evaluate(answers map[uint32]*proto.HelloReply) verdict {
	v := verdict{need: joinQuorum(len(n.cfg.Peers))}
	var silent []string
	recoveries := map[uint64]bool{}
	data := false
	for _, p := range wire.Sorted(n.cfg.Peers) {
		a, answered := answers[p.ID]
		switch {
		case p.ID == n.cfg.Self:
		case !answered:
			silent = append(silent, fmt.Sprintf("member %d (%s)", p.ID, p.Addr))
		case a.GetHasData():
			data = true
			if a.GetJoining() {
				continue
			}
			v.full = append(v.full, p)
			v.recovery = a.GetRecovery()
			recoveries[v.recovery] = true
			if a.GetRecovering() {
				v.need = 1 // no other vote has counted since: see joinQuorum
			}
		}
	}
	all := len(n.cfg.Peers)
	switch {
	case len(recoveries) > 1:
		v.waiting = fmt.Sprintf("the end of one of two ensembles: %s have data from before and after a recovery, or from several; empty the folders of those that must not continue",
			wire.Canonical(v.full))
	case data && len(v.full) >= v.need:
		v.start = startJoining
	case data:
		v.waiting = fmt.Sprintf("%d members with data, of which %d are there; silent: %s", v.need, len(v.full), list(silent))
	case len(silent) == 0 || n.cfg.NewEnsemble && all-len(silent) > all/2:
		v.start = startBootstrap
	default:
		v.waiting = list(silent)
	}
	return v
}

// awaitNoRivals makes a recovered member that no other has followed wait while others have data:
// starting would create two ensembles.
func (n *Node) awaitNoRivals(ctx context.Context) error {
	for waits := false; ; waits = true {
		rivals, followed := n.rivals(n.askAll(ctx))
		if followed || len(rivals) == 0 {
			return ctx.Err()
		}
		if !waits {
			n.logger.Warn("this member was recovered and waits until no other member has data: empty the folders of those that must not continue",
				"for", wire.Canonical(rivals))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askInterval):
		}
	}
}

func list(s []string) string {
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, ", ")
}

// joinQuorum returns how many other voters must answer a joining member. This member may have voted
// before it lost its data. With so many answers, every majority to which its vote belonged has another
// member among those that answered. While a recovered member is the only voter, its answer alone is
// enough, because no other member has been in a majority since.
func joinQuorum(members int) int { return members - members/2 }

// adoptTerm stores the greatest term of as many members as are needed to join. This member takes no
// entries below that term. They may come from a leader that was deposed with the vote of this
// member's former self, and does not know it yet. adoptTerm returns what it waits for, or "" when
// it is done.
func (n *Node) adoptTerm(v verdict) (waiting string, err error) {
	var term uint64
	var silent []string
	heard := 0
	for _, p := range v.full {
		t, err := n.trans.AskTerm(n.self(), p)
		if err != nil {
			n.logger.Debug("no term", "peer", p.ID, "err", err)
			silent = append(silent, fmt.Sprintf("member %d (%s)", p.ID, p.Addr))
			continue
		}
		heard++
		term = max(term, t)
	}
	if heard < v.need {
		return "raft of " + list(silent), nil
	}
	own, err := n.disk.Stable().Term()
	if err == nil && own < term {
		err = n.disk.Stable().SetTerm(term)
	}
	if err != nil {
		return "", fmt.Errorf("quorum: write term: %w", err)
	}
	if v.recovery != n.Recovery() {
		if err := writeRecovery(n.disk.Stable(), n.cfg.Peers, v.recovery); err != nil {
			return "", err
		}
		n.recovery.Store(v.recovery)
	}
	return "", nil
}

// bootstrap writes the first entry, with the same bytes on every member. If an earlier attempt was
// killed, it writes what is missing.
func (n *Node) bootstrap() error {
	term, err := n.disk.Stable().Term()
	if err != nil {
		return fmt.Errorf("quorum: bootstrap: %w", err)
	}
	if err := n.setJoining(false); err != nil {
		return err
	}
	if err := n.disk.Stable().SetTerm(max(term, 1)); err != nil {
		return fmt.Errorf("quorum: bootstrap: %w", err)
	}
	entry := &raft.Log{
		Index: disk.BootstrapIndex, Term: 1, Type: raft.LogConfiguration,
		Data: raft.EncodeConfiguration(wire.Configuration(n.cfg.Peers)),
	}
	if err := n.disk.Log().StoreLog(entry); err != nil {
		return fmt.Errorf("quorum: bootstrap: %w", err)
	}
	return nil
}

// setJoining stores whether this member is joining, and then sets n.joining.
func (n *Node) setJoining(joining bool) error {
	var v uint64
	if joining {
		v = 1
	}
	if old, err := n.disk.Stable().GetUint64(keyJoining); err != nil || old != v {
		if err := n.disk.Stable().SetUint64(keyJoining, v); err != nil {
			return fmt.Errorf("quorum: write state: %w", err)
		}
	}
	n.joining.Store(joining)
	return nil
}

// joinLoop ends joining once this member again has everything that its former self may have
// promised. The first request of a leader to this process shows how long that leader's log was. The
// member must have all of the log up to there. It must also have the first entry of that leader's
// term, which shows that all of it is committed. Joining members elect no leader, so this leader
// has everything that was acknowledged.
func (n *Node) joinLoop(ctx context.Context, r *raft.Raft) {
	// A vote of the former self may still be on its way to a candidate. Candidates give up after
	// two election timeouts; wait twice as long.
	wait := 4 * n.election
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = n.election
		term, end := n.trans.LeaderEnd()
		if term == 0 || term != r.CurrentTerm() || n.fsm.term.Load() != term || r.AppliedIndex() < end {
			continue
		}
		if err := n.setJoining(false); err != nil {
			n.fatal(err)
			return
		}
		n.logger.Info("this member has caught up and takes part in elections", "index", r.AppliedIndex())
		return
	}
}

// newRaft starts raft on the data in the stores.
func (n *Node) newRaft(conf *raft.Config, log raft.LogStore) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil { // an unreadable entry
			r, err = nil, n.disk.Unusable(fmt.Errorf("%v", p))
		}
	}()
	r, err = raft.NewRaft(conf, n.fsm, log, n.disk.Stable(), n.disk.Snapshots(), n.trans)
	if err != nil {
		return nil, n.disk.Unusable(err) // its configuration is ours, so the error is about the stored data
	}
	return r, nil
}

// checkStarted checks that raft found everything that must be there, including the newest snapshot.
func (n *Node) checkStarted(r *raft.Raft, newest uint64) error {
	if last := r.LastIndex(); last < newest {
		return n.disk.Unusable(fmt.Errorf("the snapshot of index %d cannot be read, and the readable data end at %d", newest, last))
	}
	future := r.GetConfiguration()
	if err := future.Error(); err != nil {
		return err
	}
	return checkServers(future.Configuration().Servers, n.cfg.Peers, n.Recovery() != 0)
}

var errNotEnded = errors.New("quorum: raft did not stop in time")
