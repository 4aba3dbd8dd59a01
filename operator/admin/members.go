package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/operator/api"
	"rollcall/operator/view"
)

// membersTimeout limits a change of the server list or of the leader. An election takes a few ticks.
const membersTimeout = killTimeout

// membersAPI has the endpoints that change the server list, the leader, or the members that clients use.
type membersAPI struct {
	ops    Operations
	source Source
}

func (m *membersAPI) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/v1/members", access: readAccess, content: showsState, responseBody: api.Members{},
			failureStatuses: []int{http.StatusServiceUnavailable},
			help:            "the servers of the ensemble: addresses, roles, votes, and how far each of them is",
			replyJSON:       m.listMembers,
		},
		{
			method: "POST", path: "/v1/members", access: changeAccess, changesEnsemble: true, action: "change members",
			auditTarget: membersTarget, responseBody: api.MembersChanged{}, requestBody: api.MembersChange{},
			failureStatuses: membersFailures,
			help:            "adds, changes or removes servers, through the log", replyJSON: m.changeMembers,
		},
		{
			method: "POST", path: "/v1/members/lead", access: changeAccess, changesEnsemble: true,
			action: "hand over leadership", auditTarget: membersTarget, responseBody: api.MembersLed{},
			requestBody: api.MembersLead{}, failureStatuses: append([]int{http.StatusNotFound}, membersFailures...),
			help: "hands leadership over to a member", replyJSON: m.transferLeadership,
		},
		{
			method: "POST", path: "/v1/members/drain", access: changeAccess, changesEnsemble: true, action: "drain",
			auditTarget: membersTarget, timeout: drainTimeout, responseBody: api.Drained{}, requestBody: api.MembersDrain{},
			failureStatuses: drainFailures,
			help:            "drains any member", replyJSON: m.drainMember,
		},
		{
			method: "POST", path: "/v1/members/rebalance", access: changeAccess, changesEnsemble: true, action: "rebalance",
			auditTarget: membersTarget, timeout: rebalanceTimeout + replyTimeout, responseBody: api.Rebalanced{},
			requestBody:     api.MembersRebalance{},
			failureStatuses: []int{http.StatusConflict, http.StatusServiceUnavailable},
			help:            "moves clients from members with more than their share to others", replyJSON: m.rebalanceClients,
		},
		{
			method: "POST", path: "/v1/drain", access: changeAccess, action: "drain", timeout: drainTimeout,
			responseBody: api.Drained{}, requestBody: api.Drain{},
			help: "hands leadership over, closes the clients' connections and takes no others", replyJSON: m.drainSelf,
		},
	}
}

