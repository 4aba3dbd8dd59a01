package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/internal/admission"
	"rollcall/internal/tuning"
	"rollcall/member"
	"rollcall/operator/logs"
	"rollcall/quorum/disk"
)

const (
	upMembers    = 3
	upMaxMembers = 9

	// Offsets of a member's other ports from its port for clients.
	upQuorum   = 1000
	upElection = 2000
	upHTTP     = 3000

	// Files in the data directory.
	upToken  = "token"  // of administrators
	upSecret = "secret" // that the members share
)

// upKeys are the common keys of the members. The tick is half of ZooKeeper's default, so that silent sessions
// expire sooner; the limits of session timeouts are ZooKeeper's defaults.
const upKeys = `tickTime=1000
minSessionTimeout=2000
maxSessionTimeout=40000
initLimit=10
syncLimit=5
4lw.commands.whitelist=*
`

// upFlags are the flags of `rollcall up`, and the state that its members share.
type upFlags struct {
	dataDir     string
	basePort    int
	memberCount int
	ports       []int
	verbose     bool
	files       *upFiles                 // in the data directory
	memory      *admission.MemoryLimiter // of all members together
}

// newUp returns the command that runs a whole ensemble in this process, on loopback.
func newUp(w cli.IOStreams) *cobra.Command { return new(upFlags).newCommand(w) }

func (f *upFlags) newCommand(w cli.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "up [flags]", Short: "run three members in this process, on loopback", GroupID: cli.RunGroup,
		Args: cli.RangeArgs(0, 0, "flags only"),
		Long: "Runs an ensemble in this process, on loopback, until Ctrl-C. It prints a line for each event that matters. " +
			"On a terminal it also keeps " +
			"tables of the members and sessions below these lines.\n\n" +
			"Each member has a directory with its zoo.cfg and its data. Beside them, the file token has the token of " +
			"administrators, and secret the secret that the members share. " +
			"The directory must belong to you, and no other user may write in it or replace it.",
		RunE: cli.PrefixErrors(func(cmd *cobra.Command, _ []string) error {
			if err := f.checkAndSetPorts(cmd.Flags().Changed); err != nil {
				return cli.WithStatus(cli.UsageError, err)
			}
			return f.runMembers(cmd.Context(), w)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&f.dataDir, "data", "rollcall-data", "`directory` for the members' data, made if missing")
	fs.IntVar(&f.basePort, "port", 2181,
		"client `port` of member 1; the others have the next ones. Members talk to each other on the ports 1,000 and "+
			"2,000 above, and serve HTTP on those 3,000 above")
	fs.IntVar(&f.memberCount, "members", upMembers, fmt.Sprintf("`number` of members, 1 to %d", upMaxMembers))
	fs.IntSliceVar(&f.ports, "ports", nil, "client `port,...` of each member, instead of --port and --members")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "also print the log lines of the members")
	return cmd
}

// checkAndSetPorts returns an error if a flag is invalid, and sets ports. given reports whether a flag was given.
func (f *upFlags) checkAndSetPorts(given func(flag string) bool) error {
	switch {
	case given("ports") && (given("port") || given("members")):
		return errors.New("--ports has the port of each member: leave out --port and --members")
	case given("ports") && (len(f.ports) < 1 || len(f.ports) > upMaxMembers):
		return fmt.Errorf("--ports names %d ports; must be 1 to %d, one for each member", len(f.ports), upMaxMembers)
	case f.memberCount < 1 || f.memberCount > upMaxMembers:
		return fmt.Errorf("--members %d must be 1 to %d", f.memberCount, upMaxMembers)
	case f.basePort < 1 || f.basePort+f.memberCount-1+upHTTP > maxPort:
		return fmt.Errorf("--port %d must be 1 to %d", f.basePort, maxPort-upHTTP-f.memberCount+1)
	}
	if !given("ports") {
		for i := range f.memberCount {
			f.ports = append(f.ports, f.basePort+i)
		}
	}
	used := map[int]bool{}
	for _, port := range f.ports {
		if port < 1 || port+upHTTP > maxPort {
			return fmt.Errorf("--ports %d must be 1 to %d", port, maxPort-upHTTP)
		}
		for _, above := range []int{0, upQuorum, upElection, upHTTP} {
			if used[port+above] {
				return fmt.Errorf("two members would use port %d: each uses its own port and those %d, %d and %d above",
					port+above, upQuorum, upElection, upHTTP)
			}
			used[port+above] = true
		}
	}
	return nil
}

