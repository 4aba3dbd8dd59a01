package admin

import (
	"net/http"
	"strings"
	"sync/atomic"

	"rollcall/operator/api"
)

// healthProbes has the endpoints that report whether the member works, and whether it serves clients.
type healthProbes struct {
	source     Source
	authorizer *authorizer
	stopping   atomic.Bool
}

func (p *healthProbes) routes() []endpoint {
	return []endpoint{
		{method: "GET", path: "/livez", access: openAccess, isProbe: true, help: "200 if the process works; 503 with the reason if its disk or apply hangs, or its state is damaged", serve: p.serveLivez},
		{method: "GET", path: "/readyz", access: openAccess, isProbe: true, help: "200 if clients are served here; 503 with the reason if not", serve: p.serveReadyz},
	}
}

// serveLivez reports whether the process works. It takes no lock that apply may hold.
func (p *healthProbes) serveLivez(w http.ResponseWriter, r *http.Request) {
	health := p.source.Health()
	switch {
	case health.Damage != "":
		p.writeProbe(w, r, http.StatusServiceUnavailable, "the state of this member is damaged: "+health.Damage)
	case health.Stalled != "":
		p.writeProbe(w, r, http.StatusServiceUnavailable, health.Stalled)
	default:
		p.writeProbe(w, r, http.StatusOK, "ok")
	}
}

// serveReadyz reports whether clients are served here.
func (p *healthProbes) serveReadyz(w http.ResponseWriter, r *http.Request) {
	health := p.source.Health()
	text, serves := health.StatusText()
	switch {
	case !serves:
		p.writeProbe(w, r, http.StatusServiceUnavailable, text)
	case p.stopping.Load():
		p.writeProbe(w, r, http.StatusServiceUnavailable, "this member is stopping")
	case health.InsecurePorts != "":
		p.writeProbe(w, r, http.StatusOK, text+"\n"+health.InsecurePorts)
	default:
		p.writeProbe(w, r, http.StatusOK, text)
	}
}

// writeProbe answers a probe. Under another name than this member's, which a page of another site may have, there is no text.
func (p *healthProbes) writeProbe(w http.ResponseWriter, r *http.Request, status int, text string) {
	if p.authorizer.checkHost(r) != nil {
		text = strings.ToLower(http.StatusText(status))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a client that left needs no answer
}

// checkRemoved returns a Failure if this member was removed, and nil otherwise. A request to the ensemble would wait for a leader that does not
// know this member.
func (p *healthProbes) checkRemoved() *Failure {
	health := p.source.Health()
	if health.RemovedVersion == 0 {
		return nil
	}
	text, _ := health.StatusText()
	return &Failure{Status: http.StatusServiceUnavailable, Text: text + "; nothing was done: ask a member that is in the ensemble", Reason: api.ReasonRemoved}
}
