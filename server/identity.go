package server

import (
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"rollcall/internal/admission"
	"rollcall/internal/keystore"
	"rollcall/proto"
	"rollcall/zk/digest"
	"rollcall/zk/jute"
	"rollcall/zk/kerberos"
	"rollcall/zk/sasl"
)

// authenticator holds the identities that clients can prove and those that they must prove. Safe for
// concurrent use.
type authenticator struct {
	digestAlg         digest.Algorithm
	noDigest          bool
	superDigest       string
	superSubject      string
	login             Login
	kerberos          *kerberosLogins // nil: not served
	maxIdentities     int
	credentialLimiter *admission.CredentialLimiter
	log               *slog.Logger
	rejectionLog      *admission.LogLimiter
}

func newAuthenticator(cfg *Config, log *slog.Logger) (*authenticator, error) {
	logins, err := newKerberosLogins(cfg.Login.Kerberos, log)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return &authenticator{
		digestAlg: cfg.Digest, noDigest: cfg.NoDigest, superDigest: cfg.SuperDigest, superSubject: cfg.SuperSubject,
		login: cfg.Login, kerberos: logins,
		maxIdentities: cfg.Limits.MaxIdentities, credentialLimiter: cfg.CredentialLimiter, log: log,
		rejectionLog: admission.NewLogLimiter(),
	}, nil
}

// newExchange returns a login by SASL, or nil if there is none.
func (a *authenticator) newExchange() saslExchange {
	switch {
	case a.kerberos != nil:
		return a.kerberos.acceptor.NewExchange()
	case a.login.Users != nil:
		return sasl.NewExchange(a.login.Users)
	}
	return nil
}

// saslExchange is the server's side of a login by SASL.
type saslExchange interface {
	// Step takes a token of the client and returns the reply. done reports whether the client has logged in. An error ends the exchange.
	Step(token []byte) (answer []byte, done bool, err error)
	// UserName returns the name of the client that has logged in, or "".
	UserName() string
}

// checkSuperPassword reports whether an auth packet names the super user, and whether its password is right.
// Without a super user, both are false.
func (a *authenticator) checkSuperPassword(body []byte) (claims, right bool) {
	var p jute.AuthPacket
	d := jute.NewDecoder(body)
	p.Decode(&d)
	if d.Err() != nil || string(p.Scheme) != "digest" || p.Auth == nil || a.superDigest == "" || a.noDigest {
		return false, false
	}
	id := a.digestID(p.Auth)
	user, _, _ := strings.Cut(a.superDigest, ":")
	return strings.HasPrefix(id, user+":"), subtle.ConstantTimeCompare([]byte(id), []byte(a.superDigest)) == 1
}

// digestID returns the identity for the text of a digest auth packet.
func (a *authenticator) digestID(text []byte) string {
	return a.digestAlg.IdentityOf(strings.ToValidUTF8(string(text), "\ufffd")) // as Java reads a string
}

// loginRejection returns the code for a client whose SASL login failed. The connection ends after it.
func (a *authenticator) loginRejection() jute.Code {
	if slices.Contains(a.login.Schemes, "sasl") {
		return jute.SessionClosedRequireSaslAuth
	}
	return jute.AuthFailed
}

// logFailedLogin logs why a SASL login failed.
func (a *authenticator) logFailedLogin(message string, client net.Addr, session jute.SessionID, why error) {
	if fault, ok := errors.AsType[*kerberos.Error](why); ok && a.kerberos != nil {
		a.kerberos.add(fault, client, session)
		return
	}
	a.logRejection(message, client, session, why.Error())
}

// logRejection logs the rejection of a client, at most once a second over all clients.
func (a *authenticator) logRejection(message string, client net.Addr, session jute.SessionID, reason string) {
	if unlogged, due := a.rejectionLog.AllowLine(time.Now()); due {
		a.log.Warn(message, "client", client, "session", session, "reason", reason, "unlogged", unlogged)
	}
}

// clientIdentity holds the identities that a connection's client has proved. Only the connection's reader or
// loop uses it, except that any goroutine may call all.
type clientIdentity struct {
	authenticator  *authenticator
	host           string       // the address without port
	saslExchange   saslExchange // nil until the first SASL token
	provedRequired bool         // cached result of mayBeServed
	hasCertificate bool
	numRecorded    uint32 // identities in the session's record, or on their way there through the log

	// identityList is replaced and never changed, because transactions share it.
	identityList atomic.Pointer[[]*proto.Identity]
}

// init sets the identity of the client's address.
func (i *clientIdentity) init(auth *authenticator, host string) {
	i.authenticator, i.host = auth, host
	ids := []*proto.Identity{newIdentity("ip", host)}
	i.identityList.Store(&ids)
}

