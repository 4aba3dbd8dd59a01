package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/client"
	"rollcall/internal/secretfile"
	"rollcall/operator/api"
	"rollcall/operator/subtree"
	"rollcall/zk/kerberos/credentials"
	"rollcall/zk/sasl"
)

const (
	defaultHosts = "127.0.0.1:2181"
	// defaultSessionOpenTimeout is longer than an election takes.
	defaultSessionOpenTimeout = 10 * time.Second
	// maxURLs bounds --admin, as client.ParseHostPorts bounds --hosts.
	maxURLs = 32
	// maxToken bounds a token file, in bytes. A token has at most 4,096 characters.
	maxToken = 8 << 10
	// minMaxRequest is the least value of jute.maxbuffer.
	minMaxRequest = 1 << 10
)

// EnsembleFlags has the flags, and their variables, that select an ensemble and the credentials.
type EnsembleFlags struct {
	streams    IOStreams
	hosts      string
	adminURLs  string
	tokenFile  string
	auth       []string
	jaas       string
	maxRequest string
	tls        TLS
	ports      portCheck

	warnedOfToken   bool   // that others may read the token file
	typedToken      string // read from a terminal or a pipe, which gives it once
	tokenFileOwners []int  // the owner of the token file, once it was read; this user may listen on a socket, too
	// addresses of members that have said that they were removed from the ensemble; they are passed over
	removedMembers []string
	pastClient     *api.Client // answers instead of a member, from a state of the past; nil: members do
}

// NewEnsembleFlags returns EnsembleFlags with the settings of the variables and defaults.
func NewEnsembleFlags(w IOStreams) *EnsembleFlags {
	return &EnsembleFlags{streams: w, ports: newPortCheck(w)}
}

// Register adds all flags of the link to cmd.
func (l *EnsembleFlags) Register(cmd *cobra.Command) {
	l.registerSessionFlags(cmd, "`host:port,...` where members take clients")
	l.registerOperatorFlags(cmd)
	markShared(cmd.Flags(), "hosts")
	markShared(cmd.Flags(), "auth")
}

// registerOperatorFlags adds the flags for the port for operators.
func (l *EnsembleFlags) registerOperatorFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&l.adminURLs, "admin", "",
		"`URL,...` of members' ports for operators, or unix:PATH of a member's socket (ROLLCALL_ADMIN; default: the "+
			"socket of this machine's member, or found on the machines of --hosts; with credentials, http://127.0.0.1:8080 "+
			"alone)")
	fs.StringVar(&l.tokenFile, "token-file", "", "`file` with the token of an administrator (ROLLCALL_TOKEN_FILE)")
	markShared(fs, "admin")
	markShared(fs, "token-file")
	completeFlag(cmd, "admin")
}

func (l *EnsembleFlags) registerSessionFlags(cmd *cobra.Command, hosts string) {
	l.registerHostsFlags(cmd, hosts)
	fs := cmd.Flags()
	fs.StringArrayVar(&l.auth, "auth", nil,
		"`scheme:identity` such as digest:user:password, as addauth takes them; may be repeated (ROLLCALL_AUTH)")
	completeFlag(cmd, "auth")
	fs.StringVar(&l.jaas, "jaas", "",
		"JAAS `file` whose section Client has the user and password of a login by SASL, as zkCli.sh reads it (ROLLCALL_JAAS)")
	fs.StringVar(&l.maxRequest, "max-request", "",
		"longest request to send, in `bytes`: jute.maxbuffer of the members, if it was raised (ROLLCALL_MAX_REQUEST; default "+
			strconv.Itoa(client.DefaultMaxRequest)+")")
	completeFlag(cmd, "max-request")
	markShared(fs, "jaas")
	markShared(fs, "max-request")
}

