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

// operate lets Rollcall's members have what operators do to them.
func (t operators) operate() {
	t.ways[Add], t.ways[Replace] = way{t.canGrow, t.planAdd}, way{t.canReplace, t.planReplace}
	t.ways[Backup] = way{t.canRunCommands, t.planBackup}
	if t.cfg.Other != "" {
		t.ways[Upgrade] = way{t.canUpgrade, t.planUpgrade}
	} else {
		t.lacks[Upgrade] = "no other binary is named: --other names the one to upgrade to"
	}
	t.ways[Secret], t.lacks[Keys] = way{t.canRunCommands, prover{t}.planSecret}, "the members prove themselves by a secret, and have no certificates"
	if t.cfg.Certificates {
		t.ways[Keys], t.lacks[Secret] = way{t.canRunCommands, prover{t}.planKeys}, "the members prove themselves by certificates, and have no secret"
		delete(t.ways, Secret)
		delete(t.lacks, Keys)
	}
}

// command runs Rollcall's binary on a member's machine, with the credentials of an administrator.
func (t operators) command(ctx context.Context, m *member, args ...string) error {
	admin := m.Admin
	if t.network != nil { // the member takes changes from its own machine alone
		admin = "unix:" + filepath.Join(m.data, "admin.sock")
	}
	env := []string{"ROLLCALL_ADMIN=" + admin, "ROLLCALL_TOKEN_FILE=" + t.token}
	return command(ctx, commandLimit, env, append([]string{t.program.binary}, args...)...)
}

// canRunCommands returns an error while a member cannot be asked.
func (t operators) canRunCommands(f Fault) error {
	if m := t.member(f.Member); m.process == nil || len(t.has(f.Member, Stop)) > 0 {
		return fmt.Errorf("member %s is down or stopped: repair that first", m.Name)
	}
	return nil
}

// canUpgrade returns an error if a member runs the other binary already, or cannot be ended.
func (t operators) canUpgrade(f Fault) error {
	if len(t.has(f.Member, Upgrade)) > 0 {
		return fmt.Errorf("member %s is upgraded already: repair that first", f.Member)
	}
	return t.canEnd(f)
}

func (t operators) planUpgrade(f Fault, _ int) (plan, error) {
	m := t.member(f.Member)
	return plan{
		make:  func(ctx context.Context) error { return t.restartAs(ctx, m, t.cfg.Other) },
		after: func(ctx context.Context) error { return t.restartAs(ctx, m, "") },
	}, nil
}

// restartAs ends a member and starts it with another binary.
func (t operators) restartAs(ctx context.Context, m *member, binary string) error {
	if err := t.end(ctx, m, syscall.SIGTERM); err != nil {
		return err
	}
	m.binary = binary
	if err := t.start(m); err != nil {
		return err
	}
	return t.awaits(ctx, []*member{m}, func(ctx context.Context) error { return awaitAnswer(ctx, m.Member) })
}

func (t operators) planBackup(f Fault, _ int) (plan, error) {
	if !filepath.IsAbs(f.File) {
		return plan{}, fmt.Errorf("the file of a backup is %q; it must be an absolute path", f.File)
	}
	return plan{
		undo: []Step{{Remove: f.File}},
		make: func(ctx context.Context) error { return t.command(ctx, t.member(f.Member), "backup", "save", f.File) },
	}, nil
}

// reloads sends a member the signal at which it reads its files again, and waits until its log says so.
func (t operators) reloads(ctx context.Context, m *member, replaced func() error, words string) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	before, err := count(m.log, words)
	if err != nil {
		return err
	}
	if err := errors.Join(replaced(), m.process.cmd.Process.Signal(syscall.SIGHUP)); err != nil {
		return err
	}
	for {
		now, err := count(m.log, words)
		if err != nil || now > before {
			return err
		}
		select {
		case <-time.After(askPause):
		case <-ctx.Done():
			return fmt.Errorf("member %s does not log %q: %w; the end of %s: %s", m.Name, words, context.Cause(ctx), m.log, tail(m.log))
		}
	}
}

// count returns the number of times that a member's log has words. The log of a drill has some kilobytes.
func count(log, words string) (int, error) {
	text, err := os.ReadFile(log)
	return strings.Count(string(text), words), err
}
