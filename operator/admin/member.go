package admin

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"rollcall/operator/api"
	"rollcall/operator/logs"
)

// memberAPI has the endpoints for this member: its configuration, its log, and the caller's rights.
type memberAPI struct {
	source     Source
	authorizer *authorizer
	settings   []api.Setting // every key of the configuration
	log        Log           // nil: it cannot be read
	limits     Limits        // nil: there are none
}

// routes returns its rows. The log holds addresses and session ids of clients, so only administrators may read
// it, from every machine.
func (m *memberAPI) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/v1/openapi.json", access: openAccess, responseBody: map[string]any{},
			help: "these endpoints, as OpenAPI 3", replyJSON: m.getOpenAPI,
		},
		{
			method: "GET", path: "/v1/whoami", access: readAccess, content: showsState, responseBody: api.Caller{},
			help: "the member that answers, and what the credentials of the request allow", replyJSON: m.whoAmI,
		},
		{
			method: "GET", path: "/v1/config", access: readAccess, content: showsState, responseBody: api.List[api.Setting]{},
			help:      "every key of its configuration: the value, its source, whether it is dangerous",
			replyJSON: m.listSettings,
		},
		{
			method: "GET", path: "/v1/log", access: logAccess, action: "read log", longReply: true,
			responseBody: api.List[api.Line]{}, failureStatuses: []int{http.StatusNotImplemented},
			help: "the last lines of its log, at most 1,000, oldest first", replyJSON: m.listLogLines,
		},
		{
			method: "GET", path: "/v1/log-level", access: readAccess, content: showsState, responseBody: api.LogLevel{},
			failureStatuses: []int{http.StatusNotImplemented},
			help:            "its log level", replyJSON: m.getLogLevel,
		},
		{
			method: "POST", path: "/v1/log-level", access: changeAccess, responseBody: api.LogLevel{},
			requestBody: api.LogLevel{}, failureStatuses: []int{http.StatusNotImplemented}, action: "set log level",
			auditTarget: func(r *http.Request) string { return cmp.Or(r.PathValue("level"), "this member") },
			help:        "sets it until the next start or SIGHUP", replyJSON: m.setLogLevel,
		},
		{
			method: "GET", path: "/v1/limits", access: readAccess, content: showsState, responseBody: api.Limits{},
			failureStatuses: []int{http.StatusNotImplemented},
			help:            "its limits for tenants", replyJSON: m.listLimits,
		},
		{
			method: "POST", path: "/v1/limits", access: changeAccess, responseBody: api.Limits{},
			requestBody: api.LimitsChange{}, failureStatuses: []int{http.StatusNotImplemented}, action: "set limits",
			auditTarget: func(r *http.Request) string { return cmp.Or(r.PathValue("limits"), "this member") },
			help:        "sets and removes some of them until the next start or SIGHUP", replyJSON: m.changeLimits,
		},
	}
}

func (m *memberAPI) getOpenAPI(*query) (any, error) { return json.RawMessage(api.OpenAPI), nil }

// whoAmI predicts the outcome of a POST with the credentials, address and host of this request.
func (m *memberAPI) whoAmI(q *query) (any, error) {
	me := api.Caller{
		MemberID: m.source.Ensemble().Self, Administrator: q.administrator, MayChange: true,
		AcceptedCredentials: m.authorizer.credentials.acceptedKinds(),
	}
	if f := m.authorizer.checkAccess(changeAccess, q.Request); f != nil {
		me.MayChange, me.DenialReason = false, f.Text
	}
	return me, nil
}

func (m *memberAPI) listSettings(*query) (any, error) {
	return api.List[api.Setting]{Items: append([]api.Setting{}, m.settings...), Silent: []api.Silence{}}, nil
}

// Log is the log of this process, such as a *logs.Log. It is safe for concurrent use.
type Log interface {
	Level() slog.Level
	SetLevel(level slog.Level)
	LastLines() []api.Line // the last ones, oldest first; at most api.PageRows
}

var errNoLog = &Failure{Status: http.StatusNotImplemented, Text: "this process keeps no log that can be read"}

func (m *memberAPI) listLogLines(*query) (any, error) {
	if m.log == nil {
		return nil, errNoLog
	}
	return api.List[api.Line]{Items: m.log.LastLines(), Silent: []api.Silence{}}, nil
}

func (m *memberAPI) getLogLevel(*query) (any, error) {
	if m.log == nil {
		return nil, errNoLog
	}
	return api.LogLevel{Level: logs.LevelName(m.log.Level())}, nil
}

func (m *memberAPI) setLogLevel(q *query) (any, error) {
	var wanted api.LogLevel
	if q.decodeBody(&wanted); q.fault != nil {
		return nil, q.fault
	}
	if m.log == nil {
		return nil, errNoLog
	}
	level, err := logs.ParseLevel(wanted.Level)
	if err != nil {
		return nil, &Failure{Status: http.StatusBadRequest, Text: "level: " + err.Error()}
	}
	m.log.SetLevel(level)
	q.SetPathValue("level", logs.LevelName(level)) // for the audit log
	return m.getLogLevel(q)
}

// Limits are the limits for tenants of this member. It is safe for concurrent use.
type Limits interface {
	List() []api.Limit
	// Change removes and sets limits, all or none of them. Its error says what is wrong with one, and what is allowed.
	Change(change api.LimitsChange) error
}

var errNoLimits = &Failure{Status: http.StatusNotImplemented, Text: "this process has no limits for tenants"}

func (m *memberAPI) listLimits(*query) (any, error) {
	if m.limits == nil {
		return nil, errNoLimits
	}
	return api.Limits{Limits: m.limits.List()}, nil
}

func (m *memberAPI) changeLimits(q *query) (any, error) {
	var wanted api.LimitsChange
	if q.decodeBody(&wanted); q.fault != nil {
		return nil, q.fault
	}
	if m.limits == nil {
		return nil, errNoLimits
	}
	if err := m.limits.Change(wanted); err != nil {
		return nil, &Failure{Status: http.StatusBadRequest, Text: err.Error()}
	}
	names := slices.Clone(wanted.Remove)
	for _, limit := range wanted.Set {
		names = append(names, limit.Name)
	}
	q.SetPathValue("limits", strings.Join(names, " ")) // for the audit log
	return m.listLimits(q)
}
