package target

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/rollcalltest"
)

// A busy member that replies after a second counts as stopped, not as killed.
func TestHookOnBusyMember(t *testing.T) {
	for kind, fails := range map[Kind]bool{Kill: true, Stop: false} {
		synctest.Test(t, func(t *testing.T) {
			h, err := NewHooks(openJournal(t, t.TempDir()), fakeHooks("/dev/null"))
			if err != nil {
				t.Fatal(err)
			}
			h.word = func(ctx context.Context, _, _ string) (string, error) {
				select {
				case <-time.After(time.Second):
					return "Mode: follower\n", nil
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
			}
			if err := h.Break(t.Context(), Fault{Kind: kind, Member: "2"}); (err != nil) != fails {
				t.Errorf("%s without effect: %v", kind, err)
			}
		})
	}
}

// A member that still replies after its hook is an error at the limit, and none if it falls silent before.
func TestHookWithoutEffect(t *testing.T) {
	for _, kind := range []Kind{Kill, Shut, Wipe, Stop} {
		for _, silent := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := fakeHooks("/dev/null")
				c.Hooks["shut"], c.Hooks["wipe"] = "true", "true"
				h, err := NewHooks(openJournal(t, t.TempDir()), c)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				h.word = func(ctx context.Context, _, _ string) (string, error) {
					if silent && time.Since(began) > 10*time.Second {
						<-ctx.Done()
						return "", context.Cause(ctx)
					}
					return "Mode: follower\n", nil
				}
				err = h.Break(t.Context(), Fault{Kind: kind, Member: "2"})
				switch want := !silent; {
				case want && (err == nil || !strings.Contains(err.Error(), "no effect: member 2 still answers srvr at b:2181, 45s after the script for "+string(kind))):
					t.Errorf("%s: %v", kind, err)
				case !want && err != nil:
					t.Errorf("%s of a member that falls silent: %v", kind, err)
				}
				if took := time.Since(began); took > effectLimit {
					t.Errorf("%s took %v", kind, took)
				}
			})
		}
	}
}

// fakeEnsemble has the hooks of an ensemble that changes after a time.
type fakeEnsemble struct {
	*Hooks
	now, then fakeState
	changes   time.Time // from now to then; zero: never
}

// fakeState is the member that leads, and one that opens no sessions.
type fakeState struct {
	leads, closed string
	mute          bool // the latter says that it does not serve
}

func (e *fakeEnsemble) state() fakeState {
	if !e.changes.IsZero() && !time.Now().Before(e.changes) {
		return e.then
	}
	return e.now
}

func newFakeEnsemble(t *testing.T) *fakeEnsemble {
	t.Helper()
	c := fakeHooks("/dev/null")
	c.Can = append(c.Can, "client", "port")
	h, err := NewHooks(openJournal(t, t.TempDir()), c)
	if err != nil {
		t.Fatal(err)
	}
	e := &fakeEnsemble{Hooks: h, now: fakeState{leads: "1"}}
	nameAt := func(addr string) string {
		return h.names[slices.IndexFunc(h.members, func(m Member) bool { return m.Clients == addr })]
	}
	h.word = func(_ context.Context, addr, _ string) (string, error) {
		if now := e.state(); now.mute && nameAt(addr) == now.closed {
			return "This ZooKeeper instance is not currently serving requests\n", nil
		}
		return "Mode: follower\n", nil
	}
	h.leads = func(context.Context, []Member) string { return e.state().leads }
	h.session = func(ctx context.Context, addr string) error {
		if nameAt(addr) != e.state().closed {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return e
}

// A cut that no member notices is an error at the limit, and none if a member notices it before. Cuts that members need not
// notice are not checked.
func TestCutWithoutEffect(t *testing.T) {
	const atOne, atTwo = "member 1 still opens sessions at a:2181", "members 1, 3 still open sessions, and member 1 still leads"
	for _, tt := range []struct {
		fault    Fault
		notices  string // opens no sessions after ten seconds
		newLeads string // leads after ten seconds
		want     string // in the error; "": none
		checked  bool
	}{
		{Fault{Member: "1"}, "", "1", atOne, true},
		{Fault{Member: "1", OneWay: true}, "2", "1", atOne, true},
		{Fault{Member: "1"}, "1", "1", "", true},
		{Fault{Member: "1", From: []string{"2", "3"}}, "", "1", atOne, true},
		{Fault{Member: "1", From: []string{}, Client: true}, "", "1", atOne, true},
		{Fault{Member: "1", From: []string{}, Client: true, Port: ClientPort}, "1", "1", "", true},
		{Fault{Member: "1", From: []string{"3"}}, "", "1", atTwo, true},
		{Fault{Member: "1", From: []string{"3"}}, "3", "1", "", true},
		{Fault{Member: "1", From: []string{"3"}}, "", "2", "", true},
		{Fault{Member: "2", From: []string{"3"}}, "", "1", "", false},
		{Fault{Member: "1", Port: ClientPort}, "", "1", "", false},
		{Fault{Member: "1", From: []string{}}, "", "1", "", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newFakeEnsemble(t)
			tt.fault.Kind = Cut
			began := time.Now()
			e.changes, e.then = began.Add(10*time.Second), fakeState{leads: tt.newLeads, closed: tt.notices}
			err := e.Break(t.Context(), tt.fault)
			took := time.Since(began)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), "no effect: "+tt.want+", 45s after the script for cut succeeded. Check that")) {
				t.Errorf("%v: %v, want %q", tt.fault, err, tt.want)
			}
			switch {
			case !tt.checked && took > 0, tt.checked && tt.want == "" && took < 10*time.Second, took > effectLimit:
				t.Errorf("%v took %v", tt.fault, took)
			}
			if entries := e.journal.Entries(); len(entries) != 1 {
				t.Errorf("%v: the journal has %v, want what heal repairs", tt.fault, entries)
			}
		})
	}
}

