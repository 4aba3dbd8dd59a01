package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/client"
	"rollcall/lab/bench"
)

const benchHelp = `Puts load on an ensemble that speaks ZooKeeper's protocol and measures it. rollcall bench compare -h shows how to compare two.

Nodes are made below /rollcall-bench-RANDOM and removed at the end. A case may have parameters of its own, as in set:conns=64,window=1. docs/bench.md explains each row.

Cases:
`

// benchFlags are the flags of `rollcall bench` and `rollcall bench compare`.
type benchFlags struct {
	streams      cli.IOStreams
	params       bench.Params
	givenParams  map[string]bool
	output       string
	rounds       int
	cpus         int
	sideA, sideB sideFlags // sideA alone without compare

	progress      func(line string) // nil: not shown
	clearProgress func()
}

// sideFlags are the flags of one ensemble.
type sideFlags struct {
	name, hosts, pids, start, stop string
	tls                            cli.TLS
}

// keeperName is the subcommand of processes that hold sessions for a bench, which needs more than one process
// may open.
const keeperName = "keep-sessions"

// keeperCommand returns the command line of such a process. It is nil if the path of this program is unknown.
func keeperCommand(tls *cli.TLS) []string {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	return append([]string{program, "bench", keeperName}, tls.CommandArgs()...)
}

// newKeepSessions returns that subcommand.
func newKeepSessions(w cli.IOStreams) *cobra.Command {
	var tls cli.TLS
	cmd := &cobra.Command{
		Use: keeperName, Short: "hold sessions for another process", Hidden: true, Args: cli.RangeArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := tls.ClientConfig(w)
			if err != nil {
				return err
			}
			runtime.GOMAXPROCS(1)
			return bench.ServeKeeper(cmd.Context(), config, w.In, w.Out)
		},
	}
	tls.Register(cmd, "")
	return cmd
}

func newBench(w cli.IOStreams) *cobra.Command {
	cmd := newBenchCommand(w, "bench", (*benchFlags).measureTarget,
		func(f *benchFlags, cmd *cobra.Command, fs *flag.FlagSet) {
			f.sideA.registerFlags(cmd, fs, "hosts", "")
		})
	cmd.Short, cmd.GroupID = "measure any ensemble that speaks ZooKeeper's protocol, or compare two", cli.ToolsGroup
	cmd.Long = benchHelp + cli.JoinFunc(bench.Cases(), "", func(c [2]string) string { return fmt.Sprintf("  %-11s %s\n", c[0], c[1]) })
	cmd.Flags().Lookup("output").Usage = "`format`: table or json"
	compare := newBenchCommand(w, "compare", (*benchFlags).compareSides,
		func(f *benchFlags, cmd *cobra.Command, fs *flag.FlagSet) {
			f.sideA.registerFlags(cmd, fs, "a", "a-")
			f.sideB.registerFlags(cmd, fs, "b", "b-")
			fs.IntVar(&f.rounds, "rounds", bench.MinRounds,
				fmt.Sprintf("`number` of times each case runs on each, %d to %d", bench.MinRounds, bench.MaxRounds))
		})
	compare.Short = "measure two ensembles by turns"
	compare.Long = "Measures two ensembles, a and b, by turns. The cases are those that rollcall bench -h lists."
	cmd.AddCommand(compare, newKeepSessions(w))
	return cmd
}

// newBenchCommand returns a command that runs cases. register adds its own flags.
func newBenchCommand(
	w cli.IOStreams, name string, run func(*benchFlags, context.Context, []bench.Params) error,
	register func(*benchFlags, *cobra.Command, *flag.FlagSet),
) *cobra.Command {
	f := &benchFlags{streams: w, params: bench.Defaults(), givenParams: map[string]bool{}}
	cmd := &cobra.Command{
		Use: name + " [flags] CASE...", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			command := strings.TrimPrefix(cmd.CommandPath(), "rollcall ")
			cases, err := f.parseCases(args)
			if err == nil {
				err = f.setGOMAXPROCS(cases)
			}
			if err != nil {
				return cli.WithStatus(cli.UsageError, benchError{command, err})
			}
			f.progress, f.clearProgress = newProgressLine(w)
			if err := run(f, cmd.Context(), cases); err != nil {
				return benchError{command, err}
			}
			return nil
		},
	}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	register(f, cmd, fs)
	fs.IntVar(&f.cpus, "cpus", 0, fmt.Sprintf("how many `processors` this tool may use at once, 1 to %d (default 1, "+
		"with a rate 2: fewer wake-ups cost less CPU time)", maxCPUs))
	fs.BoolVar(&f.params.KeepNodes, "keep", false, "leave the nodes")
	for _, k := range bench.ParamFlags() {
		fs.Func(k.Name, k.Usage, func(value string) error {
			f.givenParams[k.Name] = true
			return k.Set(&f.params, value)
		})
	}
	cmd.Flags().AddGoFlagSet(fs)
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "`format`: table, json or markdown")
	return cmd
}

// benchError replaces the prefix of package bench by the command's name.
type benchError struct {
	command string
	error
}

func (e benchError) Error() string {
	return e.command + ": " + strings.Replace(e.error.Error(), "bench: ", "", 1)
}

func (e benchError) Unwrap() error { return e.error }

