package admin

import (
	"cmp"
	"log/slog"
	"net/http"

	"rollcall/api"
	"rollcall/logs"
)

// Log is the log of this process, as a *logs.Log has it. It is safe for concurrent use.
type Log interface {
	Level() slog.Level
	SetLevel(level slog.Level)
	Lines() []api.Line // the last ones, oldest first; at most api.PageRows
}

// logEndpoints are the endpoints of the log. Its lines have the addresses and session ids of clients, so
// they are shown to administrators alone.
var logEndpoints = []endpoint{
	{
		method: "GET", path: "/v1/log", class: changes, action: "read log", long: true, answers: api.List[api.Line]{}, fails: []int{http.StatusNotImplemented},
		help: "the last lines of the member's log, at most 1,000, oldest first", ask: (*HTTP).v1Log,
	},
	{
		method: "GET", path: "/v1/log-level", class: reads, shows: showsState, answers: api.LogLevel{}, fails: []int{http.StatusNotImplemented},
		help: "the level from which on the member logs", ask: (*HTTP).v1LogLevel,
	},
	{
		method: "POST", path: "/v1/log-level", class: changes, answers: api.LogLevel{}, takes: api.LogLevel{}, fails: []int{http.StatusNotImplemented}, action: "set log level", target: func(r *http.Request) string { return cmp.Or(r.PathValue("level"), "this member") },
		help: "sets that level until the next start or SIGHUP, and answers with it", ask: (*HTTP).v1SetLogLevel,
	},
}

var errNoLog = &Failure{Status: http.StatusNotImplemented, Text: "this process keeps no log that can be asked for"}

func (h *HTTP) v1Log(*query) (any, error) {
	if h.cfg.Log == nil {
		return nil, errNoLog
	}
	return api.List[api.Line]{Items: h.cfg.Log.Lines(), Silent: []api.Silence{}}, nil
}

func (h *HTTP) v1LogLevel(*query) (any, error) {
	if h.cfg.Log == nil {
		return nil, errNoLog
	}
	return api.LogLevel{Level: logs.LevelName(h.cfg.Log.Level())}, nil
}

func (h *HTTP) v1SetLogLevel(q *query) (any, error) {
	var wanted api.LogLevel
	if q.body(&wanted); q.err != nil {
		return nil, q.err
	}
	if h.cfg.Log == nil {
		return nil, errNoLog
	}
	level, err := logs.ParseLevel(wanted.Level)
	if err != nil {
		return nil, &Failure{Status: http.StatusBadRequest, Text: "level: " + err.Error()}
	}
	h.cfg.Log.SetLevel(level)
	q.SetPathValue("level", logs.LevelName(level)) // for the audit log
	return h.v1LogLevel(q)
}
