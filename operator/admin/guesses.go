package admin

import (
	"cmp"
	"net"
	"net/http"
	"strings"

	"rollcall/internal/admission"
	events "rollcall/operator/audit"
)

// limitGuesses returns a handler that checks the credentials of each request before it calls next. A wrong one is counted, and leaves a line in the audit
// log, whatever the endpoint. An address that sent too many wrong ones waits for its turn, or gets the status 429.
func (h *HTTP) limitGuesses(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind, offered := h.authorizer.credentialKind(r); offered {
			attempt := h.cfg.CredentialLimiter.BeginAttempt(guesserKey(r))
			if err := attempt.AwaitTurn(r.Context(), admission.MaxAttemptWait); err != nil {
				ignoreBody(w)
				limitWrite(w, rejectTimeout)
				setHeaders(w.Header())
				(&Failure{Status: http.StatusTooManyRequests, Text: err.Error()}).write(w, r)
				return
			}
			if h.authorizer.headerRole(r) == roleNone {
				attempt.RecordFailure(kind)
				h.auditor.logWrongCredential(r, kind)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// guesserKey returns the key under which failures of a caller are counted: its address without the port, or the user at a socket.
func guesserKey(r *http.Request) string { return cmp.Or(hostOfCaller(r), r.RemoteAddr) }

// credentialKind returns the kind of the credential of a request. It reports false if the request has none that can be right.
func (a *authorizer) credentialKind(r *http.Request) (kind admission.Credential, offered bool) {
	all := r.Header.Values("Authorization")
	if len(all) != 1 {
		return 0, false
	}
	scheme, _, _ := strings.Cut(all[0], " ")
	switch strings.ToLower(scheme) {
	case "digest":
		return admission.AdminPassword, a.credentials.superDigest != ""
	case "bearer":
		return admission.AdminToken, a.credentials.adminToken.isSet || a.credentials.readToken.isSet || a.credentials.metricsToken.isSet
	}
	return 0, false
}

// logWrongCredential puts a wrong credential into the audit log. The CredentialLimiter writes the line in the log of the process.
func (a *requestAuditor) logWrongCredential(r *http.Request, kind admission.Credential) {
	if a.auditLog == nil {
		return
	}
	a.auditLog.Add(events.Event{
		Address: r.RemoteAddr, Operation: events.Authenticate, Target: "http " + kind.String(), Result: events.Failure,
		Error: "wrong " + kind.String(), Reason: truncate(r.Method + " " + r.URL.Path),
	})
}

// proofEndpoint stands for the endpoint in the line about a wrong proof of the token, which comes before any request.
var proofEndpoint = &endpoint{action: "prove the token"}

// rejectProof counts and logs a connection on which the token was proved wrongly, as a refused request. It slows nobody: the key
// of a proof is derived slowly.
func (h *HTTP) rejectProof(c net.Conn) {
	r := &http.Request{RemoteAddr: c.RemoteAddr().String()}
	h.cfg.CredentialLimiter.CountFailure(guesserKey(r), admission.AdminToken)
	h.auditor.logRejected(proofEndpoint, r, "", "the proof of the token is wrong: the other side has another one")
}
