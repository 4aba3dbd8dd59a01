package admin

import (
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// endpoint is one row of the table of endpoints. The mux, the table in docs/admin.md and the tests
// of refusals are made of these rows.
type endpoint struct {
	method string // GET stands for HEAD, too
	path   string // a pattern of http.ServeMux
	class  class
	long   bool          // its answer can be long or slow: at most maxLong of them are made at once
	lasts  time.Duration // how long its answer may take; default answerTime
	alias  bool          // another path of the endpoint before it
	help   string
	serve  func(h *HTTP, w http.ResponseWriter, r *http.Request)
}

// metricsEndpoint is the row of /metrics, which a port of its own may serve, too.
var metricsEndpoint = endpoint{
	method: "GET", path: "/metrics", class: reads, help: "the metrics of mntr, the Go runtime and the process, for Prometheus",
	serve: func(h *HTTP, w http.ResponseWriter, r *http.Request) { h.metrics.ServeHTTP(w, r) },
}

// endpoints returns the table. The paths of ZooKeeper's commands begin with commandURL. The row of
// the commands' list is the last one; it also answers unknown commands.
func endpoints(commandURL string) []endpoint {
	all := []endpoint{
		{method: "GET", path: "/livez", class: open, help: "200 if the process works; 503 with the reason if its disk or apply hangs, or its state is damaged", serve: (*HTTP).livez},
		{method: "GET", path: "/readyz", class: open, help: "200 if clients are served here; 503 with the reason if not", serve: (*HTTP).readyz},
	}
	all = append(append(all, metricsEndpoint), profiles...)
	for i := range commands {
		c := &commands[i]
		serve := func(h *HTTP, w http.ResponseWriter, r *http.Request) { h.command(w, r, c) }
		method := http.MethodGet
		if c.class == changes {
			method = http.MethodPost
		}
		e := endpoint{method: method, path: commandURL + "/" + c.name, class: c.class, long: c.long, help: c.help, serve: serve}
		all = append(all, e)
		for _, name := range c.aliases {
			e.path, e.alias = commandURL+"/"+name, true
			all = append(all, e)
		}
	}
	return append(all,
		endpoint{method: "GET", path: commandURL, class: reads, help: "the commands, as links", serve: (*HTTP).list},
		endpoint{method: "GET", path: commandURL + "/", class: reads, alias: true, help: "the answer to an unknown command", serve: (*HTTP).unknown})
}

// ownPaths are the first parts of paths that ZooKeeper's commands cannot have.
var ownPaths = []string{"livez", "readyz", "metrics", "debug", "v1"}

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

// protect returns the mux of some endpoints, behind the checks of their classes and with the headers
// that all answers carry.
func (h *HTTP) protect(all []endpoint) http.Handler {
	mux := http.NewServeMux()
	for _, e := range all {
		mux.HandleFunc(e.method+" "+e.path, func(w http.ResponseWriter, r *http.Request) {
			if refusal := h.refuse(e.class, r); refusal != nil {
				refusal.write(w)
				return
			}
			h.answer(&e, w, r)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Referrer-Policy", "no-referrer")
		mux.ServeHTTP(w, r)
	})
}

// answer lets an endpoint answer, within bounds of time, and a long answer only if there is a place
// for it.
func (h *HTTP) answer(e *endpoint, w http.ResponseWriter, r *http.Request) {
	if e.long {
		select {
		case h.long <- struct{}{}:
			defer func() { <-h.long }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many long answers are being made; try again", http.StatusServiceUnavailable)
			return
		}
	}
	if e.class == changes {
		h.log.Info("an operator's request", "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr)
	}
	end := time.Now().Add(cmp.Or(e.lasts, answerTime))
	e.serve(h, &pacedWriter{ResponseWriter: w, control: http.NewResponseController(w), end: end}, r)
}

// pacedWriter gives the client answerPart for each write, and up to end for all of them.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	end     time.Time
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	deadline := time.Now().Add(answerPart)
	if deadline.After(p.end) {
		deadline = p.end
	}
	if err := p.control.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}

// livez says whether the process works. It takes no lock that apply may hold.
func (h *HTTP) livez(w http.ResponseWriter, _ *http.Request) {
	health := h.source.Health()
	switch {
	case health.Damage != "":
		sayHealth(w, http.StatusServiceUnavailable, "the state of this member is damaged: "+health.Damage)
	case health.Stalled != "":
		sayHealth(w, http.StatusServiceUnavailable, health.Stalled)
	default:
		sayHealth(w, http.StatusOK, "ok")
	}
}

// readyz says whether clients are served here.
func (h *HTTP) readyz(w http.ResponseWriter, _ *http.Request) {
	health := h.source.Health()
	switch {
	case h.stopping.Load():
		sayHealth(w, http.StatusServiceUnavailable, "this member is stopping")
	case health.Role != "":
		sayHealth(w, http.StatusOK, health.Role)
	case health.Damage != "":
		sayHealth(w, http.StatusServiceUnavailable, "the state of this member is damaged: "+health.Damage)
	case health.Stalled != "":
		sayHealth(w, http.StatusServiceUnavailable, health.Stalled)
	case health.Joining:
		sayHealth(w, http.StatusServiceUnavailable, "this member is joining the ensemble and has not caught up yet")
	case !health.HasLeader:
		sayHealth(w, http.StatusServiceUnavailable, "no leader is known: a majority of the members must be up and reach each other")
	default:
		sayHealth(w, http.StatusServiceUnavailable, "this member is starting, and its leader has not announced it yet")
	}
}

func sayHealth(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a client that left needs no answer
}
