package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rollcall/internal/localsocket"
	"rollcall/operator/api"
)

var errAllRemoved = errors.New("every member that was asked was removed from the ensemble")

// describeHosts adds the variable that set addr, one or more of --hosts, if the user did not type it.
func (l *EnsembleFlags) describeHosts(addr string) string {
	_, origin := l.hostsSetting()
	return describeAddress(addr, origin)
}

func describeAddress(addr, origin string) string {
	if strings.HasPrefix(origin, "--") {
		return addr
	}
	return addr + " (from " + origin + ")"
}

// AdminClient returns a client of a member's admin port: the first that replies of --admin, or else one found
// on the machines of --hosts. A single URL of --admin is used even if it does not reply.
func (l *EnsembleFlags) AdminClient(ctx context.Context) (*api.Client, error) {
	base, auth, err := l.chooseMemberURL(ctx)
	if err != nil {
		return nil, err
	}
	return l.newAdminClient(base, auth)
}

// chooseMemberURL returns the address for AdminClient, and the credentials. It skips members that were removed
// from the ensemble, and returns errAllRemoved if no others are left.
func (l *EnsembleFlags) chooseMemberURL(ctx context.Context) (base, auth string, err error) {
	auth, bases, err := l.authAndAdminURLs()
	switch {
	case err != nil:
		return "", "", err
	case len(bases) == 0:
		var hosts []string
		if hosts, err = l.Hosts(); err == nil {
			base, err = l.findMemberURL(ctx, hosts, auth)
		}
	default:
		base, err = l.firstReplyingURL(ctx, bases)
	}
	return base, auth, err
}

func (l *EnsembleFlags) withoutRemoved(bases []string) []string {
	return slices.DeleteFunc(slices.Clone(bases),
		func(base string) bool { return slices.Contains(l.removedMembers, base) })
}

// callInEnsemble calls request with the client of AdminClient. If that member was removed from the ensemble,
// it tries the next address. If no other member replies, it returns the error of the last removed one. For a state of the past
// there is one client only.
func (l *EnsembleFlags) callInEnsemble(ctx context.Context, request func(c *api.Client) error) error {
	if l.pastClient != nil {
		return request(l.pastClient)
	}
	var removedErr error // of the last member that was removed
	for {
		base, err := l.callMember(ctx, request)
		switch unreachable := new(unreachableError); {
		case isRemovedError(err):
			removedErr = err
			l.removedMembers = append(l.removedMembers, base)
		case removedErr == nil || base != "" && !errors.As(err, &unreachable):
			return err
		case errors.Is(err, errAllRemoved):
			l.removedMembers = nil
			return removedErr
		default:
			l.removedMembers = nil
			return Unavailable.Errorf("%w; at the other addresses: %w", removedErr, err)
		}
	}
}

// callMember calls request once. It also returns the member's address, or "" if none replies.
func (l *EnsembleFlags) callMember(ctx context.Context, request func(c *api.Client) error) (base string, err error) {
	base, auth, err := l.chooseMemberURL(ctx)
	if err != nil {
		return "", err
	}
	c, err := l.newAdminClient(base, auth)
	if err != nil {
		return base, err
	}
	return base, request(c)
}

var (
	errRemovedList = errors.New("the member that answers was removed from the ensemble, so its list of servers may be " +
		"old; --admin names a member that is in the ensemble")
	errRemovedState = errors.New("the member that answers was removed from the ensemble, so its state may be old; " +
		"--admin names a member that is in the ensemble")
)

func isRemovedError(err error) bool {
	var apiErr *api.Error
	return errors.As(err, &apiErr) && apiErr.Reason == api.ReasonRemoved || errors.Is(err, errRemovedList) ||
		errors.Is(err, errRemovedState)
}

// askEnsemble is callInEnsemble for a request with a reply.
func askEnsemble[T any](ctx context.Context, l *EnsembleFlags, request func(c *api.Client) (T, error)) (reply T, err error) {
	err = l.callInEnsemble(ctx, func(c *api.Client) (err error) {
		reply, err = request(c)
		return err
	})
	return reply, err
}

