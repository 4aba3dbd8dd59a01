package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	pb "google.golang.org/protobuf/proto"

	"rollcall/internal/serverlist"
	"rollcall/operator/admin"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// standaloneServer returns the line of a standalone server, without addresses for members.
func standaloneServer(s Server) serverlist.Server {
	line := serverlist.Server{ID: s.ID}
	line.Host, line.QuorumPort = splitHostPort(s.GrpcAddr)
	_, line.ElectionPort = splitHostPort(s.RaftAddr)
	return line
}

// splitHostPort returns the parts of host:port, or zero values.
func splitHostPort(addr string) (host string, port int) {
	host, text, _ := net.SplitHostPort(addr)
	port, _ = strconv.Atoi(text)
	return host, port
}

// ChangeMembers implements admin.Operations.
func (o operations) ChangeMembers(ctx context.Context, c admin.MembersChange) (admin.MembersChanged, error) {
	if err := o.m.checkCanSubmit(); err != nil {
		return admin.MembersChanged{},
			&admin.Failure{Status: http.StatusServiceUnavailable, Text: err.Error() + "; nothing was done"}
	}
	if !c.Force { // a lone survivor cannot confirm anything, and must be able to remove the others
		if err := o.m.follower.AwaitSync(ctx); err != nil {
			return admin.MembersChanged{}, noLeaderFailure(err)
		}
	}
	if err := o.checkServersChange(ctx, c); err != nil {
		return admin.MembersChanged{}, err
	}
	submit := o.submitServersChange
	if c.BySelf {
		submit = o.submitOwnRemoval
	}
	r, err := submit(ctx, c)
	if err != nil {
		return admin.MembersChanged{}, err
	}
	list, err := serverlist.ParseList(string(r.ConfigText))
	if err != nil {
		return admin.MembersChanged{},
			&admin.Failure{
				Status: http.StatusInternalServerError,
				Text:   "the list was changed, but its text cannot be read: " + err.Error(),
			}
	}
	return admin.MembersChanged{Version: r.Zxid, List: list}, nil
}

// submitOwnRemoval submits the change with which this member leaves by itself. The error is an *admin.Failure.
func (o operations) submitOwnRemoval(ctx context.Context, c admin.MembersChange) (znode.Result, error) {
	rejected, err := o.m.terms.selfJoin.beginLeaving()
	if err != nil {
		return znode.Result{}, &admin.Failure{Status: http.StatusInternalServerError, Text: err.Error() + "; nothing was done"}
	}
	o.awaitSuccessor(ctx)
	r, err := o.submitServersChange(ctx, c)
	if f := (*admin.Failure)(nil); errors.As(err, &f) && f.Status != http.StatusGatewayTimeout { // with that, the outcome is not known
		rejected()
	}
	return r, err
}

const (
	// successorTimeout limits the time for which a member that leaves waits until another one has a vote in its place. The leader gives it
	// within promoteInterval, and the change takes a few round trips.
	successorTimeout = 4 * time.Second
	// successorPollInterval is the time between two checks of that. Each asks all members.
	successorPollInterval = 500 * time.Millisecond
)

// awaitSuccessor waits until the leader has given a vote to an observer in the place of this member, which leaves, if there is one that wants
// it. It does not wait for longer than successorTimeout: the member leaves all the same.
func (o operations) awaitSuccessor(ctx context.Context) {
	if !o.m.cfg.SelfJoin.Auto || o.m.node.Status().LeaderID() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, successorTimeout)
	defer cancel()
	for {
		members, err := o.Members(ctx)
		if err == nil && members.IsSettled() && nextPromotion(&members, o.m.cfg.SelfJoin.Voters) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(successorPollInterval):
		}
	}
}

const (
	// maxServersChangeBytes limits a change. A list has at most 255 servers, so lines may have 1 KiB.
	maxServersChangeBytes = 256 << 10
	// When the leader gets a change, it contacts the added servers. Until they reply, the change is rejected, and
	// submitted again after firstChangeRetry. Each pause doubles, up to maxChangeRetryPause.
	firstChangeRetry    = 25 * time.Millisecond
	maxChangeRetryPause = 3 * time.Second
)

// submitServersChange changes the list of servers through the log. The error is an *admin.Failure.
func (o operations) submitServersChange(ctx context.Context, c admin.MembersChange) (znode.Result, error) {
	for pause := firstChangeRetry; ; pause *= 2 {
		body, err := serversChangeBody(c, o.m.appliedTerm())
		if err != nil {
			return znode.Result{}, &admin.Failure{Status: http.StatusBadRequest, Text: err.Error()}
		}
		r, err := submitAndWait(ctx, o.m.follower, &proto.Txn{Op: int32(jute.OpChangeServers), Body: body})
		if err != nil {
			return r, submitFailure(err, "query the list")
		}
		if r.Code != jute.NewConfigNoQuorum && r.Code != jute.ReconfigInProgress || pause > maxChangeRetryPause {
			return r, o.serversChangeFailure(r)
		}
		select {
		case <-ctx.Done():
			return r, o.serversChangeFailure(r)
		case <-time.After(pause):
		}
	}
}