const maxPort = 65535

// runMembers runs the members until ctx ends.
func (f *upFlags) runMembers(ctx context.Context, w cli.IOStreams) error {
	out := &eventPrinter{out: w.Out, started: time.Now()}
	var err error
	if f.files, err = openUpFiles(f.dataDir); err != nil {
		return err
	}
	defer func() { _ = f.files.Close() }() // every write was checked
	if err := f.writeMissingSecrets(); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	logger := logs.New(out.writerAbove(w.Err), logs.Settings{Level: slog.LevelInfo}, false).Logger()
	f.memory = newMemoryLimiter(config.MemoryLimit{Percent: config.DefaultMemoryPercent}, tuning.AvailableMemory(), logger)
	g.Go(func() error {
		feedMemoryLimiter(ctx, f.memory, logger)
		return nil
	})
	var members []*upMember
	var urls []string // for operators, of the members that serve them
	for i := range f.ports {
		m := newUpMember(func() (*member.Member, string, error) { return f.newMember(i, out, out.writerAbove(w.Err)) })
		operators, err := m.makeMember()
		if err != nil {
			return fmt.Errorf("member %d: %w", i+1, err)
		}
		if operators != "" {
			urls = append(urls, "http://"+operators)
		}
		members = append(members, m)
		g.Go(func() error {
			if err := m.runMember(ctx, logger.With("member", i+1)); err != nil {
				return fmt.Errorf("member %d: %w", i+1, err)
			}
			return nil
		})
	}
	g.Go(func() error {
		for _, m := range members {
			if !m.awaitReady(ctx) {
				return nil
			}
		}
		f.sayReady(out, urls)
		if w.OutTerminal {
			keepLiveTables(ctx, w, members, out)
		}
		return nil
	})
	err = g.Wait()
	out.printLine("stopped")
	return err
}

// upMember is one of the members. A restart in this process replaces it, as with rollcall serve.
type upMember struct {
	openMember func() (m *member.Member, operators string, err error) // makes a member without running it
	newest     atomic.Pointer[member.Member]
	replaced   chan struct{} // capacity 1; signals awaitReady that newest has changed
}

func newUpMember(open func() (*member.Member, string, error)) *upMember {
	return &upMember{openMember: open, replaced: make(chan struct{}, 1)}
}

// makeMember makes a member, and returns its address for operators, or "".
func (u *upMember) makeMember() (operators string, err error) {
	m, operators, err := u.openMember()
	if err == nil {
		u.newest.Store(m)
		select {
		case u.replaced <- struct{}{}:
		default:
		}
	}
	return operators, err
}

// awaitReady waits until the newest member serves, and returns false if ctx ends first. A member that is
// replaced before it serves never becomes ready.
func (u *upMember) awaitReady(ctx context.Context) bool {
	for {
		select {
		case <-u.newest.Load().Ready():
			return true
		case <-u.replaced:
		case <-ctx.Done():
			return false
		}
	}
}

// runMember runs the member that was made, and its replacements.
func (u *upMember) runMember(ctx context.Context, logger *slog.Logger) error {
	made := true
	return runWithRestarts(ctx, logger, func(ctx context.Context) error {
		if !made {
			if _, err := u.makeMember(); err != nil {
				return err
			}
		}
		made = false
		return u.newest.Load().Run(ctx)
	}, func() []string { return nil }) // rollcall up writes the configuration itself
}

// sayReady prints the addresses for clients, and for operators at urls. If a member does not serve operators,
// another program may listen on its port, so the token must not be sent there.
func (f *upFlags) sayReady(out *eventPrinter, urls []string) {
	out.printLine("ready: connect to %s (data in %s, Ctrl-C stops)", cli.JoinFunc(f.ports, ",", loopbackAddr), f.dataDir)
	if len(urls) == 0 {
		return
	}
	token := filepath.Join(f.dataDir, upToken)
	out.printLine("console: %s/ (the token of administrators is in %s)", urls[0], token)
	out.printLine("to change something: export ROLLCALL_ADMIN=%s ROLLCALL_TOKEN_FILE=%s", strings.Join(urls, ","),
		shellQuote(token))
}

