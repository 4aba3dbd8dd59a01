package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/internal/localsocket"
	"rollcall/operator/api"
)

const (
	healthTimeout  = 2 * time.Second // for connecting and the reply together
	maxHealthReply = 64 << 10        // srvr replies with a dozen lines
)

// newHealth returns the command that probes the member of this machine.
func newHealth(w cli.IOStreams) *cobra.Command {
	addr, out := "", cli.NewOutput(w)
	cmd := &cobra.Command{
		Use: "health [flags] [zoo.cfg]", Short: "exit with 0 if the member of this machine serves clients",
		GroupID: cli.RunGroup,
		Long: "If the member of this machine serves clients, prints its role and exits with 0. Otherwise says why not, as " +
			"/readyz does, and exits with 1. " +
			"If something is wrong although clients are served, it says so in further lines: members are not authenticated, " +
			"the member is short of memory, or the leader has not heard a voter for a minute, with the command that removes " +
			"a voter that is gone for good. It exits with 0 then, too.",
		Args: cli.RangeArgs(0, 1, oneFileArgument),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := locateMember(addr, configFileArg(args), w.Env)
			if err != nil {
				return explainedError{fmt.Errorf("health: %w", err)}
			}
			return printHealth(cmd.Context(), w, at, out)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "",
		"`host:port` of the member (default: where the configuration puts its clients)")
	out.Register(cmd)
	return cmd
}

// printHealth prints the member's role and problems. It returns an error if there is no reply within healthTimeout, the
// member does not serve clients, or another kind of port is there.
func printHealth(ctx context.Context, w cli.IOStreams, at memberEndpoints, out *cli.Output) error {
	addr := at.clientAddr
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return cli.UsageError.Errorf("health: --addr %s must be host:port", config.ShortText(addr))
	}
	ctx, stop := context.WithTimeout(ctx, healthTimeout)
	defer stop()
	var answer cli.Health
	err := cli.ProbeClientPort(ctx, w, addr, func(ctx context.Context) (err error) {
		answer, err = probeHealth(ctx, at)
		return err
	})
	if err != nil {
		return fmt.Errorf("health: %s: %w", addr, err)
	}
	lines := append([]string{addr + ": " + answer.Role}, answer.Problems...)
	return cli.PrintText(out, strings.Join(lines, "\n")+"\n", answer)
}

// memberEndpoints are the addresses of a member, as seen from its own machine.
type memberEndpoints struct {
	clientAddr   string // host:port for clients
	dataDir      string // with its socket for operators; "": unknown
	memberID     uint32
	operatorAddr string // host:port, which may be another member's; "": none or unknown
}

// locateMember returns the endpoints of the member at addr. If addr is "", file or env describes the member.
func locateMember(addr, file string, env []string) (memberEndpoints, error) {
	if addr == "" {
		return loadEndpoints(file, env)
	}
	at := memberEndpoints{clientAddr: addr}
	host, port, _ := net.SplitHostPort(addr) // health checks it
	here, err := config.LocateMember(file, env)
	if ip, parsed := netip.ParseAddr(host); err == nil && slices.Contains(here.ClientPorts, port) &&
		(host == "localhost" || parsed == nil && ip.IsLoopback()) {
		at.dataDir = here.Dir
	}
	return at, nil
}

// loadEndpoints returns the endpoints of the member that file or env describes.
func loadEndpoints(file string, env []string) (memberEndpoints, error) {
	cfg, _, err := config.Load(file, env, config.Flags{})
	if err != nil {
		return memberEndpoints{}, err
	}
	at := memberEndpoints{dataDir: cfg.Dir, memberID: cfg.MyID}
	addr, ok := localAddr(cfg.ClientAddr)
	ready, served := localAddr(cfg.HTTP.Addr)
	if served {
		at.operatorAddr = ready
	}
	switch {
	case ok:
		at.clientAddr = addr
		return at, nil
	case cfg.SecureAddr != "" && served:
		return at, fmt.Errorf("health speaks no TLS, and the configuration has no port for plain clients, only "+
			"secureClientPort; ask http://%s/readyz instead, which answers 200 if the member serves clients", ready)
	case cfg.SecureAddr != "":
		return at, errors.New("health speaks no TLS, and the configuration has no port for plain clients, only " +
			"secureClientPort; set admin.enableServer=true and admin.serverPort, and ask /readyz there instead")
	}
	return at, errors.New("the configuration names no port for clients; use --addr host:port")
}

