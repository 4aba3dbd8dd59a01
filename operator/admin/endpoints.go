package admin

import (
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"rollcall/operator/console"
)

// endpoint is one row of the table of endpoints. The mux, the table in docs/admin.md and the access tests are
// built from these rows.
type endpoint struct {
	method          string // GET stands for HEAD, too
	path            string // a pattern of http.ServeMux
	access          accessClass
	content         contentKind   // kind of content, for readAccess
	oneAtATime      bool          // it scans everything: without credentials, one reply is made at a time
	isProbe         bool          // served for every Host header, and under any load
	longReply       bool          // the reply can be long or slow: at most maxLongReplies are made at once
	timeout         time.Duration // default replyTimeout
	changesEnsemble bool          // a removed member rejects it
	readsEnsemble   bool          // likewise: its state only gets older
	isAlias         bool          // another path of the previous row
	help            string
	serve           http.HandlerFunc
	// replyJSON is set instead of serve for an endpoint under /v1/. It returns a type of package api, or an
	// error that is a *Failure if the member is not at fault.
	replyJSON                      func(q *query) (any, error)
	parameters, requiredParameters []string
	// These describe an endpoint under /v1/ in operator/api/openapi.json. The statuses are in addition to 400,
	// to 503 for too many long replies, and to the statuses of the access class.
	responseBody, requestBody any
	failureStatuses           []int
	contentType               string // the type of the body of a POST; default application/json
	replyType                 string // the type of a reply that serve sends as lines
	// action names the change for the audit log, and auditTarget its object; nil: this member.
	action      string
	auditTarget func(r *http.Request) string
}

func (h *HTTP) routes() []endpoint {
	all := slices.Concat(
		h.health.routes(), consoleRoutes(h.console), []endpoint{h.metricsRoute()}, h.member.routes(), h.ensemble.routes(),
		h.streams.routes(),
		h.members.routes(), h.nodes.routes(), h.backups.routes(), h.history.routes(), h.past.routes(), profiles, h.commands.routes())
	for i := range all {
		all[i].addMoment()
	}
	return all
}

// metricsRoute is the row of /metrics, which a port of its own may serve, too.
func (h *HTTP) metricsRoute() endpoint {
	return endpoint{
		method: "GET", path: "/metrics", access: metricsAccess, oneAtATime: true,
		help:  "the metrics, for Prometheus",
		serve: h.metrics.ServeHTTP,
	}
}

// consoleRoutes are the endpoints of the console. They hold no data: the page's script requests it under /v1/.
func consoleRoutes(c *console.Console) []endpoint {
	return []endpoint{
		{method: "GET", path: "/{$}", access: openAccess, help: "the console, for a browser", serve: c.ServePage},
		{
			method: "GET", path: console.Prefix + "{file}", access: openAccess,
			help: "its script, style and icon", serve: c.ServeAsset,
		},
	}
}

// reservedPaths are the first segments that the path of ZooKeeper's commands must not have.
var reservedPaths = []string{"console", "livez", "readyz", "metrics", "debug", "v1"}

var commandPathPattern = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+)+$`)

// CheckCommandURL returns an error if ZooKeeper's commands cannot be served below path.
func CheckCommandURL(path string) error {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case !commandPathPattern.MatchString(path) || strings.Contains(path, "/."):
		return errors.New("must be a path such as /commands, with letters, digits, dots, dashes and underscores")
	case slices.Contains(reservedPaths, first):
		return errors.New("/" + first + " is a path of Rollcall's own")
	}
	return nil
}

// serveEndpoint serves a request within the endpoint's timeout. A long reply needs a free place.
func (h *HTTP) serveEndpoint(e *endpoint, w http.ResponseWriter, r *http.Request) {
	if e.longReply {
		if e.replyJSON != nil && r.URL.Query().Has("from") {
			sleepContext(r.Context(), pagePause)
		}
		leave := h.longReplies.acquire(e, r)
		if leave == nil {
			busy := &Failure{Status: http.StatusServiceUnavailable, Text: "too many long replies are being made; try again"}
			if e.access.forAdministrators() {
				h.auditor.logRejected(e, r, h.authorizer.administratorOf(r), busy.Text)
			}
			busy.write(w, r)
			return
		}
		defer leave()
	}
	p := &pacedWriter{
		ResponseWriter: w, control: http.NewResponseController(w),
		deadline: time.Now().Add(cmp.Or(e.timeout, replyTimeout)),
	}
	if e.access.forAdministrators() {
		defer func() { h.auditor.logFinished(e, r, h.authorizer.administratorOf(r), p.failure) }() // also if the reply is cut short
	}
	switch {
	case e.replyJSON != nil:
		h.serveJSON(e, p, r)
	case e.oneAtATime:
		h.serveInTurn(e, p, r)
	default:
		e.serve(p, r)
	}
}

// pacedWriter gives the client partTimeout for each partSize of bytes, and until deadline for all of them.
type pacedWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	deadline time.Time
	failure  *Failure // nil: it was done
}

// recordFailure keeps a failure for the audit log.
func recordFailure(w http.ResponseWriter, f *Failure) {
	if p, ok := w.(*pacedWriter); ok {
		p.failure = f
	}
}

// Unwrap lets an http.ResponseController reach the connection.
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *pacedWriter) Write(b []byte) (n int, err error) {
	for part := range slices.Chunk(b, partSize) {
		deadline := time.Now().Add(partTimeout)
		if deadline.After(p.deadline) {
			deadline = p.deadline
		}
		if err := p.control.SetWriteDeadline(deadline); err != nil {
			return n, err
		}
		m, err := p.ResponseWriter.Write(part)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}
