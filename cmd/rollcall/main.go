// Command rollcall runs members of a Rollcall ensemble. ZooKeeper clients use it as they would use
// ZooKeeper.
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
	"syscall"
)

const usage = `rollcall keeps a roll of who is alive, for ZooKeeper clients.

  rollcall up                  run three members in this process, on loopback
  rollcall serve [zoo.cfg]     run one member; without a file: $ZOO_CONF_DIR/zoo.cfg or ZOO_* variables
  rollcall health [zoo.cfg]    exit 0 if the member of this machine serves clients, else 1
  rollcall recover [zoo.cfg]   let the survivor of a lost majority start alone (read the warning first)
  rollcall bench CASE...       measure any ensemble that speaks ZooKeeper's protocol; compare measures two
  rollcall version             print the version, and the commit with its date

Each command takes -h. Keys of zoo.cfg, variables and flags: docs/configuration.md.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return
	default:
		fmt.Fprintln(os.Stderr, "rollcall:", lastLine(err))
		os.Exit(1)
	}
}

// newFlags returns an empty set of flags for a command. takes are the arguments that follow the flags;
// the help begins with them.
func newFlags(command, takes string, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		_, _ = fmt.Fprintln(stderr, strings.TrimSpace("rollcall "+command+" [flags] "+takes)) // nothing can be done about an error
		fs.PrintDefaults()
	}
	return fs
}

// run is main with its surroundings as arguments. Its error says what the operator can do, if anything.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		_, err := io.WriteString(stderr, usage)
		return errors.Join(err, errors.New("name a command; they are listed above"))
	}
	name, args := args[0], args[1:]
	switch name {
	case "up":
		return advised(name, up(ctx, args, stdout, stderr))
	case "serve":
		return advised(name, serve(ctx, args, env, stderr))
	case "health":
		return advised(name, health(ctx, args, env, stdout, stderr))
	case "recover":
		return advised(name, recoverMember(ctx, args, env, stdout, stderr))
	case "bench":
		return advised(name, runBench(ctx, args, stdout, stderr))
	case "version", "-version", "--version":
		_, err := fmt.Fprintln(stdout, builtFrom())
		return err
	case "help", "-h", "-help", "--help":
		_, err := io.WriteString(stdout, usage)
		return err
	}
	return fmt.Errorf("unknown command %q; rollcall help lists them", name)
}