// A member that says that it does not serve is taken for cut off before its session had time.
func TestCutIsSeenEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEnsemble(t)
		e.now.closed = "2"
		began := time.Now()
		e.changes, e.then = began.Add(time.Second), fakeState{leads: "1", closed: "2", mute: true}
		err := e.Break(t.Context(), Fault{Kind: Cut, Member: "2"})
		if took := time.Since(began); err != nil || took < time.Second || took > time.Second+queryInterval {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// A member that is still cut off after its heal is an error at the limit, and stays in the journal. A repeated repair
// probes once. While another fault is left, no sessions have to open.
func TestHealWithoutEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeEnsemble(t)
		kill, cut := Fault{Kind: Kill, Member: "3"}, Fault{Kind: Cut, Member: "2"}
		e.now.closed = "2"
		word := e.word
		e.word = func(context.Context, string, string) (string, error) { return "", nil }
		for _, f := range []Fault{cut, kill} {
			if err := e.Break(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		e.word = word
		began := time.Now()
		if err := e.Repair(t.Context(), cut); err != nil || time.Since(began) > 0 {
			t.Errorf("with another fault: %v after %v", err, time.Since(began))
		}
		if err := e.Repair(t.Context(), kill); err != nil {
			t.Fatal(err)
		}
		if err := e.Break(t.Context(), cut); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []time.Duration{healLimit, queryLimit} {
			began := time.Now()
			err := e.Repair(t.Context(), cut)
			want := "the repair had no effect: member 2 opens no session at b:2181, 1m0s after the script for heal succeeded (it did not reply within 3s)"
			if limit == queryLimit {
				want = "the repair had no effect: member 2 still opens no session at b:2181"
			}
			if err == nil || !strings.Contains(err.Error(), want) ||
				limit == healLimit && !strings.Contains(err.Error(), "run `rollcall drill heal`") {
				t.Errorf("%v, want %q", err, want)
			}
			if took := time.Since(began); took > limit {
				t.Errorf("it took %v", took)
			}
		}
		if entries := e.journal.Entries(); len(entries) != 1 {
			t.Errorf("the journal has %v", entries)
		}
		bridge := Fault{Kind: Cut, Member: "1", From: []string{"3"}}
		e.now.closed = "3"
		if err := e.Break(t.Context(), bridge); err != nil {
			t.Fatal(err)
		}
		e.now.closed = ""
		if err := e.Repair(t.Context(), cut); err != nil {
			t.Fatal(err)
		}
		e.now.closed = "3"
		if err := e.Repair(t.Context(), bridge); err == nil || !strings.Contains(err.Error(), "member 3 opens no session at [::1]:2181") {
			t.Errorf("%v, want the other side of the cut", err)
		}
		e.now.closed = ""
		if err := e.Heal(t.Context()); err != nil || len(e.journal.Entries()) != 0 {
			t.Errorf("a heal with effect: %v, %v", err, e.journal.Entries())
		}
	})
}

// A session is opened and closed again at a server that works. Where none is opened, the error says so in time.
func TestOpenSession(t *testing.T) {
	srv := rollcalltest.Start(t)
	if err := openSession(t.Context(), srv.ConnectString()); err != nil {
		t.Error(err)
	}
	if ids, err := srv.Sessions(); err != nil || len(ids) > 0 {
		t.Errorf("the sessions %x are left, %v", ids, err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	late := errors.New("too late")
	ctx, stop := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, late)
	defer stop()
	if err := openSession(ctx, silent.Addr().String()); !errors.Is(err, late) {
		t.Errorf("a server that does not answer: %v", err)
	}
	_ = silent.Close()
	if err := openSession(t.Context(), silent.Addr().String()); err == nil {
		t.Error("a session was opened where no server is")
	}
}
