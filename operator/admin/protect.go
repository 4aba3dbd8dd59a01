package admin

import (
	"fmt"
	"net/http"
	"time"
)

// guardedHandler returns a handler that checks each request by the access class of its endpoint before it serves
// it. It sets the headers that all replies have.
func (h *HTTP) guardedHandler(all []endpoint) http.Handler {
	mux := http.NewServeMux()
	for _, e := range all {
		handle := h.serveRequest
		if e.isProbe {
			handle = h.serveProbe
		}
		mux.HandleFunc(e.method+" "+e.path, func(w http.ResponseWriter, r *http.Request) { handle(&e, w, r) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && h.authorizer.checkAccess(changeAccess, r) != nil {
			ignoreBody(w)
		}
		setHeaders(w.Header())
		if _, pattern := mux.Handler(r); pattern == "" {
			w.Header().Set("Connection", "close") // it takes no slot
			setWriteTimeout(w, rejectTimeout)
			if underV1(r) {
				w = &noEndpoint{ResponseWriter: w, r: r}
			}
		}
		mux.ServeHTTP(w, r)
	})
}

// serveProbe serves a probe under any Host header, such as a load balancer's name.
func (h *HTTP) serveProbe(e *endpoint, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close") // so that no later request waits for this reply
	setWriteTimeout(w, stuckTimeout)
	e.serve(w, r)
}

// serveRequest serves a request if a slot is free and checkRequest allows it.
func (h *HTTP) serveRequest(e *endpoint, w http.ResponseWriter, r *http.Request) {
	e = h.rowOf(e, r)
	if !h.takeRequestSlot(w, r) {
		setWriteTimeout(w, rejectTimeout)
		errNoSlot.write(w, r)
		return
	}
	setWriteTimeout(w, partTimeout) // for the reply that the request is rejected
	failure := h.checkRequest(e, w, r)
	if failure == nil {
		h.serveEndpoint(e, w, r)
		return
	}
	if e.access.forAdministrators() {
		h.auditor.logRejected(e, r, h.authorizer.administratorOf(r), failure.Text)
	}
	failure.write(w, r)
}

// checkRequest returns a Failure if the endpoint must not serve the request: because of the caller, the content
// of the reply, the type of the body, the removal of this member, or an audit log that has no line about the
// change yet.
func (h *HTTP) checkRequest(e *endpoint, w http.ResponseWriter, r *http.Request) *Failure {
	if failure := h.authorizer.checkAccess(e.access, r); failure != nil {
		return failure
	}
	if failure := h.authorizer.checkContent(e, r); failure != nil {
		return failure
	}
	failure := e.checkContentType(r)
	if failure == nil && (e.changesEnsemble || e.readsEnsemble) {
		failure = h.health.failureIfRemoved()
	}
	if failure == nil && e.access.forAdministrators() {
		failure = h.auditor.writeRequiredEntry(e, r, h.authorizer.administratorOf(r))
	}
	if failure != nil {
		ignoreBody(w)
	}
	return failure
}

func setHeaders(header http.Header) {
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
}

// setWriteTimeout sets the time that the client has to read a reply.
func setWriteTimeout(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d)) // a recorder of a test has none
}

// ignoreBody makes the server reply without waiting for the rest of a body that no endpoint reads.
func ignoreBody(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // a recorder of a test has none
}

// noEndpoint turns the mux's reply to a request without an endpoint into JSON.
type noEndpoint struct {
	http.ResponseWriter
	r *http.Request
}

// WriteHeader implements http.ResponseWriter. It sends the body, too.
func (n *noEndpoint) WriteHeader(status int) {
	text := fmt.Sprintf("there is no endpoint %.100q; /v1/openapi.json describes all", n.r.URL.Path)
	if status == http.StatusMethodNotAllowed {
		text = fmt.Sprintf("%.20s is not allowed here; send %s", n.r.Method, n.Header().Get("Allow"))
	}
	(&Failure{Status: status, Text: text}).write(n.ResponseWriter, n.r)
}

// Write implements http.ResponseWriter. It drops the mux's text.
func (n *noEndpoint) Write(b []byte) (int, error) { return len(b), nil }
