package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rollcall/internal/localsocket"
	"rollcall/internal/tokenproof"
	"rollcall/operator/api"
)

const (
	socketScheme       = "unix:"
	packagedConfigPath = "/etc/rollcall/zoo.cfg"
	tokenProofTimeout  = 5 * time.Second
)

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// newAdminClient returns a client of the member at base with the credentials auth, the value of a header. A
// token is sent over HTTPS, and to a socket, because localsocket.Dial has checked the listener. Over plain
// TCP it is proved and not sent. The super user's password cannot be proved, so only a socket gets it.
func (l *EnsembleFlags) newAdminClient(base, auth string) (c *api.Client, err error) {
	c = &api.Client{BaseURL: base}
	dial, ports := dialFunc(dialMember), &l.ports
	var config *tls.Config
	path, isSocket := strings.CutPrefix(base, socketScheme)
	switch token, isToken := bearerToken(auth); {
	case isSocket:
		c.BaseURL, c.Address, c.Authorization = "http://localhost", base, auth
		dial, ports = l.socketDial(path), nil
	case strings.HasPrefix(base, "https://"):
		c.Authorization = auth
		config, err = l.tls.ClientConfig(l.streams)
	case isToken:
		dial = tokenProofDial(token)
	}
	c.HTTPClient = newHTTPClient(l.streams, l.annotateDial(base, dial), config, ports)
	return c, err
}

// unreachableError is the error of a failed connection to an admin port.
type unreachableError struct {
	address string // with the variable that set it
	error
}

func (u *unreachableError) Unwrap() error { return u.error }

// annotateDial adds the address, and the flag or variable that set it, to errors of dial.
func (l *EnsembleFlags) annotateDial(base string, dial dialFunc) dialFunc {
	_, origin := l.adminSetting()
	place := describeAddress(base, origin)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, &unreachableError{place, err}
		}
		return conn, nil
	}
}

func dialMember(ctx context.Context, network, addr string) (net.Conn, error) {
	return (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, network, addr)
}

func bearerToken(auth string) (token string, ok bool) { return strings.CutPrefix(auth, "Bearer ") }

func (l *EnsembleFlags) socketDial(path string) dialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := localsocket.Dial(ctx, path, l.tokenFileOwners...)
		return conn, asDialError(err)
	}
}

func tokenProofDial(token string) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		key := tokenproof.DeriveTokenKey(token)
		conn, err := dialMember(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		_ = conn.SetDeadline(time.Now().Add(tokenProofTimeout)) // an error shows in the proof
		private, err := tokenproof.ProveMutually(conn, key)
		if err == nil {
			err = conn.SetDeadline(time.Time{})
		}
		if err != nil {
			return nil, asDialError(errors.Join(err, conn.Close()))
		}
		return private, nil
	}
}

// asDialError marks err as a dial error: no request has reached a member.
func asDialError(err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: "dial", Net: "operators", Err: err}
}

// findLocalSocket returns the socket address of the member configured on this machine, or "" if it does not reply
// or cannot be one of hosts. Without --hosts, any member of this machine may be used.
func (l *EnsembleFlags) findLocalSocket(ctx context.Context, hosts []string) string {
	if l.streams.LocateMember == nil {
		return ""
	}
	named, _ := l.hostsSetting()
	for _, file := range []string{"", packagedConfigPath} {
		at, err := l.streams.LocateMember(file, l.streams.Env)
		if err != nil || at.Dir == "" {
			continue
		}
		isMember := func(addr string) bool {
			_, port, _ := net.SplitHostPort(addr) // Hosts has checked it
			return isLocalHost(hostOf(addr)) && (named == "" || slices.Contains(at.ClientPorts, port))
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

// newHTTPClient returns a client that uses no proxy, which would see the credentials, and follows no redirect. It shows
// waiting requests as progress on the terminal of w. config is for https, and ports, unless nil, explains failed requests.
func newHTTPClient(w IOStreams, dial dialFunc, config *tls.Config, ports *portCheck) *http.Client {
	over := &http.Transport{DialContext: dial, TLSClientConfig: config, ResponseHeaderTimeout: responseHeaderTimeout}
	return &http.Client{
		Transport:     &progressTransport{streams: w, Transport: over, ports: ports},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
