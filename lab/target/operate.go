package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// commandLimit bounds a command of an operator. A new member copies the whole tree meanwhile.
const commandLimit = 2 * time.Minute

// operators does to the members of an ensemble what operators do, by the commands that the docs name.
type operators struct{ *Processes }

// addOperatorFaults lets Rollcall's members have what operators do to them.
func (t operators) addOperatorFaults() {
	t.methods[Add], t.methods[Replace] = faultMethod{t.canGrow, t.planAdd}, faultMethod{t.canReplace, t.planReplace}
	t.methods[Backup] = faultMethod{t.canRunCommands, t.planBackup}
	if t.cfg.Other != "" {
		t.methods[Upgrade] = faultMethod{t.canUpgrade, t.planUpgrade}
	} else {
		t.unsupported[Upgrade] = "no other binary is named: --other names the one to upgrade to"
	}
	t.methods[Secret], t.unsupported[Keys] = faultMethod{t.canRunCommands, prover{t}.planSecret}, "the members prove themselves by a secret, and have no certificates"
	if t.cfg.Proof == ByCertificates {
		t.methods[Keys], t.unsupported[Secret] = faultMethod{t.canRunCommands, prover{t}.planKeys}, "the members prove themselves by certificates, and have no secret"
		delete(t.methods, Secret)
		delete(t.unsupported, Keys)
	}
}

// runCommand runs Rollcall's binary on a member's machine, with the credentials of an administrator.
func (t operators) runCommand(ctx context.Context, m *member, args ...string) error {
	admin := m.Admin
	if t.network != nil { // the member takes changes from its own machine alone
		admin = "unix:" + filepath.Join(m.data, "admin.sock")
	}
	env := []string{"ROLLCALL_ADMIN=" + admin, "ROLLCALL_TOKEN_FILE=" + t.token}
	return runCommand(ctx, commandLimit, env, append([]string{t.cfg.Binary}, args...)...)
}

// canRunCommands returns an error while a member cannot be queried.
func (t operators) canRunCommands(f Fault) error {
	if m := t.findMember(f.Member); m.process == nil || len(t.brokenOf(f.Member, Stop)) > 0 {
		return fmt.Errorf("member %s is down or stopped: repair that first", m.Name)
	}
	return nil
}

// canUpgrade returns an error if a member runs the other binary already, or cannot be ended.
func (t operators) canUpgrade(f Fault) error {
	if len(t.brokenOf(f.Member, Upgrade)) > 0 {
		return fmt.Errorf("member %s is upgraded already: repair that first", f.Member)
	}
	return t.canEnd(f)
}

func (t operators) planUpgrade(f Fault, _ int) (faultPlan, error) {
	m := t.findMember(f.Member)
	return faultPlan{
		make:  func(ctx context.Context) error { return t.restartAs(ctx, m, t.cfg.Other) },
		after: func(ctx context.Context) error { return t.restartAs(ctx, m, "") },
	}, nil
}

// restartAs ends a member and starts it with another binary.
func (t operators) restartAs(ctx context.Context, m *member, binary string) error {
	if err := t.endMember(ctx, m, syscall.SIGTERM); err != nil {
		return err
	}
	m.binary = binary
	if err := t.startMember(m); err != nil {
		return err
	}
	return t.awaitUnlessEnded(ctx, []*member{m}, func(ctx context.Context) error { return awaitAnswer(ctx, m.Member) })
}

func (t operators) planBackup(f Fault, _ int) (faultPlan, error) {
	if !filepath.IsAbs(f.File) {
		return faultPlan{}, fmt.Errorf("the file of a backup is %q; it must be an absolute path", f.File)
	}
	return faultPlan{
		undo: []Step{{Remove: f.File}},
		make: func(ctx context.Context) error {
			return t.runCommand(ctx, t.findMember(f.Member), "backup", "save", f.File)
		},
	}, nil
}

// reloadAndWait sends a member the signal at which it reads its files again, and waits until its log says so.
func (t operators) reloadAndWait(ctx context.Context, m *member, replaced func() error, words string) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	before, err := countInLog(m.log, words)
	if err != nil {
		return err
	}
	if err := errors.Join(replaced(), m.process.cmd.Process.Signal(syscall.SIGHUP)); err != nil {
		return err
	}
	for {
		now, err := countInLog(m.log, words)
		if err != nil || now > before {
			return err
		}
		select {
		case <-time.After(queryInterval):
		case <-ctx.Done():
			return fmt.Errorf("member %s does not log %q: %w; %s", m.Name, words, context.Cause(ctx), m.tailOfLog())
		}
	}
}

// countInLog returns the number of times that a member's log has words. The log of a drill has some kilobytes.
func countInLog(log, words string) (int, error) {
	text, err := os.ReadFile(log)
	return strings.Count(string(text), words), err
}