func postInEnsemble[T any](ctx context.Context, l *EnsembleFlags, path string, body any) (T, error) {
	return askEnsemble(ctx, l, func(c *api.Client) (T, error) { return api.Post[T](ctx, c, path, body) })
}

// FirstAdminClient returns a client of the first URL of --admin, or else that of AdminClient. Commands on the
// member itself use it, because they must not act on another one if this one is down.
func (l *EnsembleFlags) FirstAdminClient(ctx context.Context) (*api.Client, error) {
	auth, bases, err := l.authAndAdminURLs()
	if err != nil {
		return nil, err
	}
	if len(bases) > 0 {
		return l.newAdminClient(bases[0], auth)
	}
	return l.AdminClient(ctx)
}

// firstReplyingURL returns the first of the URLs of --admin with a member, sockets before others. It does not
// probe a single one. No member gets the credentials before it has replied.
func (l *EnsembleFlags) firstReplyingURL(ctx context.Context, named []string) (string, error) {
	bases := l.withoutRemoved(named)
	switch len(bases) {
	case 0:
		return "", errAllRemoved
	case 1:
		return bases[0], nil
	}
	var urls []string
	var silent []error
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
		silent = append(silent, fmt.Errorf("%s: %w", base, err))
	}
	config, err := l.tls.ClientConfig(l.streams)
	if err != nil {
		return "", err
	}
	base, err := discoverMember(ctx, newHTTPClient(l.streams, dialMember, config, nil), urls, silent...)
	if err != nil {
		_, origin := l.adminSetting()
		return "", fmt.Errorf("%s: %w; start one of them first, or name others with --admin", origin, err)
	}
	return base, nil
}

func (l *EnsembleFlags) findMemberURL(ctx context.Context, hosts []string, auth string) (string, error) {
	if socket := l.findLocalSocket(ctx, hosts); socket != "" {
		return socket, nil
	}
	_, isToken := bearerToken(auth)
	return l.findAdminURL(ctx, hosts, isToken)
}

// adminClients returns a client for each URL of --admin, or else for a member on each of --hosts. The error
// lists those that were not found.
func (l *EnsembleFlags) adminClients(ctx context.Context) (members []*api.Client, err error) {
	auth, bases, err := l.authAndAdminURLs()
	if err != nil {
		return nil, err
	}
	var notFound error
	if len(bases) == 0 {
		bases, notFound = l.findMemberURLs(ctx, auth)
	}
	for _, base := range bases {
		member, err := l.newAdminClient(base, auth)
		if err != nil {
			return nil, err
		}
		members = append(members, member)
	}
	return members, notFound
}

// authAndAdminURLs returns the credentials, and the URLs of --admin, if any.
func (l *EnsembleFlags) authAndAdminURLs() (auth string, bases []string, err error) {
	if auth, err = l.readAuthorization(); err != nil {
		return "", nil, err
	}
	text, origin := l.adminSetting()
	if text == "" {
		return auth, nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		base, err := normalizeAdminURL(strings.TrimSpace(one))
		if err != nil {
			return "", nil, UsageError.Errorf("%s: %w", origin, err)
		}
		bases = append(bases, base)
	}
	if len(bases) > maxURLs {
		return "", nil, UsageError.Errorf("%s: %d URLs; at most %d are allowed", origin, len(bases), maxURLs)
	}
	return auth, bases, nil
}

// findMemberURLs returns the address of each member found on --hosts, and an error for the others.
func (l *EnsembleFlags) findMemberURLs(ctx context.Context, auth string) (bases []string, err error) {
	hosts, err := l.Hosts()
	failed := []error{err}
	for i := range hosts {
		base, err := l.findMemberURL(ctx, hosts[i:i+1], auth)
		switch {
		case err != nil:
			failed = append(failed, err)
		case !slices.Contains(bases, base):
			bases = append(bases, base)
		case auth != "":
			failed = append(failed, UsageError.Errorf("credentials are sent to %s alone, not to another member for %s; --admin "+
				"names the URL of each", base, hosts[i]))
		}
	}
	return bases, errors.Join(failed...)
}
