package admin

import (
	"testing"
	"time"

	"rollcall/tally"
)

// Metrics with similar meanings have values of their own: the counts of proposals, commits and
// expiries, and the percentiles of one metric.
func TestFiguresAreTheirOwn(t *testing.T) {
	s := &Stats{
		Role: "leader", Proposed: 41, Committed: 42, Expired: 43,
		Updates: tally.Summary{Count: 9, P50: 50 * time.Millisecond, P95: 95 * time.Millisecond, P99: 99 * time.Millisecond, P999: 999 * time.Millisecond},
	}
	got := map[string]string{}
	for i := range table {
		if m := &table[i]; m.told(s) {
			m.each(s, func(name, value string) { got[name] = value })
		}
	}
	for name, want := range map[string]string{
		"proposal_count": "41", "commit_count": "42", "stale_sessions_expired": "43",
		"p50_updatelatency": "50", "p95_updatelatency": "95", "p99_updatelatency": "99", "p999_updatelatency": "999",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
}
