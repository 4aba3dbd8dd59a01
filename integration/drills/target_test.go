package drills

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/lab/target"
)

// open starts an ensemble with start, and ends it with the test. It checks that nothing is left then.
func open(t *testing.T, start func(context.Context, target.ProcessConfig) (*target.Processes, error), cfg target.ProcessConfig,
) *target.Processes {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	j, err := target.OpenJournal(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Journal, cfg.Binary = j, rollcall
	p, err := start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	journal := fmt.Sprint(j.Entries())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if left := j.Entries(); len(left) > 0 {
			t.Errorf("left in the journal after Close: %v", left)
		}
		if left := leftovers(t, os.Getenv("TMPDIR"), journal); left != "" {
			t.Errorf("left after Close:\n%s", left)
		}
		_ = j.Close()
	})
	return p
}

// shownLog is the number of bytes of a member's log that a failure shows.
const shownLog = 4 << 10

// awaitHealthy waits until all members are well.
func awaitHealthy(t *testing.T, p *target.Processes) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
	defer cancel()
	if err := target.AwaitHealthy(ctx, p.Members()); err != nil {
		for _, m := range p.Members() {
			log, unread := os.ReadFile(filepath.Join(p.Dir(m.Name), "log"))
			t.Logf("member %s printed, at the end: %s (%v)", m.Name, log[max(0, len(log)-shownLog):], unread)
		}
		t.Fatal(err)
	}
}

// awaitUnwell waits until Healthy names a member.
func awaitUnwell(t *testing.T, p *target.Processes, name string) {
	t.Helper()
	var last error
	err := process.Until(t.Context(), "member "+name+" is not well", func() bool {
		last = target.Healthy(t.Context(), p.Members())
		return last != nil && strings.Contains(last.Error(), "member "+name+" ")
	})
	if err != nil {
		t.Fatalf("%v; Healthy: %v", err, last)
	}
}

