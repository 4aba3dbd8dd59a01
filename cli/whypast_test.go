package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"rollcall/operator/past"
	"rollcall/operator/past/pasttest"
	"rollcall/proto"
)

// runWhy runs a command against members that remember nothing of the world, and with its log.
func (w *pastWorld) runWhy(open KeptLogOpener, line string) (out, errs string, err error) {
	w.t.Helper()
	stdout, stderr, err := newFakeMember(w.t).execute(w.t, func(s *IOStreams) { s.OpenKeptLog = open }, splitLine(line)...)
	return stdout.String(), stderr.String(), err
}

// What the members do not remember, why finds in the kept log, and says so: the removal of a node with the end of its session, and ends
// of sessions.
func TestWhySearchesTheKeptLog(t *testing.T) {
	w := newPastWorld(t)
	w.Connect("10.9.9.9:1").Close()
	for _, tt := range []struct{ line, want string }{
		{"why /locks/backup/lock-0000000000", "session ended: expired after 10s of silence  0x100000000000065       1  10.0.0.7:41234  /locks/backup/lock-0000000000"},
		{"why 0x100000000000065", "expired"},
		{"why 10.9.9.9", "0x100000000000068"},
	} {
		out, errs, err := w.runWhy(w.open, tt.line)
		if err != nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v\n%s", tt.line, err, out)
		}
		if !strings.Contains(errs, "the members do not remember it; searching the log that they keep\n") ||
			!strings.Contains(errs, "from the log of member 2 after zxid 0x0 (") {
			t.Errorf("%s: stderr %q", tt.line, errs)
		}
	}
	out, _, err := w.runWhy(w.open, "why -o json /locks/backup/lock-0000000000")
	var reply pathHistory
	if err := json.Unmarshal([]byte(out), &reply); err != nil || len(reply.Removals) != 1 || reply.Removals[0].End == nil || reply.Removals[0].Zxid != "0x100000006" {
		t.Errorf("%v in %s", err, out)
	}
	if err != nil || w.closed != len(w.asked) {
		t.Errorf("%v; %d of %d logs were closed", err, w.closed, len(w.asked))
	}
}

// What is in no log is an error that names the logs that were searched, or why they were not.
func TestWhyFindsNothing(t *testing.T) {
	w := newPastWorld(t)
	denied := func(context.Context, *EnsembleFlags, KeptLogPlace, past.Moment, bool) (KeptLog, error) {
		return KeptLog{}, Denied.Errorf("127.0.0.1:1: this needs credentials")
	}
	for _, tt := range []struct {
		open KeptLogOpener
		line string
		want string
	}{
		{w.open, "why /none", "its removal is not among those that the ensemble remembers; nor is it in the log of member 2 after zxid 0x0 ("},
		{w.open, "why 0x77", "none of the last 10,000 that ended is it; nor is it in the log of member 2 after"},
		{w.open, "why --since 1m /locks/backup/lock-0000000000", "remembers within 1m; nor is it in the log of member 2"},
		{denied, "why /none", "the ensemble remembers; the log that the members keep was not searched: 127.0.0.1:1: this needs credentials"},
		{denied, "why 10.9.9.9", "the log that the members keep was not searched: 127.0.0.1:1"},
		{nil, "why 0x77", "the log that the members keep was not searched: this program cannot"},
	} {
		if _, _, err := w.runWhy(tt.open, tt.line); StatusOf(err) != NotFound || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: status %d, %v", tt.line, StatusOf(err), err)
		}
	}
	if out, errs, err := w.runWhy(w.open, "why 0x1000012f99a0001"); !strings.Contains(fmt.Sprint(err), "has not ended") || strings.Contains(errs, "searching") {
		t.Errorf("a session that lives: %v, %s %s", err, out, errs)
	}
}

// The search finds a removal with more removals after it than a state remembers, and only the newest ones of a path.
func TestWhyFindsOldRemovals(t *testing.T) {
	w := newPastWorld(t)
	c := w.Connect("10.0.0.1:1")
	const later, batch = 10_001, 500
	for n := 0; n < later; n += batch {
		var txns []*proto.Txn
		for range batch {
			txns = append(txns, c.CreateTxn("/x", "", 0), c.DeleteTxn("/x"))
		}
		w.Apply(txns...)
	}
	out, _, err := w.runWhy(w.open, "why /locks/backup/lock-0000000000")
	if err != nil || !strings.Contains(out, "expired") {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = w.runWhy(w.open, "why --limit 2 /x")
	if last := fmt.Sprintf("0x%x", w.State.Zxid()); err != nil || strings.Count(out, "/x") != 2 {
		t.Errorf("%v\n%s, want two, the newest %s", err, out, last)
	}
}

// If the newest part of the log does not have it, the part that reaches back farthest is searched, too.
func TestWhySearchesFartherBack(t *testing.T) {
	w := newPastWorld(t)
	newest := pasttest.New(t, at0312.UnixMilli())
	newest.Connect("10.0.0.1:1")
	newest.Snapshot()
	newest.DropBefore()
	open := func(ctx context.Context, f *EnsembleFlags, place KeptLogPlace, from past.Moment, follow bool) (KeptLog, error) {
		kept, err := w.open(ctx, f, place, from, follow)
		if from.IsEnd() {
			kept.Chain, kept.Origin = newest, "member 1"
		}
		return kept, err
	}
	out, errs, err := w.runWhy(open, "why /locks/backup/lock-0000000000")
	if err != nil || !strings.Contains(out, "expired") || !strings.Contains(errs, "from the log of member 2 after") {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
	if w.closed != len(w.asked) {
		t.Errorf("%d of %d logs were closed", w.closed, len(w.asked))
	}
}
