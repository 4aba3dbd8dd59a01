package server

import (
	"crypto/subtle"
	"crypto/tls"
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
	"rollcall/zk/sasl"
)

// authenticator knows the identities that clients can prove, and those that they must prove. Safe for concurrent use.
type authenticator struct {
	digestAlg         digest.Algorithm
	noDigest          bool
	superDigest       string
	superSubject      string
	login             Login
	maxIdentities     int
	credentialLimiter *admission.CredentialLimiter
	log               *slog.Logger
	rejectionLog      *admission.LogLimiter // of clients that are not authenticated
}

func newAuthenticator(cfg *Config, log *slog.Logger) *authenticator {
	return &authenticator{
		digestAlg: cfg.Digest, noDigest: cfg.NoDigest, superDigest: cfg.SuperDigest, superSubject: cfg.SuperSubject, login: cfg.Login,
		maxIdentities: cfg.Limits.MaxIdentities, credentialLimiter: cfg.CredentialLimiter, log: log, rejectionLog: admission.NewLogLimiter(),
	}
}

// checkSuperPassword reports whether an auth packet has the name of the super user, and whether it has the password too. If there is no
// super user, nobody can guess the password.
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

// digestID returns the identity of the text of an auth packet in the scheme digest.
func (a *authenticator) digestID(text []byte) string {
	return a.digestAlg.IdentityOf(strings.ToValidUTF8(string(text), "\ufffd")) // as Java reads a string
}

// failedLoginCode returns the code for a client whose login by SASL has failed.
func (a *authenticator) failedLoginCode() jute.Code {
	if slices.Contains(a.login.Schemes, "sasl") {
		return jute.SessionClosedRequireSaslAuth
	}
	return jute.AuthFailed
}

// logRejection logs that a client has been rejected, unless another line says so of a client in the same
// second.
func (a *authenticator) logRejection(message string, client net.Addr, session jute.SessionID, reason string) {
	if unlogged, due := a.rejectionLog.AllowLine(time.Now()); due {
		a.log.Warn(message, "client", client, "session", session, "reason", reason, "unlogged", unlogged)
	}
}

// clientIdentity holds the identities that the client of a connection has proved. Only the connection's reader or loop uses it,
// except that any goroutine may call all.
type clientIdentity struct {
	authenticator  *authenticator
	host           string         // the client's address without port
	saslExchange   *sasl.Exchange // nil: the client has sent no token of SASL
	provedRequired bool           // entitled has found an identity that the client needs
	hasCertificate bool           // by a certificate
	numRecorded    int            // the number of identities that the record of the session has, or has on its way through the log

	// identityList is replaced and never changed, because transactions share it.
	identityList atomic.Pointer[[]*proto.Identity]
}

// init gives a client the identity of its address.
func (i *clientIdentity) init(auth *authenticator, host string) {
	i.authenticator, i.host = auth, host
	ids := []*proto.Identity{newIdentity("ip", host)}
	i.identityList.Store(&ids)
}

// newIdentity returns a proto.Identity.
func newIdentity(scheme, id string) *proto.Identity {
	return &proto.Identity{Scheme: scheme, Id: id}
}

// all returns the identities that the client has proved.
func (i *clientIdentity) all() []*proto.Identity { return *i.identityList.Load() }

// mayBeServed reports whether the client has proved an identity that it needs to be served.
func (i *clientIdentity) mayBeServed() bool {
	if len(i.authenticator.login.Schemes) == 0 || i.provedRequired {
		return true
	}
	i.provedRequired = slices.ContainsFunc(i.all(), func(id *proto.Identity) bool { return slices.Contains(i.authenticator.login.Schemes, id.GetScheme()) })
	return i.provedRequired
}

// authenticate adds the identities that an auth packet proves. They hold for the
// requests after it.
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

// maxIdentityBytes bounds the identities of one connection beside Limits.MaxIdentities, because the record of its session has
// them. It is 64 bytes for each of 64.
const maxIdentityBytes = 4 << 10

// add adds an identity, unless the connection has it.
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
	ids = append(ids, newIdentity(scheme, id)) // a holder of the old slice sees no more than before
	i.identityList.Store(&ids)
	return jute.OK
}

// takeUnrecorded returns the identities that the record of the session does not have, and counts them as recorded.
func (i *clientIdentity) takeUnrecorded() []*proto.Identity {
	ids := i.all()
	if len(ids) <= i.numRecorded {
		return nil
	}
	added := ids[i.numRecorded:]
	i.numRecorded = len(ids)
	return added
}

// addUser adds the identities of a user who has logged in by SASL.
func (i *clientIdentity) addUser(user string) (code jute.Code) {
	if code = i.add("sasl", user); code == jute.OK && user == i.authenticator.login.SuperUser {
		code = i.add("super", "")
	}
	return code
}

// addCertificate makes the subject of the client's certificate an identity, if the client has shown one. If that is the configured
// SuperSubject, the client is the super user, too.
func (i *clientIdentity) addCertificate(state *tls.ConnectionState) error {
	chains := state.VerifiedChains
	if len(chains) == 0 {
		return nil
	}
	subject := keystore.Subject(chains[0][0])
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
