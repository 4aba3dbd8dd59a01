package drills

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/lab/target"
)

// mayNot checks the reasons of a user who may not make namespaces and disks, and reports whether this is one.
func mayNot(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() == 0 {
		return false
	}
	for _, err := range []error{target.CheckNamespaces(), target.CheckDisks()} {
		if err == nil || !strings.Contains(err.Error(), "need root") {
			t.Errorf("the reason for a user who is not root: %v", err)
		}
	}
	return true
}

// Cuts, as members and clients see them.
func TestCuts(t *testing.T) {
	needs.Check(t, needs.Usual)
	if mayNot(t) {
		return
	}
	p := open(t, target.NewNamespaces, target.ProcessConfig{})
	answers := func(name string) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := target.Word(ctx, p.Members()[name[0]-'1'].Clients, "ruok")
		return err == nil
	}
	for _, tt := range []struct {
		fault   target.Fault
		clients bool // whether the member's clients reach it
	}{
		{target.Fault{Kind: target.Cut, Member: "1"}, true},
		{target.Fault{Kind: target.Cut, Member: "2", OneWay: true}, true},
		{target.Fault{Kind: target.Cut, Member: "3", Port: target.PeerPorts}, true},
		{target.Fault{Kind: target.Cut, Member: "1", Client: true}, false},
		{target.Fault{Kind: target.Cut, Member: "2", From: []string{}, Client: true, Port: target.ClientPort}, false},
	} {
		if err := p.Break(t.Context(), tt.fault); err != nil {
			t.Fatal(err)
		}
		switch {
		case !tt.clients && answers(tt.fault.Member):
			t.Errorf("%v: clients reach it", tt.fault)
		case tt.clients:
			reached := func() bool { return answers(tt.fault.Member) }
			if err := process.Until(t.Context(), fmt.Sprintf("%v: clients reach it", tt.fault), reached); err != nil {
				t.Error(err)
			}
		}
		awaitUnwell(t, p, tt.fault.Member)
		if err := p.Repair(t.Context(), tt.fault); err != nil {
			t.Fatal(err)
		}
		awaitHealthy(t, p)
	}
}

