package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"rollcall/internal/admission"
	"rollcall/operator/audit"
	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/zk/sasl"
)

// Login configures SASL logins, and the identities that clients must prove.
type Login struct {
	// Users may log in with passwords, and clients of Kerberos with tickets. As in ZooKeeper, all clients use one mechanism: Kerberos
	// is first, and if both are nil or empty, SASL is not served.
	Users      *sasl.Users
	Kerberos   Kerberos
	SuperUsers []string // the SASL users that become the super user
	// EnsembleNames are those that a client may give in the scheme ensemble, so that a client of another ensemble is turned away. If there
	// are none, the scheme is not served.
	EnsembleNames []string
	// Schemes are the required ones: before it is served anything but auth and sasl, a client must have
	// proved an identity of one of them. If there are none, all clients are served.
	Schemes []string
	// KeepFailed serves clients whose SASL login has failed, without an identity. It has no effect if Schemes
	// has sasl.
	KeepFailed bool
}

var (
	errNoSASL         = errors.New("SASL is not configured on this member: java.security.auth.login.config names no file")
	errManyIdentities = errors.New("the connection has too many identities")
)

func (r *request) handleSASL() bool {
	c := r.c
	var token jute.SASLToken
	d := jute.NewDecoder(r.body)
	if token.Decode(&d); d.Err() != nil {
		c.stream.Drop(badFrame)
		return false
	}
	a := c.srv.cfg.CredentialLimiter.NewAttempt(c.identity.host)
	switch {
	case c.srv.authenticator.kerberos != nil: // each token may wait for a read of the keytab
		return r.runInReader(func() (more bool) {
			more = r.checkInTurn(a, r.checkTokenAndReply)
			c.flushLater() // the reader that begins with this sends nothing by itself
			return more
		})
	case c.identity.saslExchange == nil: // the first token proves nothing yet
		return r.checkTokenAndReply(&a)
	}
	return r.checkInTurn(a, r.checkTokenAndReply)
}

// checkTokenAndReply checks a token that can be decoded, of an attempt whose turn it is.
func (r *request) checkTokenAndReply(a *admission.Attempt) bool {
	var token jute.SASLToken
	d := jute.NewDecoder(r.body)
	token.Decode(&d)
	answer, code := r.checkSASLToken(token.Token, a)
	r.body = answer
	return r.replyToAuth(code)
}

// checkSASLToken returns the reply to a token, or nil if there is no token for the client.
func (r *request) checkSASLToken(token []byte, a *admission.Attempt) (answer []byte, code jute.Code) {
	c := r.c
	who, how := &c.identity, &c.srv.cfg.Login
	reject := func(why error) jute.Code {
		c.srv.authenticator.logFailedLogin("SASL login failed", c.addr, c.session.id, why)
		return c.srv.authenticator.loginRejection()
	}
	if who.saslExchange == nil {
		who.saslExchange = c.srv.authenticator.newExchange()
	}
	if who.saslExchange == nil {
		return nil, reject(errNoSASL)
	}
	answer, done, err := who.saslExchange.Step(token)
	if err != nil {
		a.RecordFailure(admission.SASLLogin)
	}
	switch {
	case err != nil && how.KeepFailed && !slices.Contains(how.Schemes, "sasl"):
		c.srv.authenticator.logFailedLogin("SASL login failed, and the client stays connected", c.addr, c.session.id, err)
		r.auditFailedAuth(jute.AuthFailed)
		return nil, jute.OK
	case err != nil:
		return nil, reject(err)
	case !done:
		return answer, jute.OK
	}
	if who.addUser(who.saslExchange.UserName()) != jute.OK {
		return nil, reject(errManyIdentities)
	}
	return answer, jute.OK
}

func appendToken(_ *session, out *stream.Buffer, r *request) jute.Code {
	out.B = jute.SASLToken{Token: r.body}.Append(out.B)
	return jute.OK
}

// appendNoToken appends the record of a reply to a failed login. While Java's client logs in, it reads the
// record of an error, too. Without one it would reconnect for ever and not report the failure.
func appendNoToken(b []byte) []byte { return jute.SASLToken{}.Append(b) }

// rejectUnauthenticated rejects any request of a client without a required identity, and ends the connection.
func (r *request) rejectUnauthenticated() bool {
	c := r.c
	c.srv.authenticator.logRejection("client is not authenticated", c.addr, c.session.id,
		fmt.Sprintf("it requests %v without an identity of the schemes %s", r.op,
			strings.Join(c.srv.cfg.Login.Schemes, ", ")))
	c.srv.cfg.Audit.Add(audit.Event{
		Session: c.session.id, Ids: r.ids, Operation: audit.Authenticate, Target: strings.Join(c.srv.cfg.Login.Schemes, ","),
		Result: audit.Failure,
		Error:  jute.SessionClosedRequireSaslAuth.Error(),
		Reason: "the client requested " + r.op.String() + " without such an identity",
	})
	r.code, r.noZxid = jute.SessionClosedRequireSaslAuth, true
	r.endReason = notAuthenticated
	c.closeUnusedSessionOnEnd()
	return r.replyLocally()
}

// closeUnusedSessionOnEnd has the session closed with the connection, if this connection has opened it, the
// client has proved no identity, and no request was served in it. Such a session has no nodes and no watches.
// All others stay: a client may have resumed another client's session.
func (c *conn) closeUnusedSessionOnEnd() {
	const address = 1 // the identity that every client has
	c.stream.Lock()
	defer c.stream.Unlock()
	c.closeSessionOnEnd = c.createdSession && !c.servedRequest && len(c.identity.all()) == address
}

// closeUnusedSession closes the session of a rejected client through the log. The transaction names this
// connection, so it does nothing if the session has been resumed on another one.
func (c *conn) closeUnusedSession(session jute.SessionID) {
	// This connection has nothing in the log, so the member takes the transaction. If it did not, the session
	// would end at its timeout.
	_ = c.srv.cfg.Member.TrySubmit(&proto.Txn{
		Session: int64(session), Conn: c.uniqueNumber, Op: int32(jute.OpCloseSession), Ids: c.identity.all(),
	}, nil)
}
