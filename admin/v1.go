package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall/api"
	"rollcall/jute"
	"rollcall/view"
)

// killTime is how long an operator waits for the end of a session: an election mostly takes less than 3 s, even with
// failover=wan.
const killTime = 8 * time.Second

// v1 are the endpoints under /v1/. Their answers are the types of package api, and api/openapi.json
// describes them; write it anew with: go test ./admin -run TestOpenAPI -update.
var v1 = []endpoint{
	{
		method: "GET", path: "/v1/openapi.json", class: open, answers: map[string]any{},
		help: "the description of these endpoints, as OpenAPI 3", ask: (*HTTP).v1Description,
	},
	{
		method: "GET", path: "/v1/whoami", class: reads, shows: showsState, answers: api.Caller{},
		help: "the member that answers, and what the credentials of the request allow", ask: (*HTTP).v1WhoAmI,
	},
	{
		method: "GET", path: "/v1/status", class: reads, shows: showsState, answers: api.List[api.Member]{}, fails: []int{503},
		help: "the members: roles, terms, lag, what they hold, whether their states agree", ask: (*HTTP).v1Status,
	},
	{
		method: "GET", path: "/v1/sessions", class: reads, shows: showsState, long: true, answers: api.List[api.Session]{}, params: []string{"limit", "from", "id", "member", "state", "address", "sort"},
		help: "the sessions in the order of their ids, or the first ones in another order; each with the member that it is connected to, the time when a member last heard from it, and the number of its nodes and watches", ask: (*HTTP).v1Sessions,
	},
	{
		method: "GET", path: "/v1/sessions/{id}", class: reads, shows: showsState, answers: api.OneSession{}, fails: []int{404, 503},
		help: "one session", ask: (*HTTP).v1Session,
	},
	{
		method: "POST", path: "/v1/sessions/{id}/kill", class: changes, shared: true, answers: api.End{}, takes: struct{}{}, fails: []int{404, 409, 501, 503, 504},
		action: "kill session", target: sessionTarget,
		help: "ends a session with its ephemeral nodes, and answers with its end", ask: (*HTTP).v1Kill,
	},
	{
		method: "GET", path: "/v1/sessions/{id}/ephemerals", class: reads, shows: showsPaths, long: true, answers: api.List[api.Ephemeral]{}, params: []string{"limit", "from"},
		help: "the ephemeral nodes of a session, by path", ask: (*HTTP).v1Ephemerals,
	},
	{
		method: "GET", path: "/v1/sessions/{id}/watches", class: reads, shows: showsPaths, long: true, answers: api.List[api.Watch]{}, params: []string{"limit", "from"},
		help: "the watches of a session's connection, by path", ask: (*HTTP).v1SessionWatches,
	},
	{
		method: "GET", path: "/v1/connections", class: reads, shows: showsState, long: true, answers: api.List[api.Connection]{}, params: []string{"limit", "from", "member", "address"},
		help: "the client connections of all members, by member", ask: (*HTTP).v1Connections,
	},
	{
		method: "GET", path: "/v1/watches", class: reads, shows: showsPaths, long: true, answers: api.List[api.Watch]{}, params: []string{"path", "limit", "from"}, needs: []string{"path"},
		help: "the watches on a path, with the recursive ones above it, by member", ask: (*HTTP).v1Watches,
	},
	{
		method: "GET", path: "/v1/owner", class: reads, shows: showsPaths, answers: api.Owner{}, params: []string{"path"}, needs: []string{"path"}, fails: []int{503},
		help: "the kind of the node at a path, and the session that owns it", ask: (*HTTP).v1Owner,
	},
	{
		method: "GET", path: "/v1/ends", class: reads, shows: showsState, long: true, answers: api.List[api.End]{}, params: []string{"session", "address", "limit", "from"},
		help: "how sessions ended, newest first", ask: (*HTTP).v1Ends,
	},
	{
		method: "GET", path: "/v1/buckets", class: reads, shows: showsState, long: true, answers: api.Buckets{},
		help: "the time axis of the leader: how many sessions fall due at which time", ask: (*HTTP).v1Buckets,
	},
	{
		method: "GET", path: "/v1/events", class: reads, shows: showsState, lasts: streamTime, answers: api.Events{}, fails: []int{http.StatusServiceUnavailable},
		help: "a stream of events: the status of all members, the time axis, sessions that come and go, and the load", serve: (*HTTP).v1Events,
	},
	{
		method: "GET", path: "/v1/removals", class: reads, shows: showsPaths, long: true, answers: api.List[api.Removal]{}, params: []string{"path", "limit", "from"},
		help: "what removed a node, or any node, newest first", ask: (*HTTP).v1Removals,
	},
	{
		method: "GET", path: "/v1/config", class: reads, shows: showsState, answers: api.List[api.Setting]{},
		help: "every key of this member's configuration: its value, where that is from, whether it is dangerous", ask: (*HTTP).v1Config,
	},
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

func underV1(r *http.Request) bool {
	return r.URL.Path == "/v1" || strings.HasPrefix(r.URL.Path, "/v1/")
}

// serveJSON sends what an endpoint under /v1/ answers.
func (h *HTTP) serveJSON(e *endpoint, w http.ResponseWriter, r *http.Request) {
	q := newQuery(e, r, h.authorizer.who(r))
	q.paths = h.authorizer.pathsFor(r)
	var answer any
	var err error
	if q.err == nil {
		answer, err = e.ask(h, q)
	}
	switch {
	case q.err != nil:
		q.err.write(w, r)
	case err != nil:
		failure(err).write(w, r)
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

// failure returns why a member did not answer.
func failure(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	if errors.Is(err, view.ErrCursor) {
		return &Failure{Status: http.StatusBadRequest, Text: "from: this is not the next of an earlier page of this list; leave it out to begin with the first page"}
	}
	return &Failure{Status: http.StatusServiceUnavailable, Text: strings.TrimPrefix(err.Error(), "view: ")}
}

// writeJSON sends v with a status.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if text, isText := v.(json.RawMessage); isText {
		_, _ = w.Write(text) // a client that left needs no answer
		return
	}
	e := json.NewEncoder(w) // it writes everything at once, from a buffer that it uses again
	e.SetEscapeHTML(false)  // no browser takes it for HTML, and a page of paths could have six times the bytes
	if err := e.Encode(v); unencodable(err) {
		panic("admin: the types of package api do not encode: " + err.Error())
	}
}

// unencodable reports whether err is not about a client that left.
func unencodable(err error) bool {
	_, value := errors.AsType[*json.UnsupportedValueError](err)
	_, typed := errors.AsType[*json.UnsupportedTypeError](err)
	_, marshaler := errors.AsType[*json.MarshalerError](err)
	return value || typed || marshaler
}

func (h *HTTP) v1Description(*query) (any, error) { return json.RawMessage(api.OpenAPI), nil }

// v1WhoAmI says what a POST with the credentials, from the address and by the name of this request would be
// told.
func (h *HTTP) v1WhoAmI(q *query) (any, error) {
	me := api.Caller{Member: h.source.Ensemble().Self, Administrator: q.who, Changes: true, Accepts: h.authorizer.credentials.accepts()}
	if f := h.authorizer.refuse(changes, q.Request); f != nil {
		me.Changes, me.Why = false, f.Text
	}
	return me, nil
}

func (h *HTTP) v1Status(q *query) (any, error) {
	a, err := h.ops.Status(q.Context())
	return listOf(a, memberRow), err
}

// v1Config lists the keys. They are few, so they are one page.
func (h *HTTP) v1Config(*query) (any, error) {
	return api.List[api.Setting]{Items: append([]api.Setting{}, h.cfg.Keys...), Silent: []api.Silence{}}, nil
}

func (h *HTTP) v1Sessions(q *query) (any, error) {
	f := view.Filter{ID: q.id("id"), Member: uint32(q.number("member")), State: q.state(), Address: q.address()}
	p, by := q.page(), q.order()
	if q.err != nil {
		return nil, q.err
	}
	if by != 0 {
		a, err := h.ops.SessionsBy(q.Context(), f, by, p)
		return listOf(a, sessionRow), err
	}
	a, err := h.ops.Sessions(q.Context(), f, p)
	return listOf(a, sessionRow), err
}

func (h *HTTP) v1Session(q *query) (any, error) {
	id := q.ownID()
	if q.err != nil {
		return nil, q.err
	}
	a, err := h.ops.Session(q.Context(), id)
	switch {
	case err != nil:
		return nil, err
	case len(a.Rows) == 0:
		return nil, &Failure{Status: http.StatusNotFound, Text: fmt.Sprintf("there is no session %v; if it has ended, /v1/ends?session=%v says how", id, id)}
	}
	return api.OneSession{Session: sessionRow(a.Rows[0]), Silent: silences(a.Silent)}, nil
}

func (h *HTTP) v1Kill(q *query) (any, error) {
	id := q.ownID()
	q.body(&struct{}{})
	if q.err != nil {
		return nil, q.err
	}
	ctx, cancel := context.WithTimeout(q.Context(), killTime)
	defer cancel()
	if err := h.ops.KillSession(ctx, id, q.who+" from "+q.RemoteAddr); err != nil {
		return nil, err
	}
	for end := range h.ops.Ends(id, "", 0) {
		return endRow(end), nil
	}
	return nil, &Failure{Status: http.StatusGatewayTimeout, Text: fmt.Sprintf("session %v has ended, but this member has not applied that yet; /v1/ends?session=%v will say how", id, id)}
}

func (h *HTTP) v1Ephemerals(q *query) (any, error) {
	id, p := q.ownID(), q.page()
	if q.err != nil {
		return nil, q.err
	}
	a, err := h.ops.Ephemerals(q.Context(), id, p)
	a.Rows = slices.DeleteFunc(a.Rows, func(path string) bool { return !q.paths.shows(path) })
	return listOf(a, func(path string) api.Ephemeral { return api.Ephemeral{Path: path} }), err
}

func (h *HTTP) v1SessionWatches(q *query) (any, error) {
	id, p := q.ownID(), q.page()
	if q.err != nil {
		return nil, q.err
	}
	a, err := h.ops.SessionWatches(q.Context(), id, p)
	a.Rows = slices.DeleteFunc(a.Rows, func(w view.Watch) bool { return !q.paths.shows(w.Path) })
	return listOf(a, watchRow), err
}

func (h *HTTP) v1Connections(q *query) (any, error) {
	f, p := view.ConnectionFilter{Member: uint32(q.number("member")), Address: q.address()}, q.page()
	if q.err != nil {
		return nil, q.err
	}
	a, err := h.ops.Connections(q.Context(), f, p)
	return listOf(a, connectionRow), err
}

func (h *HTTP) v1Watches(q *query) (any, error) {
	path, p := q.path(), q.page()
	if q.err != nil {
		return nil, q.err
	}
	a, err := h.ops.Watches(q.Context(), path, p)
	a.Rows = slices.DeleteFunc(a.Rows, func(w view.Watch) bool { return !q.paths.shows(w.Path) })
	return listOf(a, watchRow), err
}

func (h *HTTP) v1Owner(q *query) (any, error) {
	path := q.path()
	if q.err != nil {
		return nil, q.err
	}
	o, err := h.ops.Owner(q.Context(), path)
	return ownerRow(path, o), err
}

// endCursor is what cursors of the list of ends begin with. The number of the page's last end follows.
const endCursor = "before-"

func (h *HTTP) v1Ends(q *query) (any, error) {
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
	for end := range h.ops.Ends(session, address, before) {
		if len(page.Items) == limit {
			page.Next = endCursor + strconv.FormatUint(page.Items[limit-1].Number, 10)
			break
		}
		page.Items = append(page.Items, endRow(end))
	}
	return page, nil
}
