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
	"rollcall/operator/view"
	"rollcall/zk/jute"
)

// killTime is the longest that an operator waits for the end of a session: an election mostly takes less than 3 s, even with
// failover=wan.
const killTime = 8 * time.Second

// ensembleAPI has the endpoints about sessions, connections, watches and nodes of the whole ensemble.
type ensembleAPI struct{ ops Operations }

func (e *ensembleAPI) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/v1/status", class: reads, shows: showsState, responseBody: api.List[api.Member]{}, failureStatuses: []int{503},
			help: "the members: roles, terms, lag, what they hold, whether their states agree", reply: e.status,
		},
		{
			method: "GET", path: "/v1/sessions", class: reads, shows: showsState, long: true, responseBody: api.List[api.Session]{}, parameters: []string{"limit", "from", "id", "member", "state", "address", "sort"},
			help: "the sessions in the order of their ids, or the first ones in another order; each with the member that it is connected to, the time when a member last heard from it, and the number of its nodes and watches", reply: e.sessions,
		},
		{
			method: "GET", path: "/v1/sessions/{id}", class: reads, shows: showsState, responseBody: api.OneSession{}, failureStatuses: []int{404, 503},
			help: "one session", reply: e.session,
		},
		{
			method: "POST", path: "/v1/sessions/{id}/kill", class: changes, changesEnsemble: true, responseBody: api.End{}, requestBody: struct{}{}, failureStatuses: []int{404, 409, 503, 504},
			action: "kill session", target: sessionTarget,
			help: "ends a session with its ephemeral nodes, and answers with its end", reply: e.kill,
		},
		{
			method: "GET", path: "/v1/sessions/{id}/ephemerals", class: reads, shows: showsPaths, long: true, responseBody: api.List[api.Ephemeral]{}, parameters: []string{"limit", "from"},
			help: "the ephemeral nodes of a session, by path", reply: e.ephemerals,
		},
		{
			method: "GET", path: "/v1/sessions/{id}/watches", class: reads, shows: showsPaths, long: true, responseBody: api.List[api.Watch]{}, parameters: []string{"limit", "from"},
			help: "the watches of a session's connection, by path", reply: e.sessionWatches,
		},
		{
			method: "GET", path: "/v1/connections", class: reads, shows: showsState, long: true, responseBody: api.List[api.Connection]{}, parameters: []string{"limit", "from", "member", "address"},
			help: "the client connections of all members, by member", reply: e.connections,
		},
		{
			method: "GET", path: "/v1/watches", class: reads, shows: showsPaths, long: true, responseBody: api.List[api.Watch]{}, parameters: []string{"path", "limit", "from"}, requiredParameters: []string{"path"},
			help: "the watches on a path, with the recursive ones above it, by member", reply: e.watches,
		},
		{
			method: "GET", path: "/v1/owner", class: reads, shows: showsPaths, responseBody: api.Owner{}, parameters: []string{"path"}, requiredParameters: []string{"path"}, failureStatuses: []int{503},
			help: "the kind of the node at a path, and the session that owns it", reply: e.owner,
		},
		{
			method: "GET", path: "/v1/ends", class: reads, shows: showsState, long: true, responseBody: api.List[api.End]{}, parameters: []string{"session", "address", "limit", "from"},
			help: "how sessions ended, newest first", reply: e.ends,
		},
		{
			method: "GET", path: "/v1/buckets", class: reads, shows: showsState, long: true, responseBody: api.Buckets{},
			help: "the time axis of the leader: how many sessions fall due at which time", reply: e.buckets,
		},
		{
			method: "GET", path: "/v1/removals", class: reads, shows: showsPaths, long: true, responseBody: api.List[api.Removal]{}, parameters: []string{"path", "limit", "from"},
			help: "what removed a node, or any node, newest first", reply: e.removals,
		},
	}
}

// sessionTarget returns the id in the path for the audit log. Other text that a stranger has put there is
// left out, because it could pass for a part of the line.
func sessionTarget(r *http.Request) string {
	id := r.PathValue("id")
	if _, err := jute.ParseSessionID(id); err == nil {
		return id
	}
	return "not the id of a session"
}

func (e *ensembleAPI) status(q *query) (any, error) {
	return e.ops.Status(q.Context())
}

