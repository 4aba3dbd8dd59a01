package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/stateview"
	"rollcall/operator/view"
	"rollcall/zk/jute"
)

// killTimeout limits the kill of a session. An election mostly takes less than 3 s, even with failover=wan.
const killTimeout = 8 * time.Second

// ensembleAPI has the endpoints for sessions, connections, watches and node owners of the whole ensemble.
type ensembleAPI struct {
	queries EnsembleQueries
	killer  sessionKiller
}

// sessionKiller has Operations.KillSession.
type sessionKiller interface {
	KillSession(ctx context.Context, id jute.SessionID, by string) error
}

func (e *ensembleAPI) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/v1/status", access: readAccess, readsEnsemble: true, content: showsState, responseBody: api.List[api.Member]{},
			failureStatuses: []int{503},
			help:            "the members: roles, terms, lag, sizes, whether their states agree",
			replyJSON:       e.getStatus,
		},
		{
			method: "GET", path: "/v1/sessions", access: readAccess, readsEnsemble: true, content: showsState, longReply: true,
			responseBody: api.List[api.Session]{},
			parameters:   []string{"limit", "from", "id", "member", "state", "address", "sort"},
			help:         "the sessions: the member of each, when it was last heard from, and its number of nodes and watches",
			replyJSON:    e.listSessions,
		},
		{
			method: "GET", path: "/v1/sessions/{id}", access: readAccess, readsEnsemble: true, content: showsState, responseBody: api.OneSession{},
			failureStatuses: []int{404, 503},
			help:            "one session", replyJSON: e.getSession,
		},
		{
			method: "POST", path: "/v1/sessions/{id}/kill", access: changeAccess, changesEnsemble: true, responseBody: api.End{},
			requestBody: struct{}{}, failureStatuses: []int{404, 409, 503, 504},
			action: "kill session", auditTarget: sessionTarget,
			help: "ends a session with its ephemeral nodes, and answers with its end", replyJSON: e.killSession,
		},
		{
			method: "GET", path: "/v1/sessions/{id}/ephemerals", access: readAccess, readsEnsemble: true, content: showsPaths, longReply: true,
			responseBody: api.List[api.Ephemeral]{}, parameters: []string{"limit", "from"},
			help: "the ephemeral nodes of a session, by path", replyJSON: e.listEphemerals,
		},
		{
			method: "GET", path: "/v1/sessions/{id}/watches", access: readAccess, readsEnsemble: true, content: showsPaths, longReply: true,
			responseBody: api.List[api.Watch]{}, parameters: []string{"limit", "from"},
			help: "the watches of a session's connection, by path", replyJSON: e.listSessionWatches,
		},
		{
			method: "GET", path: "/v1/connections", access: readAccess, readsEnsemble: true, content: showsState, longReply: true,
			responseBody: api.List[api.Connection]{}, parameters: []string{"limit", "from", "member", "address"},
			help: "the client connections of all members, by member", replyJSON: e.listConnections,
		},
		{
			method: "GET", path: "/v1/watches", access: readAccess, readsEnsemble: true, content: showsPaths, longReply: true,
			responseBody: api.List[api.Watch]{}, parameters: []string{"path", "limit", "from"},
			requiredParameters: []string{"path"},
			help:               "the watches that a change at a path fires, by member", replyJSON: e.listWatches,
		},
		{
			method: "GET", path: "/v1/owner", access: readAccess, readsEnsemble: true, content: showsPaths, responseBody: api.Owner{},
			parameters: []string{"path"}, requiredParameters: []string{"path"}, failureStatuses: []int{503},
			help: "the kind of the node at a path, and the session that owns it", replyJSON: e.getOwner,
		},
		{
			method: "GET", path: "/v1/ends", access: readAccess, readsEnsemble: true, content: showsState, longReply: true,
			responseBody: api.List[api.End]{}, parameters: []string{"session", "address", "limit", "from"},
			help: "how sessions ended, newest first", replyJSON: e.listEnds,
		},
		{
			method: "GET", path: "/v1/buckets", access: readAccess, readsEnsemble: true, content: showsState, longReply: true,
			responseBody: api.Buckets{},
			help:         "the time axis of the leader", replyJSON: e.getBuckets,
		},
		{
			method: "GET", path: "/v1/removals", access: readAccess, readsEnsemble: true, content: showsPaths, longReply: true,
			responseBody: api.List[api.Removal]{}, parameters: []string{"path", "limit", "from"},
			help: "the causes of removals of nodes, newest first; path selects one node", replyJSON: e.listRemovals,
		},
		{
			method: "GET", path: "/v1/slow", access: readAccess, readsEnsemble: true, content: showsState, longReply: true,
			responseBody: api.List[api.SlowRequest]{}, parameters: []string{"member", "session", "address", "limit", "from"},
			help:      "slow requests of the last hour, newest first",
			replyJSON: e.listSlow,
		},
		{
			method: "GET", path: "/v1/slow/{request}", access: readAccess, readsEnsemble: true, content: showsState,
			responseBody: api.SlowRequest{}, failureStatuses: []int{400, 404, 503},
			help: "one slow request", replyJSON: e.getSlow,
		},
	}
}

