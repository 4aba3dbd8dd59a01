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

// membersTime is the longest that an administrator waits for a change of the list or for another leader: an election takes
// a few ticks.
const membersTime = killTime

// membersAPI has the endpoints that change the list of servers, the leader, or where clients are connected.
type membersAPI struct {
	ops    Operations
	source Source
}

func (m *membersAPI) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/v1/members", class: reads, shows: showsState, responseBody: api.Members{}, failureStatuses: []int{http.StatusServiceUnavailable},
			help: "the servers of the ensemble: their addresses and roles, whether they vote, and how far each of them is", reply: m.list,
		},
		{
			method: "POST", path: "/v1/members", class: changes, changesEnsemble: true, action: "change members", target: membersTarget, responseBody: api.MembersChanged{}, requestBody: api.MembersChange{}, failureStatuses: membersFailures,
			help: "adds, changes or removes servers, through the log", reply: m.change,
		},
		{
			method: "POST", path: "/v1/members/lead", class: changes, changesEnsemble: true, action: "hand over leadership", target: membersTarget, responseBody: api.MembersLed{}, requestBody: api.MembersLead{}, failureStatuses: append([]int{http.StatusNotFound}, membersFailures...),
			help: "hands leadership over to a member, and answers when that one leads", reply: m.lead,
		},
		{
			method: "POST", path: "/v1/members/drain", class: changes, changesEnsemble: true, action: "drain", target: membersTarget, timeout: drainTime, responseBody: api.Drained{}, requestBody: api.MembersDrain{}, failureStatuses: drainFailures,
			help: "drains any member as `/v1/drain` does the one that is asked", reply: m.drainMember,
		},
		{
			method: "POST", path: "/v1/members/rebalance", class: changes, changesEnsemble: true, action: "rebalance", target: membersTarget, timeout: rebalanceTime + answerTime, responseBody: api.Rebalanced{}, requestBody: api.MembersRebalance{},
			failureStatuses: []int{http.StatusConflict, http.StatusServiceUnavailable},
			help:            "has members with more clients than their share close connections, at a bounded rate, until all have about as many", reply: m.rebalance,
		},
		{
			method: "POST", path: "/v1/drain", class: changes, action: "drain", timeout: drainTime, responseBody: api.Drained{}, requestBody: api.Drain{},
			help: "hands leadership over, closes the clients' connections and takes no others; for a member that is about to stop", reply: m.drain,
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
	Version int64  // that the list must have; -1: any
	Force   bool   // make it although too few servers would serve for a majority, as far as this member sees, or although one voter is left
	By      string // who asks
}

// MembersChanged is the result of a MembersChange.
type MembersChanged struct {
	Version int64
	List    serverlist.List
}

func (m *membersAPI) list(q *query) (any, error) {
	servers, err := m.ops.Members(q.Context())
	if err != nil {
		return nil, err
	}
	row := servers.Row()
	row.Removed = m.source.Health().Removed != 0
	return row, nil
}

func (m *membersAPI) change(q *query) (any, error) {
	var body api.MembersChange
	q.body(&body)
	c := MembersChange{
		Change: serverlist.Change{Joining: body.Joining, Leaving: body.Leaving, Members: body.Members}, Version: -1, Force: body.Force, By: q.who + " from " + q.RemoteAddr,
	}
	q.SetPathValue(membersPath, changeText(body))
	switch {
	case body.Joining == "" && body.Leaving == "" && body.Members == "":
		q.wrong("nothing is to be changed: give joining, leaving or members")
	case body.Members != "" && body.Joining+body.Leaving != "":
		q.wrong("members has a whole list; give either that, or joining and leaving")
	}
	if body.Version != "" {
		digits, hex := strings.CutPrefix(body.Version, "0x")
		version, err := strconv.ParseUint(digits, 16, 63)
		if err != nil || !hex {
			q.wrong("version: %.40q; write it as /v1/members does, such as 0x100000000", body.Version)
		}
		c.Version = int64(version)
	}
	if q.err != nil {
		return nil, q.err
	}
	ctx, cancel := context.WithTimeout(q.Context(), membersTime)
	defer cancel()
	done, err := m.ops.ChangeMembers(ctx, c)
	if err != nil {
		return nil, err
	}
	return api.MembersChanged{Version: view.ZxidText(done.Version), Servers: append([]string{}, done.List.CanonicalLines()...)}, nil
}

func (m *membersAPI) lead(q *query) (any, error) {
	var body api.MembersLead
	if q.body(&body); body.Member < 1 || body.Member > maxMember {
		q.wrong("member: %d; allowed are the numbers from 1 to %d", body.Member, maxMember)
	}
	if q.err != nil {
		return nil, q.err
	}
	q.SetPathValue(membersPath, fmt.Sprintf("member %d", body.Member))
	ctx, cancel := context.WithTimeout(q.Context(), membersTime)
	defer cancel()
	if err := m.ops.Lead(ctx, body.Member); err != nil {
		return nil, err
	}
	return api.MembersLed{Leader: body.Member}, nil
}

// membersPath is the name under which a request keeps what it asks for, for the audit log.
const membersPath = "members"

func membersTarget(r *http.Request) string { return cmp.Or(r.PathValue(membersPath), "the members") }

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
