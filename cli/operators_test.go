package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The error of a session that was not opened in time is that of the last attempt, and the package's name is not in it.
func TestLastAttempt(t *testing.T) {
	refused := fmt.Errorf("client: connect to a:1: %w", syscall.ECONNREFUSED)
	for err, want := range map[error]string{
		fmt.Errorf("client: open: %w; last: %w", context.DeadlineExceeded, refused): "connect to a:1: connection refused",
		fmt.Errorf("client: open: %w", context.DeadlineExceeded):                    "open: context deadline exceeded",
	} {
		if got := lastAttempt(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// A member that was removed from the ensemble is passed over: its list is not believed, and a change that it refuses goes to the next
// address. So it does not matter that the operator names it first.
func TestRemovedMemberIsPassedOver(t *testing.T) {
	for _, line := range []string{"add " + four, "remove 3", "demote 3", "lead 2", "drain 3 --over 1ms", "list"} {
		for _, knows := range []bool{true, false} { // whether its list says that it was removed
			gone, present := newFakeEnsemble(t, oneToThree[:strings.Index(oneToThree, "\nserver.3")]), newFakeEnsemble(t, oneToThree)
			if gone.removed = knows; !knows {
				gone.list, gone.raft, gone.refusal = present.list, present.raft, goneRefusal
			}
			w, _, errs := testWorld("ROLLCALL_ADMIN="+gone.URL+","+present.URL, "ROLLCALL_TOKEN_FILE="+tokenFile(t))
			w.membersPollInterval = time.Millisecond
			_, err := Execute(t.Context(), NewRoot(w, "1"), strings.Fields("members "+line))
			if sent := len(gone.sent()); err != nil || knows && sent > 0 || strings.Contains(errs.String(), "was removed") {
				t.Errorf("members %s, known: %t: %v; the removed member got %d changes; %s", line, knows, err, sent, errs)
			}
			if sent := len(present.sent()); sent != 1 && line != "list" {
				t.Errorf("members %s, known: %t: the other member got %d changes", line, knows, sent)
			}
		}
	}
}

// What a removed member knows is not shown: the next address is asked. If there is none, the command fails.
func TestRemovedMemberShowsNothing(t *testing.T) {
	for _, line := range []string{"status", "sessions", "session show 0x1000012f99a0001", "who-owns /config", "connections", "why /config", "why 0x1000012f99a0001"} {
		gone, present := newFakeMember(t), newFakeMember(t)
		gone.removed = true
		run := func(addresses string) (out, errs string, err error) {
			w, o, e := testWorld("ROLLCALL_ADMIN="+addresses, "ROLLCALL_TOKEN_FILE="+tokenFile(t))
			_, err = Execute(t.Context(), NewRoot(w, "1"), strings.Fields(line))
			return o.String(), e.String(), err
		}
		want, _, wantErr := run(present.URL)
		got, errs, err := run(gone.URL + "," + present.URL)
		if got != want || StatusOf(err) != StatusOf(wantErr) || strings.Contains(errs, "was removed") {
			t.Errorf("%s: %v: %s%s\nwant %v: %s", line, err, got, errs, wantErr, want)
		}
		if got, _, err = run(gone.URL); err == nil || got != "" || !strings.Contains(err.Error(), "this member was removed from the ensemble") {
			t.Errorf("%s, alone: %v (status %d): %s", line, err, StatusOf(err), got)
		}
	}
}

// Without another member, the list of a removed one is shown with a warning, and changes nothing. A member that is asked to remove itself
// says when it is gone.
func TestRemovedMemberAlone(t *testing.T) {
	gone := newFakeEnsemble(t, oneToThree)
	gone.removed = true
	if out, errs, err := gone.run(t, "list"); err != nil || !strings.Contains(out, "c:2888") || !strings.Contains(errs, "the list is as this member last knew it") {
		t.Errorf("%v: %s%s", err, out, errs)
	}
	_, _, err := gone.run(t, "promote 3")
	if StatusOf(err) != Unavailable || !strings.Contains(err.Error(), "its list of servers may be old") || len(gone.sent()) > 0 {
		t.Errorf("%v (status %d)", err, StatusOf(err))
	}
	w, _, _ := testWorld("ROLLCALL_ADMIN="+gone.URL+",http://127.0.0.1:1", "ROLLCALL_TOKEN_FILE="+tokenFile(t))
	if _, err := Execute(t.Context(), NewRoot(w, "1"), []string{"members", "promote", "3"}); StatusOf(err) != Unavailable || !strings.Contains(err.Error(), "may be old") {
		t.Errorf("%v (status %d)", err, StatusOf(err))
	}
	self := newFakeEnsemble(t, oneToThree)
	self.self = 3
	if out, _, err := self.run(t, "remove 3"); err != nil || !strings.HasPrefix(out, "member 3 is not in the ensemble") {
		t.Errorf("%v: %s", err, out)
	}
}

// Sessions are ended by way of a member of the ensemble, and each of them once. If there is none, the error is that of the removed member.
func TestKillPassesOverRemovedMember(t *testing.T) {
	gone, present := newFakeMember(t), newFakeMember(t)
	gone.removed = true
	line := []string{"session", "kill", "--yes", "--token-file", tokenFile(t), "0x1000012f99a0001", "0x200004f0a2b0000"}
	out, _, err := gone.execute(t, func(w *IOStreams) { w.Env = []string{"ROLLCALL_ADMIN=" + gone.URL + "," + present.URL} }, line...)
	isKill := func(r string) bool { return !strings.HasPrefix(r, "POST") }
	first, then := slices.DeleteFunc(gone.requests(), isKill), slices.DeleteFunc(present.requests(), isKill)
	if err != nil || strings.Count(out.String(), "killed") != 2 || len(first) != 1 || len(then) != 2 {
		t.Errorf("%v: %s; asked %q and %q", err, out, first, then)
	}
	if _, _, err := gone.execute(t, nil, line...); StatusOf(err) != Unavailable || !strings.Contains(err.Error(), goneRefusal.Text) {
		t.Errorf("%v (status %d)", err, StatusOf(err))
	}
}

// An error names the variable that a setting is from, if its user has not typed it. If nobody answers, it says what to do.
func TestOriginsOfSettings(t *testing.T) {
	const nobody = "http://127.0.0.1:1"
	refused := "dial tcp 127.0.0.1:1: connect: connection refused"
	for _, tt := range []struct {
		env, line string
		status    Status
		want      string
	}{
		{"ROLLCALL_ADMIN=" + nobody, "status", Unavailable, "no member answers operators at " + nobody + " (from ROLLCALL_ADMIN): " + refused + "; start it first, or name another one with --admin"},
		{"ROLLCALL_ADMIN=ftp://x", "status --admin " + nobody, Unavailable, "no member answers operators at " + nobody + ": " + refused + "; start it first, or name another one with --admin"},
		{"ROLLCALL_ADMIN=unix:/nowhere/admin.sock", "status", Unavailable, "no member answers operators at unix:/nowhere/admin.sock (from ROLLCALL_ADMIN): "},
		{"ROLLCALL_ADMIN=unix:/nowhere/a,unix:/nowhere/b", "status", Unavailable, "ROLLCALL_ADMIN: no member answers operators (unix:/nowhere/a: "},
		{"", "status --admin unix:/nowhere/a," + nobody, Unavailable, "--admin: no member answers operators (unix:/nowhere/a: "},
		{"", "status --hosts 127.0.0.1:65000", Unavailable, "no member answers operators (" + nobody + ": " + refused + "); start the ensemble first, or name the URL of a member with --admin"},
		{"ROLLCALL_ADMIN=ftp://x", "status", UsageError, "ROLLCALL_ADMIN: must be a URL"},
		{"ROLLCALL_ADMIN=" + strings.Repeat("a,", 40) + "a", "status", UsageError, "ROLLCALL_ADMIN: 41 URLs"},
		{"ROLLCALL_HOSTS=x", "status", UsageError, `ROLLCALL_HOSTS: "x" has no port`},
		{"ROLLCALL_HOSTS=x", "status --hosts y", UsageError, `--hosts: "y" has no port`},
		{"ROLLCALL_TOKEN_FILE=/nowhere", "status", UsageError, "ROLLCALL_TOKEN_FILE: open /nowhere: "},
		{"ROLLCALL_AUTH=secret", "status", UsageError, "ROLLCALL_AUTH: must be scheme:identity"},
		{"ROLLCALL_ADMIN=" + nobody, "drain", Unavailable, "drain: no member answers operators at " + nobody + " (from ROLLCALL_ADMIN): " + refused},
		{"ROLLCALL_ADMIN=" + nobody, "snapshot", Unavailable, "snapshot: no member answers operators at " + nobody + " (from ROLLCALL_ADMIN): " + refused},
		{"ROLLCALL_ADMIN=" + nobody, "backup save -", Unavailable, "backup save: no member answers operators at " + nobody + " (from ROLLCALL_ADMIN): " + refused},
		{"ROLLCALL_HOSTS=127.0.0.1:1", "word mntr", Unavailable, "word: 127.0.0.1:1 (from ROLLCALL_HOSTS): " + refused + "; start it first, or name another one with --hosts"},
		{"ROLLCALL_HOSTS=x", "word mntr --hosts 127.0.0.1:1 -o json", Unavailable, "word: 127.0.0.1:1: " + refused + "; start it first, or name another one with --hosts"},
		{"ROLLCALL_JAAS=/nowhere", "get /a", UsageError, "ROLLCALL_JAAS /nowhere: "},
		{"ROLLCALL_TLS_CA=/nowhere", "get /a", UsageError, "ROLLCALL_TLS_CA: open /nowhere: "},
	} {
		w, out, _ := testWorld(tt.env)
		_, err := Execute(t.Context(), NewRoot(w, "1"), strings.Fields(tt.line))
		if StatusOf(err) != tt.status || err == nil || !strings.HasPrefix(err.Error(), tt.want) || out.Len() > 0 {
			t.Errorf("%s, %s: %v (status %d), want %s (status %d)", tt.env, tt.line, err, StatusOf(err), tt.want, tt.status)
		}
	}
}
