package member

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall/quorum"
)

// A pause that can cost a leader its place has an advice, with a failover that is allowed and would have been enough.
func TestFailoverAdvice(t *testing.T) {
	for _, tt := range []struct {
		took, failover time.Duration
		want           string // "": no advice
	}{
		{257 * time.Millisecond, 300 * time.Millisecond, ""},
		{400 * time.Millisecond, 300 * time.Millisecond, ""},
		{401 * time.Millisecond, 300 * time.Millisecond, "failover=450 "},
		{257 * time.Millisecond, 150 * time.Millisecond, "failover=300 "},
		{1500 * time.Millisecond, time.Second, "failover=1500 "},
		{time.Minute, time.Second, "failover=60000 "},
		{time.Minute + 1, time.Second, ""},
	} {
		got := fmt.Sprint(failoverAdvice(tt.took, tt.failover)...)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("a pause of %v with failover %v: advice %q, want %q", tt.took, tt.failover, got, tt.want)
		}
		if tt.want != "" {
			var ms int
			_, _ = fmt.Sscanf(tt.want, "failover=%d", &ms)
			if enough := quorum.PauseTolerance(time.Duration(ms) * time.Millisecond); enough <= tt.took {
				t.Errorf("%s tolerates %v, and the pause was %v", tt.want, enough, tt.took)
			}
		}
	}
}
