package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/api"
	"rollcall/cli/subtree"
	"rollcall/client"
	"rollcall/sasl"
	"rollcall/secretfile"
)

const (
	defaultHosts = "127.0.0.1:2181"
	// openTime is how long a command waits for a session. That is longer than an election takes.
	openTime = 10 * time.Second
	// maxURLs is how many members --admin may name: as many as client.ParseServers allows.
	maxURLs = 32
	// maxToken is how much of a token file is read, in bytes. A token has at most 4,096 characters.
	maxToken = 8 << 10
)

// Link is how a command reaches an ensemble: its flags, and their variables.
type Link struct {
	world     World
	hosts     string
	admin     string
	tokenFile string
	auth      []string
	jaas      string
	tls       TLS

	tokenOwners []int // the owner of the token file, once it was read; this user may listen on a socket, too
}

// NewLink returns a Link whose settings come from the variables and defaults.
func NewLink(w World) *Link { return &Link{world: w} }

// Register adds the flags of the link to cmd.
func (l *Link) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	l.registerHosts(cmd, "`host:port,...` where members take clients")
	fs.StringVar(&l.admin, "admin", "", "`URL,...` of members' ports for operators, or unix:PATH of a member's socket (ROLLCALL_ADMIN; default: the socket of this machine's member, or found on the machines of --hosts; with credentials, http://127.0.0.1:8080 alone)")
	fs.StringVar(&l.tokenFile, "token-file", "", "`file` with the token of an administrator (ROLLCALL_TOKEN_FILE)")
	for _, name := range []string{"hosts", "admin", "token-file", "auth"} {
		share(fs, name)
	}
	_ = cmd.RegisterFlagCompletionFunc("admin", cobra.NoFileCompletions) // the flag is there
}

// registerHosts adds the flags of a session over ZooKeeper's protocol to cmd.
func (l *Link) registerHosts(cmd *cobra.Command, hosts string) {
	l.registerAddresses(cmd, hosts)
	fs := cmd.Flags()
	fs.StringArrayVar(&l.auth, "auth", nil, "`scheme:identity` such as digest:user:password, as addauth takes them; may be repeated (ROLLCALL_AUTH)")
	_ = cmd.RegisterFlagCompletionFunc("auth", cobra.NoFileCompletions) // the flag is there
	fs.StringVar(&l.jaas, "jaas", "", "JAAS `file` whose section Client has the user and password of a login by SASL, as zkCli.sh reads it (ROLLCALL_JAAS)")
	share(fs, "jaas")
}

// registerAddresses adds --hosts, and the flags for TLS, to cmd.
func (l *Link) registerAddresses(cmd *cobra.Command, hosts string) {
	cmd.Flags().StringVar(&l.hosts, "hosts", "", hosts+" (ROLLCALL_HOSTS; default "+defaultHosts+")")
	_ = cmd.RegisterFlagCompletionFunc("hosts", cobra.NoFileCompletions) // the flag is there
	l.tls.Register(cmd, "")
}

// hostsText returns what --hosts says.
func (l *Link) hostsText() string {
	if text := l.world.setting(l.hosts, "ROLLCALL_HOSTS"); text != "" {
		return text
	}
	return defaultHosts
}

// Hosts returns the addresses where members take clients. There is at least one.
func (l *Link) Hosts() ([]string, error) {
	hosts, _, err := l.target()
	return hosts, err
}

// target returns the addresses where members take clients, and the path that commands on nodes put before
// all paths, or "".
func (l *Link) target() (hosts []string, root string, err error) {
	hosts, root, err = parseHosts(l.hostsText())
	if err != nil {
		err = With(WrongUse, fmt.Errorf("--hosts: %w", err))
	}
	return hosts, root, err
}

// space returns the node that paths begin at, without a session: that after the last address of --hosts.
func (l *Link) space() (subtree.Space, error) {
	_, root, err := l.target()
	return subtree.Space{Root: root}, err
}

// identities returns the identities to show.
func (l *Link) identities() ([]client.Auth, error) {
	texts := l.auth
	if v := l.world.Getenv("ROLLCALL_AUTH"); len(texts) == 0 && v != "" {
		texts = []string{v}
	}
	var list []client.Auth
	for _, text := range texts {
		scheme, identity, _ := strings.Cut(text, ":")
		if scheme == "" || identity == "" { // the text is not shown: it may be a password
			return nil, With(WrongUse, errors.New("--auth: allowed is scheme:identity, such as digest:user:password"))
		}
		list = append(list, client.Auth{Scheme: scheme, Auth: []byte(identity)})
	}
	return list, nil
}