func newIdentity(scheme, id string) *proto.Identity {
	return &proto.Identity{Scheme: scheme, Id: id}
}

// all returns the identities that the client has proved.
func (i *clientIdentity) all() []*proto.Identity { return *i.identityList.Load() }

// mayBeServed reports whether the client has proved one of the required identities.
func (i *clientIdentity) mayBeServed() bool {
	if len(i.authenticator.login.Schemes) == 0 || i.provedRequired {
		return true
	}
	i.provedRequired = slices.ContainsFunc(i.all(),
		func(id *proto.Identity) bool { return slices.Contains(i.authenticator.login.Schemes, id.GetScheme()) })
	return i.provedRequired
}

// authenticate adds the identities that an auth packet proves, for the requests after it.
func (i *clientIdentity) authenticate(body []byte) jute.Code {
	var p jute.AuthPacket
	d := jute.NewDecoder(body)
	p.Decode(&d)
	if d.Err() != nil {
		return jute.MarshallingError
	}
	switch string(p.Scheme) {
	case "ip":
		return i.add("ip", i.host)
	case "ensemble": // a name proves no identity
		if i.namesThisEnsemble(p.Auth) {
			return jute.OK
		}
	case "x509": // addCertificate has added the certificate's identity
		if i.hasCertificate {
			return jute.OK
		}
	case "digest":
		if p.Auth == nil || i.authenticator.noDigest { // an empty text is an identity, as in ZooKeeper
			return jute.AuthFailed
		}
		id := i.authenticator.digestID(p.Auth)
		if super := i.authenticator.superDigest; super != "" && id == super {
			if code := i.add("super", ""); code != jute.OK {
				return code
			}
		}
		return i.add("digest", id)
	}
	return jute.AuthFailed
}

// namesThisEnsemble reports whether a client may have come to this ensemble on purpose. As in ZooKeeper, no name fits each ensemble.
func (i *clientIdentity) namesThisEnsemble(name []byte) bool {
	names := i.authenticator.login.EnsembleNames
	return len(names) > 0 && (len(name) == 0 || slices.Contains(names, string(name)))
}

// namesAnotherEnsemble reports whether an auth packet gives a name of the scheme ensemble that is not this ensemble's.
func (i *clientIdentity) namesAnotherEnsemble(body []byte) bool {
	var p jute.AuthPacket
	d := jute.NewDecoder(body)
	p.Decode(&d)
	return d.Err() == nil && string(p.Scheme) == "ensemble" && !i.namesThisEnsemble(p.Auth)
}

// maxIdentityBytes bounds the identities of one connection in addition to Limits.MaxIdentities, because the
// session's record stores them. It allows 64 bytes for each of 64.
const maxIdentityBytes = 4 << 10

// add adds an identity that the connection does not have yet.
func (i *clientIdentity) add(scheme, id string) jute.Code {
	ids := *i.identityList.Load()
	size := len(scheme) + len(id)
	for _, have := range ids {
		if have.Scheme == scheme && have.Id == id {
			return jute.OK
		}
		size += len(have.Scheme) + len(have.Id)
	}
	if len(ids) >= i.authenticator.maxIdentities || size > maxIdentityBytes {
		return jute.AuthFailed
	}
	ids = append(ids, newIdentity(scheme, id)) // holders of the old slice do not see it
	i.identityList.Store(&ids)
	return jute.OK
}

// takeUnrecorded returns the identities that are not in the session's record, and counts them as recorded.
func (i *clientIdentity) takeUnrecorded() []*proto.Identity {
	ids := i.all()
	if len(ids) <= int(i.numRecorded) {
		return nil
	}
	added := ids[i.numRecorded:]
	i.numRecorded = uint32(len(ids))
	return added
}

// addUser adds the identities of a user who has logged in by SASL.
func (i *clientIdentity) addUser(user string) (code jute.Code) {
	if code = i.add("sasl", user); code == jute.OK && slices.Contains(i.authenticator.login.SuperUsers, user) {
		code = i.add("super", "")
	}
	return code
}

// addCertificate adds the subject of the client's certificate, if there is one, as an identity. The
// configured SuperSubject also becomes the super user.
func (i *clientIdentity) addCertificate(state *tls.ConnectionState) error {
	chains := state.VerifiedChains
	if len(chains) == 0 {
		return nil
	}
	subject := keystore.JavaSubject(chains[0][0])
	i.hasCertificate = subject != ""
	code := i.add("x509", subject)
	if subject == i.authenticator.superSubject && code == jute.OK {
		code = i.add("super", subject)
	}
	if code != jute.OK {
		return fmt.Errorf("server: the certificate's subject has over %d bytes", maxIdentityBytes)
	}
	return nil
}
