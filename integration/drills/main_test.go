package drills

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"rollcall/lab/process"
	"rollcall/lab/target"
)

// rollcall is the binary under test, built once per run.
var rollcall string

// These variables of the environment configure a child process of TestDrillIsKilled.
const (
	childState  = "DRILLS_CHILD_STATE"  // directory of the journal; not empty: this process is such a child
	childBinary = "DRILLS_CHILD_BINARY" // rollcall
	childHooks  = "DRILLS_CHILD_HOOKS"  // a file with hooks; "": the child starts an ensemble itself
)

func TestMain(m *testing.M) {
	if state := os.Getenv(childState); state != "" {
		fmt.Fprintln(os.Stderr, breakAndWait(state))
		os.Exit(1)
	}
	os.Exit(process.Main(m, &rollcall, func(dir string) (string, error) { return process.Build(dir) }))
}

// breakAndWait is a drill that breaks what it can, says so, and repairs nothing.
func breakAndWait(state string) error {
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	j, err := target.OpenJournal(state)
	if err != nil {
		return err
	}
	t, err := childTarget(ctx, j)
	if err != nil {
		return err
	}
	for _, f := range []target.Fault{
		{Kind: target.Stop, Member: "2"}, {Kind: target.Cut, Member: "1"}, {Kind: target.Disk, Member: "3", Mode: target.Stall},
	} {
		if t.Can(f) != nil {
			continue
		}
		if err := t.Break(ctx, f); err != nil {
			return err
		}
	}
	fmt.Println("broken")
	time.Sleep(2 * process.Patience) // until it is killed
	return nil
}

func childTarget(ctx context.Context, j *target.Journal) (target.Target, error) {
	if hooks := os.Getenv(childHooks); hooks != "" {
		cfg, err := target.LoadHooks(hooks, "")
		if err != nil {
			return nil, err
		}
		return target.NewHooks(j, cfg)
	}
	cfg := target.ProcessConfig{Journal: j, Binary: os.Getenv(childBinary), Disks: target.CheckDisks() == nil}
	if target.CheckNamespaces() == nil {
		return target.NewNamespaces(ctx, cfg)
	}
	return target.NewProcesses(ctx, cfg)
}
