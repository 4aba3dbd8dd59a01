package member

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/internal/serverlist"
	"rollcall/quorum"
)

// With members.join=auto, a member that the list of servers does not have asks the leader to let it in. The leader adds it as an
// observer, and later gives votes to such members, in the same way as an operator does it.
//
// The decisions of operators last, over restarts of the process too. The rules, of which the disk keeps the state (quorum.SelfJoinState):
//
//   - A member asks to come in only if its disk is empty, or has left by itself. So whoever was removed by an operator stays out until an
//     operator adds it, or empties its disk.
//   - A member wants a vote only from when it has asked until it has a vote, and a leader only gives votes. So whoever was demoted
//     stays an observer.
//
// A member stores that it leaves by itself before it asks for its removal. If it fails in between, the next process is in the list
// and has a leader, so it stores that it has not left.
//
// A member leaves from its request on, until the request is rejected. Without a reply it leaves for leavingTime, because the request may
// be in the log by then. It goes on to leave as long as the list does not have it. So a member that stays, or that an operator adds again,
// does not count as one that leaves: its vote counts, and it may come in by itself later.

const (
	// joinInterval is the time between two requests of a member to come in. The name of its host may become known in that time.
	joinInterval = time.Second
	// joinTimeout limits a request to come in: the leader dials the new member, and changes the list.
	joinTimeout = joinCheckTimeout + joinChangeTimeout + time.Second
	// leavingTime is the time after a request for its own removal for which a member that is in the list leaves. A pod tries for 25 s
	// (leaveTimeout of cli), and a request that is in the log by then is applied or rejected soon.
	leavingTime = 30 * time.Second
	// joinReasonInterval is the least time between two lines about why a member is not in the ensemble, or gets no vote. A member asks
	// in each joinInterval, and two reasons may take turns.
	joinReasonInterval = 10 * time.Second
)

// reasonLog decides which of the reasons of repeated failures are logged: each one when it is another than the last one logged, and none
// within joinReasonInterval of that. It is not safe for concurrent use.
type reasonLog struct {
	logged string
	at     time.Time
}

// isDue reports whether a reason is to be logged now. It counts as logged then. An empty one never is.
func (l *reasonLog) isDue(reason string, now time.Time) bool {
	if reason == "" || reason == l.logged || !l.at.IsZero() && now.Sub(l.at) < joinReasonInterval {
		return false
	}
	l.logged, l.at = reason, now
	return true
}

// selfJoin lets this member come into the ensemble by itself, and leave it. It is safe for concurrent use.
type selfJoin struct {
	m         *Member
	hasAsked  atomic.Bool               // this process has asked to come in
	leftUntil atomic.Pointer[time.Time] // see isLeaving; nil: this process does not leave
}

func newSelfJoin(m *Member) *selfJoin { return &selfJoin{m: m} }

func (j *selfJoin) state() quorum.SelfJoinState { return j.m.node.Record().SelfJoin() }

// isLeaving reports whether this process leaves by itself, and keeps the state in which that left the disk. If the time for that is over and
// the list has this member, it is the end of that.
func (j *selfJoin) isLeaving() bool {
	until := j.leftUntil.Load()
	if until == nil {
		return false
	}
	newest := j.m.serverLists.newestList()
	if time.Now().Before(*until) || newest == nil || !isInList(newest.Servers, j.m.cfg.ID) {
		return true
	}
	j.leftUntil.CompareAndSwap(until, nil)
	return false
}

// mayAsk reports whether this member may ask to come in, if it is not in the list.
func (j *selfJoin) mayAsk() bool {
	return !j.isLeaving() &&
		(j.state() == quorum.OutsideByItself || j.state() == quorum.LeftToOperators && !j.m.node.HasData())
}

// wantsVote reports whether this member wants a vote: see proto.MemberStatus.
func (j *selfJoin) wantsVote() bool {
	own, found := j.m.serverLists.ownLine()
	return j.m.cfg.SelfJoin.Auto && found && !own.Observer && j.state() != quorum.LeftToOperators
}

// membersChanged is called after each change of a list or of raft's configuration.
func (j *selfJoin) membersChanged() error {
	j.m.ports.trustGuard.MembersChanged()
	return j.recordMembership()
}

