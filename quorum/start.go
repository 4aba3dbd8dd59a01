package quorum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	case n.HasData() && n.Recovery() != 0 && !n.followed.Load():
		return startRunning, n.awaitNoRivals(ctx)
	case n.HasData():
		return startRunning, nil
	case first == disk.BootstrapIndex && joining == 0:
		// It bootstrapped when no member had data, has kept that, and has since promised nothing
		// that it does not know.
		return startRunning, nil
	case n.alone():
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

// askAll asks everybody else who is known once, and returns the answers by member. Answers of other ensembles
// are left out.
func (n *Node) askAll(ctx context.Context) map[uint32]*proto.HelloReply {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := map[uint32]*proto.HelloReply{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range n.cfg.Book.Once() {
		if p.ID == n.cfg.Self {
			continue
		}
		wg.Go(func() {
			reply, err := n.cfg.Ask(ctx, p)
			if err == nil && reply.GetMember() != p.ID {
				err = fmt.Errorf("member %d has answered", reply.GetMember())
			}
			if err == nil {
				err = n.sameEnsemble(reply)
			}
			if err != nil {
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

// ensembleOf returns the ensemble of a member that has answered, or zero if it does not know one. The ensemble
// of a member of an earlier version is the hash of its server list.
func ensembleOf(a *proto.HelloReply) (id wire.EnsembleID) {
	switch {
	case len(a.GetEnsemble()) == len(id):
		return wire.EnsembleID(a.GetEnsemble())
	case len(a.GetConfigHash()) == len(id):
		return wire.EnsembleID(a.GetConfigHash())
	}
	return id
}

// sameEnsemble returns an error for an answer of a member that is of another ensemble, or would begin one with
// another server list. If this member knows its ensemble, it begins none, and the other one may come in.
func (n *Node) sameEnsemble(a *proto.HelloReply) error {
	theirs, own := ensembleOf(a), n.cfg.Book.Ensemble()
	switch {
	case theirs != wire.EnsembleID{} && own != wire.EnsembleID{} && theirs != own:
		return errors.New("it is of another ensemble")
	case theirs == wire.EnsembleID{} && own == wire.EnsembleID{} && !a.GetHasData() && !n.HasData() && !bytes.Equal(a.GetConfigHash(), n.hash()):
		return errors.New("it has no data, and another server list")
	}
	return nil
}

func (n *Node) hash() []byte {
	hash := n.cfg.Book.Hash()
	return hash[:]
}

// verdict is what one round of answers allows. waiting says what is missing, if anything.
type verdict struct {
	start    start
	waiting  string
	full     []wire.Peer // voters with data
	need     int         // how many of them are needed to join
	recovery uint64      // number of the recovery that their data went through
	ensemble wire.EnsembleID
	heard
}

// hearing returns what the answers say of the ensemble. Its latest configuration is that of the member with the longest
// log, as raft compares logs: of the one that could lead. Without such an answer the configured servers count: no
// member has data, or all are of an earlier version, in which the servers do not change.
func (n *Node) hearing(answers map[uint32]*proto.HelloReply) heard {
	var best *proto.HelloReply
	ends := map[uint32]disk.Extent{}
	for id, a := range answers {
		if len(a.GetConfiguration().GetServers()) == 0 || !a.GetHasData() {
			continue
		}
		if !a.GetJoining() {
			ends[id] = endOf(a)
		}
		if best == nil || endOf(best).Before(endOf(a)) {
			best = a
		}
	}
	h := heard{latest: indexedOf(best.GetConfiguration()), committed: indexedOf(best.GetCommitted()), answered: slices.Collect(maps.Keys(answers)), ends: ends}
	if len(wire.Voters(h.latest.servers)) == 0 {
		h.latest = indexed{servers: wire.Sorted(n.cfg.Peers)}
		h.committed = h.latest
	}
	for _, a := range answers { // others may know more than the one with the longest log
		if c := indexedOf(a.GetCommitted()); a.GetHasData() && c.index != 0 && c.index == h.latest.index {
			h.committed = c
		}
	}
	return h
}

func endOf(a *proto.HelloReply) disk.Extent {
	return disk.Extent{Index: a.GetLastIndex(), Term: a.GetLastTerm()}
}

// evaluate applies the rules to the answers of one round.
func (n *Node) evaluate(answers map[uint32]*proto.HelloReply) verdict {
	v := verdict{heard: n.hearing(answers)}
	voters := v.voters()
	asked := voters
	if v.otherVoter(n.cfg.Self) != 0 {
		asked = slices.Concat(voters, v.former())
	}
	v.need = v.joinQuorum(n.cfg.Self)
	var silent []string
	recoveries, ensembles := map[uint64]bool{}, map[wire.EnsembleID]bool{}
	data := n.begun(answers)
	for _, p := range asked {
		a, answered := answers[p.ID]
		switch {
		case p.ID == n.cfg.Self:
		case !answered:
			silent = append(silent, fmt.Sprintf("member %d (%s)", p.ID, p.Addr))
		case a.GetRemoved():
			silent = append(silent, fmt.Sprintf("the ensemble, from which member %d was removed", p.ID))
		case !a.GetHasData() && a.GetJoining():
			silent = append(silent, fmt.Sprintf("member %d (%s), which has begun to join, and has no data yet", p.ID, p.Addr))
		case a.GetHasData():
			if starting(a) {
				silent = append(silent, fmt.Sprintf("member %d (%s), whose raft does not run yet", p.ID, p.Addr))
			}
			if a.GetJoining() || starting(a) {
				continue
			}
			v.full = append(v.full, p)
			v.recovery, v.ensemble = a.GetRecovery(), ensembleOf(a)
			recoveries[v.recovery], ensembles[v.ensemble] = true, true
			if a.GetRecovering() {
				v.need = 1 // no other vote has counted since: see joinQuorum
			}
		}
	}
	switch {
	case len(ensembles) > 1:
		v.waiting = fmt.Sprintf("the end of one of two ensembles: %s are of different ones; correct the server lines", wire.Canonical(v.full))
	case len(recoveries) > 1:
		v.waiting = fmt.Sprintf("the end of one of two ensembles: %s have data from before and after a recovery, or from several; empty the folders of those that must not continue",
			wire.Canonical(v.full))
	case data && len(v.full) >= v.need && !n.listed(answers) && !slices.Contains(wire.Voters(voters), n.cfg.Self):
		v.waiting = fmt.Sprintf("a place in the server list, in which there is no member %d: add it on any member, with rollcall members add", n.cfg.Self)
	case data && len(v.full) >= v.need:
		v.start = startJoining
	case data && v.otherVoter(n.cfg.Self) != 0 && len(silent) == 0 && len(v.committed.servers) == 0:
		v.waiting = fmt.Sprintf("word that %s are all voters: their configuration may not be committed, and then the voters of the one before it decide", wire.Canonical(voters))
	case data:
		v.waiting = fmt.Sprintf("%d members with data, of which %d are there; silent: %s", v.need, len(v.full), list(silent))
	case len(silent) == 0 || n.cfg.NewEnsemble && len(voters)-len(silent) > len(voters)/2:
		v.start = startBootstrap
	default:
		v.waiting = list(silent)
	}
	return v
}

// begun reports whether there is an ensemble already, by the answers of this round and of those before, and by this
// member's folder. Somebody may have its data then, even if nobody who answers now has: the server lines of a member
// that comes in are older than those that came after it, and the one that it knows may have lost its disk.
func (n *Node) begun(answers map[uint32]*proto.HelloReply) bool {
	for _, a := range answers {
		n.heardOfOne = n.heardOfOne || a.GetHasData() || a.GetJoining() || a.GetRemoved() || a.GetRoster() != nil
	}
	return n.heardOfOne || n.joining.Load()
}

// starting reports whether a member that has data does not know the configuration yet that they have. Members of an
// earlier version know no other than the configured one, and do not say it.
func starting(a *proto.HelloReply) bool {
	return len(a.GetEnsemble()) != 0 && len(a.GetConfiguration().GetServers()) == 0
}

// listed reports whether this member is in the newest server list that the answers have. Without any list, the
// configured one is the ensemble's.
func (n *Node) listed(answers map[uint32]*proto.HelloReply) bool {
	in, newest := true, int64(-1)
	for _, a := range answers {
		list := a.GetRoster()
		if list == nil || list.GetVersion() <= newest {
			continue
		}
		own := fmt.Sprintf("server.%d=", n.cfg.Self)
		newest, in = list.GetVersion(), slices.ContainsFunc(list.GetServers(), func(line string) bool { return strings.HasPrefix(line, own) })
	}
	return in
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
	if err := n.join(v.ensemble); err != nil {
		return "", err
	}
	n.heard.Store(&v.heard)
	if v.recovery != n.Recovery() {
		if err := writeRecovery(n.disk.Stable(), n.cfg.Peers, v.recovery); err != nil {
			return "", err
		}
		n.recovery.Store(v.recovery)
		n.followed.Store(false)
	}
	return "", nil
}

// join stores the ensemble that this member joins. If its members do not know it either, this member will hear
// of it as they do.
func (n *Node) join(id wire.EnsembleID) error {
	if err := writeEnsemble(n.disk.Stable(), id); err != nil {
		return err
	}
	n.cfg.Book.SetEnsemble(id)
	return nil
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
	if err := n.nameEnsemble(); err != nil {
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

// joinElections is for how many election timeouts a joining member waits at least. A vote of its former self may still
// be on its way to a candidate, which gives up after two of its own election timeouts. Those may be up to three times
// as long as this member's while Config.Heartbeat is being changed on one member after the other.
const joinElections = 8

// joinLoop ends joining once this member again has everything that its former self may have
// promised. The first request of a leader to this process shows how long that leader's log was. The
// member must have all of the log up to there. It must also have the first entry of that leader's
// term, which shows that all of it is committed. Joining members elect no leader, so this leader
// has everything that was acknowledged.
func (n *Node) joinLoop(ctx context.Context, r *raft.Raft) {
	wait := joinElections * n.election
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = n.election
		if n.LeaderID() == 0 {
			n.hear(ctx)
			wait = askInterval
		}
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

// hear asks the others anew what they know of the ensemble. There may be no leader without this member's vote, an
// earlier process of this member may have heard it, and nonvoters may answer by now: see otherOfTwo.
func (n *Node) hear(ctx context.Context) {
	if v := n.evaluate(n.askAll(ctx)); v.start == startJoining && v.waiting == "" {
		n.heard.Store(&v.heard)
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
	return nil
}

var errNotEnded = errors.New("quorum: raft did not stop in time")
