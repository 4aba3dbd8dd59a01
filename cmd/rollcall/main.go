// Command rollcall runs and queries members of a Rollcall ensemble. ZooKeeper clients use the members as they
// would use ZooKeeper.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/internal/tuning"
)

func main() {
	if waitsForDisk(os.Args[1:]) {
		tuning.RaiseTimerSlack()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := runCommandLine(ctx, os.Args[1:], cli.ProcessStreams()); err != nil {
		if text := errorLine(err); text != "" {
			fmt.Fprintln(os.Stderr, "rollcall:", text)
		}
		os.Exit(int(cli.StatusOf(err)))
	}
}

// waitsForDisk reports whether a command line runs a member.
func waitsForDisk(args []string) bool {
	return len(args) > 0 && args[0] == "serve"
}

// runCommandLine is main with its environment as arguments. Its error names a remedy, if there is one.
func runCommandLine(ctx context.Context, args []string, w cli.IOStreams) error {
	cmd, err := cli.Execute(ctx, newRoot(w), args)
	return addAdvice(topCommandName(cmd), err)
}

// newRoot returns the command line: the commands of package cli, and the commands that run or measure members.
func newRoot(w cli.IOStreams) *cobra.Command {
	w = cli.WithProgress(w)
	w.LocateMember, w.OpenKeptLog = config.LocateMember, cli.OpenKeptLog
	root := cli.NewRoot(w, buildCommit().String())
	root.AddCommand(newUp(w), newServe(w), newHealth(w), newRecover(w), newImport(w), newExport(w), newBench(w), newDrill(w),
		newVersion(w), newConfiguration(w), newCerts(w), newTestServer(w), newProxy(w))
	root.AddCommand(buildCommands()...)
	for _, cmd := range root.Commands() {
		if cmd.Name() == "backup" {
			cmd.AddCommand(newRestore(w))
		}
	}
	return root
}

// topCommandName returns the name of a command, or of its ancestor below the root.
func topCommandName(cmd *cobra.Command) string {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd.Name()
}
