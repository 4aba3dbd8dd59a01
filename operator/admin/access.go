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

// class groups endpoints by the callers that may use them.
type class int

const (
	// open is for everybody who reaches the port.
	open class = iota
	// reads shows the state of the member to every caller on this machine, and to callers from elsewhere with
	// credentials.
	reads
	// measures shows metrics, likewise. The token for metrics suffices.
	measures
	// changes changes the member or shows its memory: only on this machine, and only with
	// credentials.
	changes
)

func (c class) String() string { return [...]string{"open", "reads", "metrics", "changes"}[c] }

// role is the set of classes that credentials allow. A higher role includes the lower ones.
type role int

const (
	roleNone role = iota
	roleMetrics
	roleReads
	roleAdmin
)

// authorizer decides what the sender of a request may do, by its credentials, its address and the names in its headers.
// It does not change.
type authorizer struct {
	credentials credentials
	super       string    // the subject of the super user's certificate; "": nobody is super by certificate
	names       []string  // of this member in the Host header, in lower case
	anonymous   Anonymous // what callers without credentials may read
	source      Source
}

// newAuthorizer reads the files with tokens.
func newAuthorizer(cfg *HTTPConfig, log *slog.Logger) (*authorizer, error) {
	a := &authorizer{
		credentials: credentials{superDigest: cfg.SuperDigest, alg: cfg.Digest},
		super:       cfg.Super, anonymous: cfg.Anonymous, source: cfg.Source,
	}
	for _, name := range slices.Concat([]string{"localhost"}, cfg.Names, cfg.Hosts) {
		a.names = append(a.names, strings.ToLower(name))
	}
	return a, a.credentials.readTokens(&cfg.HTTPSettings, log)
}

// neededRoles is the lowest role that may use a class of endpoints from another machine. For changes it holds on this machine, too.
var neededRoles = map[class]role{open: roleNone, measures: roleMetrics, reads: roleReads, changes: roleAdmin}

// reject returns nil if the request may use an endpoint of the class, or else the reason why
// not. A web page in a browser on this machine must not act for its author: its requests name its
// origin, or the page's own host name if that resolves to this machine.
func (a *authorizer) reject(c class, r *http.Request) *Failure {
	if c == open {
		return a.rejectHost(r)
	}
	strange := func(origin string) bool { return origin != "" && !sameOrigin(origin, r.Host) }
	if slices.ContainsFunc(r.Header.Values("Origin"), strange) || slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), isCrossSite) {
		return &Failure{Status: http.StatusForbidden, Text: "requests from pages of another origin are refused"}
	}
	has := a.role(r)
	needs := a.credentialsFault(r)
	if c != changes && has >= neededRoles[c] {
		return nil
	}
	switch {
	case !isLocal(r.RemoteAddr) && c != changes:
		return &Failure{Status: http.StatusUnauthorized, Text: "from another machine " + needs}
	case !isLocal(r.RemoteAddr):
		return &Failure{Status: http.StatusForbidden, Text: "this is answered on the member's own machine alone: connect to a loopback address"}
	case !a.knowsHost(r.Host):
		return errWrongHost
	case c == changes && has > roleNone && has < roleAdmin:
		return &Failure{Status: http.StatusForbidden, Text: "these credentials only read; an administrator's are needed"}
	case c == changes && has < roleAdmin:
		return &Failure{Status: http.StatusUnauthorized, Text: needs}
	}
	return nil
}

// errWrongHost is the reply to a request for another host. A page of another site whose name resolves to this machine sends such a
// request.
var errWrongHost = &Failure{Status: http.StatusForbidden, Text: "the Host header is none of this member's names; use its address or localhost, or add the name to admin.hosts"}

// rejectHost returns errWrongHost if a request without credentials is for a host that is not this member. Some probes name no host,
// and every browser does.
func (a *authorizer) rejectHost(r *http.Request) *Failure {
	if r.Host == "" || a.knowsHost(r.Host) || a.role(r) > roleNone {
		return nil
	}
	return errWrongHost
}

// rejectContentType returns nil if a request has the type of body that the endpoint takes. A page of another site can send no
// such type without asking first.
func (e *endpoint) rejectContentType(r *http.Request) *Failure {
	wanted := cmp.Or(e.contentType, "application/json")
	if e.class != changes || r.Method != http.MethodPost || hasContentType(r, wanted) {
		return nil
	}
	return &Failure{Status: http.StatusUnsupportedMediaType, Text: "the Content-Type of this request must be " + wanted}
}

// credentialsFault describes the fault of the credentials of a request that proves nothing.
func (a *authorizer) credentialsFault(r *http.Request) string {
	switch {
	case a.credentials == (credentials{alg: a.credentials.alg}):
		return "this needs credentials, and the member knows none: set admin.tokenFile or DigestAuthenticationProvider.superDigest, and start it again"
	case len(r.Header.Values("Authorization")) > 0:
		return "the credentials of this request are wrong: the member knows another token or password (admin.tokenFile, DigestAuthenticationProvider.superDigest), or the header is not Authorization: Bearer TOKEN, or digest super:PASSWORD"
	}
	return "this needs credentials: Authorization: digest super:PASSWORD, or Bearer TOKEN"
}

// isLocal reports whether addr is on this machine: a host:port of its loopback interface, or a user at a socket.
func isLocal(addr string) bool {
	if strings.HasPrefix(addr, localsocket.Prefix) {
		return true
	}
	a, err := netip.ParseAddrPort(addr)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// sameOrigin reports whether the page whose origin is given came from the server that the request
// calls host.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, host)
}

// isCrossSite reports whether a browser says that a page of another site made the request.
func isCrossSite(site string) bool { return site != "" && site != "same-origin" && site != "none" }

// knowsHost reports whether host is an address or one of this member's names, with or without a port.
func (a *authorizer) knowsHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return slices.Contains(a.names, strings.ToLower(name)) || slices.Contains(a.names, "*")
}

func hasContentType(r *http.Request, wanted string) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), wanted) && len(r.Header.Values("Content-Type")) == 1
}
