package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/api"
	"rollcall/cli"
	"rollcall/config"
)

const (
	healthTimeout   = 2 * time.Second // for connecting and answering together
	maxHealthAnswer = 64 << 10        // srvr answers with a dozen lines
)

// newHealth returns the command that asks the member of this machine whether it serves clients.
func newHealth(w cli.World) *cobra.Command {
	addr, out := "", cli.NewOutput(w)
	cmd := &cobra.Command{
		Use: "health [flags] [zoo.cfg]", Short: "exit with 0 if the member of this machine serves clients", GroupID: cli.Run,
		Long: "If the member of this machine serves clients, prints its role and exits with 0. Otherwise says why not and exits with 1. " +
			"If something is wrong although clients are served, it says so in further lines: members are not authenticated, or the member is short of memory. It exits with 0 then, too.",
		Args: cli.Takes(0, 1, oneFile),
		RunE: func(cmd *cobra.Command, args []string) error {
			if addr == "" {
				var err error
				if addr, err = healthAddr(fileOf(args), w.Env); err != nil {
					return told{fmt.Errorf("health: %w", err)}
				}
			}
			return health(cmd.Context(), addr, out)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "", "`host:port` of the member (default: where the configuration puts its clients)")
	out.Register(cmd)
	return cmd
}

// health asks the member at addr for its role and its problems and prints them. It returns an error if there is no
// answer within healthTimeout, or if the member does not serve clients.
func health(ctx context.Context, addr string, out *cli.Output) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return cli.With(cli.WrongUse, fmt.Errorf("health: --addr %s: allowed is host:port", config.Brief(addr)))
	}
	ctx, stop := context.WithTimeout(ctx, healthTimeout)
	defer stop()
	answer, err := askHealth(ctx, addr)
	if err != nil {
		return fmt.Errorf("health: %s: %w", addr, err)
	}
	lines := append([]string{addr + ": " + answer.Role}, answer.Problems...)
	return cli.PrintText(out, strings.Join(lines, "\n")+"\n", answer)
}

// healthAddr returns where the member that file or env describes takes clients, as seen from its own
// machine.
func healthAddr(file string, env []string) (string, error) {
	cfg, _, err := config.Load(file, env, config.Flags{})
	if err != nil {
		return "", err
	}
	addr, ok := fromHere(cfg.ClientAddr)
	ready, served := fromHere(cfg.HTTP.Addr)
	switch {
	case ok:
		return addr, nil
	case cfg.SecureAddr != "" && served:
		return "", fmt.Errorf("health speaks no TLS, and the configuration has no port for plain clients, only secureClientPort; ask http://%s/readyz instead, which answers 200 if the member serves clients", ready)
	case cfg.SecureAddr != "":
		return "", errors.New("health speaks no TLS, and the configuration has no port for plain clients, only secureClientPort; set admin.enableServer=true and admin.serverPort, and ask /readyz there instead")
	}
	return "", errors.New("the configuration names no port for clients; use --addr host:port")
}

// fromHere returns an address on which a member listens as its own machine reaches it. It reports whether the
// address names a port.
func fromHere(listens string) (addr string, ok bool) {
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

// askHealth sends srvr to the member at addr and returns what the answer says.
func askHealth(ctx context.Context, addr string) (h cli.Health, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return h, err
	}
	defer conn.Close()
	// Closing ends the read. Its error is not returned, but that of ctx.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return h, err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxHealthAnswer))
	if ctx.Err() != nil {
		return h, fmt.Errorf("no answer in time: %w", os.ErrDeadlineExceeded)
	}
	switch h = healthIn(string(answer)); h.Role {
	case "":
	case api.ReadOnly:
		return h, errors.New("read-only: the member knows no leader, and serves only clients that ask for a read-only server; it serves all when a majority of the members is up and has a leader")
	default:
		h.Address = addr
		return h, nil
	}
	if err != nil {
		return h, err
	}
	line, _, _ := strings.Cut(string(answer), "\n")
	if line == "" {
		return h, errors.New("closed without an answer; is that the port where a member takes clients?")
	}
	return h, fmt.Errorf("not serving: %s; a member serves when a majority of the members is up and has a leader", config.Brief(line))
}

// healthIn reads an answer to srvr. Without a role, the member does not serve clients.
func healthIn(answer string) cli.Health {
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