// membersFailures are the failure statuses of a change of the list.
var membersFailures = []int{http.StatusConflict, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// drainFailures are the failure statuses of draining another member.
var drainFailures = []int{http.StatusNotFound, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// MembersChange is a change of the server list.
type MembersChange struct {
	serverlist.Change
	Version int64 // that the list must have; -1: any
	// make it although too few servers would serve for a majority, as far as this member sees, or although one
	// voter is left
	Force       bool
	BySelf      bool   // the member that gets it leaves by itself, and may come in by itself again; Leaving must have it
	RequestedBy string // the requester, for the audit log
}

// MembersChanged is the result of a MembersChange.
type MembersChanged struct {
	Version int64
	List    serverlist.List
}

func (m *membersAPI) listMembers(q *query) (any, error) {
	servers, err := m.ops.Members(q.Context())
	if err != nil {
		return nil, err
	}
	row := servers.APIRow()
	row.WasRemoved = m.source.Health().RemovedVersion != 0
	return row, nil
}

func (m *membersAPI) changeMembers(q *query) (any, error) {
	var body api.MembersChange
	q.decodeBody(&body)
	c := MembersChange{
		Change: serverlist.Change{Joining: body.Joining, Leaving: body.Leaving, Members: body.Members}, Version: -1,
		Force: body.Force, BySelf: body.BySelf, RequestedBy: q.requester(),
	}
	q.SetPathValue(auditMembersKey, changeText(body))
	switch {
	case body.Joining == "" && body.Leaving == "" && body.Members == "":
		q.addFault("nothing is to be changed: give joining, leaving or members")
	case body.Members != "" && body.Joining+body.Leaving != "":
		q.addFault("members has a whole list; give either that, or joining and leaving")
	}
	if body.Version != "" {
		digits, hex := strings.CutPrefix(body.Version, "0x")
		version, err := strconv.ParseUint(digits, 16, 63)
		if err != nil || !hex {
			q.addFault("version: %.40q; write it as /v1/members does, such as 0x100000000", body.Version)
		}
		c.Version = int64(version)
	}
	if q.fault != nil {
		return nil, q.fault
	}
	ctx, cancel := context.WithTimeout(q.Context(), membersTimeout)
	defer cancel()
	done, err := m.ops.ChangeMembers(ctx, c)
	if err != nil {
		return nil, err
	}
	return api.MembersChanged{
		Version: view.ZxidText(done.Version),
		Servers: append([]string{}, done.List.CanonicalLines()...),
	}, nil
}

func (m *membersAPI) transferLeadership(q *query) (any, error) {
	var body api.MembersLead
	q.decodeBody(&body)
	if q.checkMember(body.Member); q.fault != nil {
		return nil, q.fault
	}
	ctx, cancel := context.WithTimeout(q.Context(), membersTimeout)
	defer cancel()
	if err := m.ops.TransferLeadership(ctx, body.Member); err != nil {
		return nil, err
	}
	return api.MembersLed{LeaderID: body.Member}, nil
}

// checkMember checks a member's id, and keeps it for the audit log.
func (q *query) checkMember(id uint32) {
	if id < 1 || id > maxMemberID {
		q.addFault("member: %d; must be a number from 1 to %d", id, maxMemberID)
	}
	if q.fault == nil {
		q.SetPathValue(auditMembersKey, fmt.Sprintf("member %d", id))
	}
}

// auditMembersKey is the path value that holds a change of the members for the audit log.
const auditMembersKey = "members"

func membersTarget(r *http.Request) string {
	return cmp.Or(r.PathValue(auditMembersKey), "the members")
}

// changeText describes a change for the audit log.
func changeText(c api.MembersChange) string {
	var parts []string
	for _, p := range []struct{ what, text string }{
		{"joining", c.Joining},
		{"leaving", c.Leaving},
		{"members", c.Members},
		{"version", c.Version},
	} {
		if p.text != "" {
			parts = append(parts, p.what+"="+p.text)
		}
	}
	if c.Force {
		parts = append(parts, "forced")
	}
	if c.BySelf {
		parts = append(parts, "by itself")
	}
	return strings.Join(parts, " ")
}

// MaxDrainTime bounds a drain: a process that is to stop is killed after about as long.
const MaxDrainTime = time.Minute

const (
	// defaultDrainTime lets a busy member's clients reach the others at a few thousand per second.
	defaultDrainTime = 5 * time.Second
	// drainTimeout limits a drain and its reply. The drain tries to transfer leadership for as long as it may
	// close connections.
	drainTimeout = 2*MaxDrainTime + replyTimeout
)

func (m *membersAPI) drainSelf(q *query) (any, error) {
	body := api.Drain{OverMs: defaultDrainTime.Milliseconds()}
	q.decodeBody(&body)
	over := q.drainTime(body.OverMs)
	if q.fault != nil {
		return nil, q.fault
	}
	begun := time.Now()
	closed, leads := m.ops.DrainSelf(q.Context(), over)
	if err := q.Context().Err(); err != nil {
		return nil, &Failure{
			Status: http.StatusServiceUnavailable,
			Text:   fmt.Sprintf("the request ended after %d connections were closed; drain again to close the rest", closed),
		}
	}
	return api.Drained{ClosedConnections: closed, StillLeads: leads, TookMs: time.Since(begun).Milliseconds()}, nil
}

func (q *query) drainTime(ms int64) time.Duration {
	if ms < 0 || ms > MaxDrainTime.Milliseconds() {
		q.addFault("over_ms: %d; must be 0 to %d", ms, MaxDrainTime.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond
}

func (m *membersAPI) drainMember(q *query) (any, error) {
	body := api.MembersDrain{OverMs: defaultDrainTime.Milliseconds()}
	q.decodeBody(&body)
	over := q.drainTime(body.OverMs)
	if q.checkMember(body.Member); q.fault != nil {
		return nil, q.fault
	}
	begun := time.Now()
	closed, leads, err := m.ops.DrainMember(q.Context(), body.Member, over, q.requester())
	if err != nil {
		return nil, err
	}
	return api.Drained{ClosedConnections: closed, StillLeads: leads, TookMs: time.Since(begun).Milliseconds()}, nil
}

const (
	// MaxRebalanceRate limits the connections that a member closes per second for a rebalance. The other members
	// take a few thousand per second, from several members.
	MaxRebalanceRate = 1000
	// defaultRebalanceRate lets clients that reconnect slowly do so before many have left.
	defaultRebalanceRate = 100
	// rebalanceTimeout is enough to move 80,000 clients of a member at the default rate.
	rebalanceTimeout = 20 * time.Minute
)

// RebalanceResult is the result of a rebalance.
type RebalanceResult struct {
	Members           []RebalancedMember // those that take clients, by id
	ClosedConnections int                // connections
	// all members replied, at least two of them take clients, and none has more than its share now
	Balanced bool
	Silent   []api.Silence // members that did not reply
}

// RebalancedMember is the result of a rebalance on one member.
type RebalancedMember struct {
	Member                      uint32
	ClientsBefore, ClientsAfter int    // clients
	ClosedConnections           int    // connections
	FailureReason               string // why it closed none in the last round; "": it did, or had none too many
}

func (m *membersAPI) rebalanceClients(q *query) (any, error) {
	wanted := api.MembersRebalance{PerSecond: defaultRebalanceRate}
	if q.decodeBody(&wanted); wanted.PerSecond < 1 || wanted.PerSecond > MaxRebalanceRate {
		q.addFault("per_second: %d; must be 1 to %d", wanted.PerSecond, MaxRebalanceRate)
	}
	if q.fault != nil {
		return nil, q.fault
	}
	ctx, cancel := context.WithTimeout(q.Context(), rebalanceTimeout)
	defer cancel()
	begun := time.Now()
	done, err := m.ops.Rebalance(ctx, wanted.PerSecond, q.requester())
	if err != nil {
		return nil, err
	}
	row := api.Rebalanced{
		Balanced: done.Balanced, ClosedConnections: done.ClosedConnections,
		TookMs: time.Since(begun).Milliseconds(), Silent: append([]api.Silence{}, done.Silent...),
		Items: make([]api.RebalancedMember, len(done.Members)),
	}
	for i, m := range done.Members {
		row.Items[i] = api.RebalancedMember{
			MemberID: m.Member, ClientsBefore: m.ClientsBefore, ClientsAfter: m.ClientsAfter,
			ClosedConnections: m.ClosedConnections, FailureReason: m.FailureReason,
		}
	}
	return row, nil
}
