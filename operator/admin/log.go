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
	Lines() []api.Line // the last ones, oldest first; at most api.PageRows
}

var errNoLog = &Failure{Status: http.StatusNotImplemented, Text: "this process keeps no log that can be asked for"}

func (m *memberAPI) lines(*query) (any, error) {
	if m.log == nil {
		return nil, errNoLog
	}
	return api.List[api.Line]{Items: m.log.Lines(), Silent: []api.Silence{}}, nil
}

func (m *memberAPI) level(*query) (any, error) {
	if m.log == nil {
		return nil, errNoLog
	}
	return api.LogLevel{Level: logs.LevelName(m.log.Level())}, nil
}

func (m *memberAPI) setLevel(q *query) (any, error) {
	var wanted api.LogLevel
	if q.body(&wanted); q.err != nil {
		return nil, q.err
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
	return m.level(q)
}
