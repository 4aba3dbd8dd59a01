package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/operator/logs"
	"rollcall/rollcalltest"
)

const (
	// testServerStartTimeout limits the wait until all servers serve, and that of the line wait-ready. Without other
	// load a start takes less than a second.
	testServerStartTimeout = 30 * time.Second
	// maxTestServerLine limits the bytes of a line on stdin. The longest one has two numbers and a duration.
	maxTestServerLine = 1 << 10
)

// testServerFlags are the flags of `rollcall test-server`.
type testServerFlags struct {
	memberCount int
	basePort    int
	tick        time.Duration
	verbose     bool
}

// newTestServer returns the command that runs servers for the tests of applications in any language.
func newTestServer(w cli.IOStreams) *cobra.Command {
	var f testServerFlags
	cmd := &cobra.Command{
		Use: "test-server [flags]", Short: "run servers for the tests of an application, in memory", GroupID: cli.RunGroup,
		Args: cli.RangeArgs(0, 0, "flags only"),
		Long: "Runs servers for the tests of an application, until stdin ends or SIGTERM. Nothing is on disk, and each " +
			"start begins with an empty tree. The first line of stdout is the connect string for clients, when all servers " +
			"serve. Clients connect over loopback.\n\n" +
			"Each line on stdin is a command, and each is acknowledged with one line: \"ok\", perhaps with what was " +
			"requested, or \"error: \" and the reason. A SERVER is its number from 1, a SESSION an id in hex (0x...) or " +
			"decimal, N counts requests from now on (1 is the next), and a DURATION is a number with a unit, such as " +
			"500ms:\n\n" + cli.JoinFunc(testServerCommands, "\n", testServerCommand.helpLine),
		RunE: cli.PrefixErrors(func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), w) }),
	}
	fs := cmd.Flags()
	fs.IntVar(&f.memberCount, "members", 1, fmt.Sprintf("`number` of servers, 1 to %d", rollcalltest.MaxServers))
	fs.IntVar(&f.basePort, "port", 0, "client `port` of server 1; the others have the next ones (default: free ports)")
	fs.DurationVar(&f.tick, "tick", rollcalltest.DefaultTick,
		"`duration` of a tick: a silent session expires at most one tick after its timeout, which is at least two ticks")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "print the log lines of the servers on stderr")
	return cmd
}

// run runs the servers until ctx or stdin ends.
func (f *testServerFlags) run(ctx context.Context, w cli.IOStreams) (err error) {
	level := slog.LevelError + 1 // faults make servers log errors
	if f.verbose {
		level = slog.LevelDebug
	}
	startCtx, cancel := context.WithTimeout(ctx, testServerStartTimeout)
	defer cancel()
	ensemble, err := rollcalltest.New(startCtx, f.memberCount, rollcalltest.Config{
		Port: f.basePort, Tick: f.tick, Logger: logs.New(w.Err, logs.Settings{Level: level}, false).Logger(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ensemble.Close()) }()
	if _, err := fmt.Fprintln(w.Out, ensemble.ConnectString()); err != nil {
		return err
	}
	lines := make(chan string)
	readEnded := make(chan error, 1)
	go func() { readEnded <- readTestServerLines(ctx, w.In, lines) }() // it ends with stdin, or with the process
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-readEnded:
			return err
		case line := <-lines:
			if err := acknowledge(ctx, w.Out, ensemble, line); err != nil {
				return err
			}
		}
	}
}

// readTestServerLines sends the lines of in, without empty ones, until in or ctx ends.
func readTestServerLines(ctx context.Context, in io.Reader, lines chan<- string) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxTestServerLine)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if line == "" {
			continue
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return nil
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("stdin: %w; a line may have %d bytes", err, maxTestServerLine)
	}
	return nil
}

// acknowledge does what a line says, and prints the acknowledgement.
func acknowledge(ctx context.Context, out io.Writer, e *rollcalltest.Ensemble, line string) error {
	reply, err := doTestServerLine(ctx, e, line)
	text := strings.TrimSpace("ok " + reply)
	if err != nil {
		text = "error: " + strings.ReplaceAll(strings.TrimPrefix(err.Error(), "rollcalltest: "), "\n", "; ")
	}
	_, err = fmt.Fprintln(out, text)
	return err
}