func loopbackAddr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// writeMissingSecrets makes the administrators' token and the members' secret, unless they exist.
func (f *upFlags) writeMissingSecrets() error {
	for _, name := range []string{upToken, upSecret} {
		if err := f.files.writeIfMissing(name, rand.Text()+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// zooCfg returns the zoo.cfg of member i+1 in dir.
func (f *upFlags) zooCfg(i int, dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# rollcall up writes this file each time it "+
		"starts.\n%sdataDir=%s\nadmin.serverPort=%d\nadmin.tokenFile=%s\nclientPortAddress=127.0.0.1\nclientPort=%d\n",
		upKeys, escapeBackslashes(dir), f.ports[i]+upHTTP, escapeBackslashes(filepath.Join(filepath.Dir(dir), upToken)),
		f.ports[i])
	if len(f.ports) > 1 {
		fmt.Fprintf(&b, "ensembleSecretFile=%s\n", escapeBackslashes(filepath.Join(filepath.Dir(dir), upSecret)))
	}
	for k, port := range f.ports {
		if len(f.ports) > 1 {
			fmt.Fprintf(&b, "server.%d=127.0.0.1:%d:%d;127.0.0.1:%d\n", k+1, port+upQuorum, port+upElection, port)
		}
	}
	return b.String()
}

// escapeBackslashes returns a path for zoo.cfg, where a backslash begins an escape.
func escapeBackslashes(path string) string { return strings.ReplaceAll(path, `\`, `\\`) }

// writeAndLoadConfig writes the zoo.cfg of member i+1, and reads it as rollcall serve does.
func (f *upFlags) writeAndLoadConfig(i int, out *eventPrinter) (config.Config, error) {
	dir := filepath.Join(f.files.dir, strconv.Itoa(i+1))
	if err := f.files.makeDirectory(strconv.Itoa(i + 1)); err != nil {
		return config.Config{}, err
	}
	name := filepath.Join(dir, "zoo.cfg")
	if err := f.files.replaceFile(filepath.Join(strconv.Itoa(i+1), "zoo.cfg"), f.zooCfg(i, dir)); err != nil {
		return config.Config{}, err
	}
	var flags config.Flags
	set := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.Register(set)
	if err := set.Parse([]string{"--myid", strconv.Itoa(i + 1)}); err != nil {
		return config.Config{}, err
	}
	cfg, warnings, err := config.Load(name, nil, flags)
	if i == 0 {
		for _, warning := range warnings {
			out.printLine("warning: %s", warning.Text)
		}
	}
	return cfg, err
}

// checkServersUnchanged returns an error if a member's directory was made for other members or ports. Members
// would keep their list, and new ones would wait to be added to it.
func checkServersUnchanged(settings member.Config) error {
	made, err := disk.ServerListOf(settings.Dir)
	if err != nil || len(made) == 0 {
		return err
	}
	if configured := member.ServerLines(settings.Servers); !slices.Equal(made, configured) {
		return fmt.Errorf("%s %w: it has [%s], and this would be [%s]", settings.Dir, disk.ErrServersChanged,
			strings.Join(made, ", "), strings.Join(configured, ", "))
	}
	return nil
}

// newMember returns member i+1, which does not run yet, and its address for operators, or "".
func (f *upFlags) newMember(i int, out *eventPrinter, stderr io.Writer) (m *member.Member, operators string,
	err error,
) {
	cfg, err := f.writeAndLoadConfig(i, out)
	if err != nil {
		return nil, "", err
	}
	clients, err := net.Listen("tcp", cfg.ClientAddr)
	if err != nil {
		return nil, "", err
	}
	level := slog.LevelError // starting and stopping cause elections and lost connections
	if f.verbose {
		level = slog.LevelDebug
	}
	cfg.Limits.Budget = clientMemoryBudget(0, len(f.ports))
	settings := memberConfig(cfg, logs.New(stderr, logs.Settings{Level: level}, false))
	if err := checkServersUnchanged(settings); err != nil {
		closeListeners(settings)
		return nil, "", errors.Join(err, clients.Close())
	}
	settings.DrainTime = 0 // all members stop together, so clients have nowhere to go
	settings.Memory = f.memory
	settings.ClientListener, settings.OnEvent = clients, out.printEvent
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	if settings.OperatorListener, err = listenOperators(cfg, "--ports takes others", logger); err != nil {
		closeListeners(settings)
		return nil, "", err
	}
	m, err = member.New(settings)
	if err != nil {
		closeListeners(settings) // New's error counts
		return nil, "", err
	}
	serveOperatorSocket(m, settings, logger)
	return m, listenerAddr(settings.OperatorListener), nil
}
