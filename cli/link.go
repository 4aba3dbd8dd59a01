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

	tokenOwners []int    // the owner of the token file, once it was read; this user may listen on a socket, too
	removed     []string // addresses of members that have said that they were removed from the ensemble; they are passed over
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

// hostsOrigin returns what names the addresses where members take clients: --hosts, or its variable.
func (l *Link) hostsOrigin() string { return l.world.origin(l.hosts, "hosts", "ROLLCALL_HOSTS") }

// adminOrigin returns what names the addresses of members' ports for operators: --admin, or its variable.
func (l *Link) adminOrigin() string { return l.world.origin(l.admin, "admin", "ROLLCALL_ADMIN") }

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
		err = With(WrongUse, fmt.Errorf("%s: %w", l.hostsOrigin(), err))
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
	texts, origin := l.auth, "--auth"
	if v := l.world.Getenv("ROLLCALL_AUTH"); len(texts) == 0 && v != "" {
		texts, origin = []string{v}, "ROLLCALL_AUTH"
	}
	var list []client.Auth
	for _, text := range texts {
		scheme, identity, _ := strings.Cut(text, ":")
		if scheme == "" || identity == "" { // the text is not shown: it may be a password
			return nil, With(WrongUse, fmt.Errorf("%s: allowed is scheme:identity, such as digest:user:password", origin))
		}
		list = append(list, client.Auth{Scheme: scheme, Auth: []byte(identity)})
	}
	return list, nil
}

// authorization returns the value of the header of that name, or "" if there are no credentials for it.
func (l *Link) authorization() (string, error) {
	if name := l.world.setting(l.tokenFile, "ROLLCALL_TOKEN_FILE"); name != "" {
		token, owner, err := readToken(name)
		if err != nil {
			return "", With(WrongUse, fmt.Errorf("%s: %w", l.world.origin(l.tokenFile, "token-file", "ROLLCALL_TOKEN_FILE"), err))
		}
		l.tokenOwners = []int{owner}
		return "Bearer " + token, nil
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
	file, err := secretfile.ReadFile(path, sasl.MaxJAASBytes)
	var who client.Login
	if err == nil {
		who.User, who.Password, err = sasl.ParseClientLogin(file.Text, loginSection)
	}
	if err != nil {
		return nil, With(WrongUse, fmt.Errorf("%s %s: %w", l.world.origin(l.jaas, "jaas", "ROLLCALL_JAAS"), path, err))
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
	text := fmt.Sprintf("no member takes a session at %s within %v: %s; %s", l.place(strings.Join(cfg.Servers, ","), l.hostsOrigin()), openTime, lastAttempt(err), l.tls.advice(l.world, err))
	return nil, With(NoMember, nodeError{text, err})
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
