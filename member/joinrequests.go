package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/internal/admission"
	"rollcall/internal/serverlist"
	"rollcall/operator/admin"
	"rollcall/operator/api"
	"rollcall/operator/audit"
	"rollcall/operator/view"
	"rollcall/proto"
)

// With members.join=auto, the leader adds a process that asks to come in. The rule for that: the process has proved the secret, or its
// certificate is for the host of its server line, and members.join.hosts has that host; and it replies there, where the leader dials it.
// So an application with a certificate of the same authority comes in only if the authority certifies it for a host of members.
// trust.Settings.CheckNewcomers rejects configurations in which that would prove nothing.
//
// A request passes three checks, each of which costs more than the one before, so a bad request delays no good one:
//
//   - its text, this member's list and the caller's certificate, without a lock or a wait;
//   - a dial to its host: maxJoinChecks at once, one for each host, and after one that failed not before minJoinInterval;
//   - the change of the list, one at a time.

const (
	// joinCheckTimeout limits the dial to a new member and its reply, which take a few round trips.
	joinCheckTimeout = 2 * time.Second
	// joinChangeTimeout limits a change of the list. It asks all members for their status, dials the new one once more, and waits
	// for a majority of the disks.
	joinChangeTimeout = 5 * time.Second
	// minJoinInterval is the least time between two dials to an address, if the first one has failed.
	minJoinInterval = 3 * time.Second
	// maxJoinChecks limits the members that are dialed at once.
	maxJoinChecks = 4
	// maxFailedJoins limits the addresses of failed dials that are remembered. It exceeds the members that can wait to come in. A later
	// one replaces the oldest, which may then be dialed early.
	maxFailedJoins = 64
	// promoteInterval is the time between two checks of the leader for members to give votes to. One step takes less.
	promoteInterval = time.Second
	// maxSelfJoinedList limits the servers in a list to which members add themselves: the leader sends the log to each one, and a
	// template with an error may start any number of them.
	maxSelfJoinedList = 32
	// joinFailureInterval is the least time between two lines about requests to come in that were rejected. Each member sends one in
	// each joinInterval.
	joinFailureInterval = time.Minute
)

// joinRequests lets other members come in by themselves while this member leads. It is safe for concurrent use.
type joinRequests struct {
	m            *Member
	failureLines *admission.LogLimiter
	checks       joinChecks
	isChanging   atomic.Bool // a change of the list is made for a member; it is one at a time
}

func newJoinRequests(m *Member) *joinRequests {
	return &joinRequests{
		m: m, failureLines: admission.NewLogLimiterOf(joinFailureInterval),
		checks: joinChecks{underWay: map[string]bool{}, failed: map[string]failedJoin{}},
	}
}

// admit lets the caller of a Hello into the ensemble. The errors have the code Aborted if this member leads.
func (j *joinRequests) admit(ctx context.Context, r *proto.HelloRequest) error {
	if j.m.terms.currentLeader.Load() == nil {
		return errNotLeading
	}
	from := callerInfo(ctx)
	added, err := j.add(ctx, from, r)
	if err != nil {
		err = status.Error(codes.Aborted, err.Error())
	}
	if added.ID != 0 {
		j.record(from, added, err)
	}
	return err
}

// add adds the caller of a Hello as an observer. It returns the line with which it has tried that, which is zero if the member is in the
// list.
func (j *joinRequests) add(ctx context.Context, from peerInfo, r *proto.HelloRequest) (serverlist.Server, error) {
	own, isLine := parseReported(from.member, r.GetLine())
	switch {
	case !j.m.cfg.SelfJoin.Auto:
		return own, fmt.Errorf("members.join=auto is not set here; add it with rollcall members add")
	case !from.proved:
		return own, fmt.Errorf("it has proved neither a secret nor a certificate; see docs/security.md#members")
	case from.disk == 0 || from.member == j.m.cfg.ID:
		return own, fmt.Errorf("it is no other member")
	case !isLine || own.ClientPort == 0:
		return own, fmt.Errorf("its server line is not one line of server.%d with a port for clients, of at most %d bytes", from.member,
			maxReportedLine)
	case isOtherEnsemble(ensembleInHello(r), j.m.ports.addressBook.EnsembleID()):
		return own, fmt.Errorf("it has data of another ensemble; empty its data directory but for its number")
	}
	own.Observer = true
	isListed, err := checkNewServer(j.m.serverLists.currentList(), own)
	switch {
	case isListed:
		return serverlist.Server{}, nil
	case err != nil:
		return own, err
	}
	if err := j.checkHost(from, own.Host); err != nil {
		return own, err
	}
	if err := j.checks.begin(own, time.Now()); err != nil {
		return own, err
	}
	err = j.checkAtHost(ctx, from, own)
	j.checks.end(own, time.Now(), err)
	if err != nil {
		return own, err
	}
	return own, j.changeFor(ctx, func(members *view.Members) (serverlist.Server, error) {
		if !members.IsSettled() {
			return serverlist.Server{}, fmt.Errorf("another change of the list is under way")
		}
		_, err := checkNewServer(members.List, own)
		return own, err
	})
}

