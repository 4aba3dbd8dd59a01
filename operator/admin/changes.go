package admin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/past"
	"rollcall/operator/past/served"
	"rollcall/operator/stateview"
	"rollcall/operator/view"
	"rollcall/znode"
)

const changesPath = "/v1/changes"

const momentHelp = "a zxid (0x100000002), a time with its offset (2026-03-01T03:12:00Z) or a time ago (10m)"

// changesParameters are the parameters of changesPath that mean something else than in other endpoints, or are its own.
var changesParameters = map[string]parameter{
	"from": {help: "begin after this moment: " + momentHelp + "; default the oldest one of the log or, with follow, now", check: momentFault},
	"to":   {help: "end at this moment; default the end of the log", check: momentFault},
	"number": {
		help:     "with a zxid as from: begin after the change with this number in that transaction, which an earlier list had; default: after all",
		maxValue: 1 << 31,
	},
	"path":    {help: "only changes of the node at this path and of all nodes below it", check: pathFault},
	"session": {help: "only changes by the client of the session with this id, and of the session itself", pattern: sessionIDPattern, check: sessionIDFault},
	"follow":  {help: "wait at the end of the log for more changes", values: []string{"true", "false"}},
}

func momentFault(value string) string {
	if _, err := past.ParseMoment(value, time.Now()); err != nil {
		return err.Error()
	}
	return ""
}

// momentParameter returns the moment that a parameter names; the zero value is the end of the log.
func (q *query) momentParameter(name string) past.Moment {
	m, _ := past.ParseMoment(q.values.Get(name), time.Now()) // newQuery has checked it
	return m
}

// pastAPI answers queries about the past, for which the member builds states.
type pastAPI struct {
	server        *served.Server // nil: nothing is kept
	authorizer    *authorizer
	memberRemoved func() bool // from the ensemble: what is sent would be old
	log           *slog.Logger
}

// pastStatuses are the statuses of failures that queries about the past have.
var pastStatuses = []int{
	http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusNotImplemented, http.StatusServiceUnavailable,
}

func (p *pastAPI) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: changesPath, access: changeAccess, action: "changes", timeout: maxStreamTime, readsEnsemble: true,
			responseBody: api.Change{}, replyType: "application/x-ndjson",
			parameters:      []string{"from", "number", "to", "path", "session", "follow"},
			failureStatuses: pastStatuses,
			help:            "the changes of nodes and sessions in the order of the log, a line each; the last line tells how far they go",
			serve:           p.serveChanges,
		},
	}
}

// changesQuery returns the query of a request. The request has a fault if it cannot be.
func (q *query) changesQuery() served.Query {
	c := served.Query{
		From: q.momentParameter("from"), To: q.momentParameter("to"), AfterNumber: uint32(q.intParameter("number")),
		Matches: stateview.ChangeFilter{Path: q.values.Get("path"), Session: q.sessionIDParameter("session")}.Matches,
		Follow:  q.values.Get("follow") == "true",
	}
	if c.Follow && !c.To.IsEnd() {
		q.addFault("follow=true has no end, and to is one; leave one of them out")
	}
	if _, exact := c.From.Zxid(); q.values.Has("number") && !exact {
		q.addFault("number is the number of a change in a transaction, so from must be the zxid of that")
	}
	return c
}

func (p *pastAPI) serveChanges(w http.ResponseWriter, r *http.Request) {
	e := p.routes()[0]
	q := newQuery(&e, r, p.authorizer.administratorOf(r))
	selected := q.changesQuery()
	if p.reject(q, w, r) {
		return
	}
	lines := &changeLines{reply: w, memberRemoved: p.memberRemoved, isHead: r.Method == http.MethodHead}
	err := p.server.Changes(r.Context(), selected, lines)
	if err == nil {
		err = lines.Flush()
	}
	switch {
	case err == nil || r.Context().Err() != nil || lines.isHead && lines.out != nil:
	case lines.out == nil:
		pastFailure(err, "changes").write(w, r)
	default:
		p.log.Warn("a list of changes was not sent to its end", "to", r.RemoteAddr, "err", err)
		recordFailure(w, &Failure{Status: http.StatusInternalServerError, Text: err.Error()})
		panic(http.ErrAbortHandler) // the caller must not take it for the whole list
	}
}

