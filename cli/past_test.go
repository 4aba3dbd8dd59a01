package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/past"
	"rollcall/operator/past/pasttest"
	"rollcall/zk/jute"
)

// pastWorld is an ensemble in whose night two workers shared a lock, and streams of commands that read its log.
type pastWorld struct {
	*pasttest.Ensemble
	t       *testing.T
	first   *pasttest.Client
	asked   []past.Moment // by the commands
	dirs    []string
	follow  []bool
	closed  int
	digests map[int64]uint64 // of the states after some zxids
}

func (*pastWorld) now() time.Time { return testNow }

// at0312 is 2026-11-27T03:12:00Z, in the night before testNow.
var at0312 = time.Date(2026, 11, 27, 3, 12, 0, 0, time.UTC)

func newPastWorld(t *testing.T) *pastWorld {
	e := pasttest.New(t, at0312.Add(-time.Hour).UnixMilli())
	w := &pastWorld{Ensemble: e, t: t, digests: map[int64]uint64{}}
	w.first = e.Connect("10.0.0.7:41234")
	w.note()
	w.first.Create("/locks", "", 0)
	w.note()
	w.first.Create("/locks/backup", "night", 0)
	w.note()
	w.first.Create("/locks/backup/lock-", "", jute.EphemeralSequential)
	w.note()
	e.NowMs = at0312.Add(-time.Minute).UnixMilli()
	e.Connect("10.0.0.8:41235").Create("/locks/backup/lock-", "", jute.EphemeralSequential)
	w.note()
	e.NowMs = at0312.Add(time.Minute).UnixMilli()
	w.first.Expire()
	w.note()
	e.Connect("10.0.0.9:41236").Set("/locks/backup", "morning")
	w.note()
	return w
}

func (w *pastWorld) note() { w.digests[w.State.Zxid()] = w.State.Digest() }

// open implements KeptLogOpener.
func (w *pastWorld) open(_ context.Context, _ *EnsembleFlags, place KeptLogPlace, from past.Moment, follow bool) (KeptLog, error) {
	w.asked, w.dirs, w.follow = append(w.asked, from), append(w.dirs, place.Directory+place.Archive), append(w.follow, follow)
	return KeptLog{Chain: w.Ensemble, Origin: "member 2", Close: func() error { w.closed++; return nil }}, nil
}

// run runs a command with a log and without any server.
func (w *pastWorld) run(line string) (out, errs string, err error) {
	w.t.Helper()
	streams, stdout, stderr := testWorld("ROLLCALL_HOSTS=127.0.0.1:1", "ROLLCALL_ADMIN=http://127.0.0.1:1")
	streams.Now, streams.OpenKeptLog = func() time.Time { return testNow }, w.open
	err = runArgs(w.t.Context(), streams, splitLine(line)...)
	return stdout.String(), stderr.String(), err
}

func (w *pastWorld) mustRun(line string) (out, errs string) {
	w.t.Helper()
	out, errs, err := w.run(line)
	if err != nil {
		w.t.Fatalf("%s: %v", line, err)
	}
	return out, errs
}