// authorization returns the value of the header of that name, or "" if there are no credentials for it.
func (l *Link) authorization() (string, error) {
	if name := l.world.setting(l.tokenFile, "ROLLCALL_TOKEN_FILE"); name != "" {
		token, owner, err := readToken(name)
		l.tokenOwners = []int{owner}
		return "Bearer " + token, err
	}
	list, err := l.identities()
	for _, a := range list {
		if a.Scheme == "digest" && strings.HasPrefix(string(a.Auth), "super:") {
			return "digest " + string(a.Auth), nil
		}
	}
	return "", err
}

// readToken returns the token in a file, and the owner of the file.
func readToken(name string) (token string, owner int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", 0, With(WrongUse, fmt.Errorf("--token-file: %w", err))
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return "", 0, With(WrongUse, fmt.Errorf("--token-file: %w", err))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken))
	token = strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", 0, With(WrongUse, fmt.Errorf("--token-file: %w", err))
	case token == "":
		return "", 0, With(WrongUse, fmt.Errorf("--token-file: %s is empty", name))
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) || len(text) == maxToken:
		return "", 0, With(WrongUse, fmt.Errorf("--token-file: %s does not hold one token of visible characters", name))
	}
	return token, secretfile.Owner(info), nil
}

// Config returns the configuration of a session with the members, which logs in as --jaas says and shows the identities of --auth.
func (l *Link) Config() (client.Config, error) {
	hosts, err := l.Hosts()
	if err != nil {
		return client.Config{}, err
	}
	auth, err := l.identities()
	if err != nil {
		return client.Config{}, err
	}
	login, err := l.login()
	if err != nil {
		return client.Config{}, err
	}
	dial, err := l.tls.Dialer(l.world)
	return client.Config{Servers: hosts, Login: login, Auth: auth, Dial: dial}, err
}

// loginSection is the section of a JAAS file that ZooKeeper's clients log in with.
const loginSection = "Client"

// login returns the user of --jaas, or nil.
func (l *Link) login() (*client.Login, error) {
	path := l.world.setting(l.jaas, "ROLLCALL_JAAS")
	if path == "" {
		return nil, nil
	}
	file, err := secretfile.Read(path, sasl.MaxFile)
	var who client.Login
	if err == nil {
		who.User, who.Password, err = sasl.ParseClient(file.Text, loginSection)
	}
	if err != nil {
		return nil, With(WrongUse, fmt.Errorf("--jaas %s: %w", path, err))
	}
	return &who, nil
}

