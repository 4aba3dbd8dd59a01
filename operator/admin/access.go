package admin

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"rollcall/internal/localsocket"
)

// accessClass groups endpoints by the callers that may use them.
type accessClass int

const (
	// openAccess: every caller.
	openAccess accessClass = iota
	// readAccess: the state of the member, for every caller on this machine, and for callers elsewhere with
	// credentials.
	readAccess
	// metricsAccess: likewise for metrics. A metrics token suffices.
	metricsAccess
	// logAccess: the log, only with an administrator's credentials, from every machine.
	logAccess
	// changeAccess: changes, and reads of the member's memory, only on this machine and only with an administrator's
	// credentials.
	changeAccess
)

func (c accessClass) String() string {
	return [...]string{"open", "reads", "metrics", "log", "changes"}[c]
}

// forAdministrators reports whether the class needs an administrator's credentials. Its requests are audited.
func (c accessClass) forAdministrators() bool { return c == logAccess || c == changeAccess }

// callerRole is the set of classes that credentials allow. A higher role includes the lower ones.
type callerRole int

const (
	roleNone callerRole = iota
	roleMetrics
	roleReads
	roleAdmin
)

// authorizer checks requests by their credentials, address and host headers. It is immutable.
type authorizer struct {
	credentials      credentials
	superSubject     string          // subject of the super user's certificate; "": there is none
	hostNames        []string        // this member's names in the Host header, in lower case
	anonymousAccess  AnonymousAccess // what callers without credentials may read
	distrustLoopback bool            // see HTTPSettings
	onLoopback       bool            // the port is also that of a loopback address
	source           Source
}

func newAuthorizer(cfg *HTTPConfig, log *slog.Logger) (*authorizer, error) {
	a := &authorizer{
		credentials:  credentials{superDigest: cfg.SuperDigest, digestAlg: cfg.DigestAlg},
		superSubject: cfg.SuperSubject, anonymousAccess: cfg.AnonymousAccess, source: cfg.Source,
		distrustLoopback: cfg.DistrustLoopback, onLoopback: includesLoopback(cfg.Addr),
	}
	for _, name := range slices.Concat([]string{"localhost"}, cfg.HostNames, cfg.Hosts) {
		a.hostNames = append(a.hostNames, strings.ToLower(name))
	}
	return a, a.credentials.readTokens(&cfg.HTTPSettings, log)
}

// neededRoles maps a class to the lowest role that may use it from another machine. Changes need it on this
// machine, too.
var neededRoles = map[accessClass]callerRole{
	openAccess: roleNone, metricsAccess: roleMetrics, readAccess: roleReads,
	logAccess: roleAdmin, changeAccess: roleAdmin,
}

// checkAccess returns nil if the request may use an endpoint of the class, and a Failure otherwise. A web page
// in a browser on this machine must not act for its author: its requests carry its origin, or the page's own
// host name if that resolves to this machine.
func (a *authorizer) checkAccess(c accessClass, r *http.Request) *Failure {
	if c == openAccess {
		return a.checkHost(r)
	}
	strange := func(origin string) bool { return origin != "" && !sameOrigin(origin, r.Host) }
	if slices.ContainsFunc(r.Header.Values("Origin"), strange) ||
		slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), isCrossSite) {
		return &Failure{Status: http.StatusForbidden, Text: "requests from pages of another origin are rejected"}
	}
	has := a.roleOf(r)
	needs := a.credentialsFault(r)
	if c != changeAccess && has >= neededRoles[c] {
		return nil
	}
	switch {
	case !a.isLocal(r.RemoteAddr) && c == changeAccess:
		return a.elsewhereFailure()
	case c == logAccess && has > roleNone:
		return errOnlyReads
	case !a.isLocal(r.RemoteAddr):
		return &Failure{Status: http.StatusUnauthorized, Text: a.describeOrigin(r.RemoteAddr) + needs}
	case !a.knowsHost(r.Host):
		return errWrongHost
	case c == changeAccess && has > roleNone && has < roleAdmin:
		return errOnlyReads
	case c.forAdministrators() && has < roleAdmin:
		return &Failure{Status: http.StatusUnauthorized, Text: needs}
	}
	return nil
}

