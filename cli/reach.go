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
	// packagedConfig is the zoo.cfg that packages install.
	packagedConfig = "/etc/rollcall/zoo.cfg"
	// proofTime is how long a member may take to prove the token.
	proofTime = 5 * time.Second
)

// dialFunc opens a connection for HTTP.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// clientOf returns a client of the member at base that shows auth, the value of a header. The token goes to a
// socket as it is, because localsocket.Dial has checked who listens there, and so it goes over HTTPS. Over plain TCP it is proved, and not sent. The
// password of the super user cannot be proved so, and goes to a socket alone: other questions need no credentials
// on the member's machine.
func (l *Link) clientOf(base, auth string) (*api.Client, error) {
	path, isSocket := strings.CutPrefix(base, socketScheme)
	switch token, isToken := tokenIn(auth); {
	case isSocket:
		return &api.Client{BaseURL: "http://localhost", Authorization: auth, HTTPClient: newHTTPOver(l.world, l.at(base, l.socketDial(path)))}, nil
	case strings.HasPrefix(base, "https://"):
		reach, err := l.newHTTP()
		if err == nil {
			transport := reach.Transport.(*requests)
			transport.DialContext = l.at(base, transport.DialContext)
		}
		return &api.Client{BaseURL: base, Authorization: auth, HTTPClient: reach}, err
	case isToken:
		return &api.Client{BaseURL: base, HTTPClient: newHTTPOver(l.world, l.at(base, provedDial(token)))}, nil
	}
	return &api.Client{BaseURL: base, HTTPClient: newHTTPOver(l.world, l.at(base, dialMember))}, nil
}

// unreached is the error of an attempt to connect to a member's port for operators.
type unreached struct {
	place string // the address, and what names it
	error
}

func (u *unreached) Unwrap() error { return u.error }

// at returns a dial whose errors say at which address they are, and what names that.
func (l *Link) at(base string, dial dialFunc) dialFunc {
	place := base
	if l.world.setting(l.admin, "ROLLCALL_ADMIN") != "" {
		place = l.place(base, l.adminOrigin())
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, &unreached{place, err}
		}
		return conn, nil
	}
}

// dialMember connects to a member's port.
func dialMember(ctx context.Context, network, addr string) (net.Conn, error) {
	return (&net.Dialer{Timeout: probeTime}).DialContext(ctx, network, addr)
}

// tokenIn returns the token in the value of a header, if there is one.
func tokenIn(auth string) (token string, ok bool) { return strings.CutPrefix(auth, "Bearer ") }

// socketDial returns how to connect to the socket at path.
func (l *Link) socketDial(path string) dialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := localsocket.Dial(ctx, path, l.tokenOwners...)
		return conn, asDial(err)
	}
}

// provedDial returns how to connect to a member with a proof of the token.
func provedDial(token string) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		key := tokenproof.KeyOfToken(token)
		conn, err := dialMember(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		_ = conn.SetDeadline(time.Now().Add(proofTime)) // an error shows in the proof
		private, err := tokenproof.Prove(conn, key)
		if err == nil {
			err = conn.SetDeadline(time.Time{})
		}
		if err != nil {
			return nil, asDial(errors.Join(err, conn.Close()))
		}
		return private, nil
	}
}

// asDial returns err as that of an attempt to connect: no request has reached a member. It keeps nil.
func asDial(err error) error {
	if err == nil {
		return nil
	}
	return &net.OpError{Op: "dial", Net: "operators", Err: err}
}

// here returns the address of the socket of the member that is configured on this machine, if a member answers there
// and may be one of hosts, or "". If --hosts is not given, any member of this machine may be.
func (l *Link) here(ctx context.Context, hosts []string) string {
	given := l.world.setting(l.hosts, "ROLLCALL_HOSTS") != ""
	for _, file := range []string{"", packagedConfig} {
		at, err := config.LocateMember(file, l.world.Env)
		if err != nil || at.Dir == "" {
			continue
		}
		isMember := func(addr string) bool {
			_, port, _ := net.SplitHostPort(addr) // Hosts has checked it
			return isHere(hostOf(addr)) && (!given || slices.Contains(at.ClientPorts, port))
		}
		if !slices.ContainsFunc(hosts, isMember) {
			continue
		}
		path := filepath.Join(at.Dir, localsocket.Name)
		socket := socketScheme + path
		if len(l.present([]string{socket})) == 0 {
			continue
		}
		conn, err := localsocket.Dial(ctx, path, l.tokenOwners...)
		if err == nil {
			_ = conn.Close() // nothing was sent
			return socket
		}
	}
	return ""
}

// newHTTPOver returns what newHTTP does, with connections that dial opens.
func newHTTPOver(w World, dial dialFunc) *http.Client {
	return &http.Client{
		Transport:     &requests{w, &http.Transport{DialContext: dial, ResponseHeaderTimeout: headerTime}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
