package member

import (
	"testing"

	"rollcall/znode"
)

func TestSharesReached(t *testing.T) {
	before := 0
	for _, step := range []struct{ used, want int64 }{
		{0, 0}, {799, 0}, {800, 1}, {790, 1}, {751, 1}, {749, 0}, {790, 0}, {949, 1}, {950, 2}, {901, 2}, {899, 1}, {940, 1}, {2000, 2}, {0, 0}, {1000, 2},
	} {
		if got := sharesReached(before, step.used, 1000); int64(got) != step.want {
			t.Errorf("%d of 1000 after %d: %d, want %d", step.used, before, got, step.want)
		} else {
			before = got
		}
	}
}

// Without a quota nothing is reported, and a share is reported once in each term.
func TestDataQuotaWarnings(t *testing.T) {
	w := quotaWarnings{events: newEventQueue(), self: 1}
	for _, step := range []struct {
		newTerm     bool
		used, quota int64
		want        int // events
	}{
		{false, 1000, 0, 0}, {false, 1000, -1, 0}, {false, 799, 1000, 0}, {false, 800, 1000, 1}, {false, 960, 1000, 1}, {false, 970, 1000, 0}, {true, 970, 1000, 1},
	} {
		if step.newTerm {
			w.resetReported()
		}
		w.reportQuotaShare(step.used, step.quota)
		if got := len(w.events.queued); got != step.want {
			t.Errorf("%+v: %d events", step, got)
		}
		for len(w.events.queued) > 0 {
			if e := <-w.events.queued; e.Kind != EventQuotaWarning || e.Member != 1 || e.Quota.Bytes != step.used {
				t.Errorf("%+v: %+v", step, e)
			}
		}
	}
}

// The numbers of sequential names are reported at 80 and 95 %, and when the last one was given, each once in a term.
// If they go on, nothing is reported.
func TestNamesWarnings(t *testing.T) {
	w := quotaWarnings{events: newEventQueue(), self: 1}
	for _, step := range []struct {
		newTerm bool
		created int64
		long    bool
		want    EventKind
	}{
		{false, 1, false, ""},
		{false, 1717986917, false, ""},
		{false, 1717986918, false, EventNamesWarning},
		{false, 1717986919, false, ""},
		{false, 2040109465, false, EventNamesWarning},
		{false, znode.MaxCreated - 1, false, ""},
		{false, znode.MaxCreated, false, EventNamesEnded},
		{false, znode.MaxCreated, false, ""},
		{true, znode.MaxCreated, false, EventNamesEnded},
		{false, 3, false, ""}, // the parent was deleted
		{true, znode.MaxCreated - 1, true, ""},
		{false, znode.MaxCreated, true, ""},
		{true, znode.MaxCreated - 1, false, EventNamesWarning},
	} {
		if step.newTerm {
			w.resetReported()
		}
		w.reportNames(znode.ChildCount{Path: "/q", Created: step.created}, step.long)
		var got EventKind
		for len(w.events.queued) > 0 {
			e := <-w.events.queued
			if got += e.Kind; e.Names.Path != "/q" || e.Names.Created != step.created {
				t.Errorf("%+v: %+v", step, e)
			}
		}
		if got != step.want {
			t.Errorf("%+v: %q", step, got)
		}
	}
}
