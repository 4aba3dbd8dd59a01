package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall/operator/api"
)

const (
	// defaultAdminPort is the admin.serverPort of rollcall serve. With rollcall up it is upPortOffset above
	// the client port.
	defaultAdminPort = 8080
	upPortOffset     = 3000
	probeTimeout     = 3 * time.Second
	// preferredGrace is the extra time for a preferred URL after another one has replied.
	preferredGrace = 300 * time.Millisecond
	maxDescription = 4 << 20
	// responseHeaderTimeout leaves time for the member to query the others, which takes a few seconds at
	// most.
	responseHeaderTimeout = 15 * time.Second
)

func isLocalHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// findAdminURL returns the URL of a member on one of hosts. With credentials it probes the default address
// only, and only if one of hosts is this machine: on a guessed port any user could listen, reply like a
// member, and receive the credentials. It skips removed members.
func (l *EnsembleFlags) findAdminURL(ctx context.Context, hosts []string, credentials bool) (base string, err error) {
	w := l.streams
	if !credentials {
		base, err = l.discoverNotRemoved(ctx, candidateURLs(w, hosts))
		if err != nil {
			err = fmt.Errorf("%w; start the ensemble first, or name the URL of a member with --admin", err)
		}
		return base, err
	}
	if !slices.ContainsFunc(hosts, func(addr string) bool { return isLocalHost(hostOf(addr)) }) {
		return "", UsageError.Errorf("credentials are not sent to %s at a port that is only guessed; name the member's port for "+
			"operators, such as --admin http://%s, or set ROLLCALL_ADMIN to it",
			hostOf(hosts[0]), net.JoinHostPort(hostOf(hosts[0]), strconv.Itoa(defaultAdminPort)))
	}
	base, err = l.discoverNotRemoved(ctx, []string{"http://" + net.JoinHostPort("127.0.0.1", w.defaultAdminPort())})
	if err != nil {
		err = fmt.Errorf("%w; start the member first, or name another one with --admin or ROLLCALL_ADMIN, because "+
			"credentials go to no other address by themselves (rollcall up prints the URLs of its members)", err)
	}
	return base, err
}

func (l *EnsembleFlags) discoverNotRemoved(ctx context.Context, urls []string) (string, error) {
	if urls = l.withoutRemoved(urls); len(urls) == 0 {
		return "", errAllRemoved
	}
	return discoverMember(ctx, newHTTPClient(l.streams, dialMember, nil, nil), urls)
}

func (w IOStreams) defaultAdminPort() string {
	return cmp.Or(w.adminPort, strconv.Itoa(defaultAdminPort))
}

func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// normalizeAdminURL normalizes an entry of --admin: a URL, with or without http://, or unix: and the path of a socket.
func normalizeAdminURL(text string) (string, error) {
	if path, ok := strings.CutPrefix(text, socketScheme); ok {
		if path == "" || strings.HasPrefix(path, "//") {
			return "", errors.New("after unix: comes the path of a member's socket, such as unix:/var/lib/rollcall/admin.sock")
		}
		return text, nil
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", fmt.Errorf("must be a URL such as http://127.0.0.1:%d", defaultAdminPort)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// candidateURLs returns the possible admin URLs of the members at hosts, in order of preference. The default
// port comes last, because another ensemble may use it.
func candidateURLs(w IOStreams, hosts []string) []string {
	var near, usual []string
	for _, addr := range hosts {
		host, port, _ := net.SplitHostPort(addr) // Hosts has checked it
		if n, _ := strconv.Atoi(port); n+upPortOffset <= 65535 {
			near = append(near, "http://"+net.JoinHostPort(host, strconv.Itoa(n+upPortOffset)))
		}
		if u := "http://" + net.JoinHostPort(host, w.defaultAdminPort()); !slices.Contains(usual, u) {
			usual = append(usual, u)
		}
	}
	return append(near, usual...)
}

// discoverMember probes all URLs at once, and returns the first one with a member. It waits at most
// preferredGrace for URLs before one that has replied. silent has the errors of other addresses for the error
// message.
func discoverMember(ctx context.Context, c *http.Client, urls []string, silent ...error) (string, error) {
	ctx, stop := context.WithTimeout(ctx, probeTimeout)
	defer stop()
	type outcome struct {
		place int
		err   error
	}
	outcomes := make(chan outcome, len(urls))
	for i, u := range urls {
		go func() { outcomes <- outcome{i, probeMember(ctx, c, u)} }()
	}
	best, bad := len(urls), make([]error, len(urls))
	var grace <-chan time.Time
	for range urls {
		select {
		case o := <-outcomes:
			bad[o.place] = o.err
			if o.err == nil && o.place < best {
				best, grace = o.place, time.After(preferredGrace)
			}
		case <-grace:
			return urls[best], nil
		}
		if best < len(urls) && !slices.Contains(bad[:best], nil) {
			return urls[best], nil
		}
	}
	return "", Unavailable.Errorf("no member answers operators (%s)", JoinFunc(append(silent, bad...), ", ", error.Error))
}

// probeMember returns an error unless a member replies at base.
func probeMember(ctx context.Context, c *http.Client, base string) error {
	var description struct {
		Info struct {
			Title string `json:"title"`
		} `json:"info"`
	}
	member := &api.Client{BaseURL: base, HTTPClient: c}
	err := member.GetStream(ctx, "openapi.json", nil, func(body io.Reader) error {
		return json.NewDecoder(io.LimitReader(body, maxDescription)).Decode(&description)
	})
	if failed := new(url.Error); errors.As(err, &failed) {
		return fmt.Errorf("%s: %w", base, failed.Err)
	}
	if err != nil || description.Info.Title != "Rollcall" {
		return fmt.Errorf("%s: that is not a member of Rollcall", base)
	}
	return nil
}
