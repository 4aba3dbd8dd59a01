package admin

import (
	"cmp"
	"encoding/json"
	"net/http"

	"rollcall/operator/api"
)

// memberAPI has the endpoints about this member: its configuration, its log, and the rights of the caller.
type memberAPI struct {
	source     Source
	authorizer *authorizer
	settings   []api.Setting // every key of the configuration
	log        Log           // nil: nobody can ask for it
}

// routes returns its rows. Lines of the log have the addresses and session ids of clients, so they are shown to administrators alone.
func (m *memberAPI) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/v1/openapi.json", access: openAccess, responseBody: map[string]any{},
			help: "the description of these endpoints, as OpenAPI 3", replyJSON: m.getOpenAPI,
		},
		{
			method: "GET", path: "/v1/whoami", access: readAccess, content: showsState, responseBody: api.Caller{},
			help: "the member that answers, and what the credentials of the request allow", replyJSON: m.whoAmI,
		},
		{
			method: "GET", path: "/v1/config", access: readAccess, content: showsState, responseBody: api.List[api.Setting]{},
			help: "every key of this member's configuration: its value, where that is from, whether it is dangerous", replyJSON: m.listSettings,
		},
		{
			method: "GET", path: "/v1/log", access: changeAccess, action: "read log", longReply: true, responseBody: api.List[api.Line]{}, failureStatuses: []int{http.StatusNotImplemented},
			help: "the last lines of the member's log, at most 1,000, oldest first", replyJSON: m.listLogLines,
		},
		{
			method: "GET", path: "/v1/log-level", access: readAccess, content: showsState, responseBody: api.LogLevel{}, failureStatuses: []int{http.StatusNotImplemented},
			help: "the level from which on the member logs", replyJSON: m.getLogLevel,
		},
		{
			method: "POST", path: "/v1/log-level", access: changeAccess, responseBody: api.LogLevel{}, requestBody: api.LogLevel{}, failureStatuses: []int{http.StatusNotImplemented}, action: "set log level", auditTarget: func(r *http.Request) string { return cmp.Or(r.PathValue("level"), "this member") },
			help: "sets that level until the next start or SIGHUP, and answers with it", replyJSON: m.setLogLevel,
		},
	}
}

func (m *memberAPI) getOpenAPI(*query) (any, error) { return json.RawMessage(api.OpenAPI), nil }

// whoAmI reports the reply that a POST with the credentials, from the address and to the host name of this request would
// get.
func (m *memberAPI) whoAmI(q *query) (any, error) {
	me := api.Caller{MemberID: m.source.Ensemble().Self, Administrator: q.administrator, MayChange: true, AcceptedCredentials: m.authorizer.credentials.acceptedKinds()}
	if f := m.authorizer.checkAccess(changeAccess, q.Request); f != nil {
		me.MayChange, me.DenialReason = false, f.Text
	}
	return me, nil
}

// listSettings lists the keys. They are few, so they are one page.
func (m *memberAPI) listSettings(*query) (any, error) {
	return api.List[api.Setting]{Items: append([]api.Setting{}, m.settings...), Silent: []api.Silence{}}, nil
}
