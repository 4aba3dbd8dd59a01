package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/client"
	"rollcall/lab/proxy"
	"rollcall/rollcalltest"
)

const (
	// proxyMembers is the number of servers that the command starts if a program moves from one to another. Otherwise it
	// starts one, which takes milliseconds.
	proxyMembers = 3
	// proxySessionTimeout is the default of the longest session timeout that they grant. The faults late and pause take as
	// long, and it is enough for a virtual machine of Java that starts.
	proxySessionTimeout = 3 * time.Second
)

// proxyFlags are the flags of `rollcall proxy`.
type proxyFlags struct {
	servers, faults, repeatAt string
	wholeTree                 bool
	limit, jobs               int
	seed                      uint64
	sessionTimeout, timeLimit time.Duration
	reportFile, jsonFile      string
}

// newProxy returns the command that finds out whether a program survives faults.
func newProxy(w cli.IOStreams) *cobra.Command {
	var f proxyFlags
	faults := cli.JoinFunc(proxy.Faults(), "\n", func(f proxy.Fault) string { return fmt.Sprintf("  %-7s %s", f, f.Meaning()) })
	cmd := &cobra.Command{
		Use: "proxy [flags] COMMAND...", Short: "find out whether a program survives a fault at each of its requests",
		GroupID: cli.ToolsGroup, Args: cli.RangeArgs(1, -1, "the program's command line, after --"),
		Long: "Runs a program through a proxy between it and an ensemble, records its requests, and runs it again with a " +
			"fault at every request. The program must judge itself: exit status 0 means that it survived. It finds " +
			"the ensemble in the environment variable " + proxy.ConnectVariable + ", and in place of " + proxy.ConnectWord + " in its arguments. The exit status of this command is 1 if the program " +
			"broke, or if no fault happened.\n\nFaults:\n\n" + faults + "\n\n" +
			"Without --hosts each run has new servers in memory: three if it may move, and one otherwise. With --hosts each run has a new node of its " +
			"own, as a chroot in the connect string. docs/proxy.md explains the report.",
		RunE: cli.PrefixErrors(func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), cmd, w, args) }),
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false) // the program has flags of its own
	fs.StringVar(&f.servers, "hosts", "", "`addresses` host:port,... of a running ensemble, without TLS; a path after them is kept")
	fs.BoolVar(&f.wholeTree, "whole-tree", false, "with --hosts: no chroot; the program itself removes what its runs leave")
	fs.StringVar(&f.faults, "faults", proxy.JoinFaults(proxy.Faults()), "`list` of the faults to try")
	fs.StringVar(&f.repeatAt, "repeat-at", "", "do one run only, at a `REQUEST:FAULT` as the report names it")
	fs.IntVar(&f.limit, "limit", proxy.DefaultLimit, "at most `N` runs with a fault; --seed draws them if there are more")
	fs.IntVar(&f.jobs, "jobs", 1, fmt.Sprintf("`number` of runs at one time, up to %d; more than 1 only if copies of the program "+
		"do not disturb each other", proxy.MaxJobs))
	fs.Uint64Var(&f.seed, "seed", 0, "`number` that draws runs, and the server that programs use first (default: random)")
	fs.DurationVar(&f.sessionTimeout, "session-timeout", proxySessionTimeout, "the longest session timeout that the command's own "+
		"servers grant: a `duration`")
	fs.DurationVar(&f.timeLimit, "time-limit", proxy.DefaultTimeLimit, "`duration` of a run without a fault at most; runs with "+
		"a fault get three times what that took, and five session timeouts")
	fs.StringVar(&f.reportFile, "report", "", "write the report as an HTML page to a `FILE`")
	fs.StringVar(&f.jsonFile, "json", "", "write the report as JSON to a `FILE`")
	return cmd
}

// errProxyBroke ends the command if the program did not survive a fault. The report has been printed.
var errProxyBroke = errors.New("the program broke")

