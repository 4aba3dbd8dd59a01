package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
	"rollcall/client"
	"rollcall/internal/secretfile"
	"rollcall/zk/sasl"
)

const (
	defaultHosts = "127.0.0.1:2181"
	// sessionOpenTimeout is how long a command waits for a session. That is longer than an election takes.
	sessionOpenTimeout = 10 * time.Second
	// maxURLs is how many members --admin may name: as many as client.ParseServers allows.
	maxURLs = 32
	// maxToken is how much of a token file is read, in bytes. A token has at most 4,096 characters.
	maxToken = 8 << 10
)

// Link is how a command reaches an ensemble: its flags, and their variables.
type Link struct {
	streams   IOStreams
	hosts     string
	adminURLs string
	tokenFile string
	auth      []string
	jaas      string
	tls       TLS

	tokenFileOwners []int    // the owner of the token file, once it was read; this user may listen on a socket, too
	removedMembers  []string // addresses of members that have said that they were removed from the ensemble; they are passed over
}

// NewLink returns a Link whose settings come from the variables and defaults.
func NewLink(w IOStreams) *Link { return &Link{streams: w} }

// Register adds the flags of the link to cmd.
func (l *Link) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	l.registerHosts(cmd, "`host:port,...` where members take clients")
	fs.StringVar(&l.adminURLs, "admin", "", "`URL,...` of members' ports for operators, or unix:PATH of a member's socket (ROLLCALL_ADMIN; default: the socket of this machine's member, or found on the machines of --hosts; with credentials, http://127.0.0.1:8080 alone)")
	fs.StringVar(&l.tokenFile, "token-file", "", "`file` with the token of an administrator (ROLLCALL_TOKEN_FILE)")
	for _, name := range []string{"hosts", "admin", "token-file", "auth"} {
		markShared(fs, name)
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
	markShared(fs, "jaas")
}

// registerAddresses adds --hosts, and the flags for TLS, to cmd.
func (l *Link) registerAddresses(cmd *cobra.Command, hosts string) {
	cmd.Flags().StringVar(&l.hosts, "hosts", "", hosts+" (ROLLCALL_HOSTS; default "+defaultHosts+")")
	_ = cmd.RegisterFlagCompletionFunc("hosts", cobra.NoFileCompletions) // the flag is there
	l.tls.Register(cmd, "")
}

// hostsText returns what --hosts says.
func (l *Link) hostsText() string {
	if text := l.streams.flagOrEnv(l.hosts, "ROLLCALL_HOSTS"); text != "" {
		return text
	}
	return defaultHosts
}

// hostsOrigin returns what names the addresses where members take clients: --hosts, or its variable.
func (l *Link) hostsOrigin() string {
	return l.streams.flagOrEnvName(l.hosts, "hosts", "ROLLCALL_HOSTS")
}

// adminOrigin returns what names the addresses of members' ports for operators: --admin, or its variable.
func (l *Link) adminOrigin() string {
	return l.streams.flagOrEnvName(l.adminURLs, "admin", "ROLLCALL_ADMIN")
}

// Hosts returns the addresses where members take clients. There is at least one.
func (l *Link) Hosts() ([]string, error) {
	hosts, _, err := l.hostsAndRoot()
	return hosts, err
}

// hostsAndRoot returns the addresses where members take clients, and the path that commands on nodes put before
// all paths, or "".
func (l *Link) hostsAndRoot() (hosts []string, root string, err error) {
	hosts, root, err = parseHosts(l.hostsText())
	if err != nil {
		err = WithStatus(UsageError, fmt.Errorf("%s: %w", l.hostsOrigin(), err))
	}
	return hosts, root, err
}

// rootSpace returns the node that paths begin at, without a session: that after the last address of --hosts.
func (l *Link) rootSpace() (subtree.Space, error) {
	_, root, err := l.hostsAndRoot()
	return subtree.Space{Root: root}, err
}

