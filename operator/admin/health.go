package admin

import (
	"net/http"
	"strings"
	"sync/atomic"

	"rollcall/operator/api"
)

// healthProbes has the endpoints for liveness and readiness.
type healthProbes struct {
	source     Source
	authorizer *authorizer
	stopping   atomic.Bool
}

func (p *healthProbes) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/livez", access: openAccess, isProbe: true,
			help:  "200; 503 with the reason if its disk, apply or a lock hangs, or its state is damaged",
			serve: p.serveLivez,
		},
		{
			method: "GET", path: "/readyz", access: openAccess, isProbe: true,
			help: "200 if it serves clients; 503 with the reason if not", serve: p.serveReadyz,
		},
	}
}

// serveLivez takes no lock that apply may hold.
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

// writeProbe writes a probe's reply. It omits the text for a Host header of another name, which a page of
// another site may have.
func (p *healthProbes) writeProbe(w http.ResponseWriter, r *http.Request, status int, text string) {
	if p.authorizer.checkHost(r) != nil {
		text = strings.ToLower(http.StatusText(status))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a client that left needs no reply
}

// failureIfRemoved returns a Failure if this member was removed. Its requests to the ensemble would wait for a
// leader that does not know it, and what it knows itself only gets older.
func (p *healthProbes) failureIfRemoved() *Failure {
	health := p.source.Health()
	if health.RemovedVersion == 0 {
		return nil
	}
	text, _ := health.StatusText()
	return &Failure{
		Status: http.StatusServiceUnavailable,
		Text:   text + "; the request was not carried out: send it to a member that is in the ensemble", Reason: api.ReasonRemoved,
	}
}
