package bench

import (
	"os"
	"testing"
	"time"
)

// The members that serve sessions are those whose files grew with them. A member that was started meanwhile is in neither group.
func TestGrowthFigures(t *testing.T) {
	before := usage{rss: 100, memory: map[int]memberMemory{1: {1000, 20}, 2: {2000, 20}, 3: {3000, 25}}}
	for name, tt := range map[string]struct {
		end             map[int]memberMemory
		serving, others float64
		hasOthers       bool
	}{
		"one serves": {map[int]memberMemory{1: {41000, 120}, 2: {4000, 21}, 3: {7000, 25}}, 400, 30, true},
		"all serve":  {map[int]memberMemory{1: {11000, 53}, 2: {12000, 53}, 3: {13000, 59}}, 300, 0, false},
		"restarted":  {map[int]memberMemory{1: {41000, 120}, 2: {4000, 21}, 4: {90000, 90}}, 400, 20, true},
	} {
		got := map[string]float64{}
		for _, f := range growthFigures(before, usage{rss: 5100, memory: tt.end}, 100) {
			got[f.Name] = f.Value
		}
		others, ok := got["PSS growth per session, each other member"]
		if got["RSS growth per session"] != 50 || got["PSS growth per session, members that serve them"] != tt.serving ||
			others != tt.others || ok != tt.hasOthers {
			t.Errorf("%s: %v", name, got)
		}
		begin := usageReading{serverUsage: usage{cpuByPID: map[int]time.Duration{1: time.Second, 2: time.Second, 3: time.Second}}}
		end := usageReading{serverUsage: usage{memory: tt.end, cpuByPID: map[int]time.Duration{1: 3 * time.Second, 2: 5 * time.Second, 3: 9 * time.Second}}}
		want := 20_000.0 // 2 s of process 1, for 100 ops
		if name == "all serve" {
			want = 140_000
		}
		if cpu := servingFigure(before, begin, end, 100).Value; cpu != want {
			t.Errorf("%s: %v µs, want %v", name, cpu, want)
		}
		if largest := largestFigure(usage{memory: tt.end}).Value; name == "restarted" && largest != 90000 {
			t.Errorf("the largest member has %v bytes", largest)
		}
	}
	u, err := (processes{procRoot: "/proc", pids: []int{os.Getpid()}}).fullUsage()
	if m := u.memory[os.Getpid()]; err != nil || m.files < 3 || m.pss <= 0 || m.pss != u.pss {
		t.Errorf("%+v, %v", u, err)
	}
}