var errOnlyReads = &Failure{Status: http.StatusForbidden, Text: "these credentials only read; an administrator's are needed"}

// elsewhereFailure rejects a change from another machine. It names addresses at which this member takes changes.
func (a *authorizer) elsewhereFailure() *Failure {
	text := "this is served on the member's own machine alone, at its socket: run the command there as the member's user, with --admin " +
		"unix:DATADIR/" + localsocket.SocketName + ", where DATADIR is the member's dataDir"
	switch {
	case a.distrustLoopback:
		text += "; with admin.loopbackTrust=false a loopback address is none of its own"
	case a.onLoopback:
		text += ", or at a loopback address"
	}
	return &Failure{Status: http.StatusForbidden, Text: text}
}

// includesLoopback reports whether a listener at addr, a host:port, can be reached at a loopback address. It reports false
// for a name.
func includesLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || host == "localhost" || err == nil && (ip.IsUnspecified() || ip.Unmap().IsLoopback())
}

// errWrongHost rejects a request for another host, as a page of another site sends if its name resolves to this
// machine.
var errWrongHost = &Failure{
	Status: http.StatusForbidden,
	Text:   "the Host header is none of this member's names; use its address or localhost, or add the name to admin.hosts",
}

// checkHost returns errWrongHost if a request without credentials names another host. Some probes name no host;
// every browser does.
func (a *authorizer) checkHost(r *http.Request) *Failure {
	if r.Host == "" || a.knowsHost(r.Host) || a.roleOf(r) > roleNone {
		return nil
	}
	return errWrongHost
}

// checkContentType requires the endpoint's content type. A page of another site cannot send these types without
// a preflight request.
func (e *endpoint) checkContentType(r *http.Request) *Failure {
	wanted := cmp.Or(e.contentType, "application/json")
	if e.access != changeAccess || r.Method != http.MethodPost || hasContentType(r, wanted) {
		return nil
	}
	return &Failure{Status: http.StatusUnsupportedMediaType, Text: "the Content-Type of this request must be " + wanted}
}

// credentialsFault describes why a request proves nothing.
func (a *authorizer) credentialsFault(r *http.Request) string {
	switch {
	case a.credentials == (credentials{digestAlg: a.credentials.digestAlg}):
		return "this needs credentials, and the member knows none: set admin.tokenFile or " +
			"DigestAuthenticationProvider.superDigest, and start it again"
	case len(r.Header.Values("Authorization")) > 0:
		return "the credentials of this request are wrong: the member knows another token or password (admin.tokenFile, " +
			"DigestAuthenticationProvider.superDigest), or the header is not Authorization: Bearer TOKEN, or digest super:PASSWORD"
	}
	return "this needs credentials: Authorization: digest super:PASSWORD, or Bearer TOKEN"
}

// isLocal reports whether addr is a user at a local socket or, if loopback is trusted, a host:port of the loopback
// interface.
func (a *authorizer) isLocal(addr string) bool {
	if strings.HasPrefix(addr, localsocket.PeerPrefix) {
		return true
	}
	return isLoopback(addr) && !a.distrustLoopback
}

func isLoopback(addr string) bool {
	from, err := netip.ParseAddrPort(addr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// describeOrigin begins the text for a caller who is not local, before what that needs.
func (a *authorizer) describeOrigin(addr string) string {
	if isLoopback(addr) {
		return "over TCP, from this machine too (admin.loopbackTrust=false), "
	}
	return "from another machine "
}

// sameOrigin reports whether origin names host.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, host)
}

// isCrossSite reports whether a browser marked the request as coming from a page of another site.
func isCrossSite(site string) bool { return site != "" && site != "same-origin" && site != "none" }

// knowsHost reports whether host, with or without a port, is an IP address or one of this member's names.
func (a *authorizer) knowsHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return slices.Contains(a.hostNames, strings.ToLower(name)) || slices.Contains(a.hostNames, "*")
}

func hasContentType(r *http.Request, wanted string) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), wanted) && len(r.Header.Values("Content-Type")) == 1
}
