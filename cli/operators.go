package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"rollcall/internal/localsocket"
	"rollcall/operator/api"
)

// errAllRemoved is the error of choose if every address was passed over.
var errAllRemoved = errors.New("every member that was asked was removed from the ensemble")

// describeAddress returns an address with what names it, if that is not a flag: the user has not typed it.
func (l *Link) describeAddress(addr, origin string) string {
	if origin == "" || strings.HasPrefix(origin, "--") {
		return addr
	}
	return addr + " (from " + origin + ")"
}

// AdminClient returns a client of a member's port for operators: of the first that --admin names where a member
// answers, or else of one that search finds on the machines of --hosts. If --admin names one alone, that one is
// used, whether or not it answers.
func (l *Link) AdminClient(ctx context.Context) (*api.Client, error) {
	base, auth, err := l.chooseMember(ctx)
	if err != nil {
		return nil, err
	}
	return l.newAdminClient(base, auth)
}

// chooseMember returns the address of the member of which Admin returns a client, and the credentials. It passes over members that were
// removed from the ensemble, and its error is errNoOther if there are no others.
func (l *Link) chooseMember(ctx context.Context) (base, auth string, err error) {
	auth, bases, err := l.namedURLs()
	switch {
	case err != nil:
		return "", "", err
	case len(bases) == 0:
		base, err = l.searchHosts(ctx, auth)
	default:
		base, err = l.firstAnswering(ctx, bases)
	}
	return base, auth, err
}

// withoutRemoved returns the addresses that are not those of removed members.
func (l *Link) withoutRemoved(bases []string) []string {
	return slices.DeleteFunc(slices.Clone(bases), func(base string) bool { return slices.Contains(l.removedMembers, base) })
}

// callInEnsemble calls request with the client that Admin returns. If that member was removed from the ensemble, inEnsemble goes on to the
// next address and calls request again. If no other member answers, it returns the error of the last one that was removed.
func (l *Link) callInEnsemble(ctx context.Context, request func(c *api.Client) error) error {
	var gone error // of the last member that was removed
	for {
		base, err := l.callMember(ctx, request)
		switch nobody := new(unreachableError); {
		case isRemoval(err):
			gone = err
			l.removedMembers = append(l.removedMembers, base)
		case gone == nil || base != "" && !errors.As(err, &nobody):
			return err
		case errors.Is(err, errAllRemoved):
			l.removedMembers = nil
			return gone
		default:
			l.removedMembers = nil
			return WithStatus(Unavailable, fmt.Errorf("%w; at the other addresses: %w", gone, err))
		}
	}
}

// callMember calls request with the client that Admin returns. It also returns the address of the member, or "" if none answers.
func (l *Link) callMember(ctx context.Context, request func(c *api.Client) error) (base string, err error) {
	base, auth, err := l.chooseMember(ctx)
	if err != nil {
		return "", err
	}
	c, err := l.newAdminClient(base, auth)
	if err != nil {
		return base, err
	}
	return base, request(c)
}

// errRemovedList is the error of a list of servers that comes from a removed member.
var errRemovedList = errors.New("the member that answers was removed from the ensemble, so its list of servers may be old; --admin names a member that is in the ensemble")

// errRemovedState is the error of a backup that comes from a removed member.
var errRemovedState = errors.New("the member that answers was removed from the ensemble, so its state may be old; --admin names a member that is in the ensemble")

// isRemoval reports whether err says that the member that was asked was removed from the ensemble.
func isRemoval(err error) bool {
	var answer *api.Error
	return errors.As(err, &answer) && answer.Reason == api.ReasonRemoved || errors.Is(err, errRemovedList) || errors.Is(err, errRemovedState)
}

// postInEnsemble sends a change as api.Post does, to a member that was not removed from the ensemble.
func postInEnsemble[T any](ctx context.Context, l *Link, path string, body any) (answer T, err error) {
	err = l.callInEnsemble(ctx, func(c *api.Client) (err error) {
		answer, err = api.Post[T](ctx, c, path, body)
		return err
	})
	return answer, err
}

// FirstAdminClient returns a client of the first member that --admin names, or else of the one that Admin returns. A command
// that is about the member itself uses it: it must not act on another one because this one is down.
func (l *Link) FirstAdminClient(ctx context.Context) (*api.Client, error) {
	auth, bases, err := l.namedURLs()
	if err != nil {
		return nil, err
	}
	if len(bases) > 0 {
		return l.newAdminClient(bases[0], auth)
	}
	return l.AdminClient(ctx)
}

