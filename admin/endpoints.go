package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"rollcall/console"
)

// endpoint is one row of the table of endpoints. The mux, the table in docs/admin.md and the tests
// of refusals are made of these rows.
type endpoint struct {
	method string // GET stands for HEAD, too
	path   string // a pattern of http.ServeMux
	class  class
	shows  content       // what an endpoint of the class reads shows
	paced  bool          // it looks at everything for figures: without credentials one is made after the other
	probe  bool          // it is answered whatever the Host header says, and whatever else is under way
	long   bool          // its answer can be long or slow: at most maxLong of them are made at once
	lasts  time.Duration // how long its answer may take; default answerTime
	shared bool          // it changes the ensemble and not this member alone, so a member that was removed refuses it
	alias  bool          // another path of the endpoint before it
	help   string
	serve  func(h *HTTP, w http.ResponseWriter, r *http.Request)
	// ask is what an endpoint under /v1/ has instead of serve: it returns a type of package api, which is
	// sent as JSON, or an error, which is a *Failure if it is not the member's fault. The query's
	// parameters are among params, and have those of needs.
	ask           func(h *HTTP, q *query) (any, error)
	params, needs []string
	// These describe an endpoint under /v1/ in api/openapi.json: a value of the type that it answers with,
	// one of the type that the body of a POST has, and the statuses of its failures, besides those of its
	// class, of a query that is wrong (400) and of too many long answers (503).
	answers, takes any
	fails          []int
	takesType      string // the type of the body of a POST; default application/json
	// action names what an endpoint of the class changes does, and target what it does it to; nil: to this
	// member. They are for the audit log.
	action string
	target func(r *http.Request) string
}

// metricsEndpoint is the row of /metrics, which a port of its own may serve, too.
var metricsEndpoint = endpoint{
	method: "GET", path: "/metrics", class: measures, paced: true, help: "the metrics of mntr, Rollcall's own, and those of the Go runtime and the process, for Prometheus",
	serve: func(h *HTTP, w http.ResponseWriter, r *http.Request) { h.metrics.ServeHTTP(w, r) },
}

// consolePages are the endpoints of the console. They hold no data: the page's script asks for them under /v1/.
var consolePages = []endpoint{
	{
		method: "GET", path: "/{$}", class: open, help: "the console, for a browser",
		serve: func(h *HTTP, w http.ResponseWriter, r *http.Request) { h.console.Page(w, r) },
	},
	{
		method: "GET", path: console.Prefix + "{file}", class: open, help: "the script, the style and the icon of the console",
		serve: func(h *HTTP, w http.ResponseWriter, r *http.Request) { h.console.Asset(w, r) },
	},
}

// endpoints returns the table. The paths of ZooKeeper's commands begin with commandURL. The row of
// the commands' list is the last one; it also answers unknown commands.
func endpoints(commandURL string) []endpoint {
	all := []endpoint{
		{method: "GET", path: "/livez", class: open, probe: true, help: "200 if the process works; 503 with the reason if its disk or apply hangs, or its state is damaged", serve: (*HTTP).livez},
		{method: "GET", path: "/readyz", class: open, probe: true, help: "200 if clients are served here; 503 with the reason if not", serve: (*HTTP).readyz},
	}
	all = slices.Concat(all, consolePages, []endpoint{metricsEndpoint}, v1, membersEndpoints, nodeEndpoints, logEndpoints, []endpoint{rebalanceEndpoint, drainEndpoint, snapshotEndpoint, backupEndpoint}, profiles)
	for i := range commands {
		c := &commands[i]
		serve := func(h *HTTP, w http.ResponseWriter, r *http.Request) { h.command(w, r, c) }
		method, action := http.MethodGet, ""
		if c.class == changes {
			method, action = http.MethodPost, c.name
		}
		e := endpoint{method: method, action: action, path: commandURL + "/" + c.name, class: c.class, shows: c.shows, long: c.long, help: c.help, serve: serve}
		if c.long {
			e.lasts = longTime
		}
		e.paced = c.name == "monitor" || c.name == "watch_summary"
		if c.own != nil {
			e.method, e.takesType, e.lasts, e.serve = c.own.method, c.own.takesType, c.own.lasts, c.own.serve
		}
		all = append(all, e)
		for _, name := range c.aliases {
			e.path, e.alias = commandURL+"/"+name, true
			all = append(all, e)
		}
	}
	return append(all,
		endpoint{method: "GET", path: commandURL, class: reads, shows: showsState, help: "the commands, as links", serve: (*HTTP).list},
		endpoint{method: "GET", path: commandURL + "/", class: reads, shows: showsState, alias: true, help: "the answer to an unknown command", serve: (*HTTP).unknown})
}