// checkNewServer returns an error if a list cannot have a new server, or reports that it has it.
func checkNewServer(list serverlist.List, own serverlist.Server) (isListed bool, err error) {
	listed, found := list.Find(own.ID)
	switch {
	case found && sameAddresses(listed, own):
		return true, nil
	case found:
		return false, fmt.Errorf("the list has a member %d, at %s; give this one another number, or move that one with rollcall members address",
			own.ID, addressPair(listed))
	case len(list) >= maxSelfJoinedList:
		return false, fmt.Errorf("the list has %d servers, and no more than %d come by themselves; add it with rollcall members add",
			len(list), maxSelfJoinedList)
	}
	next, err := list.Apply(serverlist.Change{Joining: own.String()})
	if err == nil {
		err = list.CheckClientPortConflicts(next)
	}
	return false, err
}

// checkHost returns an error if members.join.hosts does not have the host of a server line, or the certificate of the caller, if it has
// shown one, is for another host.
func (j *joinRequests) checkHost(from peerInfo, host string) error {
	hosts := j.m.cfg.SelfJoin.Hosts
	switch {
	case from.certified == nil && len(hosts) == 0:
		return nil
	case len(hosts) == 0:
		return errors.New("members.join.hosts is not set here, so no certificate lets a member in; set it, or add this one with rollcall members add")
	case !j.m.cfg.SelfJoin.HasHost(host):
		return fmt.Errorf("members.join.hosts=%s does not have %s, the host of its server line; add that to the key on all members, or "+
			"add this member with rollcall members add", strings.Join(hosts, ","), host)
	case from.certified == nil:
		return nil
	}
	if err := from.certified.MayJoinAt(host); err != nil {
		return fmt.Errorf("its certificate is not one of a member at %s, the host of its server line: %w", host, err)
	}
	return nil
}

// checkAtHost returns an error if the caller of a Hello does not reply at the host of its server line, or does not prove itself there.
func (j *joinRequests) checkAtHost(ctx context.Context, from peerInfo, own serverlist.Server) error {
	ctx, cancel := context.WithTimeout(ctx, joinCheckTimeout)
	defer cancel()
	reply, err := j.m.helloClient.sendHelloTo(ctx, own)
	switch {
	case err != nil:
		return fmt.Errorf("it does not reply at %s, which its server line has: %w", own.QuorumAddr(), err)
	case reply.GetMember() != own.ID || reply.GetDisk() != uint64(from.disk):
		return fmt.Errorf("another process replies at %s, which its server line has", own.QuorumAddr())
	}
	return nil
}

func (j *joinRequests) operations() operations { return operations{j.m.viewer.collector, j.m} }

// changeFor puts the server line that next chooses into the list, unless that is changed meanwhile. next returns a zero Server if there is
// none.
func (j *joinRequests) changeFor(ctx context.Context, next func(*view.Members) (serverlist.Server, error)) error {
	if !j.isChanging.CompareAndSwap(false, true) {
		return fmt.Errorf("the list is changed for another member at this moment")
	}
	defer j.isChanging.Store(false)
	ctx, cancel := context.WithTimeout(ctx, joinChangeTimeout)
	defer cancel()
	members, err := j.operations().Members(ctx)
	if err != nil {
		return err
	}
	s, err := next(&members)
	if err != nil || s.ID == 0 {
		return err
	}
	_, err = j.operations().ChangeMembers(ctx, admin.MembersChange{
		Change: serverlist.Change{Joining: s.String()}, Version: members.Version, RequestedBy: fmt.Sprintf("members.join of member %d", j.m.cfg.ID),
	})
	return err
}

// record logs a request to come in, and adds it to the audit log. It does so for few of those that are rejected.
func (j *joinRequests) record(from peerInfo, s serverlist.Server, err error) {
	event := audit.Event{
		User: fmt.Sprintf("member %d", from.member), Address: from.remoteAddr, Operation: "join members", Target: s.String(),
	}
	if err != nil {
		skipped, due := j.failureLines.AllowLine(time.Now())
		if !due {
			return
		}
		event.Result, event.Error = audit.Failure, status.Convert(err).Message()
		j.m.log.Warn("a member was not let into the ensemble", "peer", from.member, "remote", from.remoteAddr, "reason", event.Error,
			"skipped", skipped)
	} else {
		j.m.log.Info("a member has come into the ensemble by itself", "peer", from.member, "remote", from.remoteAddr, "line", s.String())
	}
	if j.m.auditLog != nil {
		j.m.auditLog.Add(event)
	}
}

