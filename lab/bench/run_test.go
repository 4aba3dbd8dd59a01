package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
)

// The usage is read at both ends of the measured time, of which measuring is notified. An error of it and the end of the
// run end that.
func TestSleepAndMeasure(t *testing.T) {
	stat := func(pid string) string { return strings.Replace(statLine, "%s", pid, 1) } // 4 s of CPU time
	proc := fakeProc(t, map[string]string{"11/stat": stat("11"), "12/stat": stat("12"), "12/status": "VmRSS:\t1024 kB\n"})
	failed := errors.New("it failed")
	for _, tt := range []struct {
		name  string
		fails bool // the call of measuring that fails
		never bool // it is not called, or does not fail
		limit time.Duration
		calls []bool
		ends  time.Duration
		want  error
	}{
		{"all", false, true, time.Minute, []bool{true, false}, 3 * time.Second, nil},
		{"the begin fails", true, false, time.Minute, []bool{true}, time.Second, failed},
		{"the end fails", false, false, time.Minute, []bool{true, false}, 3 * time.Second, failed},
		{"ended in the warm-up", false, true, time.Second / 2, nil, time.Second / 2, context.DeadlineExceeded},
		{"ended while it measures", false, true, 2 * time.Second, []bool{true}, 2 * time.Second, context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), tt.limit)
			defer stop()
			r := &caseRun{ctx: ctx, params: Params{Warmup: time.Second, Duration: 2 * time.Second}, keeperProcesses: proc, serverProcesses: proc}
			base, calls := time.Now(), []bool(nil)
			begin, end, err := r.sleepAndMeasure(base, func(on bool) error {
				if calls = append(calls, on); !tt.never && on == tt.fails {
					return failed
				}
				return nil
			})
			if !errors.Is(err, tt.want) || !slices.Equal(calls, tt.calls) || time.Since(base) != tt.ends {
				t.Errorf("%s: %v after %v, with the calls %t", tt.name, err, time.Since(base), calls)
			}
			if tt.want == nil && (begin.at.Sub(base) != time.Second || end.at.Sub(base) != 3*time.Second || begin.toolCPU < 8*time.Second || begin.serverUsage.rss != 0 || end.serverUsage.rss == 0 || len(end.serverUsage.cpuByPID) != 2) {
				t.Errorf("%s: %+v, %+v", tt.name, begin, end)
			}
			if got, want := r.phaseText(base), map[time.Duration]string{time.Second / 2: "warming up", time.Second: "0 of 2 s", 2 * time.Second: "1 of 2 s", 3 * time.Second: "2 of 2 s"}[tt.ends]; got != want {
				t.Errorf("%s: %q, want %q", tt.name, got, want)
			}
			if tt.want == nil {
				if _, _, err := r.sleepAndMeasure(base, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Errors that are no replies make the next request fail at once, too.
func TestNoReply(t *testing.T) {
	for err, want := range map[error]bool{
		&client.Error{Unanswered: true}: true, &client.Error{Err: client.ErrNoNode}: false, client.ErrSuspended: true, client.ErrExpired: true, client.ErrClosed: true, client.ErrTooLong: false,
	} {
		if hasNoReply(err) != want {
			t.Errorf("%v: no reply: %t", err, !want)
		}
	}
}

// After an error no call begins, and none begins after the end of the context.
func TestInParallelEnds(t *testing.T) {
	failed := errors.New("failed")
	calls := 0
	err := inParallel(t.Context(), 10, 1, func(_ context.Context, i int) error {
		if calls++; i == 2 {
			return failed
		}
		return nil
	})
	if calls != 3 || !errors.Is(err, failed) {
		t.Errorf("%d calls, %v; want 3, and the error of the third one", calls, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := inParallel(ctx, 10, 1, func(context.Context, int) error { calls++; return nil }); calls != 3 ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("%d calls after the end, %v", calls-3, err)
	}
}
