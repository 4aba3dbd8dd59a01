package target

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// canMoveIn returns an error if ZooKeeper does not run any more.
func (t operators) canMoveIn(Fault) error {
	if t.launcher.rollcall {
		return errors.New("the members run Rollcall already")
	}
	return nil
}

// planMoveIn has Rollcall take the place of ZooKeeper, as docs/moving-in.md says: all servers stop, the first member
// imports their data, and all members start at the same addresses. ZooKeeper's own files stay.
func (t operators) planMoveIn(Fault, int) (faultPlan, error) {
	return faultPlan{make: func(ctx context.Context) error {
		var directories []string
		for _, m := range t.members {
			if err := t.endMember(ctx, m, syscall.SIGTERM); err != nil {
				return err
			}
			directories = append(directories, m.data)
		}
		t.launcher, t.cfg.Program = rollcallLauncher, Rollcall
		for _, m := range t.members {
			m.data = filepath.Join(filepath.Dir(m.data), "rollcall")
			if err := os.Mkdir(m.data, 0o700); err != nil {
				return err
			}
		}
		if err := (prover{t}).makeCredentials(ctx); err != nil {
			return err
		}
		for _, m := range t.members {
			if err := t.writeFiles(m); err != nil {
				return err
			}
		}
		first := t.members[0]
		if err := t.runCommand(ctx, first, append([]string{"import", "--config", first.config}, directories...)...); err != nil {
			return err
		}
		for _, m := range t.members {
			if err := t.startMember(m); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}