func (l *EnsembleFlags) registerHostsFlags(cmd *cobra.Command, hosts string) {
	cmd.Flags().StringVar(&l.hosts, "hosts", "", hosts+" (ROLLCALL_HOSTS; default "+defaultHosts+")")
	completeFlag(cmd, "hosts")
	l.tls.Register(cmd, "")
}

// hostsSetting and adminSetting return the values of --hosts and --admin, which may be "", and their origins.

func (l *EnsembleFlags) hostsSetting() (text, origin string) {
	return l.streams.setting(l.hosts, "hosts")
}

func (l *EnsembleFlags) adminSetting() (text, origin string) {
	return l.streams.setting(l.adminURLs, "admin")
}

// Hosts returns the client addresses of the members. There is at least one.
func (l *EnsembleFlags) Hosts() ([]string, error) {
	hosts, _, err := l.hostsAndRoot()
	return hosts, err
}

// hostsAndRoot returns the client addresses, and the prefix of all node paths, or "".
func (l *EnsembleFlags) hostsAndRoot() (hosts []string, root string, err error) {
	text, origin := l.hostsSetting()
	hosts, root, err = parseHosts(cmp.Or(text, defaultHosts))
	if err != nil {
		err = UsageError.Errorf("%s: %w", origin, err)
	}
	return hosts, root, err
}

// parseHosts parses addresses with ports, such as a:2181,b:2181/app. root is the prefix of all node paths, or
// "".
func parseHosts(text string) (hosts []string, root string, err error) {
	hosts, root, err = client.ParseHostPorts(text, 0)
	if err != nil || root == "" {
		return hosts, "", err
	}
	if _, after, more := strings.Cut(root, ","); more && strings.Contains(after, ":") {
		return nil, "", fmt.Errorf("the path %.200q has another address in it; a path comes after the last address", root)
	}
	return hosts, root, subtree.CheckPath(root)
}

// rootOnlySpace returns the user's root without a session.
func (l *EnsembleFlags) rootOnlySpace() (subtree.Space, error) {
	_, root, err := l.hostsAndRoot()
	return subtree.Space{Root: root}, err
}

func (l *EnsembleFlags) authIdentities() ([]client.Auth, error) {
	texts, origin := l.auth, "--auth"
	if v := l.streams.Getenv("ROLLCALL_AUTH"); len(texts) == 0 && v != "" {
		texts, origin = []string{v}, "ROLLCALL_AUTH"
	}
	var list []client.Auth
	for _, text := range texts {
		scheme, identity, _ := strings.Cut(text, ":")
		if scheme == "" || identity == "" { // the text is not shown: it may be a password
			return nil, UsageError.Errorf("%s: must be scheme:identity, such as digest:user:password", origin)
		}
		list = append(list, client.Auth{Scheme: scheme, Proof: []byte(identity)})
	}
	return list, nil
}

func (l *EnsembleFlags) readAuthorization() (string, error) {
	if name, origin := l.streams.setting(l.tokenFile, "token-file"); name != "" {
		token, owner, exposed, err := l.readToken(name)
		if err != nil {
			return "", UsageError.Errorf("%s: %w", origin, err)
		}
		if exposed != "" && !l.warnedOfToken {
			l.warnedOfToken = true
			warnf(l.streams, "%s: %s: %s", origin, name, exposed)
		}
		l.tokenFileOwners = []int{owner}
		return "Bearer " + token, nil
	}
	list, err := l.authIdentities()
	for _, a := range list {
		if a.Scheme == "digest" && strings.HasPrefix(string(a.Proof), "super:") {
			return "digest " + string(a.Proof), nil
		}
	}
	return "", err
}