// localAddr returns the address at which this machine reaches a listener. It reports whether the listener has
// a fixed port.
func localAddr(listens string) (addr string, ok bool) {
	host, port, err := net.SplitHostPort(listens)
	if err != nil || port == "0" {
		return "", false
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port), true
}

// probeHealth sends srvr to the member and parses the reply. If the member does not serve clients, the error
// has the reason.
func probeHealth(ctx context.Context, at memberEndpoints) (h cli.Health, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at.clientAddr)
	if err != nil {
		return h, err
	}
	defer conn.Close()
	// Closing ends the read. The error returned is ctx's.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return h, err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxHealthReply))
	if ctx.Err() != nil {
		return h, fmt.Errorf("no reply in time: %w", os.ErrDeadlineExceeded)
	}
	switch h = parseSrvrReply(string(answer)); h.Role {
	case "":
	case api.RoleReadOnly:
		if reason := at.fetchNotServingReason(ctx); reason != "" {
			return h, explainedError{errors.New(reason)}
		}
		return h, errors.New("read-only: the member knows no leader, and serves only clients that ask for a read-only " +
			"server; it serves all when a majority of the members is up and has a leader")
	default:
		h.Address = at.clientAddr
		return h, nil
	}
	if err != nil {
		return h, err
	}
	line, _, _ := strings.Cut(string(answer), "\n")
	if line == "" {
		return h, errors.New("closed without a reply; is that the port where a member takes clients?")
	}
	if reason := at.fetchNotServingReason(ctx); reason != "" {
		return h, explainedError{fmt.Errorf("not serving: %s", reason)}
	}
	return h, fmt.Errorf("not serving: %s; a member serves when a majority of the members is up and has a leader; "+
		"/readyz on its port for operators gives the reason, and so does its log", config.ShortText(line))
}

// fetchNotServingReason returns the reason that the member's /readyz gives, or "".
func (p memberEndpoints) fetchNotServingReason(ctx context.Context) string {
	if p.dataDir != "" {
		socket := filepath.Join(p.dataDir, localsocket.SocketName)
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return localsocket.Dial(ctx, socket) }
		over := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
		if text := fetchNotReadyReason(ctx, &api.Client{BaseURL: "http://localhost", HTTPClient: over}); text != "" {
			return text
		}
	}
	if p.operatorAddr == "" {
		return ""
	}
	over := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c := &api.Client{BaseURL: "http://" + p.operatorAddr, HTTPClient: over}
	if who, err := api.Get[api.Caller](ctx, c, "whoami", nil); err != nil || who.MemberID != p.memberID {
		return ""
	}
	return fetchNotReadyReason(ctx, c)
}

// fetchNotReadyReason returns the first line of a reply "service unavailable" of /readyz, or "".
func fetchNotReadyReason(ctx context.Context, c *api.Client) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.BaseURL+"/readyz", nil)
	if err != nil {
		return ""
	}
	answer, err := c.HTTPClient.Do(r)
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }() // it was only read from
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxHealthReply))
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// parseSrvrReply parses a reply to srvr. Without a role, the member does not serve clients.
func parseSrvrReply(answer string) cli.Health {
	h := cli.Health{Problems: []string{}}
	for line := range strings.Lines(answer) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name {
		case "Mode":
			h.Role = value
		case "Problem", "Security":
			h.Problems = append(h.Problems, value)
		}
	}
	return h
}