// run surveys a program and writes the reports.
func (f *proxyFlags) run(ctx context.Context, cmd *cobra.Command, w cli.IOStreams, args []string) error {
	cfg, err := f.config(cmd, args)
	if err != nil {
		return cli.WithStatus(cli.UsageError, err)
	}
	ctx, stop := endOnHangup(ctx)
	defer stop()
	defer outliveReaders()()
	if existing, ok := cfg.Ensemble.(proxy.Existing); ok {
		if err := cli.CheckClientPorts(ctx, w, nil, existing.Addresses); err != nil {
			return err
		}
	}
	result, err := survey(ctx, w.Err, cfg)
	result.Command = args
	if err != nil && len(result.Runs) == 0 {
		return err
	}
	if err := errors.Join(err, f.write(w.Out, result)); err != nil {
		return err
	}
	return judgeProgram(result)
}

// survey surveys a program, and prints its progress.
func survey(ctx context.Context, out io.Writer, cfg proxy.Config) (proxy.Result, error) {
	if err := reportLeftovers(ctx, out, cfg.Ensemble); err != nil {
		return proxy.Result{}, err
	}
	cfg.Recorded = func(r proxy.Result) { fmt.Fprintln(out, r.Summary()) }
	cfg.Progress = func(run proxy.Run, ended, all int) {
		if run.Outcome != proxy.Survived || ended == all || ended%proxyProgress == 0 {
			fmt.Fprintf(out, "%d of %d: %s\n", ended, all, cli.EscapeUnprintable(run.Line()))
		}
	}
	result, err := proxy.Survey(ctx, cfg)
	if err != nil && ctx.Err() != nil { // not wrapped: a survey that did not end is a failure
		err = errors.New("it was interrupted: " + err.Error())
	}
	return result, err
}

// reportLeftovers names the nodes that other surveys have on the user's ensemble. They stay if a survey is killed.
func reportLeftovers(ctx context.Context, out io.Writer, e proxy.Ensemble) error {
	existing, ok := e.(proxy.Existing)
	if !ok {
		return nil
	}
	paths, err := existing.Leftovers(ctx)
	if err != nil || len(paths) == 0 {
		return err
	}
	shown := strings.Join(paths[:min(len(paths), shownLeftovers)], ", ")
	if more := len(paths) - shownLeftovers; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	_, _ = fmt.Fprintf(out, "other surveys have nodes on %s: %s. If no other survey runs, remove each: %s\n", // like progress
		existing.Describe(), cli.EscapeUnprintable(shown), existing.RemoveLine(paths[0]))
	return nil
}

// shownLeftovers limits the nodes that are named at the start.
const shownLeftovers = 10

// judgeProgram returns an error if the program broke, or if no fault happened: then nothing was shown.
func judgeProgram(result proxy.Result) error {
	switch {
	case len(result.Broken()) > 0:
		return errProxyBroke
	case result.Counts[proxy.Survived] > 0:
		return nil
	case len(result.Runs) == 0:
		return fmt.Errorf("no fault happened: %s cannot happen at any request of the program on %s; choose other --faults",
			proxy.JoinFaults(result.Faults), result.Ensemble)
	}
	return errors.New("no fault happened, so it is not known whether the program survives; the reason is beside each run above")
}

// proxyProgress is after how many runs that the program survived a line is printed.
const proxyProgress = 20

// write prints the report, and writes the files that the flags name.
func (f *proxyFlags) write(out io.Writer, result proxy.Result) error {
	err := proxy.WriteText(out, result)
	for _, file := range []struct {
		path  string
		write func(io.Writer, proxy.Result) error
	}{{f.reportFile, proxy.WriteHTML}, {f.jsonFile, proxy.WriteJSON}} {
		if file.path != "" {
			err = errors.Join(err, writeReport(file.path, func(w io.Writer) error { return file.write(w, result) }))
		}
	}
	return err
}