// openSession opens a session as client.Open does. It waits for at most openTime.
func (l *Link) openSession(ctx context.Context, cfg client.Config) (*client.Client, error) {
	defer waiting(l.world, "a session at "+oneOf(cfg.Servers)).Done()
	within, stop := context.WithTimeout(ctx, openTime)
	defer stop()
	c, err := client.Open(within, cfg)
	switch {
	case err == nil:
		return c, nil
	case StatusOf(err) == Refused:
		return nil, fmt.Errorf("the login of --jaas or an identity of --auth is refused: %w", err)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, With(NoMember, fmt.Errorf("no member takes a session at %s within %v: %w; %s", strings.Join(cfg.Servers, ","), openTime, err, l.tls.advice(l.world, err)))
}

// Admin returns a client of a member's port for operators: of the first that --admin names where a member
// answers, or else of one that search finds on the machines of --hosts. If --admin names one alone, that one is
// used, whether or not it answers.
func (l *Link) Admin(ctx context.Context) (*api.Client, error) {
	auth, bases, err := l.named()
	if err != nil {
		return nil, err
	}
	if len(bases) > 0 {
		return l.answering(ctx, auth, bases)
	}
	return l.searched(ctx, auth)
}

// First returns a client of the first member that --admin names, or else of the one that Admin returns. A command
// that is about the member itself uses it: it must not act on another one because this one is down.
func (l *Link) First(ctx context.Context) (*api.Client, error) {
	auth, bases, err := l.named()
	if err != nil {
		return nil, err
	}
	if len(bases) > 0 {
		return l.answering(ctx, auth, bases[:1])
	}
	return l.searched(ctx, auth)
}

// newHTTP returns a client for the URLs that --admin names. To those with https it shows the certificate of --tls-cert, and holds
// theirs against --tls-ca, or against the authorities of the system.
func (l *Link) newHTTP() (*http.Client, error) {
	reach := newHTTP(l.world)
	config, err := l.tls.config(l.world)
	if config != nil {
		reach.Transport.(*requests).TLSClientConfig = config
	}
	return reach, err
}

// answering returns a client of the first of the URLs where a member answers. It does not ask if there is only
// one. Nothing gets the credentials before it has answered. Sockets go before URLs.
func (l *Link) answering(ctx context.Context, auth string, bases []string) (*api.Client, error) {
	if len(bases) == 1 {
		return l.clientOf(bases[0], auth)
	}
	var urls []string
	for _, base := range bases {
		path, isSocket := strings.CutPrefix(base, socketScheme)
		switch {
		case !isSocket:
			urls = append(urls, base)
		case l.answers(ctx, path):
			return l.clientOf(base, auth)
		}
	}
	reach, err := l.newHTTP()
	if err != nil {
		return nil, err
	}
	base, err := discover(ctx, reach, urls)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	return l.clientOf(base, auth)
}

// searched returns a client of a member that search finds on the machines of --hosts.
func (l *Link) searched(ctx context.Context, auth string) (*api.Client, error) {
	hosts, err := l.Hosts()
	if err != nil {
		return nil, err
	}
	base, err := l.find(ctx, hosts, auth)
	if err != nil {
		return nil, err
	}
	return l.clientOf(base, auth)
}

// find returns the address of the socket of this machine's member, or that of a port that search finds.
func (l *Link) find(ctx context.Context, hosts []string, auth string) (string, error) {
	if socket := l.here(ctx, hosts); socket != "" {
		return socket, nil
	}
	_, isToken := tokenIn(auth)
	return search(ctx, l.world, hosts, isToken)
}

// admins returns a client of the port for operators of each member: of those that --admin names, separated
// by commas, or else of those that search finds on the machine of each of --hosts. The error is about those
// that it does not find.
func (l *Link) admins(ctx context.Context) (members []*api.Client, err error) {
	auth, bases, err := l.named()
	if err != nil {
		return nil, err
	}
	if len(bases) == 0 {
		return l.found(ctx, auth)
	}
	for _, base := range bases {
		member, err := l.clientOf(base, auth)
		if err != nil {
			return nil, err
		}
		members = append(members, member)
	}
	return members, nil
}

// named returns the credentials, and the URLs that --admin names, if any.
func (l *Link) named() (auth string, bases []string, err error) {
	if auth, err = l.authorization(); err != nil {
		return "", nil, err
	}
	text := l.world.setting(l.admin, "ROLLCALL_ADMIN")
	if text == "" {
		return auth, nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		base, err := baseURL(strings.TrimSpace(one))
		if err != nil {
			return "", nil, err
		}
		bases = append(bases, base)
	}
	if len(bases) > maxURLs {
		return "", nil, With(WrongUse, fmt.Errorf("--admin: %d URLs; at most %d are allowed", len(bases), maxURLs))
	}
	return auth, bases, nil
}

// found returns a client of each member that search finds on the machines of --hosts, and an error about
// those where it finds none.
func (l *Link) found(ctx context.Context, auth string) (members []*api.Client, err error) {
	hosts, err := l.Hosts()
	if err != nil {
		return nil, err
	}
	var failed []error
	known := map[string]bool{}
	for i := range hosts {
		base, err := l.find(ctx, hosts[i:i+1], auth)
		switch {
		case err != nil:
			failed = append(failed, err)
		case !known[base]:
			known[base] = true
			member, err := l.clientOf(base, auth)
			if err != nil {
				return nil, err
			}
			members = append(members, member)
		case auth != "":
			failed = append(failed, With(WrongUse, fmt.Errorf("credentials are sent to %s alone, not to another member for %s; --admin names the URL of each", base, hosts[i])))
		}
	}
	return members, errors.Join(failed...)
}
