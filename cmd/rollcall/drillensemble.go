package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rollcall/cli"
	"rollcall/lab/drill"
	"rollcall/lab/target"
)

// drillEnsemble is the ensemble that is drilled: one of its own, or that of --hosts.
type drillEnsemble struct {
	in       string // "processes" or "namespaces"
	software string // "rollcall" or "zookeeper"
	members  int
	hosts    string
	hooks    string
	other    string // the binary of the drill upgrade
	state    drillState
}

// drillState is the directory of the journal.
type drillState struct{ directory string }

func (s *drillState) registerFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.directory, "state", "",
		"`directory` for the journal of what is broken (default $XDG_STATE_HOME/rollcall/drills, or ~/.local/state/rollcall/drills)")
}

func (s *drillState) open() (*target.Journal, error) {
	directory := s.directory
	if directory == "" {
		var err error
		if directory, err = target.StateDirectory(); err != nil {
			return nil, err
		}
	}
	return target.OpenJournal(directory)
}

func (e *drillEnsemble) registerFlags(fs *pflag.FlagSet) {
	fs.StringVar(&e.in, "in", "processes", "`how` its own members run: processes, or namespaces (Linux, as root), which have networks and disks that can break")
	fs.StringVar(&e.software, "software", "rollcall", "`software` of its own members: rollcall or zookeeper (Debian's package)")
	fs.IntVar(&e.members, "members", 3, fmt.Sprintf("`number` of its own members, 3 to %d", target.MaxSize))
	fs.StringVar(&e.hosts, "hosts", "", "`host:port,...` of all members of an ensemble of yours")
	fs.StringVar(&e.hooks, "hooks", "", "`file` with the commands that break members of --hosts, or one of "+strings.Join(target.Examples(), ", "))
	fs.StringVar(&e.other, "other", "", "`binary` of Rollcall to which the drill upgrade restarts its own members")
	e.state.registerFlags(fs)
}

// isForeign reports whether the ensemble is not of the drill's own making.
func (e *drillEnsemble) isForeign() bool { return e.hosts != "" || e.hooks != "" }

// check returns an error if the flags are wrong. given reports whether a flag was given.
func (e *drillEnsemble) check(given func(flag string) bool) error {
	for _, own := range []string{"in", "software", "members", "other"} {
		if e.isForeign() && given(own) {
			return fmt.Errorf("--%s is about members that the drill starts itself: leave it out with --hosts and --hooks", own)
		}
	}
	switch {
	case e.in != "processes" && e.in != "namespaces":
		return fmt.Errorf("--in %.40q must be processes or namespaces", e.in)
	case e.software != "rollcall" && e.software != "zookeeper":
		return fmt.Errorf("--software %.40q must be rollcall or zookeeper", e.software)
	case e.other != "" && e.software == "zookeeper":
		return errors.New("--other is about members of Rollcall: leave it out with --software zookeeper")
	case e.other != "" && !isProgram(e.other):
		return fmt.Errorf("--other %.200q must be a program", e.other)
	case e.members < 3 || e.members > target.MaxSize:
		return fmt.Errorf("--members %d must be 3 to %d: with fewer, no drill leaves a majority", e.members, target.MaxSize)
	}
	return nil
}

// isProgram reports whether a path is that of a file that can be run.
func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// tick returns the tick of the members, or 0 if it is unknown.
func (e *drillEnsemble) tick() time.Duration {
	if e.isForeign() {
		return 0
	}
	return target.DefaultTick
}

// openedEnsemble is an ensemble with the journal of what is broken in it.
type openedEnsemble struct {
	target.Target
	journal *target.Journal
	// own starts another one beside it; nil: it is the user's, or of ZooKeeper.
	own func(context.Context, target.ProcessConfig) (target.Target, error)
}

// Close heals, ends members of its own, and lets another process have the journal.
func (o *openedEnsemble) Close(ctx context.Context) error {
	return errors.Join(o.Target.Close(ctx), o.journal.Close())
}

