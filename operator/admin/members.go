package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"rollcall/internal/serverlist"
	"rollcall/operator/api"
	"rollcall/operator/view"
)

// membersTimeout is the longest that an administrator waits for a change of the list or for another leader: an election takes
// a few ticks.
const membersTimeout = killTimeout

// membersAPI has the endpoints that change the list of servers, the leader, or where clients are connected.
type membersAPI struct {
	ops    Operations
	source Source
}

func (m *membersAPI) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/v1/members", access: readAccess, content: showsState, responseBody: api.Members{}, failureStatuses: []int{http.StatusServiceUnavailable},
			help: "the servers of the ensemble: their addresses and roles, whether they vote, and how far each of them is", replyJSON: m.listMembers,
		},
		{
			method: "POST", path: "/v1/members", access: changeAccess, changesEnsemble: true, action: "change members", auditTarget: membersTarget, responseBody: api.MembersChanged{}, requestBody: api.MembersChange{}, failureStatuses: membersFailures,
			help: "adds, changes or removes servers, through the log", replyJSON: m.changeMembers,
		},
		{
			method: "POST", path: "/v1/members/lead", access: changeAccess, changesEnsemble: true, action: "hand over leadership", auditTarget: membersTarget, responseBody: api.MembersLed{}, requestBody: api.MembersLead{}, failureStatuses: append([]int{http.StatusNotFound}, membersFailures...),
			help: "hands leadership over to a member, and answers when that one leads", replyJSON: m.transferLeadership,
		},
		{
			method: "POST", path: "/v1/members/drain", access: changeAccess, changesEnsemble: true, action: "drain", auditTarget: membersTarget, timeout: drainTimeout, responseBody: api.Drained{}, requestBody: api.MembersDrain{}, failureStatuses: drainFailures,
			help: "drains any member as `/v1/drain` does the one that is asked", replyJSON: m.drainMember,
		},
		{
			method: "POST", path: "/v1/members/rebalance", access: changeAccess, changesEnsemble: true, action: "rebalance", auditTarget: membersTarget, timeout: rebalanceTimeout + replyTimeout, responseBody: api.Rebalanced{}, requestBody: api.MembersRebalance{},
			failureStatuses: []int{http.StatusConflict, http.StatusServiceUnavailable},
			help:            "has members with more clients than their share close connections, at a bounded rate, until all have about as many", replyJSON: m.rebalanceClients,
		},
		{
			method: "POST", path: "/v1/drain", access: changeAccess, action: "drain", timeout: drainTimeout, responseBody: api.Drained{}, requestBody: api.Drain{},
			help: "hands leadership over, closes the clients' connections and takes no others; for a member that is about to stop", replyJSON: m.drainSelf,
		},
	}
}

// membersFailures are the statuses with which a change of the list fails.
var membersFailures = []int{http.StatusConflict, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// drainFailures are the statuses with which the drain of another member fails.
var drainFailures = []int{http.StatusNotFound, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// MembersChange is a change of the list of servers that an administrator asks for.
type MembersChange struct {
	serverlist.Change
	Version     int64  // that the list must have; -1: any
	Force       bool   // make it although too few servers would serve for a majority, as far as this member sees, or although one voter is left
	RequestedBy string // who asks
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
		Change: serverlist.Change{Joining: body.Joining, Leaving: body.Leaving, Members: body.Members}, Version: -1, Force: body.Force, RequestedBy: q.administrator + " from " + q.RemoteAddr,
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
	return api.MembersChanged{Version: view.ZxidText(done.Version), Servers: append([]string{}, done.List.CanonicalLines()...)}, nil
}

func (m *membersAPI) transferLeadership(q *query) (any, error) {
	var body api.MembersLead
	if q.decodeBody(&body); body.Member < 1 || body.Member > maxMemberID {
		q.addFault("member: %d; allowed are the numbers from 1 to %d", body.Member, maxMemberID)
	}
	if q.fault != nil {
		return nil, q.fault
	}
	q.SetPathValue(auditMembersKey, fmt.Sprintf("member %d", body.Member))
	ctx, cancel := context.WithTimeout(q.Context(), membersTimeout)
	defer cancel()
	if err := m.ops.TransferLeadership(ctx, body.Member); err != nil {
		return nil, err
	}
	return api.MembersLed{LeaderID: body.Member}, nil
}

// auditMembersKey is the name under which a request keeps what it asks for, for the audit log.
const auditMembersKey = "members"

func membersTarget(r *http.Request) string {
	return cmp.Or(r.PathValue(auditMembersKey), "the members")
}

// changeText returns a change for the audit log.
func changeText(c api.MembersChange) string {
	var parts []string
	for _, p := range []struct{ what, text string }{{"joining", c.Joining}, {"leaving", c.Leaving}, {"members", c.Members}, {"version", c.Version}} {
		if p.text != "" {
			parts = append(parts, p.what+"="+p.text)
		}
	}
	if c.Force {
		parts = append(parts, "forced")
	}
	return strings.Join(parts, " ")
}