// newTLSClient returns a client for the URLs that --admin names. To those with https it shows the certificate of --tls-cert, and holds
// theirs against --tls-ca, or against the authorities of the system.
func (l *Link) newTLSClient() (*http.Client, error) {
	reach := newHTTPClient(l.streams)
	config, err := l.tls.clientConfig(l.streams)
	if config != nil {
		reach.Transport.(*progressTransport).TLSClientConfig = config
	}
	return reach, err
}

// firstAnswering returns the first of the addresses that --admin names where a member answers. It does not ask if there is only
// one. Nothing gets the credentials before it has answered. Sockets go before URLs.
func (l *Link) firstAnswering(ctx context.Context, named []string) (string, error) {
	bases := l.withoutRemoved(named)
	switch len(bases) {
	case 0:
		return "", errAllRemoved
	case 1:
		return bases[0], nil
	}
	var urls, silent []string
	for _, base := range bases {
		path, isSocket := strings.CutPrefix(base, socketScheme)
		if !isSocket {
			urls = append(urls, base)
			continue
		}
		conn, err := localsocket.Dial(ctx, path, l.tokenFileOwners...)
		if err == nil {
			_ = conn.Close() // nothing was sent
			return base, nil
		}
		silent = append(silent, fmt.Sprintf("%s: %v", base, err))
	}
	reach, err := l.newTLSClient()
	if err != nil {
		return "", err
	}
	base, err := discoverMember(ctx, reach, urls, silent...)
	if err != nil {
		return "", fmt.Errorf("%s: %w; start one of them first, or name others with --admin", l.adminOrigin(), err)
	}
	return base, nil
}

// searchHosts returns the address of a member that find finds on the machines of --hosts.
func (l *Link) searchHosts(ctx context.Context, auth string) (string, error) {
	hosts, err := l.Hosts()
	if err != nil {
		return "", err
	}
	return l.findMember(ctx, hosts, auth)
}

// findMember returns the address of the socket of this machine's member, or that of a port that search finds.
func (l *Link) findMember(ctx context.Context, hosts []string, auth string) (string, error) {
	if socket := l.localSocket(ctx, hosts); socket != "" {
		return socket, nil
	}
	_, isToken := bearerToken(auth)
	return l.searchPorts(ctx, hosts, isToken)
}

// adminClients returns a client of the port for operators of each member: of those that --admin names, separated
// by commas, or else of those that search finds on the machine of each of --hosts. The error is about those
// that it does not find.
func (l *Link) adminClients(ctx context.Context) (members []*api.Client, err error) {
	auth, bases, err := l.namedURLs()
	if err != nil {
		return nil, err
	}
	if len(bases) == 0 {
		return l.findAdminClients(ctx, auth)
	}
	for _, base := range bases {
		member, err := l.newAdminClient(base, auth)
		if err != nil {
			return nil, err
		}
		members = append(members, member)
	}
	return members, nil
}

// namedURLs returns the credentials, and the URLs that --admin names, if any.
func (l *Link) namedURLs() (auth string, bases []string, err error) {
	if auth, err = l.authorizationHeader(); err != nil {
		return "", nil, err
	}
	text := l.streams.flagOrEnv(l.adminURLs, "ROLLCALL_ADMIN")
	if text == "" {
		return auth, nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		base, err := baseURL(strings.TrimSpace(one))
		if err != nil {
			return "", nil, WithStatus(UsageError, fmt.Errorf("%s: %w", l.adminOrigin(), err))
		}
		bases = append(bases, base)
	}
	if len(bases) > maxURLs {
		return "", nil, WithStatus(UsageError, fmt.Errorf("%s: %d URLs; at most %d are allowed", l.adminOrigin(), len(bases), maxURLs))
	}
	return auth, bases, nil
}

// findAdminClients returns a client of each member that search finds on the machines of --hosts, and an error about
// those where it finds none.
func (l *Link) findAdminClients(ctx context.Context, auth string) (members []*api.Client, err error) {
	hosts, err := l.Hosts()
	if err != nil {
		return nil, err
	}
	var failed []error
	known := map[string]bool{}
	for i := range hosts {
		base, err := l.findMember(ctx, hosts[i:i+1], auth)
		switch {
		case err != nil:
			failed = append(failed, err)
		case !known[base]:
			known[base] = true
			member, err := l.newAdminClient(base, auth)
			if err != nil {
				return nil, err
			}
			members = append(members, member)
		case auth != "":
			failed = append(failed, WithStatus(UsageError, fmt.Errorf("credentials are sent to %s alone, not to another member for %s; --admin names the URL of each", base, hosts[i])))
		}
	}
	return members, errors.Join(failed...)
}