// Commands show the state at a moment, with ages by its time, and say on stderr which state of which log that is. They need no
// server.
func TestAtShowsThePast(t *testing.T) {
	w := newPastWorld(t)
	w.Snapshot() // after the removals, which snapshots do not have
	const at = " --at 2026-11-27T03:12:00Z"
	for _, tt := range []struct {
		line string
		want []string
		not  []string
	}{
		{"ls /locks/backup" + at, []string{"lock-0000000000\nlock-0000000001\n"}, nil},
		{"get /locks/backup" + at, []string{"night"}, nil},
		{"stat -o wide /locks/backup" + at, []string{"changed   1h\n", "2026-11-27T02:12:00.000Z"}, nil},
		{"tree /locks" + at, []string{"lock-0000000000  (ephemeral of 0x100000000000065)", "4 nodes, 2 of them ephemeral"}, nil},
		{"du /locks" + at, []string{"/locks"}, nil},
		{"sessions" + at, []string{"ADDRESS", "10.0.0.7:41234", "10.0.0.8:41235", "10s"}, []string{"10.0.0.9", "STATE", "WATCHES", "LEFT", "RATE"}},
		{"sessions --sort -ephemerals --address 10.0.0.8" + at, []string{"10.0.0.8:41235"}, []string{"10.0.0.7"}},
		{"sessions -o wide" + at, []string{"AGE", "10s           1   1h\n"}, []string{"RECEIVED"}},
		{"session show 0x100000000000065" + at, []string{"10.0.0.7:41234", "/locks/backup/lock-0000000000"}, []string{"WATCHED", "STATE"}},
		{"who-owns /locks/backup" + at, []string{"held by", "10.0.0.7:41234", "then waiting", "10.0.0.8:41235"}, nil},
		{"members" + at, []string{"MEMBER"}, []string{"LAG"}},
		{"members list" + at, []string{"MEMBER"}, nil},
		{"why /locks/backup/lock-0000000000 --dir d", []string{"session ended: expired after", "10.0.0.7:41234"}, nil},
		{"why --at 0x100000008", []string{"Nodes that were removed"}, nil},
		{"who-owns /locks/backup --dir d", []string{"held by", "10.0.0.8:41235"}, []string{"10.0.0.7"}},
		{"get /locks/backup --dir d", []string{"morning"}, nil},
	} {
		out, errs := w.mustRun(tt.line)
		for _, text := range tt.want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: no %q in\n%s", tt.line, text, out)
			}
		}
		for _, text := range tt.not {
			if strings.Contains(out, text) {
				t.Errorf("%s: %q in\n%s", tt.line, text, out)
			}
		}
		if !strings.Contains(errs, "the state after zxid 0x1000000") || !strings.Contains(errs, "from member 2\n") {
			t.Errorf("%s: stderr %q", tt.line, errs)
		}
	}
	if w.closed != len(w.asked) {
		t.Errorf("%d of %d logs were closed", w.closed, len(w.asked))
	}
	if w.dirs[0] != "" || w.dirs[len(w.dirs)-1] != "d" || w.asked[0] != past.AtTime(at0312) {
		t.Errorf("asked for %v in %q", w.asked, w.dirs)
	}
}

// The roll call at 03:12 has the sessions that lived then, with their addresses, timeouts and ephemeral nodes, as JSON.
func TestRollCallOfThePast(t *testing.T) {
	w := newPastWorld(t)
	out, errs := w.mustRun("sessions -o json --at 2026-11-27T03:12:00Z")
	var sessions []api.Session
	if err := json.Unmarshal([]byte(out), &sessions); err != nil || len(sessions) != 2 {
		t.Fatalf("%v in %s", err, out)
	}
	for i, address := range []string{"10.0.0.7:41234", "10.0.0.8:41235"} {
		s := sessions[i]
		if s.Address != address || s.TimeoutMs != 10_000 || s.EphemeralCount != 1 || s.State != "unknown" || s.Connection != nil {
			t.Errorf("session %+v", s)
		}
	}
	if !strings.Contains(errs, "(2026-11-27T03:11:00.000Z, index ") || !strings.Contains(errs, "what only running members know is missing") {
		t.Errorf("stderr %q", errs)
	}
	checkSchema(t, "sessions", out)
}