// reject replies to a request whose query has a fault, and to all requests if the member has no past. It reports whether it did.
func (p *pastAPI) reject(q *query, w http.ResponseWriter, r *http.Request) bool {
	failed := q.fault
	if failed == nil && p.server == nil {
		failed = errNoPast
	}
	if failed != nil {
		failed.write(w, r)
	}
	return failed != nil
}

// errNoPast is the failure of a member that has no directories.
var errNoPast = &Failure{Status: http.StatusConflict, Text: "this member keeps its data in memory, and has no past"}

// errMemberRemoved ends a list; the next request is rejected with the reason.
var errMemberRemoved = errors.New("this member was removed from the ensemble")

// changeLines is a served.Sink that writes lines of JSON.
type changeLines struct {
	reply         http.ResponseWriter
	memberRemoved func() bool
	isHead        bool
	out           *bufio.Writer // nil: nothing was written
	encoder       *json.Encoder
}

// begin writes the headers before the first line.
func (c *changeLines) begin() {
	if c.out != nil {
		return
	}
	c.reply.Header().Set("Content-Type", "application/x-ndjson")
	c.out = bufio.NewWriterSize(c.reply, partSize)
	c.encoder = json.NewEncoder(c.out)
	c.encoder.SetEscapeHTML(false)
}

// Change implements served.Sink.
func (c *changeLines) Change(change *znode.Change) error {
	c.begin()
	if c.isHead {
		return http.ErrBodyNotAllowed
	}
	return c.encoder.Encode(stateview.ChangeRow(change))
}

// Passed implements served.Sink.
func (c *changeLines) Passed(zxid int64) error {
	c.begin()
	switch {
	case c.isHead:
		return http.ErrBodyNotAllowed
	case c.memberRemoved():
		return errMemberRemoved
	}
	return c.encoder.Encode(api.Change{Zxid: view.ZxidText(zxid), At: utcMillis(time.Now()), Operation: "passed"})
}

// Flush implements served.Sink.
func (c *changeLines) Flush() error {
	if err := c.out.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(c.reply).Flush()
}

// The headers of a reply about the past that name the moment: the zxid of the last transaction before it, and the stamp of the last
// entry.
const (
	zxidHeader = "Rollcall-Zxid"
	timeHeader = "Rollcall-Time"
)

// rowOf returns the row by which a request is served. With the parameter at that is one of the past, which needs the access of the
// files that it is built from.
func (h *HTTP) rowOf(e *endpoint, r *http.Request) *endpoint {
	if !e.hasPast() || !r.URL.Query().Has("at") {
		return e
	}
	row := *e
	row.access, row.action, row.longReply, row.replyJSON = changeAccess, "past", false, nil
	row.timeout = 2 * pastDeadline
	row.serve = func(w http.ResponseWriter, r *http.Request) { h.past.serveMoment(e, w, r) }
	return &row
}

// addMoment adds the parameter at to the description of an endpoint that has a past.
func (e *endpoint) addMoment() {
	if e.hasPast() {
		e.parameters = append(e.parameters[:len(e.parameters):len(e.parameters)], "at")
	}
}

// serveMoment serves an endpoint from the state at a moment. The reply is written when the next caller may use that state.
func (p *pastAPI) serveMoment(e *endpoint, w http.ResponseWriter, r *http.Request) {
	q := newQuery(e, r, p.authorizer.administratorOf(r))
	q.paths = &pathFilter{visibility: allPaths}
	m := q.momentParameter("at")
	if p.reject(q, w, r) {
		return
	}
	var reply any
	err := p.server.At(r.Context(), m, func(state *znode.State, at past.Point) (err error) {
		w.Header().Set(zxidHeader, view.ZxidText(at.Zxid))
		w.Header().Set(timeHeader, at.Time.Format(time.RFC3339Nano))
		reply, err = replyOfPast(e, q, state, momentTime(m, at))
		return err
	})
	if err != nil {
		pastFailure(err, pastCommands[e.path]).write(w, r)
		return
	}
	writeJSON(w, http.StatusOK, reply)
}

// momentTime returns the time by which ages in a state of the past count.
func momentTime(m past.Moment, at past.Point) time.Time {
	if t := m.Time(); !t.IsZero() {
		return t
	}
	return at.Time
}

func replyOfPast(e *endpoint, q *query, state *znode.State, now time.Time) (any, error) {
	rows, err := pastRoutes(state, func() time.Time { return now })
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.path == e.path {
			return row.replyJSON(q)
		}
	}
	return nil, fmt.Errorf("admin: %s has no past", e.path)
}