func (e *ensembleAPI) sessions(q *query) (any, error) {
	f := view.Filter{ID: q.id("id"), Member: uint32(q.number("member")), State: q.values.Get("state"), Address: q.address()}
	p, by := q.page(), q.order()
	if q.err != nil {
		return nil, q.err
	}
	if by != 0 {
		return e.ops.SessionsBy(q.Context(), f, by, p)
	}
	return e.ops.Sessions(q.Context(), f, p)
}

func (e *ensembleAPI) session(q *query) (any, error) {
	id := q.ownID()
	if q.err != nil {
		return nil, q.err
	}
	a, err := e.ops.Session(q.Context(), id)
	switch {
	case err != nil:
		return nil, err
	case len(a.Items) == 0:
		return nil, &Failure{Status: http.StatusNotFound, Text: fmt.Sprintf("there is no session %v; if it has ended, /v1/ends?session=%v says how", id, id)}
	}
	return api.OneSession{Session: a.Items[0], Silent: a.Silent}, nil
}

func (e *ensembleAPI) kill(q *query) (any, error) {
	id := q.ownID()
	q.body(&struct{}{})
	if q.err != nil {
		return nil, q.err
	}
	ctx, cancel := context.WithTimeout(q.Context(), killTime)
	defer cancel()
	if err := e.ops.KillSession(ctx, id, q.who+" from "+q.RemoteAddr); err != nil {
		return nil, err
	}
	for end := range e.ops.Ends(id, "", 0) {
		return endRow(end), nil
	}
	return nil, &Failure{Status: http.StatusGatewayTimeout, Text: fmt.Sprintf("session %v has ended, but this member has not applied that yet; /v1/ends?session=%v will say how", id, id)}
}

func (e *ensembleAPI) ephemerals(q *query) (any, error) {
	id, p := q.ownID(), q.page()
	if q.err != nil {
		return nil, q.err
	}
	a, err := e.ops.Ephemerals(q.Context(), id, p)
	a.Items = slices.DeleteFunc(a.Items, func(e api.Ephemeral) bool { return !q.paths.shows(e.Path) })
	return a, err
}

func (e *ensembleAPI) sessionWatches(q *query) (any, error) {
	id, p := q.ownID(), q.page()
	if q.err != nil {
		return nil, q.err
	}
	a, err := e.ops.SessionWatches(q.Context(), id, p)
	a.Items = slices.DeleteFunc(a.Items, func(w api.Watch) bool { return !q.paths.shows(w.Path) })
	return a, err
}

func (e *ensembleAPI) connections(q *query) (any, error) {
	f, p := view.ConnectionFilter{Member: uint32(q.number("member")), Address: q.address()}, q.page()
	if q.err != nil {
		return nil, q.err
	}
	return e.ops.Connections(q.Context(), f, p)
}

func (e *ensembleAPI) watches(q *query) (any, error) {
	path, p := q.path(), q.page()
	if q.err != nil {
		return nil, q.err
	}
	a, err := e.ops.Watches(q.Context(), path, p)
	a.Items = slices.DeleteFunc(a.Items, func(w api.Watch) bool { return !q.paths.shows(w.Path) })
	return a, err
}

func (e *ensembleAPI) owner(q *query) (any, error) {
	path := q.path()
	if q.err != nil {
		return nil, q.err
	}
	return e.ops.Owner(q.Context(), path)
}

// endCursor is the prefix of cursors of the list of ends. The number of the page's last end follows.
const endCursor = "before-"

func (e *ensembleAPI) ends(q *query) (any, error) {
	session, address := q.id("session"), q.address()
	limit, before := cmp.Or(q.number("limit"), view.MaxRows), uint64(0)
	if from := q.values.Get("from"); from != "" {
		digits, ok := strings.CutPrefix(from, endCursor)
		n, err := strconv.ParseUint(digits, 10, 64)
		if !ok || err != nil || n == 0 {
			return nil, view.ErrCursor
		}
		before = n
	}
	if q.err != nil {
		return nil, q.err
	}
	page := api.List[api.End]{Items: []api.End{}, Silent: []api.Silence{}}
	for end := range e.ops.Ends(session, address, before) {
		if len(page.Items) == limit {
			page.Next = endCursor + strconv.FormatUint(page.Items[limit-1].Number, 10)
			break
		}
		page.Items = append(page.Items, endRow(end))
	}
	return page, nil
}

func (e *ensembleAPI) buckets(q *query) (any, error) { return e.ops.Buckets(q.Context()) }
