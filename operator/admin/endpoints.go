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

// endpoint is one row of the table of endpoints. The mux, the table in docs/admin.md and the tests
// of refusals are made of these rows.
type endpoint struct {
	method          string // GET stands for HEAD, too
	path            string // a pattern of http.ServeMux
	access          accessClass
	content         contentKind   // what an endpoint of the class reads shows
	oneAtATime      bool          // it looks at everything for figures: without credentials one is made after the other
	isProbe         bool          // it is answered whatever the Host header says, and whatever else is under way
	longReply       bool          // its answer can be long or slow: at most maxLong of them are made at once
	timeout         time.Duration // how long its answer may take; default answerTime
	changesEnsemble bool          // it changes the ensemble and not this member alone, so a member that was removed refuses it
	isAlias         bool          // another path of the endpoint before it
	help            string
	serve           http.HandlerFunc
	// replyJSON is set instead of serve for an endpoint under /v1/. It returns a type of package api, which is sent as JSON, or an
	// error, which is a *Failure if it is not the member's fault.
	replyJSON                      func(q *query) (any, error)
	parameters, requiredParameters []string
	// These describe an endpoint under /v1/ in operator/api/openapi.json. The bodies are values of their types. The statuses are those besides
	// the ones of its class, of a wrong query (400) and of too many long answers (503).
	responseBody, requestBody any
	failureStatuses           []int
	contentType               string // the type of the body of a POST; default application/json
	// action names the change that an endpoint of the class changes makes, and target the object of the change; nil: this
	// member. Both are for the audit log.
	action      string
	auditTarget func(r *http.Request) string
}

// routes returns the table.
func (h *HTTP) routes() []endpoint {
	return slices.Concat(
		h.health.routes(), consoleRoutes(h.console), []endpoint{h.metricsRoute()}, h.member.routes(), h.ensemble.routes(), h.streams.routes(),
		h.members.routes(), h.nodes.routes(), h.backups.routes(), profiles, h.commands.routes())
}

// metricsRoute is the row of /metrics, which a port of its own may serve, too.
func (h *HTTP) metricsRoute() endpoint {
	return endpoint{
		method: "GET", path: "/metrics", access: metricsAccess, oneAtATime: true, help: "the metrics of mntr, Rollcall's own, and those of the Go runtime and the process, for Prometheus",
		serve: h.metrics.ServeHTTP,
	}
}

// consoleRoutes are the endpoints of the console. They hold no data: the page's script asks for them under /v1/.
func consoleRoutes(c *console.Console) []endpoint {
	return []endpoint{
		{method: "GET", path: "/{$}", access: openAccess, help: "the console, for a browser", serve: c.ServePage},
		{method: "GET", path: console.Prefix + "{file}", access: openAccess, help: "the script, the style and the icon of the console", serve: c.ServeAsset},
	}
}

// reservedPaths are the first parts of paths that ZooKeeper's commands cannot have.
var reservedPaths = []string{"console", "livez", "readyz", "metrics", "debug", "v1"}

var commandPathPattern = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+)+$`)

// CheckCommandURL returns an error if ZooKeeper's commands cannot have this path.
func CheckCommandURL(path string) error {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case !commandPathPattern.MatchString(path) || strings.Contains(path, "/."):
		return errors.New("allowed is a path such as /commands, with letters, digits, dots, dashes and underscores")
	case slices.Contains(reservedPaths, first):
		return errors.New("/" + first + " is a path of Rollcall's own")
	}
	return nil
}

// serveEndpoint lets an endpoint answer, within bounds of time, and a long answer only if there is a place
// for it.
func (h *HTTP) serveEndpoint(e *endpoint, w http.ResponseWriter, r *http.Request) {
	if e.longReply {
		if e.replyJSON != nil && r.URL.Query().Has("from") {
			sleepContext(r.Context(), pagePause)
		}
		leave := h.longReplies.acquire(e, r)
		if leave == nil {
			busy := &Failure{Status: http.StatusServiceUnavailable, Text: "too many long answers are being made; try again"}
			if e.access == changeAccess {
				h.auditor.logRejected(e, r, h.authorizer.administratorOf(r), busy.Text)
			}
			busy.write(w, r)
			return
		}
		defer leave()
	}
	p := &pacedWriter{ResponseWriter: w, control: http.NewResponseController(w), deadline: time.Now().Add(cmp.Or(e.timeout, replyTimeout))}
	switch {
	case e.replyJSON != nil:
		h.serveJSON(e, p, r)
	case e.oneAtATime:
		h.serveInTurn(e, p, r)
	default:
		e.serve(p, r)
	}
	if e.access == changeAccess {
		h.auditor.logFinished(e, r, h.authorizer.administratorOf(r), p.failure)
	}
}

// pacedWriter gives the client answerPart for each partSize of bytes, and up to end for all of them.
type pacedWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	deadline time.Time
	failure  *Failure // nil: it was done
}

// noteOutcome notes a failure for the audit log.
func noteOutcome(w http.ResponseWriter, f *Failure) {
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