// sessionTarget returns the id in the path for the audit log. It omits other text, which a stranger may have forged
// to look like a part of the line.
func sessionTarget(r *http.Request) string {
	id := r.PathValue("id")
	if _, err := jute.ParseSessionID(id); err == nil {
		return id
	}
	return "not the id of a session"
}

func (e *ensembleAPI) getStatus(q *query) (any, error) { return e.queries.MemberStatuses(q.Context()) }

func (e *ensembleAPI) listSessions(q *query) (any, error) {
	f := view.SessionFilter{
		ID: q.sessionIDParameter("id"), Member: uint32(q.intParameter("member")),
		State: q.values.Get("state"), Address: q.values.Get("address"),
	}
	if order := q.orderParameter(); order != 0 {
		return e.queries.SessionsBy(q.Context(), f, order, q.pageParameters())
	}
	return e.queries.Sessions(q.Context(), f, q.pageParameters())
}

func (e *ensembleAPI) getSession(q *query) (any, error) {
	id := q.pathSessionID()
	a, err := e.queries.SessionByID(q.Context(), id)
	switch {
	case err != nil:
		return nil, err
	case len(a.Items) == 0:
		return nil, &Failure{
			Status: http.StatusNotFound,
			Text:   fmt.Sprintf("there is no session %v; if it has ended, /v1/ends?session=%v says how", id, id),
		}
	}
	return api.OneSession{Session: a.Items[0], Silent: a.Silent}, nil
}

func (e *ensembleAPI) killSession(q *query) (any, error) {
	id := q.pathSessionID()
	if q.decodeBody(&struct{}{}); q.fault != nil {
		return nil, q.fault
	}
	ctx, cancel := context.WithTimeout(q.Context(), killTimeout)
	defer cancel()
	if err := e.killer.KillSession(ctx, id, q.requester()); err != nil {
		return nil, err
	}
	for end := range e.queries.SessionEnds(id, "", 0) {
		return stateview.EndRow(end), nil
	}
	return nil, &Failure{
		Status: http.StatusGatewayTimeout,
		Text: fmt.Sprintf("session %v has ended, but this member has not applied that yet; /v1/ends?session=%v will say how",
			id, id),
	}
}

func (e *ensembleAPI) listEphemerals(q *query) (any, error) {
	a, err := e.queries.Ephemerals(q.Context(), q.pathSessionID(), q.pageParameters())
	a.Items = slices.DeleteFunc(a.Items, func(e api.Ephemeral) bool { return !q.paths.isVisible(e.Path) })
	return a, err
}

func (e *ensembleAPI) listSessionWatches(q *query) (any, error) {
	a, err := e.queries.SessionWatches(q.Context(), q.pathSessionID(), q.pageParameters())
	a.Items = slices.DeleteFunc(a.Items, func(w api.Watch) bool { return !q.paths.isVisible(w.Path) })
	return a, err
}

func (e *ensembleAPI) listConnections(q *query) (any, error) {
	f := view.ConnectionFilter{Member: uint32(q.intParameter("member")), Address: q.values.Get("address")}
	return e.queries.Connections(q.Context(), f, q.pageParameters())
}

func (e *ensembleAPI) listWatches(q *query) (any, error) {
	a, err := e.queries.PathWatches(q.Context(), q.values.Get("path"), q.pageParameters())
	a.Items = slices.DeleteFunc(a.Items, func(w api.Watch) bool { return !q.paths.isVisible(w.Path) })
	return a, err
}

func (e *ensembleAPI) getOwner(q *query) (any, error) {
	return e.queries.NodeOwner(q.Context(), q.values.Get("path"))
}