// A moment that is wrong or cannot be built is an error with its own exit status, and says what can be built.
func TestAtFails(t *testing.T) {
	w := newPastWorld(t)
	for _, tt := range []struct {
		line   string
		status Status
		text   string
	}{
		{"ls / --at 2026-11-27T03:12:00", UsageError, "--at: "},
		{"sessions --at 2026-11-27T12:00:01Z", UsageError, "is after now"},
		{"ls / --at 0x200000000", NotFound, "member 2: past: the moment is after the kept log"},
		{"sessions --at 2026-11-26T03:12:00Z", NotFound, "the first entry of the ensemble is of 2026-11-27T02:12:00.000Z"},
		{"sessions --watch --at 10m", UsageError, "leave one of them out"},
		{"sessions --state connected --at 10m", UsageError, "leave --state out"},
		{"get /none --at 10m", NotFound, "there is no such node"},
		{"session show 0x99 --at 10m", NotFound, "there is no session 0x99"},
		{"who-owns /none --at 10m", NotFound, "there is no node /none"},
	} {
		if _, _, err := w.run(tt.line); StatusOf(err) != tt.status || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: status %d, %v", tt.line, StatusOf(err), err)
		}
	}
	streams, _, _ := testWorld()
	if err := runArgs(t.Context(), streams, "ls", "/", "--at", "10m"); StatusOf(err) != Unavailable {
		t.Errorf("without an opener: %v", err)
	}
}

// changeLines are all changes of a pastWorld.
var changeLines = []string{
	"2026-11-27T02:12:00.000Z  0x100000000   open session    0x100000000000065    10.0.0.7:41234         ",
	"2026-11-27T02:12:00.000Z  0x100000001   create          0x100000000000065    10.0.0.7:41234         /locks  version 0, 0 B",
	"2026-11-27T02:12:00.000Z  0x100000002   create          0x100000000000065    10.0.0.7:41234         /locks/backup  version 0, 5 B",
	"2026-11-27T02:12:00.000Z  0x100000003   create          0x100000000000065    10.0.0.7:41234         /locks/backup/lock-0000000000  version 0, 0 B",
	"2026-11-27T03:11:00.000Z  0x100000004   open session    0x100000000000066    10.0.0.8:41235         ",
	"2026-11-27T03:11:00.000Z  0x100000005   create          0x100000000000066    10.0.0.8:41235         /locks/backup/lock-0000000001  version 0, 0 B",
	"2026-11-27T03:13:00.000Z  0x100000006   expire session  0x100000000000065    10.0.0.7:41234         ",
	"2026-11-27T03:13:00.000Z  0x100000006   delete          0x100000000000065    10.0.0.7:41234         /locks/backup/lock-0000000000  version 0, 0 B  (session ended)",
	"2026-11-27T03:13:00.000Z  0x100000007   open session    0x100000000000067    10.0.0.9:41236         ",
	"2026-11-27T03:13:00.000Z  0x100000008   set data        0x100000000000067    10.0.0.9:41236         /locks/backup  version 1, 7 B",
}

// Changes are listed in the order of the log, all of them or those of a path, a session or a time. A list continues after any
// zxid.
func TestChanges(t *testing.T) {
	w := newPastWorld(t)
	pick := func(lines ...int) (text string) {
		for _, i := range lines {
			text += changeLines[i] + "\n"
		}
		return text
	}
	for _, tt := range []struct{ line, want string }{
		{"changes", pick(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)},
		{"changes --from 2026-11-27T03:12:00Z", pick(6, 7, 8, 9)},
		{"changes --from 2026-11-20T03:12:00Z", pick(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)}, // the log goes back to the first entry
		{"changes --from 0x100000002 --to 0x100000006", pick(3, 4, 5, 6, 7)},
		{"changes --from 0x100000008", ""},
		{"changes --path /locks/backup --to 2026-11-27T03:12:00Z", pick(2, 3, 5)},
		{"changes --path /lock", ""},
		{"changes --session 0x100000000000065 --path /locks/backup --from 0x100000002", pick(3, 7)},
		{"changes --session 0x100000000000067", pick(8, 9)},
	} {
		out, errs := w.mustRun(tt.line)
		if out != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.line, out, tt.want)
		}
		if !strings.Contains(errs, "rollcall: changes after ") || !strings.Contains(errs, ", from member 2\n") || !strings.Contains(errs, "these are the changes up to zxid 0x") {
			t.Errorf("%s: stderr %q", tt.line, errs)
		}
	}
	out, _ := w.mustRun("changes --session 0x100000000000065 --from 0x100000005 -o json")
	var rows []api.Change
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 2 {
		t.Fatalf("%v in %s", err, out)
	}
	if r := rows[1]; r.Operation != "delete" || r.Number != 2 || r.Kind != "ephemeral" || *r.Version != 0 || r.MemberID != 1 || !r.At.Equal(at0312.Add(time.Minute)) {
		t.Errorf("%+v", r)
	}
	checkSchema(t, "changes", out)
	if w.closed != len(w.asked) {
		t.Errorf("%d of %d logs were closed", w.closed, len(w.asked))
	}
}

