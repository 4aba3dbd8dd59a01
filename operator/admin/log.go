package admin

import (
	"log/slog"
	"net/http"

	"rollcall/operator/api"
	"rollcall/operator/logs"
)

// Log is the log of this process, as a *logs.Log has it. It is safe for concurrent use.
type Log interface {
	Level() slog.Level
	SetLevel(level slog.Level)
	LastLines() []api.Line // the last ones, oldest first; at most api.PageRows
}

var errNoLog = &Failure{Status: http.StatusNotImplemented, Text: "this process keeps no log that can be asked for"}

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