// endCursorPrefix precedes the number of the page's last end in a cursor of the list of ends.
const endCursorPrefix = "before-"

func (e *ensembleAPI) listEnds(q *query) (any, error) {
	limit, before := cmp.Or(q.intParameter("limit"), view.MaxRows), uint64(0)
	if from := q.values.Get("from"); from != "" {
		digits, ok := strings.CutPrefix(from, endCursorPrefix)
		n, err := strconv.ParseUint(digits, 10, 64)
		if !ok || err != nil || n == 0 {
			return nil, view.ErrBadCursor
		}
		before = n
	}
	page := api.List[api.End]{Items: []api.End{}, Silent: []api.Silence{}}
	for end := range e.queries.SessionEnds(q.sessionIDParameter("session"), q.values.Get("address"), before) {
		if len(page.Items) == limit {
			page.NextCursor = endCursorPrefix + strconv.FormatUint(page.Items[limit-1].Number, 10)
			break
		}
		page.Items = append(page.Items, stateview.EndRow(end))
	}
	return page, nil
}

func (e *ensembleAPI) getBuckets(q *query) (any, error) { return e.queries.ExpiryBuckets(q.Context()) }

func (e *ensembleAPI) listRemovals(q *query) (any, error) {
	a, err := e.queries.NodeRemovals(q.Context(), q.values.Get("path"), q.pageParameters())
	if err != nil {
		return nil, err
	}
	a.Items = slices.DeleteFunc(a.Items, func(r api.Removal) bool { return !q.paths.isVisible(r.Path) })
	ends := e.sessionEnds(a.Items)
	for i := range a.Items {
		if r := &a.Items[i]; r.Cause == view.CauseSessionEnded && ends[r.SessionID] != nil {
			r.End = ends[r.SessionID]
			r.Address, r.MemberID = r.End.Address, r.End.MemberID
		}
	}
	return a, nil
}

func (e *ensembleAPI) listSlow(q *query) (any, error) {
	f := view.SlowFilter{
		Member: uint32(q.intParameter("member")), Session: q.sessionIDParameter("session"), Address: q.values.Get("address"),
	}
	a, err := e.queries.SlowRequests(q.Context(), f, q.pageParameters())
	for i := range a.Items {
		q.hidePath(&a.Items[i])
	}
	return a, err
}

// hidePath removes the path of a slow request if the caller may not see it.
func (q *query) hidePath(r *api.SlowRequest) {
	if r.Path != "" && !q.paths.isVisible(r.Path) {
		r.Path = ""
	}
}

func (e *ensembleAPI) getSlow(q *query) (any, error) {
	id := q.PathValue("request")
	f, err := view.ParseSlowID(id)
	if err != nil {
		return nil, &Failure{Status: http.StatusBadRequest, Text: fmt.Sprintf("%.100q: %v", id, err)}
	}
	a, err := e.queries.SlowRequests(q.Context(), f, view.Page{Limit: 1})
	switch {
	case err != nil:
		return nil, err
	case len(a.Items) == 1:
		q.hidePath(&a.Items[0])
		return a.Items[0], nil
	}
	for _, s := range a.Silent {
		if s.MemberID == f.Member {
			return nil, &Failure{
				Status: http.StatusServiceUnavailable,
				Text:   fmt.Sprintf("member %d, which knows request %s, does not reply: %s", f.Member, id, s.Reason),
			}
		}
	}
	return nil, &Failure{
		Status: http.StatusNotFound,
		Text:   fmt.Sprintf("member %d does not know a slow request %s: it is older than an hour, or slower ones took its place", f.Member, id),
	}
}

// sessionEnds returns the retained ends of the sessions that took a node with them, by session id.
func (e *ensembleAPI) sessionEnds(removals []api.Removal) map[string]*api.End {
	ends, missing := map[string]*api.End{}, 0
	for _, r := range removals {
		if _, there := ends[r.SessionID]; r.Cause == view.CauseSessionEnded && !there {
			ends[r.SessionID] = nil
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	for end := range e.queries.SessionEnds(0, "", 0) {
		if known, wanted := ends[end.Session.String()]; !wanted || known != nil {
			continue
		}
		row := stateview.EndRow(end)
		ends[row.ID] = &row
		if missing--; missing == 0 {
			break
		}
	}
	return ends
}

// utcMillis returns t in UTC, truncated to milliseconds.
func utcMillis(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