// promoteLoop gives votes to members that came by themselves, one after the other, while this member leads.
func (j *joinRequests) promoteLoop(ctx context.Context) error {
	if !j.m.cfg.SelfJoin.Auto {
		return nil
	}
	var reasons reasonLog
	return repeat(ctx, promoteInterval, func() error {
		if j.m.terms.currentLeader.Load() == nil || !slices.ContainsFunc(j.m.serverLists.currentList(), isObserver) || j.isChanging.Load() {
			return nil
		}
		if err := j.promoteNext(ctx); err != nil && ctx.Err() == nil && reasons.isDue(err.Error(), time.Now()) {
			j.m.log.Warn("a member that came by itself gets no vote yet", "err", err)
		}
		return nil
	})
}

func isObserver(s serverlist.Server) bool { return s.Observer }

// promoteNext gives one member a vote, if that is due. It returns when the list has changed.
func (j *joinRequests) promoteNext(ctx context.Context) error {
	id := uint32(0)
	err := j.changeFor(ctx, func(members *view.Members) (serverlist.Server, error) {
		id = nextPromotion(members, j.m.cfg.SelfJoin.Voters)
		s, _ := members.List.Find(id)
		s.Observer = false
		return s, nil
	})
	switch {
	case err != nil && id != 0:
		return fmt.Errorf("member %d: %w", id, err)
	case err != nil: // none was chosen
		return err
	case id != 0:
		j.m.log.Info("a member that came by itself gets a vote", "peer", id)
	}
	return nil
}

// nextPromotion returns the observer that gets a vote next, or 0 if there is none. The voters become the greatest odd number, up to limit,
// that the present ones and the observers which want a vote and have caught up can be. An even number lasts for one step: a pair is begun
// only if both are there. The vote of a member that leaves counts no more, so another one gets a vote in its place first. Nobody loses a vote.
func nextPromotion(m *view.Members, limit int) uint32 {
	voters, ready := 0, []uint32(nil)
	for i := range m.Servers {
		switch s := &m.Servers[i]; {
		case s.ListEntry.ID == 0, !s.ListEntry.Observer && !s.IsVoter, s.ListEntry.Observer && s.IsVoter:
			return 0 // a change is under way, or a disk is lost
		case s.IsVoter && s.Leaves:
		case s.IsVoter:
			voters++
		case s.HasReplied && s.WantsVote && s.State == api.StateObserver && !s.IsDrained:
			ready = append(ready, s.MemberID)
		}
	}
	most := min(limit, voters+len(ready))
	if most%2 == 0 {
		most--
	}
	if voters >= most || len(ready) == 0 {
		return 0
	}
	return slices.Min(ready)
}

// joinChecks are the dials to the hosts of members that ask to come in. They count by host and address and not by number, because a
// process may claim any number: so it delays only others at a host that it has proved to have, or that it names with the secret. It is
// safe for concurrent use.
type joinChecks struct {
	mu       sync.Mutex
	underWay map[string]bool       // by host; at most maxJoinChecks
	failed   map[string]failedJoin // by address; at most maxFailedJoins
}

// failedJoin is the last dial to an address, if it failed.
type failedJoin struct {
	at  time.Time
	err error
}

// begin returns an error if a server is not to be dialed now. Otherwise end follows.
func (c *joinChecks) begin(s serverlist.Server, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.failed[s.QuorumAddr()]
	switch {
	case last.err != nil && now.Sub(last.at) < minJoinInterval:
		return last.err
	case c.underWay[s.Host]:
		return fmt.Errorf("an earlier request from its host is under way")
	case len(c.underWay) >= maxJoinChecks:
		return fmt.Errorf("the requests of %d other members are under way", len(c.underWay))
	}
	c.underWay[s.Host] = true
	return nil
}

// end records the result of a dial.
func (c *joinChecks) end(s serverlist.Server, now time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.underWay, s.Host)
	delete(c.failed, s.QuorumAddr())
	if err == nil {
		return
	}
	if len(c.failed) >= maxFailedJoins {
		delete(c.failed, c.oldestFailed())
	}
	c.failed[s.QuorumAddr()] = failedJoin{now, err}
}

// oldestFailed returns the address whose dial failed first. The caller holds the lock.
func (c *joinChecks) oldestFailed() (oldest string) {
	for addr, f := range c.failed {
		if oldest == "" || f.at.Before(c.failed[oldest].at) {
			oldest = addr
		}
	}
	return oldest
}
