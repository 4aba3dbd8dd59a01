package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/lab/drill"
	"rollcall/lab/report"
	"rollcall/lab/result"
	"rollcall/lab/target"
)

// drillFlags are the flags of `rollcall drill`.
type drillFlags struct {
	streams  cli.IOStreams
	ensemble drillEnsemble
	config   drill.Config
	yes      bool
	files    drillFiles
}

// drillFiles are the files for the findings, besides the table on stdout.
type drillFiles struct{ html, json, junit, compare string }

const drillHelp = `Breaks an ensemble on purpose while clients use it, and judges whether it kept its promises. Without --hosts it starts three processes of its own in a temporary directory, drills them, and removes them.

DRILL is a name from "rollcall drill list", "all" (those that fit the ensemble, in about ten minutes), or "full" (the heavy ones too). docs/drills.md explains each drill, the rules of the judge, and the hooks that break an ensemble of yours.

The exit status is 0 if every promise was kept that could be judged, and 1 if one was broken or nothing ran.`

// newDrill returns the command that drills an ensemble.
func newDrill(w cli.IOStreams) *cobra.Command {
	f := &drillFlags{streams: w}
	cmd := &cobra.Command{
		Use: "drill [flags] DRILL...", Short: "break an ensemble on purpose, and judge what its clients see", GroupID: cli.ToolsGroup,
		Long: drillHelp, Args: cli.RangeArgs(1, len(drill.All()), `the names of drills, or "all"; "rollcall drill list" lists them`),
		RunE: cli.PrefixErrors(func(cmd *cobra.Command, args []string) error {
			drills, err := f.check(cmd.Flags().Changed, args)
			if err != nil {
				return cli.WithStatus(cli.UsageError, err)
			}
			return f.run(cmd.Context(), commandLine(cmd, args), drills)
		}),
	}
	fs := cmd.Flags()
	f.ensemble.registerFlags(fs)
	fs.DurationVar(&f.config.Timeout, "timeout", drill.DefaultTimeout, "`duration` of the session timeouts of the drill's clients")
	fs.Uint64Var(&f.config.Seed, "seed", 0, "`number` that draws members and load (default: a random one, which is printed)")
	fs.IntVar(&f.config.Repeat, "repeat", 1, fmt.Sprintf("`times` that each drill runs, 1 to %d", drill.MaxRepeat))
	fs.DurationVar(&f.config.MaxPause, "max-pause", 0,
		"`duration` without an answer that fails a drill, for clients that may use any member (default: a session timeout and two ticks)")
	fs.BoolVar(&f.config.AmongOthers, "among-others", false, "drill although the ensemble has sessions of others, which suffer")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask before an ensemble of yours is broken")
	fs.StringVar(&f.files.html, "report", "", "`file` for a report as one HTML page")
	fs.StringVar(&f.files.json, "json", "", "`file` for the findings as JSON (docs/drills.schema.json)")
	fs.StringVar(&f.files.junit, "junit", "", "`file` for the verdicts as JUnit XML, for CI")
	fs.StringVar(&f.files.compare, "compare", "", "`file` with the JSON of another run, to show both side by side")
	cmd.AddCommand(newDrillList(w), newDrillHeal(w), newDrillHooks(w))
	return cmd
}

func newDrillList(w cli.IOStreams) *cobra.Command {
	out := cli.NewOutput(w)
	cmd := &cobra.Command{
		Use: "list [flags]", Short: "list the drills", Args: cli.RangeArgs(0, 0, "flags only"),
		Long: "Lists the drills: what each needs, how long it takes, and what it does.",
		RunE: func(*cobra.Command, []string) error {
			return cli.PrintRows(out, drillColumns, cli.MapRows(cli.RowsOf(drill.All()), drillRow))
		},
	}
	return out.Register(cmd)
}

// newDrillHooks returns the command that prints hooks of the program, so that the user can change them.
func newDrillHooks(w cli.IOStreams) *cobra.Command {
	names := target.Examples()
	return &cobra.Command{
		Use: "hooks [flags] NAME", Short: "print hooks that the program contains, for a file of yours", ValidArgs: names,
		Args: cli.RangeArgs(1, 1, "one of "+strings.Join(names, ", ")),
		Long: "Prints the YAML of hooks that the program contains: " + strings.Join(names, ", ") + ". Write it into a file, change " +
			"that, and name it in --hooks. docs/drills.md explains its keys.",
		RunE: cli.PrefixErrors(func(_ *cobra.Command, args []string) error {
			text, err := target.Example(args[0])
			if err != nil {
				return cli.WithStatus(cli.UsageError, err)
			}
			_, err = w.Out.Write(text)
			return err
		}),
	}
}

var drillColumns = []cli.Column[cli.DrillRow]{
	{Name: "drill", Cell: func(r cli.DrillRow) string { return r.Name }},
	{Name: "part of", Cell: func(r cli.DrillRow) string { return r.Part }},
	{Name: "needs", Cell: func(r cli.DrillRow) string { return strings.Join(r.Needs, ", ") }},
	{Name: "takes", AlignRight: true, Cell: func(r cli.DrillRow) string { return fmt.Sprintf("%d s", r.TakesSeconds) }},
	{Name: "does", Cell: func(r cli.DrillRow) string { return r.Does }},
}

func drillRow(d *drill.Drill) cli.DrillRow {
	row := cli.DrillRow{
		Name: d.Name, Part: "all", Needs: d.Requirements(), TakesSeconds: int(d.Lasts(drill.DefaultTimeout).Seconds()), Does: d.Does,
	}
	if d.Tier == drill.Heavy {
		row.Part = "full"
	}
	return row
}

