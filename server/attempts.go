package server

import (
	"crypto/tls"
	"errors"
	"strings"

	"rollcall/internal/admission"
	"rollcall/operator/audit"
)

// slowedWaitDivisor divides the session's timeout into the longest wait of a slowed attempt. The client is
// not read meanwhile, so its session must not expire in this time.
const slowedWaitDivisor = 4

// checkInTurn calls check when it is the turn of attempt a. That is at once unless credentials from the
// client's address failed too often; otherwise a reader of the connection waits, so that no loop does. If too
// many attempts wait, the connection ends without a reply: clients give up on a rejected credential, and this
// one may be right.
func (r *request) checkInTurn(a admission.Attempt, check func(a *admission.Attempt) (more bool)) bool {
	c := r.c
	if !a.IsSlowed() {
		return check(&a)
	}
	longest := c.stream.Life.Timeout() / slowedWaitDivisor
	inTurn := func() (more bool) {
		if a.AwaitTurn(c.stream.Life.Context(), longest) != nil {
			c.stream.Drop(credentialsSlowed) // unless it has ended
			return false
		}
		more = check(&a)
		c.flushLater() // the reader that begins with this sends nothing by itself
		return more
	}
	return r.runInReader(inTurn)
}

// runInReader calls do, which may wait. A loop leaves the call to a reader of the connection.
func (r *request) runInReader(do func() (more bool)) (more bool) {
	c := r.c
	if !c.stream.InLoop() {
		return do()
	}
	r.copyBody()
	c.stream.LeaveToReader(do)
	return true
}

func (c *conn) flushLater() {
	c.stream.Lock()
	defer c.stream.Unlock()
	c.stream.FlushLater()
}

// recordWrongSuperPassword counts a wrong password of the super user. As in ZooKeeper, the client gets
// another identity and no error.
func (r *request) recordWrongSuperPassword(a *admission.Attempt) {
	c := r.c
	a.RecordFailure(admission.SuperPassword)
	c.srv.cfg.Audit.Add(audit.Event{
		Session: c.session.id, Ids: r.ids, Operation: audit.Authenticate, Target: "digest", Result: audit.Failure,
		Error: "wrong password of the super user",
	})
}

// isClientCertificateError reports whether a TLS handshake failed because of a missing or wrong client
// certificate.
func isClientCertificateError(err error) bool {
	var wrong *tls.CertificateVerificationError
	// crypto/tls has no type for it
	return errors.As(err, &wrong) || strings.Contains(err.Error(), "didn't provide a certificate")
}
