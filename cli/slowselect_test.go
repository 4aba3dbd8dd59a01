package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"rollcall/operator/api"
)

// --path takes a node and those below it, --since what is new, and --limit counts what is left.
func TestSlowSelection(t *testing.T) {
	requests := []api.SlowRequest{
		{ID: "1-5", Path: "/locks/a", ReceivedAt: ago(time.Minute)},
		{ID: "1-4", Path: "/locks", ReceivedAt: ago(2 * time.Minute)},
		{ID: "1-3", Path: "/locksmith", ReceivedAt: ago(3 * time.Minute)},
		{ID: "1-2", ReceivedAt: ago(4 * time.Minute)},
		{ID: "1-1", Path: "/locks/b", ReceivedAt: ago(50 * time.Minute)},
	}
	for _, tt := range []struct {
		chosen slowSelection
		limit  int
		want   string
	}{
		{slowSelection{}, 0, "1-5 1-4 1-3 1-2 1-1"},
		{slowSelection{path: "/locks"}, 0, "1-5 1-4 1-1"},
		{slowSelection{path: "/"}, 0, "1-5 1-4 1-3 1-1"},
		{slowSelection{path: "/locks", since: 10 * time.Minute}, 0, "1-5 1-4"},
		{slowSelection{since: 2 * time.Minute}, 0, "1-5 1-4"},
		{slowSelection{path: "/locks"}, 2, "1-5 1-4"},
		{slowSelection{path: "/none"}, 2, ""},
	} {
		var got []string
		for r, err := range tt.chosen.choose(RowsOf(requests), testNow, tt.limit) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%+v, limit %d: %q, want %q", tt.chosen, tt.limit, got, tt.want)
		}
	}
	failed := errors.New("broken")
	for _, err := range (&slowSelection{path: "/none"}).choose(failedRows[api.SlowRequest](failed), testNow, 0) {
		if !errors.Is(err, failed) {
			t.Errorf("an error is not passed on: %v", err)
		}
	}
}

// The command takes the flags, adds up the stages below its table alone, and rejects what does not go together.
func TestSlowSums(t *testing.T) {
	f := newFakeMember(t)
	run := func(line string) string {
		t.Helper()
		out, _, err := f.execute(t, nil, strings.Fields(line)...)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		return out.String()
	}
	table := run("slow")
	total := map[string]int64{}
	for _, r := range slowRequests {
		if r.Op == api.PauseOp {
			continue
		}
		for _, s := range r.Stages {
			total[s.Text] += s.TookUs
		}
	}
	for text, us := range total {
		if want := "in all " + formatLatency(us) + " in "; len(total) <= maxStageSums && (!strings.Contains(table, want) || !strings.Contains(table, ": "+EscapeUnprintable(text)+"\n")) {
			t.Errorf("no %q for %q in\n%s", want, text, table)
		}
	}
	if strings.Contains(table, "in all 930ms") {
		t.Errorf("a pause is added up as a request:\n%s", table)
	}
	var rows []api.SlowRequest
	if err := json.Unmarshal([]byte(run("slow -o json --since 1h --path /")), &rows); err != nil || len(rows) > len(slowRequests) {
		t.Errorf("JSON: %d rows, %v", len(rows), err)
	}
	for _, line := range []string{"slow --since -1s", "slow --path a", "slow --path / 2-19a3f0c2b41", "slow --watch 2-19a3f0c2b41", "slow --watch --every 1ms"} {
		if _, _, err := f.execute(t, nil, strings.Fields(line)...); StatusOf(err) != UsageError {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// With --watch, the list comes again and again until the command is stopped.
func TestSlowWatch(t *testing.T) {
	f := newFakeMember(t)
	w, out, _ := testWorld("ROLLCALL_ADMIN="+f.URL, "ROLLCALL_TOKEN_FILE="+tokenFile(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	lists := 0
	w.Out = writerFunc(func(b []byte) (int, error) {
		if lists++; lists == 2 {
			stop()
		}
		return out.Write(b)
	})
	if err := runArgs(ctx, w, "slow", "--watch", "--every", "200ms"); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "RECEIVED"); n != 2 {
		t.Errorf("%d lists, want 2:\n%s", n, out)
	}
}

// The times of one stage are added up over all requests.
func TestStageSums(t *testing.T) {
	sums := stageSums{}
	for _, took := range []int64{2_000, 3_000} {
		sums.add(api.SlowRequest{Stages: []api.SlowStage{{Text: "disk", TookUs: took}}})
	}
	if got := *sums["disk"]; got.tookUs != 5_000 || got.requests != 2 {
		t.Errorf("%+v", got)
	}
}
