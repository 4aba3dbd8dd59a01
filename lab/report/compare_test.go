package report

import (
	"io"
	"testing"

	"rollcall/lab/result"
)

func TestCompare(t *testing.T) {
	text := func(w io.Writer, _ result.Run) error { return comparison().WriteText(w, TextOptions{}) }
	page := func(w io.Writer, _ result.Run) error { return comparison().WriteHTML(w) }
	golden(t, "compare.txt", written(t, text, sample()))
	golden(t, "compare.html", written(t, page, sample()))
}

// comparison compares the sample with a run on ZooKeeper, which lacks a drill and has another.
func comparison() Comparison {
	other := sample()
	other.Ensemble.Software, other.Seed, other.Ensemble.TickMS = "ZooKeeper 3.8.0", 8, 2000
	other.Drills = []result.Drill{leaderKill(1), leaderKill(1)}
	other.Drills[0].Gaps[0].Longest.To = 9_000
	other.Drills[1].Name = "rolling-restart"
	return Compare(sample(), other)
}

func TestCompareNamesEqualSides(t *testing.T) {
	c := Compare(sample(), sample())
	if c.Sides[0].Name != "A: Rollcall 0.1.0" || c.Sides[1].Name != "B: Rollcall 0.1.0" || len(c.Differences) > 0 {
		t.Errorf("%q, %q, %q", c.Sides[0].Name, c.Sides[1].Name, c.Differences)
	}
}
