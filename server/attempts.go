package server

import (
	"crypto/tls"
	"errors"
	"strings"

	"rollcall/internal/admission"
	"rollcall/operator/audit"
)

// slowedWaitDivisor is the part of the session's timeout, as one in so many, that a slowed attempt waits at most. The client is not read
// meanwhile, so its session must not expire in this time.
const slowedWaitDivisor = 4

// checkCredential calls check when it is the turn of the client's attempt a, which is at once unless credentials from its address
// failed too often. Otherwise a reader of the connection waits, so the loop does not. If too many attempts wait, the connection ends and the
// client may try again: to answer that the credential is wrong could be false, and clients give up then.
func (r *request) checkCredential(a admission.Attempt, check func(a *admission.Attempt) (more bool)) bool {
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

// runInReader calls do, which takes r and may wait. In a loop it leaves that to a reader of the connection.
func (r *request) runInReader(do func() (more bool)) (more bool) {
	c := r.c
	if !c.stream.InLoop() {
		return do()
	}
	r.copyBody()
	c.stream.LeaveToReader(do)
	return true
}

// flushLater makes another goroutine send the queued output.
func (c *conn) flushLater() {
	c.stream.Lock()
	defer c.stream.Unlock()
	c.stream.FlushLater()
}

// recordWrongSuperPassword counts a wrong password of the super user. The client gets another identity, and no error, as in
// ZooKeeper.
func (r *request) recordWrongSuperPassword(a *admission.Attempt) {
	c := r.c
	a.RecordFailure(admission.SuperPassword)
	c.srv.cfg.Audit.Add(audit.Event{
		Session: c.session.id, Ids: r.ids, Operation: audit.Authenticate, Target: "digest", Result: audit.Failure, Error: "wrong password of the super user",
	})
}

// isClientCertificateError reports whether a handshake of TLS failed because the client's certificate was missing or wrong.
func isClientCertificateError(err error) bool {
	var wrong *tls.CertificateVerificationError
	return errors.As(err, &wrong) || strings.Contains(err.Error(), "didn't provide a certificate") // crypto/tls has no type for it
}