// open starts the ensemble, or takes that of the user.
func (e *drillEnsemble) open(ctx context.Context) (*openedEnsemble, error) {
	journal, err := e.state.open()
	if err != nil {
		return nil, err
	}
	var opened target.Target
	if err = journal.CheckClean(); err == nil {
		if e.isForeign() {
			opened, err = e.openForeign(ctx, journal)
		} else {
			opened, err = e.start(ctx, journal)
		}
	}
	if err != nil {
		return nil, errors.Join(err, journal.Close())
	}
	o := &openedEnsemble{Target: opened, journal: journal}
	if !e.isForeign() && e.software == "rollcall" {
		o.own = func(ctx context.Context, cfg target.ProcessConfig) (target.Target, error) {
			cfg.Journal, cfg.Beside = journal, true
			return target.NewProcesses(ctx, cfg)
		}
	}
	return o, nil
}

func (e *drillEnsemble) openForeign(ctx context.Context, journal *target.Journal) (target.Target, error) {
	cfg, err := target.LoadHooks(e.hooks, e.hosts)
	if err != nil {
		return nil, err
	}
	var servers []string
	for _, m := range cfg.Members {
		servers = append(servers, m.Clients)
	}
	if err := cli.CheckClientPorts(ctx, cli.IOStreams{}, nil, servers); err != nil {
		return nil, err
	}
	return target.NewHooks(journal, cfg)
}

func (e *drillEnsemble) start(ctx context.Context, journal *target.Journal) (target.Target, error) {
	cfg := target.ProcessConfig{Journal: journal, Size: e.members, Other: e.other, Program: target.Program(e.software)}
	if e.in == "namespaces" {
		cfg.Disks = target.CheckDisks() == nil
		return target.NewNamespaces(ctx, cfg)
	}
	return target.NewProcesses(ctx, cfg)
}

// newDrillHeal returns the command that repairs what a drill left broken.
func newDrillHeal(w cli.IOStreams) *cobra.Command {
	var state drillState
	var hosts string
	out := cli.NewOutput(w)
	cmd := &cobra.Command{
		Use: "heal [flags]", Short: "repair what a drill left broken when it crashed", Args: cli.RangeArgs(0, 0, "flags only"),
		Long: "Repairs what the journal says is broken, the last fault first. With --hosts, it also removes the nodes that drills left " +
			"in that ensemble. It can be repeated.",
		RunE: cli.PrefixErrors(func(cmd *cobra.Command, _ []string) error {
			healed, err := healDrills(cmd.Context(), &state, hosts)
			text := healedText(healed)
			if text == "" && err == nil {
				text = "nothing is broken\n"
			}
			return errors.Join(err, cli.PrintText(out, text, healed))
		}),
	}
	state.registerFlags(cmd.Flags())
	cmd.Flags().StringVar(&hosts, "hosts", "", "`host:port,...` of an ensemble whose nodes of earlier drills are removed")
	return out.Register(cmd)
}

// healDrills returns its repairs, even if something else cannot be repaired.
func healDrills(ctx context.Context, state *drillState, hosts string) (cli.HealResult, error) {
	healed := cli.HealResult{Repaired: []string{}, Removed: []string{}}
	journal, err := state.open()
	if err != nil {
		return healed, err
	}
	repaired, err := journal.Heal(ctx)
	healed.Repaired = append(healed.Repaired, repaired...)
	if err = errors.Join(err, journal.Close()); err != nil || hosts == "" {
		return healed, err
	}
	removed, err := drill.RemoveLeftovers(ctx, hosts)
	healed.Removed = append(healed.Removed, removed...)
	return healed, err
}

// healedText returns a line for each thing that was repaired or removed.
func healedText(healed cli.HealResult) string {
	return cli.JoinFunc(healed.Repaired, "", func(what string) string { return "repaired: " + what + "\n" }) +
		cli.JoinFunc(healed.Removed, "", func(path string) string { return "removed: " + path + "\n" })
}