// registerFlags adds the flags of one ensemble. prefix distinguishes two of them.
func (s *sideFlags) registerFlags(cmd *cobra.Command, fs *flag.FlagSet, hosts, prefix string) {
	s.tls.Register(cmd, prefix)
	fs.StringVar(&s.hosts, hosts, "", "`host:port,...` of the members; connections are spread over them")
	fs.StringVar(&s.pids, prefix+"pids", "", "process `ids` of the servers, with commas, for CPU and memory per op")
	if prefix == "" {
		return
	}
	fs.StringVar(&s.name, prefix+"name", strings.ToUpper(hosts), "`name` in the report")
	fs.StringVar(&s.start, prefix+"start", "",
		"shell `command` that starts it before its turn, returns when it serves, and prints its process ids")
	fs.StringVar(&s.stop, prefix+"stop", "", "shell `command` that stops it after its turn")
}

// parseCases returns the cases to run. It returns an error if a given knob applies to none of them.
func (f *benchFlags) parseCases(args []string) ([]bench.Params, error) {
	if len(args) == 0 {
		return nil, errors.New("name a case; rollcall bench -h lists them")
	}
	var list []bench.Params
	for _, arg := range args {
		p, err := bench.ParseCase(arg, f.params)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	for _, k := range bench.ParamFlags() {
		used := !f.givenParams[k.Name]
		for _, p := range list {
			used = used || k.AppliesTo(p.Case)
		}
		if !used {
			return nil, fmt.Errorf("--%s: none of the cases takes it", k.Name)
		}
	}
	return list, nil
}

// maxCPUs is more than a load needs: a few threads suffice for the servers' replies.
const maxCPUs = 64

// setGOMAXPROCS sets the number of threads that run Go code. One thread serves some 100,000 requests per second, and
// leaves the rest of a shared machine to the servers. A case with a fixed rate gets another thread, because
// its pacer keeps one busy.
func (f *benchFlags) setGOMAXPROCS(cases []bench.Params) error {
	n := f.cpus
	if n == 0 {
		n = 1
		for _, p := range cases {
			if p.Rate > 0 {
				n = 2
			}
		}
	}
	if n < 1 || n > maxCPUs {
		return fmt.Errorf("--cpus %d must be 1 to %d", n, maxCPUs)
	}
	runtime.GOMAXPROCS(n)
	return nil
}

// benchTarget returns the ensemble of the flags. flagName is the flag of its addresses, with its dashes.
func (s *sideFlags) benchTarget(w cli.IOStreams, flagName string) (bench.Target, error) {
	t := bench.Target{Name: s.name, KeeperCommand: keeperCommand(&s.tls)}
	if s.hosts == "" {
		return t, fmt.Errorf("%s host:port,... names the servers", flagName)
	}
	servers, root, err := client.ParseHostPorts(s.hosts, 0)
	if err == nil && root != "" {
		err = fmt.Errorf("the path %.200q: loads begin at the root of the tree, so give addresses alone", root)
	}
	if err != nil {
		return t, fmt.Errorf("%s: %w", flagName, err)
	}
	t.Servers = servers
	if t.PIDs, err = bench.ParsePIDs(s.pids); err != nil {
		return t, err
	}
	t.TLS, err = s.tls.ClientConfig(w)
	return t, err
}

func (f *benchFlags) measureTarget(ctx context.Context, cases []bench.Params) error {
	if f.output != "table" && f.output != "json" {
		return fmt.Errorf("-o %q must be table or json", f.output)
	}
	target, err := f.sideA.benchTarget(f.streams, "--hosts")
	if err != nil {
		return err
	}
	if err := cli.CheckClientPorts(ctx, f.streams, &f.sideA.tls, target.Servers); err != nil {
		return err
	}
	var results []bench.Result
	for _, p := range cases {
		result, failed := bench.Run(ctx, bench.Config{Target: target, Params: p, Progress: f.progress})
		f.clearProgress()
		if failed != nil {
			err = failed
			break
		}
		results = append(results, result)
	}
	if f.output == "json" {
		return errors.Join(printJSON(f.streams.Out, results), err)
	}
	if len(results) > 0 {
		err = errors.Join(bench.WriteTable(f.streams.Out, results), err)
	}
	return err
}

func (f *benchFlags) compareSides(ctx context.Context, cases []bench.Params) error {
	write, ok := map[string]func(io.Writer, *bench.Comparison) error{
		"table": bench.WriteComparison, "markdown": bench.WriteMarkdown,
		"json": func(w io.Writer, c *bench.Comparison) error { return printJSON(w, c) },
	}[f.output]
	if !ok {
		return fmt.Errorf("-o %q must be table, json or markdown", f.output)
	}
	cfg := bench.CompareConfig{Cases: cases, Rounds: f.rounds, Progress: f.progress}
	for i, s := range []*sideFlags{&f.sideA, &f.sideB} {
		t, err := s.benchTarget(f.streams, "--"+string("ab"[i]))
		if err != nil {
			return err
		}
		cfg.Sides[i] = bench.Side{Target: t, Start: s.start, Stop: s.stop}
	}
	c, err := bench.Compare(ctx, cfg)
	f.clearProgress()
	if err != nil {
		return err
	}
	return write(f.streams.Out, c)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// clearLine empties the current line of a terminal.
const clearLine = "\r\x1b[K"

// newProgressLine returns a function that updates one line of a terminal, and one that empties it. Without a
// terminal, line is nil and clear does nothing.
func newProgressLine(w cli.IOStreams) (line func(string), clear func()) {
	if !w.ErrTerminal {
		return nil, func() {}
	}
	begun := time.Now()
	line = func(text string) {
		// nothing can be done about an error
		_, _ = fmt.Fprintf(w.Err, "%s%5.0f s  %s", clearLine, time.Since(begun).Seconds(), text)
	}
	return line, func() { _, _ = io.WriteString(w.Err, clearLine) }
}