// SessionConfig returns the configuration of a session with the login of --jaas and the identities of --auth. Its calls fail
// while there is no connection.
func (l *EnsembleFlags) SessionConfig() (cfg client.Config, err error) {
	cfg.GiveUpAfter = client.NeverGiveUp // sessions survive an outage of the ensemble
	if cfg.Auth, err = l.authIdentities(); err != nil {
		return cfg, err
	}
	if cfg.Login, err = l.readSASLLogin(); err != nil {
		return cfg, err
	}
	if cfg.MaxRequest, err = l.longestRequest(); err != nil {
		return cfg, err
	}
	cfg.InOrder, cfg.WhileSuspended = true, client.Fail
	dial, err := l.tls.Dialer(l.streams)
	if dial != nil {
		cfg.DialConn = func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) }
	}
	return cfg, err
}

// longestRequest returns the value of --max-request, or 0 for the default.
func (l *EnsembleFlags) longestRequest() (int, error) {
	text, origin := l.streams.setting(l.maxRequest, "max-request")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < minMaxRequest || n > client.MaxRequest {
		return 0, UsageError.Errorf("%s %.40q: must be a number of bytes from %d to %d", origin, text, minMaxRequest, client.MaxRequest)
	}
	return n, nil
}

const loginSection = "Client"

// readSASLLogin returns the login of the section loginSection of a JAAS file, or nil.
func (l *EnsembleFlags) readSASLLogin() (client.Mechanism, error) {
	path, origin := l.streams.setting(l.jaas, "jaas")
	if path == "" {
		return nil, nil
	}
	file, err := secretfile.ReadTrustedFile(path, sasl.MaxJAASBytes)
	if err != nil {
		return nil, UsageError.Errorf("%s %s: %w", origin, path, err)
	}
	who, err := parseLogin(file.Text)
	if err != nil {
		return nil, UsageError.Errorf("%s %s: %w", origin, path, err)
	}
	return who, nil
}

// parseLogin returns the login of the section loginSection: a user with a password, or Kerberos.
func parseLogin(text []byte) (client.Mechanism, error) {
	ticket, err := sasl.ParseClientKerberos(text, loginSection)
	switch {
	case err != nil:
		return nil, err
	case ticket != nil:
		return credentials.New(credentials.Config{Keytab: ticket.Keytab, Principal: ticket.Principal}), nil
	}
	who := new(client.Login)
	who.User, who.Password, err = sasl.ParseClientLogin(text, loginSection)
	return who, err
}

// openSession is client.Dial with a timeout and advice. It gives up earlier if no session can ever be opened at any
// of servers, because other ports are there, or the certificates do not fit.
func (l *EnsembleFlags) openSession(ctx context.Context, servers []string, cfg client.Config) (*client.Client, error) {
	defer startWaiting(l.streams, "a session at "+summarizeServers(servers)).Done()
	limit := cmp.Or(l.streams.sessionOpenTimeout, defaultSessionOpenTimeout)
	within, stop := context.WithTimeout(ctx, limit)
	defer stop()
	var c *client.Client
	err := l.giveUpAtWrongPorts(within, servers, func(ctx context.Context) (err error) {
		c, err = client.Dial(ctx, strings.Join(servers, ","), cfg)
		return err
	})
	switch {
	case err == nil:
		return c, nil
	case StatusOf(err) == Denied:
		return nil, fmt.Errorf("the login of --jaas or an identity of --auth was rejected: %w", err)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	where := l.describeHosts(strings.Join(servers, ","))
	text := fmt.Sprintf("no member takes a session at %s within %v: %s; %s", where, limit, lastAttempt(err),
		l.tls.connectAdvice(l.streams, err))
	if wrong := new(wrongPortError); errors.As(err, &wrong) {
		text = fmt.Sprintf("no member takes a session at %s: %v", where, wrong)
	}
	return nil, WithStatus(Unavailable, explainedError{text, err})
}

// lastAttempt returns the text of the last failed attempt from a timeout error of client.Dial.
func lastAttempt(err error) string {
	var both interface{ Unwrap() []error } // that the time is over, and the last failure
	if errors.As(err, &both) {
		all := both.Unwrap()
		err = all[len(all)-1]
	}
	return strings.TrimPrefix(err.Error(), "client: ")
}
