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
		Long: "If the member of this machine serves clients, prints its role and exits with 0. Otherwise says why not and exits with 1.",
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

// health asks the member at addr for its mode and prints it. It returns an error if there is no
// answer within healthTimeout, or if the member does not serve clients.
func health(ctx context.Context, addr string, out *cli.Output) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return cli.With(cli.WrongUse, fmt.Errorf("health: -addr %s: allowed is host:port", config.Brief(addr)))
	}
	ctx, stop := context.WithTimeout(ctx, healthTimeout)
	defer stop()
	mode, err := askMode(ctx, addr)
	if err != nil {
		return fmt.Errorf("health: %s: %w", addr, err)
	}
	return cli.PrintText(out, fmt.Sprintf("%s: %s\n", addr, mode), cli.Health{Address: addr, Role: mode})
}

// healthAddr returns where the member that file or env describes takes clients, as seen from its own
// machine.
func healthAddr(file string, env []string) (string, error) {
	cfg, _, err := config.Load(file, env, config.Flags{})
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(cfg.ClientAddr)
	if err != nil || port == "0" {
		return "", errors.New("the configuration names no port for clients; use -addr host:port")
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.IsUnspecified() {
		host = "127.0.0.1"
		if addr.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port), nil
}

// askMode sends srvr to the member at addr and returns what its Mode line says.
func askMode(ctx context.Context, addr string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// Closing ends the read. Its error is not returned, but that of ctx.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxHealthAnswer))
	if ctx.Err() != nil {
		return "", fmt.Errorf("no answer in time: %w", os.ErrDeadlineExceeded)
	}
	for line := range strings.Lines(string(answer)) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode), nil
		}
	}
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(answer), "\n")
	if line == "" {
		return "", errors.New("closed without an answer; is that the port where a member takes clients?")
	}
	return "", fmt.Errorf("not serving: %s; a member serves when a majority of the members is up and has a leader", config.Brief(line))
}
