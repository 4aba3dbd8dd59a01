package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"rollcall/bench"
)

const benchTakes = `CASE...

puts load on an ensemble that speaks ZooKeeper's protocol and measures it. %s
Nodes are made below /rollcall-bench-RANDOM and removed at the end. A case may have
parameters of its own: set:conns=64,window=1. docs/bench.md explains each row.

Cases:
`

// benchFlags are the flags of `rollcall bench` and of `rollcall bench compare`.
type benchFlags struct {
	fs     *flag.FlagSet
	params bench.Params
	set    map[string]bool // knobs that were given
	output string
	rounds int
	cpus   int
	a, b   sideFlags // a alone without compare
}

// sideFlags are the flags about one ensemble.
type sideFlags struct {
	name, servers, pids, start, stop string
}

// keepCommand is the argument of the processes that a bench starts for more sessions than one process may
// hold.
const keepCommand = "keep-sessions"

// keeperCommand returns the command line of such a process, or nil if the path of this program is not known.
func keeperCommand() []string {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{program, "bench", keepCommand}
}

// runBench measures one ensemble, or compares two.
func runBench(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 1 && args[0] == keepCommand {
		runtime.GOMAXPROCS(1)
		return bench.ServeKeeper(ctx, os.Stdin, stdout)
	}
	compare := len(args) > 0 && args[0] == "compare"
	if compare {
		args = args[1:]
	}
	f := newBenchFlags(compare, stderr)
	if err := f.fs.Parse(args); err != nil {
		return err
	}
	cases, err := f.cases(f.fs.Args())
	if err != nil {
		return fmt.Errorf("%s: %w", f.fs.Name(), err)
	}
	if err := f.useCPUs(cases); err != nil {
		return fmt.Errorf("%s: %w", f.fs.Name(), err)
	}
	progress, clear := onTerminal(stderr)
	if compare {
		err = f.compare(ctx, cases, stdout, progress, clear)
	} else {
		err = f.measure(ctx, cases, stdout, progress, clear)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.fs.Name(), err)
	}
	return nil
}

func newBenchFlags(compare bool, stderr io.Writer) *benchFlags {
	f := &benchFlags{params: bench.Defaults(), set: map[string]bool{}}
	name := "bench"
	if compare {
		name = "bench compare"
	}
	takes := fmt.Sprintf(benchTakes, "rollcall bench compare -h\nshows how to compare two.")
	if compare {
		takes = fmt.Sprintf(benchTakes, "This measures\ntwo of them, a and b, by turns.")
	}
	for _, c := range bench.Cases() {
		takes += fmt.Sprintf("  %-11s %s\n", c[0], c[1])
	}
	f.fs = newFlags(name, takes, stderr)
	if compare {
		f.a.register(f.fs, "a", "a-")
		f.b.register(f.fs, "b", "b-")
		f.fs.IntVar(&f.rounds, "rounds", bench.MinRounds, fmt.Sprintf("how many `times` each case runs on each, %d to %d", bench.MinRounds, bench.MaxRounds))
		f.fs.StringVar(&f.output, "o", "table", "`format`: table, json or markdown")
	} else {
		f.a.register(f.fs, "servers", "")
		f.fs.StringVar(&f.output, "o", "table", "`format`: table or json")
	}
	f.fs.IntVar(&f.cpus, "cpus", 0, fmt.Sprintf("how many `processors` this tool may use at once, 1 to %d (default 1, with a rate 2: fewer wake-ups cost less CPU time)", maxCPUs))
	f.fs.BoolVar(&f.params.Keep, "keep", false, "leave the nodes")
	for _, k := range bench.Knobs() {
		f.fs.Func(k.Name, k.Usage, func(value string) error {
			f.set[k.Name] = true
			return k.Set(&f.params, value)
		})
	}
	return f
}

// register adds the flags of one ensemble; prefix tells two apart.
func (s *sideFlags) register(fs *flag.FlagSet, servers, prefix string) {
	fs.StringVar(&s.servers, servers, "", "`host:port,...` of the members; connections are spread over them")
	fs.StringVar(&s.pids, prefix+"pids", "", "`numbers` of their processes, with commas, for CPU and memory per op")
	if prefix == "" {
		return
	}
	fs.StringVar(&s.name, prefix+"name", strings.ToUpper(servers), "`name` in the report")
	fs.StringVar(&s.start, prefix+"start", "", "shell `command` that starts it before its turn, returns when it serves, and prints its process ids")
	fs.StringVar(&s.stop, prefix+"stop", "", "shell `command` that stops it after its turn")
}