// serversChangeBody returns the body of the transaction for a change in a term.
func serversChangeBody(c admin.MembersChange, term uint64) ([]byte, error) {
	if n := len(c.RequestedBy); n > znode.MaxRequesterBytes {
		return nil, fmt.Errorf("the operator's name has %d bytes, more than %d", n, znode.MaxRequesterBytes)
	}
	body, err := pb.Marshal(&proto.ChangeServers{
		Joining: c.Joining, Leaving: c.Leaving, Members: c.Members,
		Version: c.Version, Force: c.Force, Operator: c.RequestedBy, Term: term,
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("the change of the list of servers cannot be encoded: %w", err)
	case len(body) > maxServersChangeBytes:
		return nil, fmt.Errorf("the change of the list of servers has %d bytes, more than %d", len(body),
			maxServersChangeBytes)
	}
	return body, nil
}

// checkServersChange returns an error for a change that is rejected before it is sent to the leader: it is malformed,
// servers would take each other's addresses or ports, a new server is of another ensemble, or the list would have no
// majority that is alive.
func (o operations) checkServersChange(ctx context.Context, c admin.MembersChange) error {
	if c.BySelf && !leavesWith(c.Change, o.m.cfg.ID) {
		return &admin.Failure{Status: http.StatusBadRequest, Text: fmt.Sprintf("by_self: leaving is %q; must have this member's number, %d", c.Leaving, o.m.cfg.ID)}
	}
	members, err := o.Members(ctx)
	if err != nil {
		return err
	}
	next, err := members.List.Apply(c.Change)
	if err == nil {
		err = cmp.Or(members.List.CheckAddressCycles(next), raftServerList(o.m.node).CheckAddressCycles(next),
			members.List.CheckClientPortConflicts(next))
	}
	if err != nil {
		return &admin.Failure{Status: http.StatusBadRequest, Text: err.Error()}
	}
	if err := o.m.helloClient.checkNewcomerEnsembles(ctx, members.List, next); err != nil {
		return &admin.Failure{Status: http.StatusConflict, Text: err.Error()}
	}
	switch {
	case c.Force:
		return nil
	case len(next.Voters()) == 1 && len(members.List.Voters()) > 1:
		return &admin.Failure{
			Status: http.StatusConflict,
			Text:   "one voter would be left, and no other member could take over from it; force makes the change all the same",
		}
	}
	if err := members.CheckLivingMajority(next); err != nil {
		return &admin.Failure{
			Status: http.StatusConflict,
			Text: err.Error() + "; start these members, or remove them instead; force leaves it to the leader, which rejects " +
				"a list unless it reaches a majority of its voters",
		}
	}
	return nil
}

// serversChangeFailure converts the result of a change to an error for an operator, or nil if it was made.
func (o operations) serversChangeFailure(r znode.Result) error {
	switch r.Code {
	case jute.OK:
		return nil
	case jute.BadArguments, jute.MarshallingError:
		return &admin.Failure{Status: http.StatusBadRequest, Text: r.RejectReason}
	case jute.BadVersion:
		version, _ := o.m.serverLists.newestServers()
		return &admin.Failure{
			Status: http.StatusConflict,
			Text: fmt.Sprintf("the list was changed meanwhile: its version is 0x%x now; look at it, and try again",
				uint64(version)),
		}
	}
	return &admin.Failure{Status: http.StatusConflict, Text: r.RejectReason}
}

// leaderPollInterval is the time between two checks of the leader.
const leaderPollInterval = 100 * time.Millisecond

// TransferLeadership implements admin.Operations. It requests the hand-over from the leader, repeatedly, until
// that member leads.
func (o operations) TransferLeadership(ctx context.Context, to uint32) error {
	if err := o.checkCanLead(ctx, to); err != nil {
		return err
	}
	var last error
	for {
		leader := o.m.node.Status().LeaderID()
		if leader == to {
			return nil
		}
		if leader != 0 {
			if err := o.requestHandOver(ctx, leader, to); err != nil && ctx.Err() == nil {
				last = err
			}
		}
		select {
		case <-ctx.Done():
			return leadFailure(to, leader, last)
		case <-time.After(leaderPollInterval):
		}
	}
}

func (o operations) requestHandOver(ctx context.Context, leader, to uint32) error {
	c, err := o.m.terms.leaderClient(ctx, leader)
	if err == nil {
		_, err = c.HandOver(ctx, &proto.HandOverRequest{Target: to})
	}
	return err
}

// checkCanLead returns an error if a member cannot lead.
func (o operations) checkCanLead(ctx context.Context, to uint32) error {
	members, err := o.Members(ctx)
	if err != nil {
		return err
	}
	for _, s := range members.Servers {
		switch {
		case s.MemberID != to:
			continue
		case s.ListEntry.Observer:
			return &admin.Failure{
				Status: http.StatusConflict,
				Text:   fmt.Sprintf("member %d is an observer, which has no vote and cannot lead; promote it first", to),
			}
		case !s.IsVoter:
			return &admin.Failure{
				Status: http.StatusConflict,
				Text:   fmt.Sprintf("member %d does not vote yet (%s); wait until it does", to, s.State),
			}
		case !s.HasReplied:
			return &admin.Failure{
				Status: http.StatusConflict,
				Text:   fmt.Sprintf("member %d does not reply: %s; start it first", to, s.Detail),
			}
		case s.IsDrained:
			return &admin.Failure{
				Status: http.StatusConflict,
				Text:   fmt.Sprintf("member %d is drained, and takes no leadership until its next start", to),
			}
		}
		return nil
	}
	return &admin.Failure{
		Status: http.StatusNotFound,
		Text:   fmt.Sprintf("the ensemble has no member %d; rollcall members lists them", to),
	}
}

func leadFailure(to, leader uint32, last error) error {
	text := fmt.Sprintf("member %d has not taken leadership in time; member %d leads", to, leader)
	if leader == 0 {
		text = fmt.Sprintf("member %d has not taken leadership in time; no leader is known", to)
	}
	if last != nil && !errors.Is(last, context.DeadlineExceeded) {
		text += ": " + strings.TrimPrefix(status.Convert(last).Message(), "quorum: ")
	}
	return &admin.Failure{Status: http.StatusServiceUnavailable, Text: text + "; try again"}
}
