package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rollcall/config"
	"rollcall/internal/localsocket"
	"rollcall/internal/tokenproof"
	"rollcall/operator/api"
)

const (
	// socketScheme begins an address in --admin that is the path of a socket.
	socketScheme = "unix:"
	// packagedConfigPath is the zoo.cfg that packages install.
	packagedConfigPath = "/etc/rollcall/zoo.cfg"
	// tokenProofTimeout is how long a member may take to prove the token.
	tokenProofTimeout = 5 * time.Second
)

// dialFunc opens a connection for HTTP.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// newAdminClient returns a client of the member at base that shows auth, the value of a header. The token goes to a
// socket as it is, because localsocket.Dial has checked who listens there, and so it goes over HTTPS. Over plain TCP it is proved, and not sent. The
// password of the super user cannot be proved so, and goes to a socket alone: other questions need no credentials
// on the member's machine.
func (l *Link) newAdminClient(base, auth string) (*api.Client, error) {
	path, isSocket := strings.CutPrefix(base, socketScheme)
	switch token, isToken := bearerToken(auth); {
	case isSocket:
		return &api.Client{BaseURL: "http://localhost", Authorization: auth, HTTPClient: newHTTPClientOver(l.streams, l.annotateDial(base, l.socketDial(path)))}, nil
	case strings.HasPrefix(base, "https://"):
		reach, err := l.newTLSClient()
		if err == nil {
			transport := reach.Transport.(*progressTransport)
			transport.DialContext = l.annotateDial(base, transport.DialContext)
		}
		return &api.Client{BaseURL: base, Authorization: auth, HTTPClient: reach}, err
	case isToken:
		return &api.Client{BaseURL: base, HTTPClient: newHTTPClientOver(l.streams, l.annotateDial(base, tokenProofDial(token)))}, nil
	}
	return &api.Client{BaseURL: base, HTTPClient: newHTTPClientOver(l.streams, l.annotateDial(base, dialMember))}, nil
}

// unreachableError is the error of an attempt to connect to a member's port for operators.
type unreachableError struct {
	address string // the address, and what names it
	error
}

func (u *unreachableError) Unwrap() error { return u.error }

// annotateDial returns a dial whose errors say at which address they are, and what names that.
func (l *Link) annotateDial(base string, dial dialFunc) dialFunc {
	place := base
	if l.streams.flagOrEnv(l.adminURLs, "ROLLCALL_ADMIN") != "" {
		place = l.describeAddress(base, l.adminOrigin())
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, &unreachableError{place, err}
		}
		return conn, nil
	}
}

// dialMember connects to a member's port.
func dialMember(ctx context.Context, network, addr string) (net.Conn, error) {
	return (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, network, addr)
}

// bearerToken returns the token in the value of a header, if there is one.
func bearerToken(auth string) (token string, ok bool) { return strings.CutPrefix(auth, "Bearer ") }

// socketDial returns how to connect to the socket at path.
func (l *Link) socketDial(path string) dialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := localsocket.Dial(ctx, path, l.tokenFileOwners...)
		return conn, asDialError(err)
	}
}

// tokenProofDial returns how to connect to a member with a proof of the token.
func tokenProofDial(token string) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		key := tokenproof.KeyOfToken(token)
		conn, err := dialMember(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		_ = conn.SetDeadline(time.Now().Add(tokenProofTimeout)) // an error shows in the proof
		private, err := tokenproof.Prove(conn, key)
		if err == nil {
			err = conn.SetDeadline(time.Time{})
		}
		if err != nil {
			return nil, asDialError(errors.Join(err, conn.Close()))
		}
		return private, nil
	}
}

// asDialError returns err as that of an attempt to connect: no request has reached a member. It keeps nil.
func asDialError(err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: "dial", Net: "operators", Err: err}
}

// localSocket returns the address of the socket of the member that is configured on this machine, if a member answers there
// and may be one of hosts, or "". If --hosts is not given, any member of this machine may be.
func (l *Link) localSocket(ctx context.Context, hosts []string) string {
	given := l.streams.flagOrEnv(l.hosts, "ROLLCALL_HOSTS") != ""
	for _, file := range []string{"", packagedConfigPath} {
		at, err := config.LocateMember(file, l.streams.Env)
		if err != nil || at.Dir == "" {
			continue
		}
		isMember := func(addr string) bool {
			_, port, _ := net.SplitHostPort(addr) // Hosts has checked it
			return isLocalHost(hostOf(addr)) && (!given || slices.Contains(at.ClientPorts, port))
		}
		if !slices.ContainsFunc(hosts, isMember) {
			continue
		}
		path := filepath.Join(at.Dir, localsocket.SocketName)
		socket := socketScheme + path
		if len(l.withoutRemoved([]string{socket})) == 0 {
			continue
		}
		conn, err := localsocket.Dial(ctx, path, l.tokenFileOwners...)
		if err == nil {
			_ = conn.Close() // nothing was sent
			return socket
		}
	}
	return ""
}

// newHTTPClientOver returns what newHTTP does, with connections that dial opens.
func newHTTPClientOver(w IOStreams, dial dialFunc) *http.Client {
	return &http.Client{
		Transport:     &progressTransport{w, &http.Transport{DialContext: dial, ResponseHeaderTimeout: responseHeaderTimeout}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