// cases returns the cases to run. It is an error if none of them takes a knob that was given.
func (f *benchFlags) cases(args []string) ([]bench.Params, error) {
	if len(args) == 0 {
		return nil, errors.New("name a case; rollcall bench -h lists them")
	}
	var list []bench.Params
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			return nil, fmt.Errorf("flag %s after a case: flags come first", arg)
		}
		p, err := bench.ParseCase(arg, f.params)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	for _, k := range bench.Knobs() {
		used := !f.set[k.Name]
		for _, p := range list {
			used = used || k.Takes(p.Case)
		}
		if !used {
			return nil, fmt.Errorf("-%s: none of the cases takes it", k.Name)
		}
	}
	return list, nil
}

// maxCPUs is more than a load needs: a few threads suffice for the servers' answers.
const maxCPUs = 64

// useCPUs sets how many threads run Go code at once. One thread serves some 100,000 requests per
// second, and leaves the rest of a shared machine to the servers. A case with a fixed rate gets
// another thread, because its pacer keeps one busy.
func (f *benchFlags) useCPUs(cases []bench.Params) error {
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
		return fmt.Errorf("-cpus %d; allowed are 1 to %d", n, maxCPUs)
	}
	runtime.GOMAXPROCS(n)
	return nil
}

// target returns the ensemble that the flags describe. flagName is the flag of its servers.
func (s *sideFlags) target(flagName string) (bench.Target, error) {
	t := bench.Target{Name: s.name}
	if s.servers == "" {
		return t, fmt.Errorf("-%s host:port,... names the servers", flagName)
	}
	for _, addr := range strings.Split(s.servers, ",") {
		host, port, err := net.SplitHostPort(addr)
		if n, _ := strconv.Atoi(port); err != nil || host == "" || n < 1 || n > 65535 {
			return t, fmt.Errorf("-%s: %q is not host:port", flagName, addr)
		}
		t.Servers = append(t.Servers, addr)
	}
	var err error
	if t.PIDs, err = bench.ParsePIDs(s.pids); err != nil {
		return t, err
	}
	return t, nil
}

func (f *benchFlags) measure(ctx context.Context, cases []bench.Params, stdout io.Writer, progress func(string), clear func()) error {
	if f.output != "table" && f.output != "json" {
		return fmt.Errorf("-o %q; there are table and json", f.output)
	}
	target, err := f.a.target("servers")
	if err != nil {
		return err
	}
	var results []bench.Result
	for _, p := range cases {
		result, failed := bench.Run(ctx, bench.Config{Target: target, Params: p, Progress: progress, Keeper: keeperCommand()})
		clear()
		if failed != nil {
			err = failed
			break
		}
		results = append(results, result)
	}
	if f.output == "json" {
		return errors.Join(printJSON(stdout, results), err)
	}
	if len(results) > 0 {
		err = errors.Join(bench.Table(stdout, results), err)
	}
	return err
}

func (f *benchFlags) compare(ctx context.Context, cases []bench.Params, stdout io.Writer, progress func(string), clear func()) error {
	write, ok := map[string]func(io.Writer, *bench.Comparison) error{
		"table": bench.WriteComparison, "markdown": bench.WriteMarkdown,
		"json": func(w io.Writer, c *bench.Comparison) error { return printJSON(w, c) },
	}[f.output]
	if !ok {
		return fmt.Errorf("-o %q; there are table, json and markdown", f.output)
	}
	cfg := bench.CompareConfig{Cases: cases, Rounds: f.rounds, Progress: progress, Keeper: keeperCommand()}
	for i, s := range []*sideFlags{&f.a, &f.b} {
		t, err := s.target(string("ab"[i]))
		if err != nil {
			return err
		}
		cfg.Sides[i] = bench.Side{Target: t, Start: s.start, Stop: s.stop}
	}
	c, err := bench.Compare(ctx, cfg)
	clear()
	if err != nil {
		return err
	}
	return write(stdout, c)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// clearLine goes to the beginning of a terminal's line and empties it.
const clearLine = "\r\x1b[K"

// onTerminal returns a function that keeps one line of a terminal up to date, and one that empties it. If
// w is not a terminal, line is nil and clear does nothing.
func onTerminal(w io.Writer) (line func(string), clear func()) {
	file, ok := w.(*os.File)
	if !ok {
		return nil, func() {}
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil, func() {}
	}
	begun := time.Now()
	line = func(text string) {
		_, _ = fmt.Fprintf(w, "%s%5.0f s  %s", clearLine, time.Since(begun).Seconds(), text) // nothing can be done about an error
	}
	return line, func() { _, _ = io.WriteString(w, clearLine) }
}
