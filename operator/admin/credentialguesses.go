package admin

import (
	"cmp"
	"net"
	"net/http"
	"strings"

	"rollcall/internal/admission"
	"rollcall/operator/audit"
)

// limitGuesses returns a handler that checks the credentials of each request before next. It counts and audits
// wrong ones. After too many, an address must wait for its turn, or gets the status 429.
func (h *HTTP) limitGuesses(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind, offered := h.authorizer.credentialKind(r); offered {
			attempt := h.cfg.CredentialLimiter.NewAttempt(guesserKey(r))
			if err := attempt.AwaitTurn(r.Context(), admission.MaxAttemptWait); err != nil {
				ignoreBody(w)
				setWriteTimeout(w, rejectTimeout)
				setHeaders(w.Header())
				(&Failure{Status: http.StatusTooManyRequests, Text: err.Error()}).write(w, r)
				return
			}
			if h.authorizer.headerRole(r) == roleNone {
				attempt.RecordFailure(kind)
				h.auditor.auditWrongCredential(r, kind)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// guesserKey returns the key under which a caller's failures are counted: its address without the port, or its
// user at a local socket.
func guesserKey(r *http.Request) string { return cmp.Or(hostOfCaller(r), r.RemoteAddr) }

// credentialKind returns the kind of a request's credential. It returns false if the request has none that could
// be right.
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
		return admission.AdminToken, a.credentials.adminToken.isSet || a.credentials.readToken.isSet ||
			a.credentials.metricsToken.isSet
	}
	return 0, false
}

// auditWrongCredential adds a wrong credential to the audit log. The CredentialLimiter logs it in the process's
// log.
func (a *requestAuditor) auditWrongCredential(r *http.Request, kind admission.Credential) {
	if a.auditLog == nil {
		return
	}
	a.auditLog.Add(audit.Event{
		Address: r.RemoteAddr, Operation: audit.Authenticate, Target: "http " + kind.String(), Result: audit.Failure,
		Error: "wrong " + kind.String(), Reason: truncate(r.Method + " " + r.URL.Path),
	})
}

// proofEndpoint stands for the endpoint in the audit line of a wrong token proof, which precedes any request.
var proofEndpoint = &endpoint{action: "prove the token"}

// recordWrongProof counts and audits a connection with a wrong token proof. It slows no address: deriving the key of
// a proof is slow enough.
func (h *HTTP) recordWrongProof(c net.Conn) {
	r := &http.Request{RemoteAddr: c.RemoteAddr().String()}
	h.cfg.CredentialLimiter.RecordWithoutSlowing(guesserKey(r), admission.AdminToken)
	h.auditor.logRejected(proofEndpoint, r, "", "the proof of the token is wrong: the other side has another one")
}