// breakAndRepair makes a fault, waits until the member is not well, repairs it, and waits until all are well.
func breakAndRepair(t *testing.T, p *target.Processes, f target.Fault) {
	t.Helper()
	if err := p.Break(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	awaitUnwell(t, p, f.Member)
	if err := p.Repair(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	awaitHealthy(t, p)
}

// The faults that need no rights.
func TestProcesses(t *testing.T) {
	needs.Check(t, needs.Usual)
	p := open(t, target.NewProcesses, target.ProcessConfig{})
	if got := target.Software(t.Context(), p.Members()); !strings.HasPrefix(got, "Rollcall 0.") {
		t.Errorf("Software: %q, want Rollcall", got)
	}
	leader := target.Leader(t.Context(), p.Members())
	if leader == "" {
		t.Fatal("no leader is known in an ensemble that is well")
	}
	breakAndRepair(t, p, target.Fault{Kind: target.Kill, Member: leader})
	for i, kind := range []target.Kind{target.Stop, target.Shut, target.Wipe} {
		breakAndRepair(t, p, target.Fault{Kind: kind, Member: p.Members()[i].Name})
	}
	for _, kind := range []target.Kind{target.Cut, target.Slow, target.Forget, target.Disk, target.Fill, target.Clock} {
		f := target.Fault{Kind: kind, Member: "1", Mode: map[target.Kind]string{target.Disk: target.Stall}[kind], Rate: 1000}
		way := "--in namespaces" // also as root
		if kind == target.Clock {
			way = "with a hook for clock"
		}
		if err := p.Can(f); err == nil || !strings.Contains(err.Error(), way) {
			t.Errorf("Can(%v) = %v, want the reason why not, and %q", f, err, way)
		}
	}
}

// A wiped member has lost its data, and one that was killed has not.
func TestWipe(t *testing.T) {
	needs.Check(t, needs.Usual)
	p := open(t, target.NewProcesses, target.ProcessConfig{})
	own := filepath.Join(p.Dir("2"), "data", "own")
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	breakAndRepair(t, p, target.Fault{Kind: target.Kill, Member: "2"})
	if _, err := os.Stat(own); err != nil {
		t.Errorf("after a kill: %v", err)
	}
	breakAndRepair(t, p, target.Fault{Kind: target.Wipe, Member: "2"})
	if _, err := os.Stat(own); !os.IsNotExist(err) {
		t.Errorf("after a wipe the member still has its data: %v", err)
	}
}

// Several faults at once are healed, whatever their order. A member that is down or stopped cannot be killed twice.
func TestHeal(t *testing.T) {
	needs.Check(t, needs.Usual)
	p := open(t, target.NewProcesses, target.ProcessConfig{})
	stop, kill := target.Fault{Kind: target.Stop, Member: "1"}, target.Fault{Kind: target.Kill, Member: "1"}
	for _, f := range []target.Fault{stop, {Kind: target.Wipe, Member: "3"}} {
		if err := p.Break(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []target.Fault{stop, {Kind: target.Kill, Member: "3"}, {Kind: target.Shut, Member: "1"}} {
		if err := p.Break(t.Context(), f); err == nil {
			t.Errorf("Break(%v) worked, though the member is down or stopped", f)
		}
	}
	if err := p.Break(t.Context(), kill); err != nil { // a stopped process can be killed
		t.Fatal(err)
	}
	if err := p.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitHealthy(t, p)
}

// A member that ends by itself when the ensemble starts is named at once, with the end of its log.
func TestMemberEndsAtStart(t *testing.T) {
	needs.Check(t, needs.Usual)
	j, err := target.OpenJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	began := time.Now()
	p, err := target.NewProcesses(t.Context(), target.ProcessConfig{Journal: j, Binary: rollcall, Lines: "initLimit=none\n"})
	if p != nil || err == nil || !strings.Contains(err.Error(), " ended: exit status") || !strings.Contains(err.Error(), "initLimit") {
		t.Errorf("NewProcesses with a wrong configuration: %v, want the member's log", err)
	}
	if took := time.Since(began); took > process.Patience/2 {
		t.Errorf("it took %v to say so", took)
	}
	if left := j.Entries(); len(left) > 0 {
		t.Errorf("left in the journal: %v", left)
	}
}

// Members run another program after their next start, as in an upgrade.
func TestOtherBinary(t *testing.T) {
	needs.Check(t, needs.Usual)
	p := open(t, target.NewProcesses, target.ProcessConfig{})
	note := filepath.Join(t.TempDir(), "note")
	script := filepath.Join(t.TempDir(), "rollcall-next")
	text := "#!/bin/sh\necho >'" + note + "'\nexec '" + rollcall + "' \"$@\"\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.SetBinary("2", script); err != nil {
		t.Fatal(err)
	}
	breakAndRepair(t, p, target.Fault{Kind: target.Shut, Member: "2"})
	if _, err := os.Stat(note); err != nil {
		t.Errorf("the other program was not run: %v", err)
	}
	if err := p.SetBinary("4", ""); err == nil {
		t.Error("a member that does not exist got a program")
	}
}

// ZooKeeper is drilled in the same way.
func TestZooKeeper(t *testing.T) {
	needs.Check(t, needs.ZooKeeper)
	needs.Check(t, needs.Usual)
	p := open(t, target.NewProcesses, target.ProcessConfig{Program: target.ZooKeeper})
	if got := target.Software(t.Context(), p.Members()); got != "ZooKeeper 3.8.0" {
		t.Errorf("Software: %q, want ZooKeeper 3.8.0", got)
	}
	leader := target.Leader(t.Context(), p.Members())
	breakAndRepair(t, p, target.Fault{Kind: target.Kill, Member: leader})
	breakAndRepair(t, p, target.Fault{Kind: target.Wipe, Member: p.Members()[0].Name})
}
