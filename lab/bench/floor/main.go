package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"rollcall/internal/tuning"
)

// usageStatus is the exit status of a command line that is wrong, as of rollcall.
const usageStatus = 2

const usage = `usage: floor [flags]

Runs one member of the floor, the simplest ensemble that can answer the cases of rollcall bench. Its figures are the least that a row costs on this machine.

It is only for measuring: it loses all nodes when it ends. Member 1 is always the leader and takes all clients, at its --client. The followers write each batch to their disks. With one address in --peers there are no followers.
`

func main() {
	cfg, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(usageStatus)
	}
	tuning.RaiseTimerSlack() // as a member does: it waits for its disk
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := runTuned(ctx, cfg, os.Environ()); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

// parseFlags returns the configuration in a command line, or an error that names the flag that is wrong.
func parseFlags(args []string, stderr io.Writer) (cfg Config, err error) {
	flags := flag.NewFlagSet("floor", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error
	flags.Usage = func() {
		flags.SetOutput(stderr)
		fmt.Fprint(stderr, usage, "\nFlags:\n")
		flags.PrintDefaults()
	}
	flags.IntVar(&cfg.Member, "member", 1, "`number` of this member: its place in --peers, from 1; member 1 leads")
	flags.Func("peers", fmt.Sprintf("`host:port,...` of all members for each other, 1 to %d", MaxMembers), func(list string) error {
		cfg.Peers = append(cfg.Peers, strings.Split(list, ",")...)
		return nil
	})
	flags.StringVar(&cfg.Client, "client", "", "`host:port` where member 1 takes clients; the others take none")
	flags.StringVar(&cfg.Data, "data", "", "`directory` for this member's file, which is overwritten")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	if flags.NArg() > 0 {
		return cfg, fmt.Errorf("%q: it takes no arguments", flags.Arg(0))
	}
	return cfg, cfg.Check()
}

// runTuned is Run, with the settings that a member has for its collector.
func runTuned(ctx context.Context, cfg Config, env []string) error {
	serves := make(chan struct{})
	close(serves) // there is no start to wait for
	ctx, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { tuning.TuneCollector(ctx, env, serves) })
	defer background.Wait()
	defer stop()
	return Run(ctx, cfg)
}