// With --follow the list continues with changes that come, until the user ends it, which is no error.
func TestChangesFollow(t *testing.T) {
	w := newPastWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	waits := 0
	w.Follow = func(ctx context.Context) error {
		if waits++; waits > 1 {
			stop()
			return ctx.Err()
		}
		w.Connect("10.0.0.1:1")
		return nil
	}
	streams, out, errs := testWorld()
	streams.Now, streams.OpenKeptLog = func() time.Time { return testNow }, w.open
	if err := runArgs(ctx, streams, "changes", "--follow", "--from", "0x100000008"); err != nil {
		t.Error(err)
	}
	if len(w.follow) != 1 || !w.follow[0] || w.closed != 1 {
		t.Errorf("logs were opened to follow them: %v, and %d closed", w.follow, w.closed)
	}
	if strings.Contains(errs.String(), "these are the changes up to") || strings.Contains(errs.String(), "canceled") {
		t.Errorf("stderr %q", errs)
	}
	if !strings.Contains(out.String(), "open session    0x100000000000068    10.0.0.1:1") {
		t.Errorf("%q", out)
	}
}

// The difference of two moments has the nodes that differ, in the order of their paths.
func TestDiff(t *testing.T) {
	w := newPastWorld(t)
	out, errs := w.mustRun("diff --from 2026-11-27T03:12:00Z /locks")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[1], "changed  data  5 B → 7 B    0 → 1  -") ||
		!strings.HasPrefix(lines[2], "deleted  -") || !strings.HasSuffix(lines[2], "0x100000000000065  /locks/backup/lock-0000000000") {
		t.Errorf("%s", out)
	}
	if !strings.Contains(errs, "the difference between the states after zxid 0x100000005 (") || !strings.Contains(errs, "and after zxid 0x100000008 (") {
		t.Errorf("stderr %q", errs)
	}
	out, _ = w.mustRun("diff --from 0x100000003 --to 0x100000005 -o json")
	checkSchema(t, "diff", out)
	var rows []diffRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 1 || rows[0].Change != "created" || rows[0].Before != nil {
		t.Errorf("%v in %s", err, out)
	}
}

