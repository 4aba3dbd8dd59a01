package cli

import (
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
)

const (
	// defaultAdminPort is the port for operators of rollcall serve (admin.serverPort), and upDistance how far it is
	// above the clients' port with rollcall up.
	defaultAdminPort = 8080
	upPortOffset     = 3000
	// probeTimeout is how long a member may take to say that it is one.
	probeTimeout = 3 * time.Second
	// preferredGrace is how long a likelier place may take to answer when another one has.
	preferredGrace = 300 * time.Millisecond
	// maxDescription is how much of the description of the endpoints is read, in bytes.
	maxDescription = 4 << 20
	// responseHeaderTimeout is how long a member may take for the beginning of an answer. It asks the others for
	// a few seconds at most.
	responseHeaderTimeout = 15 * time.Second
)

// newHTTPClient returns a client that goes straight to a member: through no proxy, which would learn the
// credentials, and to no other place that an answer names. The terminal of w shows what the client waits for.
func newHTTPClient(w IOStreams) *http.Client {
	return newHTTPClientOver(w, dialMember)
}

// isLocalHost reports whether host is a loopback address or localhost.
func isLocalHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// searchPorts returns the URL of a member that answers operators on one of the machines of hosts. If there will be credentials, it tries the default address alone, and finds nothing if none of
// hosts is on this machine: any user can listen at a free port, answer as a member does, and get what is sent there. It passes over
// removed members.
func (l *Link) searchPorts(ctx context.Context, hosts []string, credentials bool) (base string, err error) {
	w := l.streams
	if !credentials {
		base, err = l.discoverPresent(ctx, candidateURLs(w, hosts))
		if err != nil {
			err = fmt.Errorf("%w; start the ensemble first, or name the URL of a member with --admin", err)
		}
		return base, err
	}
	if !slices.ContainsFunc(hosts, func(addr string) bool { return isLocalHost(hostOf(addr)) }) {
		return "", WithStatus(UsageError, fmt.Errorf("credentials are not sent to %s at a port that is only guessed; name the member's port for operators, such as --admin http://%s, or set ROLLCALL_ADMIN to it",
			hostOf(hosts[0]), net.JoinHostPort(hostOf(hosts[0]), strconv.Itoa(defaultAdminPort))))
	}
	base, err = l.discoverPresent(ctx, []string{"http://" + net.JoinHostPort("127.0.0.1", w.defaultAdminPort())})
	if err != nil {
		err = fmt.Errorf("%w; start the member first, or name another one with --admin or ROLLCALL_ADMIN, because credentials go to no other address by themselves (rollcall up prints the URLs of its members)", err)
	}
	return base, err
}

// discoverPresent returns the first of the URLs where a member answers that was not removed.
func (l *Link) discoverPresent(ctx context.Context, urls []string) (string, error) {
	if urls = l.withoutRemoved(urls); len(urls) == 0 {
		return "", errAllRemoved
	}
	return discoverMember(ctx, newHTTPClient(l.streams), urls)
}

// defaultAdminPort returns the port at which a member answers operators by default.
func (w IOStreams) defaultAdminPort() string {
	if w.adminPort != "" {
		return w.adminPort
	}
	return strconv.Itoa(defaultAdminPort)
}

// hostOf returns the host of an address that Hosts has checked.
func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// baseURL returns the URL that --admin means, which may lack http://, or the path of a socket after unix:.
func baseURL(text string) (string, error) {
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
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("allowed is a URL such as http://127.0.0.1:%d", defaultAdminPort)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// candidateURLs returns the URLs where the members that take clients at hosts may answer operators, the likeliest
// first: on the default port of such a machine another ensemble may answer.
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

// discoverMember returns the first of the URLs where a member of Rollcall answers. It asks all of them at once, and
// waits for those before a good one for at most graceTime, so that one that hangs delays little. silent says of other addresses
// why no member answers there, for the error.
func discoverMember(ctx context.Context, c *http.Client, urls []string, silent ...string) (string, error) {
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
	reasons := slices.Clone(silent)
	for _, err := range bad {
		reasons = append(reasons, err.Error())
	}
	return "", WithStatus(Unavailable, fmt.Errorf("no member answers operators (%s)", strings.Join(reasons, ", ")))
}

// probeMember returns an error unless a member of Rollcall answers at base.
func probeMember(ctx context.Context, c *http.Client, base string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/openapi.json", nil)
	if err != nil {
		return err
	}
	answer, err := c.Do(r)
	if err != nil {
		var reason *url.Error
		if errors.As(err, &reason) {
			err = reason.Err
		}
		return fmt.Errorf("%s: %w", base, err)
	}
	defer func() { _ = answer.Body.Close() }()
	var description struct {
		Info struct {
			Title string `json:"title"`
		} `json:"info"`
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, maxDescription)).Decode(&description)
	if err != nil || answer.StatusCode != http.StatusOK || description.Info.Title != "Rollcall" {
		return fmt.Errorf("%s: that is not a member of Rollcall", base)
	}
	return nil
}