// ownPaths are the first parts of paths that ZooKeeper's commands cannot have.
var ownPaths = []string{"console", "livez", "readyz", "metrics", "debug", "v1"}

var commandPath = regexp.MustCompile(`^(/[A-Za-z0-9_.-]+)+$`)

// CheckCommandURL returns an error if ZooKeeper's commands cannot have this path.
func CheckCommandURL(path string) error {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case !commandPath.MatchString(path) || strings.Contains(path, "/."):
		return errors.New("allowed is a path such as /commands, with letters, digits, dots, dashes and underscores")
	case slices.Contains(ownPaths, first):
		return errors.New("/" + first + " is a path of Rollcall's own")
	}
	return nil
}

// answer lets an endpoint answer, within bounds of time, and a long answer only if there is a place
// for it.
func (h *HTTP) answer(e *endpoint, w http.ResponseWriter, r *http.Request) {
	if e.long {
		if e.ask != nil && r.URL.Query().Has("from") {
			rest(r.Context(), pagePause)
		}
		leave := h.enter(e, r)
		if leave == nil {
			busy := &Failure{Status: http.StatusServiceUnavailable, Text: "too many long answers are being made; try again"}
			if e.class == changes {
				h.audit.refused(e, r, h.authorizer.who(r), busy.Text)
			}
			busy.write(w, r)
			return
		}
		defer leave()
	}
	p := &pacedWriter{ResponseWriter: w, control: http.NewResponseController(w), end: time.Now().Add(cmp.Or(e.lasts, answerTime))}
	switch {
	case e.ask != nil:
		h.serveJSON(e, p, r)
	case e.paced:
		h.serveInTurn(e, p, r)
	default:
		e.serve(h, p, r)
	}
	if e.class == changes {
		h.audit.allowed(e, r, h.authorizer.who(r), p.failure)
	}
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
}

// enter takes a place for a long answer, and returns what leaves it. It returns nil if there is none.
func (h *HTTP) enter(e *endpoint, r *http.Request) (leave func()) {
	places, patience := h.long, time.Duration(0)
	if e.ask != nil {
		places, patience = h.pages, placeTime
		if e.class == changes {
			places = h.own
		}
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }
	default:
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case places <- struct{}{}:
		return func() { <-places }
	case <-over.C:
	case <-r.Context().Done():
	}
	return nil
}

// pacedWriter gives the client answerPart for each partSize of bytes, and up to end for all of them.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	end     time.Time
	failure *Failure // nil: it was done
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
		deadline := time.Now().Add(answerPart)
		if deadline.After(p.end) {
			deadline = p.end
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

// livez says whether the process works. It takes no lock that apply may hold.
func (h *HTTP) livez(w http.ResponseWriter, r *http.Request) {
	health := h.source.Health()
	switch {
	case health.Damage != "":
		h.sayHealth(w, r, http.StatusServiceUnavailable, "the state of this member is damaged: "+health.Damage)
	case health.Stalled != "":
		h.sayHealth(w, r, http.StatusServiceUnavailable, health.Stalled)
	default:
		h.sayHealth(w, r, http.StatusOK, "ok")
	}
}

// readyz says whether clients are served here.
func (h *HTTP) readyz(w http.ResponseWriter, r *http.Request) {
	health := h.source.Health()
	text, serves := health.Text()
	switch {
	case !serves:
		h.sayHealth(w, r, http.StatusServiceUnavailable, text)
	case h.stopping.Load():
		h.sayHealth(w, r, http.StatusServiceUnavailable, "this member is stopping")
	case health.Exposed != "":
		h.sayHealth(w, r, http.StatusOK, text+"\n"+health.Exposed)
	default:
		h.sayHealth(w, r, http.StatusOK, text)
	}
}

// sayHealth answers a probe. Under another name than this member's, which a page of another site may have, there is no text.
func (h *HTTP) sayHealth(w http.ResponseWriter, r *http.Request, status int, text string) {
	if h.authorizer.misnamed(r) != nil {
		text = strings.ToLower(http.StatusText(status))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a client that left needs no answer
}