// A row says what differs of a node: its list, its owner, or that it is another node.
func TestDiffNamesWhatDiffers(t *testing.T) {
	w := newPastWorld(t)
	second := w.Connect("10.0.0.9:1")
	second.Create("/e", "", jute.Ephemeral)
	second.Create("/list", "", 0)
	from := second.Create("/again", "", 0)
	second.Expire()
	third := w.Connect("10.0.0.9:2")
	third.Create("/e", "", jute.Ephemeral)
	w.Apply(third.SetACLTxn("/list", []jute.ACL{{Perms: jute.PermRead, ID: jute.ID{Scheme: []byte("world"), ID: []byte("anyone")}}}))
	third.Delete("/again")
	third.Create("/again", "", 0)
	out, _ := w.mustRun(fmt.Sprintf("diff --from 0x%x -o json", from))
	var rows []diffRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s %s data %t acl %t owner %t", r.Path, r.Change, r.Data, r.ACL, r.Owner))
	}
	if want := []string{
		"/again created again data false acl false owner false", "/e created again data false acl false owner true", "/list changed data false acl true owner false",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Wrong ranges are rejected before a log is opened.
func TestRangesFail(t *testing.T) {
	w := newPastWorld(t)
	for _, tt := range []struct {
		line   string
		status Status
		text   string
	}{
		{"changes --from yesterday", UsageError, "--from: "},
		{"changes --to 03:12", UsageError, "--to: "},
		{"changes --follow --to 10m", UsageError, "leave one of them out"},
		{"changes --path x", UsageError, "is not a path"},
		{"changes --path /x/", UsageError, "does not end with a slash"},
		{"changes --session 5x", UsageError, ""},
		{"diff", UsageError, "--from is missing"},
		{"diff --from 10m /x/", UsageError, "does not end with a slash"},
	} {
		if _, _, err := w.run(tt.line); StatusOf(err) != tt.status || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: status %d, %v", tt.line, StatusOf(err), err)
		}
	}
	if len(w.asked) != 0 {
		t.Errorf("%d logs were opened", len(w.asked))
	}
	for _, line := range []string{"diff --from 0x100000008 --to 0x100000003", "changes --from 0x100000008 --to 0x100000003"} {
		if _, _, err := w.run(line); StatusOf(err) != NotFound || !strings.Contains(err.Error(), "is before") {
			t.Errorf("%s: status %d, %v", line, StatusOf(err), err)
		}
	}
}

// Every command that builds a state warns once of a snapshot that is damaged or gone, and shows what it shows with it.
func TestDamagedSnapshotIsLeftOut(t *testing.T) {
	for _, line := range []string{
		"get /locks/backup --at 0x100000008", "changes --from 0x100000003", "diff --from 0x100000003 /locks", "why /locks/backup/lock-0000000000 --dir d",
	} {
		w := newPastWorld(t)
		w.Snapshot()
		w.first = w.Connect("10.0.0.10:41237")
		w.first.Set("/locks/backup", "noon")
		sound, _ := w.mustRun(line)
		b := w.Images[w.Kept[0].Name]
		b[len(b)-1] ^= 1
		out, errs := w.mustRun(line)
		if out != sound || strings.Count(errs, "member 2: a snapshot was left out") != 1 || strings.Count(errs, w.Kept[0].Name) != 1 {
			t.Errorf("%s: stderr %q, and\n%s\nwant\n%s", line, errs, out, sound)
		}
	}
	w := newPastWorld(t)
	w.Snapshot()
	delete(w.Images, w.Kept[0].Name)
	_, errs, err := w.runWhy(w.open, "why /locks/backup/lock-0000000000")
	if err != nil || !strings.Contains(errs, "member 2: a snapshot was left out, and the state was built from an older one: "+w.Kept[0].Name) {
		t.Errorf("a search of the log: %v, stderr %q", err, errs)
	}
	damaged := func(ctx context.Context, e *EnsembleFlags, place KeptLogPlace, from past.Moment, follow bool) (KeptLog, error) {
		kept, err := w.open(ctx, e, place, from, follow)
		kept.Damaged = []string{"history/2-151-17/meta.json: wrong checksum"}
		return kept, err
	}
	_, errs, err = w.runWhy(damaged, "get /locks/backup --at 0x100000008")
	if err != nil || !strings.Contains(errs, "member 2: a damaged file was left out: history/2-151-17/meta.json: wrong checksum\n") {
		t.Errorf("a file that the log cannot use: %v, stderr %q", err, errs)
	}
}

// Without an argument, why shows the removals that the members remember. It says so unless the list is full, or is one of the past.
func TestWhyNamesItsBound(t *testing.T) {
	w := newPastWorld(t)
	for line, want := range map[string]bool{"why": true, "why -o json": true, "why --limit 1": false, "why --at 0x100000008": false} {
		_, errs, err := w.runWhy(w.open, line)
		if err != nil || strings.Contains(errs, "the removals that the members remember since they started") != want {
			t.Errorf("%s: %v, stderr %q", line, err, errs)
		}
	}
}