// Two members that are cut from each other alone both reach the third one, so there is one leader.
func TestBridge(t *testing.T) {
	needs.Check(t, needs.Usual)
	if mayNot(t) {
		return
	}
	p := open(t, target.NewNamespaces, target.ProcessConfig{})
	bridge := target.Fault{Kind: target.Cut, Member: "1", From: []string{"2"}}
	if err := p.Break(t.Context(), bridge); err != nil {
		t.Fatal(err)
	}
	if err := process.Until(t.Context(), "member 3, or one that it follows, leads", func() bool {
		return target.Leader(t.Context(), p.Members()) != ""
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitHealthy(t, p)
}

// The connections of a member are forgotten; new ones are made while the fault is there.
func TestForget(t *testing.T) {
	needs.Check(t, needs.Nightly)
	if mayNot(t) {
		return
	}
	p := open(t, target.NewNamespaces, target.ProcessConfig{})
	if err := p.Break(t.Context(), target.Fault{Kind: target.Forget, Member: "1"}); err != nil {
		t.Fatal(err)
	}
	err := process.Until(t.Context(), "members miss each other", func() bool {
		return target.Healthy(t.Context(), p.Members()) != nil
	})
	if err != nil {
		t.Fatal(err)
	}
	awaitHealthy(t, p) // over new connections
}

// A narrow link takes longer, and one that loses packets still works. A delay needs netem.
func TestSlow(t *testing.T) {
	needs.Check(t, needs.Nightly)
	if mayNot(t) {
		return
	}
	p := open(t, target.NewNamespaces, target.ProcessConfig{})
	took := func() time.Duration {
		began := time.Now()
		if _, err := target.Word(t.Context(), p.Members()[0].Clients, "mntr"); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	before := took()
	slow := target.Fault{Kind: target.Slow, Member: "1", Rate: 4000, Loss: 0.01}
	if err := p.Break(t.Context(), slow); err != nil {
		t.Fatal(err)
	}
	if err := p.Can(target.Fault{Kind: target.Slow, Member: "1", Rate: 1}); err == nil {
		t.Error("a link that is slow can be made slow again")
	}
	for range 30 { // the first bytes go in one burst
		if took() > before+200*time.Millisecond {
			before = -1
			break
		}
	}
	if before >= 0 {
		t.Error("no answer took longer over a link of 4,000 bytes/s")
	}
	if err := p.Repair(t.Context(), slow); err != nil {
		t.Fatal(err)
	}
	awaitHealthy(t, p)
	delay := target.Fault{Kind: target.Slow, Member: "2", Delay: 100 * time.Millisecond}
	if err := p.Can(delay); err != nil {
		if !strings.Contains(err.Error(), "netem") {
			t.Errorf("Can(%v) = %v, want that the kernel lacks netem", delay, err)
		}
		return
	}
	if err := p.Break(t.Context(), delay); err != nil {
		t.Fatal(err)
	}
}

// Disks of the members' own stall, fail and are full, and work again.
func TestDisks(t *testing.T) {
	needs.Check(t, needs.Nightly)
	if mayNot(t) {
		return
	}
	p := open(t, target.NewProcesses, target.ProcessConfig{Disks: true})
	write := func(name string) error {
		path := filepath.Join(p.Dir("1"), "disk", name)
		return os.WriteFile(path, make([]byte, 1<<16), 0o600)
	}
	for _, f := range []target.Fault{
		{Kind: target.Fill, Member: "1"}, {Kind: target.Disk, Member: "1", Mode: target.Fail},
	} {
		if err := p.Break(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if err := write("during"); err == nil {
			t.Errorf("%v: a write works", f)
		}
		if err := p.Repair(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		awaitHealthy(t, p)
		if err := write("after"); err != nil {
			t.Errorf("%v, repaired: %v", f, err)
		}
	}
	stall := target.Fault{Kind: target.Disk, Member: "1", Mode: target.Stall}
	if err := p.Break(t.Context(), stall); err != nil {
		t.Fatal(err)
	}
	if err := p.Can(target.Fault{Kind: target.Kill, Member: "1"}); err == nil {
		t.Error("a member whose disk is stalled can be killed; its process could not end")
	}
	wrote := make(chan error, 1)
	go func() { wrote <- write("stalled") }()
	select {
	case err := <-wrote:
		t.Errorf("a write on a stalled disk returned: %v", err)
	case <-time.After(300 * time.Millisecond): // one that works takes less than a millisecond
	}
	if err := p.Repair(t.Context(), stall); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	awaitHealthy(t, p)
}

// A failed disk that another mount namespace holds stays failed. The repair says so, and works once that has ended.
func TestDiskInAnotherNamespace(t *testing.T) {
	needs.Check(t, needs.Usual)
	if mayNot(t) {
		return
	}
	p := open(t, target.NewProcesses, target.ProcessConfig{Disks: true})
	holder := exec.Command("unshare", "--mount", "sleep", "60")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		_ = holder.Process.Kill() // it may have ended
		_ = holder.Wait()
	})
	defer end()
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err == nil {
		err = process.Until(t.Context(), "the holder has a mount namespace", func() bool {
			its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", holder.Process.Pid))
			return err == nil && its != own
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	fail := target.Fault{Kind: target.Disk, Member: "1", Mode: target.Fail}
	if err := p.Break(t.Context(), fail); err != nil {
		t.Fatal(err)
	}
	if err := p.Repair(t.Context(), fail); err == nil || !strings.Contains(err.Error(), "mount namespace") {
		t.Fatalf("the repair while the disk is held: %v", err)
	}
	end()
	if err := p.Repair(t.Context(), fail); err != nil {
		t.Fatal(err)
	}
	awaitHealthy(t, p)
}