// run drills, and writes what was found.
func (f *drillFlags) run(ctx context.Context, commandText string, drills []*drill.Drill) error {
	var other *result.Run
	if f.files.compare != "" {
		var err error
		if other, err = readRun(f.files.compare); err != nil {
			return cli.WithStatus(cli.UsageError, err)
		}
	}
	ctx, stop := endOnHangup(ctx)
	defer stop()
	defer outliveReaders()()
	ensemble, err := f.ensemble.open(ctx)
	if err != nil {
		return err
	}
	found, err := f.drillEnsemble(ctx, ensemble, drills)
	err = errors.Join(err, ensemble.Close(context.WithoutCancel(ctx)))
	if found == nil {
		return err
	}
	found.Command = commandText
	return errors.Join(err, f.write(*found, other), judgement(*found))
}

// check returns the drills, or why the flags are wrong.
func (f *drillFlags) check(given func(flag string) bool, names []string) ([]*drill.Drill, error) {
	if err := f.ensemble.check(given); err != nil {
		return nil, err
	}
	if f.config.Repeat < 1 || f.config.Repeat > drill.MaxRepeat {
		return nil, fmt.Errorf("--repeat %d must be 1 to %d", f.config.Repeat, drill.MaxRepeat)
	}
	if f.config.Timeout < drill.MinTimeout || f.config.Timeout > drill.MaxTimeout {
		return nil, fmt.Errorf("--timeout %v must be %v to %v", f.config.Timeout, drill.MinTimeout, drill.MaxTimeout)
	}
	if f.config.MaxPause < 0 {
		return nil, fmt.Errorf("--max-pause %v must not be negative", f.config.MaxPause)
	}
	if err := checkReportFiles(reportFlag{"--report", f.files.html}, reportFlag{"--json", f.files.json},
		reportFlag{"--junit", f.files.junit}); err != nil {
		return nil, err
	}
	if f.config.Seed == 0 {
		var b [4]byte
		_, _ = rand.Read(b[:]) // it never fails
		f.config.Seed = uint64(binary.BigEndian.Uint32(b[:])) | 1
	}
	return drill.Select(names)
}

// drillEnsemble requests consent, and runs the drills. It returns nil if none ran.
func (f *drillFlags) drillEnsemble(ctx context.Context, ensemble *openedEnsemble, drills []*drill.Drill) (*result.Run, error) {
	f.config.Target, f.config.Tick, f.config.Own = ensemble.Target, f.ensemble.tick(), ensemble.own
	if err := drill.PrintPlan(f.streams.Err, f.config, drills); err != nil {
		return nil, err
	}
	if f.ensemble.isForeign() && !f.yes {
		if err := f.ask(ctx); err != nil {
			return nil, err
		}
	}
	display := report.NewQueuedWriter(f.streams.Err)
	defer display.Close()
	f.config.Live = report.NewLive(display, report.LiveOptions{
		Terminal: f.streams.ErrTerminal, Columns: f.streams.ErrColumns, Colours: f.streams.ErrTerminal && f.streams.Getenv("NO_COLOR") == "",
	})
	defer f.config.Live.Close()
	runner, err := f.config.Check(ctx)
	if err != nil {
		return nil, err
	}
	found, err := runner.Run(ctx, drills)
	if errors.Is(err, context.Canceled) { // not wrapped: drills that did not end are a failure
		err = errors.New("it was interrupted; what was broken has been repaired")
	}
	return &found, errors.Join(err, runner.Close(ctx))
}

// ask returns an error unless the user types yes.
func (f *drillFlags) ask(ctx context.Context) error {
	if !f.streams.InTerminal {
		return cli.UsageError.Errorf("this breaks an ensemble of yours: --yes agrees to the plan above without a terminal")
	}
	if _, err := io.WriteString(f.streams.Err, "Break it? Type yes: "); err != nil {
		return err
	}
	typed := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(f.streams.In, 100)).ReadString('\n') // what was typed before an error counts
		typed <- strings.TrimSpace(line)
	}()
	select {
	case word := <-typed:
		if word != "yes" {
			return errors.New("nothing was done")
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write prints the table, and writes the requested files.
func (f *drillFlags) write(found result.Run, other *result.Run) error {
	options := report.TextOptions{Colours: f.streams.AllowsColor()}
	errs := []error{report.WriteText(f.streams.Out, found, options)}
	if other != nil {
		errs = append(errs, report.Compare(found, *other).WriteText(f.streams.Out, options))
	}
	for _, file := range []struct {
		path  string
		write func(io.Writer, result.Run) error
	}{{f.files.json, report.WriteJSON}, {f.files.junit, report.WriteJUnit}, {f.files.html, report.WriteHTML}} {
		if file.path != "" {
			errs = append(errs, writeReport(file.path, func(w io.Writer) error { return file.write(w, found) }))
		}
	}
	return errors.Join(errs...)
}

// readRun reads the JSON of another run.
func readRun(path string) (*result.Run, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // it was only read
	run, err := report.Read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &run, nil
}

// judgement returns an error if a promise was broken or nothing ran.
func judgement(found result.Run) error {
	count := func(o result.Outcome) (n int) {
		for _, d := range found.Drills {
			if d.Outcome == o {
				n++
			}
		}
		return n
	}
	switch failed, passed := count(result.Fail), count(result.Pass); {
	case failed > 0:
		return fmt.Errorf("%d of %d drills failed", failed, failed+passed)
	case passed == 0:
		return errors.New("no drill ran")
	}
	return nil
}