// config returns the settings of the survey.
func (f *proxyFlags) config(cmd *cobra.Command, args []string) (cfg proxy.Config, err error) {
	cfg = proxy.Config{
		Program: proxy.Command(args), Limit: f.limit, Jobs: f.jobs, Seed: f.seed, TimeLim: f.timeLimit,
	}
	switch {
	case f.limit < 1:
		return cfg, fmt.Errorf("--limit=%d must be at least 1", f.limit)
	case f.jobs < 1 || f.jobs > proxy.MaxJobs:
		return cfg, fmt.Errorf("--jobs=%d must be 1 to %d", f.jobs, proxy.MaxJobs)
	case f.timeLimit <= 0:
		return cfg, fmt.Errorf("--time-limit=%v must be positive", f.timeLimit)
	case f.wholeTree && f.servers == "":
		return cfg, errors.New("--whole-tree needs --hosts: the command's own servers have nothing but the program's nodes")
	}
	if err := checkReportFiles(reportFlag{"--report", f.reportFile}, reportFlag{"--json", f.jsonFile}); err != nil {
		return cfg, err
	}
	if !cmd.Flags().Changed("seed") {
		f.seed = rand.Uint64() >> 32 // short enough to type
		cfg.Seed = f.seed
	}
	if cfg.Faults, err = proxy.ParseFaults(f.faults); err != nil {
		return cfg, fmt.Errorf("--faults: %w", err)
	}
	if f.repeatAt != "" {
		point, err := proxy.ParsePoint(f.repeatAt)
		if err != nil {
			return cfg, fmt.Errorf("--repeat-at: %w", err)
		}
		cfg.At = &point
	}
	cfg.Repeat = func(p proxy.Point) string { return f.repeatLine(cmd, args, p) }
	cfg.Ensemble, err = f.ensemble(cfg)
	return cfg, err
}

// ensemble returns the ensemble that the program talks to.
func (f *proxyFlags) ensemble(cfg proxy.Config) (proxy.Ensemble, error) {
	if f.servers == "" {
		if f.sessionTimeout < 2*rollcalltest.DefaultTick {
			return nil, fmt.Errorf("--session-timeout=%v must be at least %v", f.sessionTimeout, 2*rollcalltest.DefaultTick)
		}
		own := ownServers{members: 1, sessionTimeout: f.sessionTimeout}
		if slices.Contains(cfg.Faults, proxy.Move) {
			own.members = proxyMembers
		}
		return own, nil
	}
	servers, chroot, err := client.ParseHostPorts(f.servers, client.DefaultPort)
	if err != nil {
		return nil, fmt.Errorf("--hosts: %w", err)
	}
	return proxy.Existing{Addresses: servers, Base: chroot, WholeTree: f.wholeTree}, nil
}

// repeatLine returns the command line that does one run again.
func (f *proxyFlags) repeatLine(cmd *cobra.Command, args []string, p proxy.Point) string {
	var words []string
	for _, name := range []string{"hosts", "whole-tree", "faults", "session-timeout", "time-limit"} {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			words = append(words, "--"+name+"="+flag.Value.String())
		}
	}
	words = append(words, "--seed="+strconv.FormatUint(f.seed, 10), "--repeat-at="+p.String(), "--")
	return cmd.CommandPath() + " " + cli.JoinFunc(append(words, args...), " ", shellQuote)
}

// ownServers are new servers in memory for each run.
type ownServers struct {
	members        int
	sessionTimeout time.Duration // the longest that they grant
}

// Describe implements proxy.Ensemble.
func (o ownServers) Describe() string {
	if o.members == 1 {
		return "one server in memory"
	}
	return fmt.Sprintf("%d servers in memory", o.members)
}

// Fresh implements proxy.Ensemble.
func (o ownServers) Fresh(ctx context.Context) (proxy.Servers, error) {
	ctx, cancel := context.WithTimeout(ctx, testServerStartTimeout)
	defer cancel()
	e, err := rollcalltest.New(ctx, o.members, rollcalltest.Config{MaxSessionTimeout: o.sessionTimeout})
	if err != nil {
		return proxy.Servers{}, fmt.Errorf("start servers in memory: %w", err)
	}
	return proxy.Servers{
		Addresses: strings.Split(e.ConnectString(), ","), Dial: e.Dial,
		Close: func(context.Context) error { return e.Close() },
	}, nil
}