// recordMembership stores that this member is in the ensemble, and whether it has a vote. Only a list that names this member and is newer
// than the one in which it was missing shows that. A process that has asked to come in has seen the one in which it was missing, so it has
// such a list, whether it hears of its leader or not. Another one has it once it has caught up with its leader.
func (j *selfJoin) recordMembership() error {
	if j.state() == quorum.LeftToOperators || j.isLeaving() {
		return nil
	}
	node := j.m.node.Status()
	newest := j.m.serverLists.newestList()
	hasCaughtUp := node.LeaderID() != 0 && !j.m.isCatchingUp()
	if newest == nil || !isInList(newest.Servers, j.m.cfg.ID) || !j.hasAsked.Load() && !hasCaughtUp {
		return nil
	}
	// before it has caught up, its own configuration may be one of before it left
	listed, _ := newest.Servers.Find(j.m.cfg.ID)
	if !listed.Observer && hasCaughtUp && slices.Contains(node.VoterIDs(), j.m.cfg.ID) {
		return j.m.node.Record().StoreSelfJoin(quorum.LeftToOperators)
	}
	return j.m.node.Record().StoreSelfJoin(quorum.InWithoutVote)
}

// beginLeaving stores that this member leaves by itself, before it asks for its removal. The caller calls rejected if it is not removed:
// then the member leaves no more, unless an earlier request may still be in the log.
func (j *selfJoin) beginLeaving() (rejected func(), err error) {
	if !j.m.cfg.SelfJoin.Auto {
		return func() {}, nil // it would never come in by itself
	}
	earlier, until := j.leftUntil.Load(), time.Now().Add(leavingTime)
	j.leftUntil.Store(&until)
	rejected = func() { j.leftUntil.CompareAndSwap(&until, earlier) }
	if err := j.m.node.Record().StoreSelfJoin(quorum.OutsideByItself); err != nil {
		rejected()
		return nil, err
	}
	return rejected, nil
}

// askLoop asks the members to let this one in while the newest list does not have it, if it may.
func (j *selfJoin) askLoop(ctx context.Context) error {
	if !j.m.cfg.SelfJoin.Auto {
		return nil
	}
	var reasons reasonLog
	return repeat(ctx, joinInterval, func() error {
		if err := j.recordMembership(); err != nil {
			return err
		}
		newest := j.m.serverLists.newestList()
		if newest == nil || isInList(newest.Servers, j.m.cfg.ID) { // without a list, the ensemble only begins
			return nil
		}
		reason := "an operator has removed it; add it with rollcall members add, or empty its data directory but for its number"
		if j.mayAsk() {
			if err := j.m.node.Record().StoreSelfJoin(quorum.OutsideByItself); err != nil {
				return err
			}
			reason = j.ask(ctx)
		}
		if ctx.Err() == nil && !j.isLeaving() && reasons.isDue(reason, time.Now()) {
			j.m.log.Info("this member is not in the ensemble", "reason", reason)
		}
		return nil
	})
}

// ask sends one request to come in to each member. It returns the reason why this one is not in the ensemble yet, or "".
func (j *selfJoin) ask(ctx context.Context) (reason string) {
	own, found := j.m.serverLists.ownLine()
	if !found {
		return "its own server line names no host"
	}
	j.hasAsked.Store(true)
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	reason = "no leader has replied"
	for _, p := range j.m.ports.addressBook.OnePerMember() {
		if p.ID == j.m.cfg.ID {
			continue
		}
		all.Go(func() {
			err := j.m.helloClient.sendJoin(ctx, p.ID, own.String())
			mu.Lock()
			defer mu.Unlock()
			switch status.Code(err) {
			case codes.OK:
				reason = ""
			case codes.Aborted:
				reason = fmt.Sprintf("member %d, which leads, rejects it: %s", p.ID, status.Convert(err).Message())
			}
		})
	}
	all.Wait()
	return reason
}

// leavesWith reports whether a member is one of those that a change removes.
func leavesWith(c serverlist.Change, member uint32) bool {
	return slices.Contains(strings.Split(c.Leaving, ","), fmt.Sprint(member))
}