// authIdentities returns the identities to show.
func (l *Link) authIdentities() ([]client.Auth, error) {
	texts, origin := l.auth, "--auth"
	if v := l.streams.Getenv("ROLLCALL_AUTH"); len(texts) == 0 && v != "" {
		texts, origin = []string{v}, "ROLLCALL_AUTH"
	}
	var list []client.Auth
	for _, text := range texts {
		scheme, identity, _ := strings.Cut(text, ":")
		if scheme == "" || identity == "" { // the text is not shown: it may be a password
			return nil, WithStatus(UsageError, fmt.Errorf("%s: allowed is scheme:identity, such as digest:user:password", origin))
		}
		list = append(list, client.Auth{Scheme: scheme, Auth: []byte(identity)})
	}
	return list, nil
}

// authorizationHeader returns the value of the header of that name, or "" if there are no credentials for it.
func (l *Link) authorizationHeader() (string, error) {
	if name := l.streams.flagOrEnv(l.tokenFile, "ROLLCALL_TOKEN_FILE"); name != "" {
		token, owner, err := readToken(name)
		if err != nil {
			return "", WithStatus(UsageError, fmt.Errorf("%s: %w", l.streams.flagOrEnvName(l.tokenFile, "token-file", "ROLLCALL_TOKEN_FILE"), err))
		}
		l.tokenFileOwners = []int{owner}
		return "Bearer " + token, nil
	}
	list, err := l.authIdentities()
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
		return "", 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken))
	token = strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", 0, err
	case token == "":
		return "", 0, fmt.Errorf("%s is empty", name)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) || len(text) == maxToken:
		return "", 0, fmt.Errorf("%s does not hold one token of visible characters", name)
	}
	return token, secretfile.OwnerOf(info), nil
}

// SessionConfig returns the configuration of a session with the members, which logs in as --jaas says and shows the identities of --auth.
func (l *Link) SessionConfig() (client.Config, error) {
	hosts, err := l.Hosts()
	if err != nil {
		return client.Config{}, err
	}
	auth, err := l.authIdentities()
	if err != nil {
		return client.Config{}, err
	}
	login, err := l.saslLogin()
	if err != nil {
		return client.Config{}, err
	}
	dial, err := l.tls.Dialer(l.streams)
	return client.Config{Servers: hosts, Login: login, Auth: auth, Dial: dial}, err
}

// loginSection is the section of a JAAS file that ZooKeeper's clients log in with.
const loginSection = "Client"

// saslLogin returns the user of --jaas, or nil.
func (l *Link) saslLogin() (*client.Login, error) {
	path := l.streams.flagOrEnv(l.jaas, "ROLLCALL_JAAS")
	if path == "" {
		return nil, nil
	}
	file, err := secretfile.ReadFile(path, sasl.MaxJAASBytes)
	var who client.Login
	if err == nil {
		who.User, who.Password, err = sasl.ParseClientLogin(file.Text, loginSection)
	}
	if err != nil {
		return nil, WithStatus(UsageError, fmt.Errorf("%s %s: %w", l.streams.flagOrEnvName(l.jaas, "jaas", "ROLLCALL_JAAS"), path, err))
	}
	return &who, nil
}

// openSession opens a session as client.Open does. It waits for at most openTime.
func (l *Link) openSession(ctx context.Context, cfg client.Config) (*client.Client, error) {
	defer startWaiting(l.streams, "a session at "+summarizeServers(cfg.Servers)).Done()
	within, stop := context.WithTimeout(ctx, sessionOpenTimeout)
	defer stop()
	c, err := client.Open(within, cfg)
	switch {
	case err == nil:
		return c, nil
	case StatusOf(err) == Denied:
		return nil, fmt.Errorf("the login of --jaas or an identity of --auth is refused: %w", err)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	text := fmt.Sprintf("no member takes a session at %s within %v: %s; %s", l.describeAddress(strings.Join(cfg.Servers, ","), l.hostsOrigin()), sessionOpenTimeout, lastAttempt(err), l.tls.connectAdvice(l.streams, err))
	return nil, WithStatus(Unavailable, explainedError{text, err})
}

// lastAttempt returns why the last attempt to connect failed, from an error of client.Open whose time is over.
func lastAttempt(err error) string {
	var both interface{ Unwrap() []error } // that the time is over, and the last failure
	if errors.As(err, &both) {
		all := both.Unwrap()
		err = all[len(all)-1]
	}
	return strings.TrimPrefix(err.Error(), "client: ")
}
