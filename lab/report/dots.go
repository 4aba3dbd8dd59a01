package report

import (
	"cmp"
	"fmt"
	"slices"

	"rollcall/lab/result"
)

// The measures of a strip of dots, in the units of axis.go.
const (
	dotRadius = 4.5
	dotRows   = 9 // dots of a pile; those of a higher one overlap
	dotsTop   = 12
)

// dots is the distribution of one number over the runs of a drill: each run is a dot.
type dots struct {
	Title, Desc string
	Name        string // "writes"
	Width       px
	Height      px
	PlotLeft    px
	PlotRight   px
	Bottom      px
	Middle      px // of the text beside it
	Value       string
	Dots        []dot
	Ticks       []tick
}

type dot struct {
	X, Y   px
	Failed bool
	Title  string
}

// dotsOf draws the longest pauses of a kind, or returns nil if none was measured.
func dotsOf(g drillGroup, kind string) *dots {
	all := distributionOf(g.runs, kind)
	if len(all) == 0 {
		return nil
	}
	most := max(1, all[len(all)-1])
	rows := map[int]int{} // dots by column
	height := px(dotsTop + dotRows*2*dotRadius)
	s := &dots{
		Title: fmt.Sprintf("The longest pause of %ss in each run", kind), Name: kind + "s", Value: "longest " + all.maxText(),
		Width: axisWidth, Height: height + 24, PlotLeft: plotLeft, PlotRight: plotRight, Bottom: height, Middle: height/2 + 4,
	}
	s.Desc = fmt.Sprintf("%s, from %s to %s. The table has the numbers.", countText(len(all), "run", "runs"),
		formatDuration(all[0]), all.maxText())
	for _, d := range slices.SortedStableFunc(slices.Values(g.runs), compareFailed) { // those that failed are drawn above the others
		pause, ok := longestPause(d, kind)
		if !ok {
			continue
		}
		x := placeOf(pause, most)
		column := int(x / (2 * dotRadius))
		title := fmt.Sprintf("run %d, %s: %s", d.Repeat, d.Outcome, formatDuration(pause))
		s.Dots = append(s.Dots, dot{x, px(rows[column]), d.Outcome == result.Fail, title})
		rows[column]++
	}
	highest := 1
	for _, n := range rows {
		highest = max(highest, n)
	}
	step := min(2*dotRadius, px(dotRows*2*dotRadius)/px(highest))
	for i := range s.Dots { // now that the highest pile is known
		s.Dots[i].Y = height - dotRadius - 1 - s.Dots[i].Y*step
	}
	s.Ticks = ticksUpTo(most)
	return s
}

// compareFailed puts runs that failed after the others.
func compareFailed(a, b result.Drill) int {
	failures := func(d result.Drill) int { return tallyOfRuns([]result.Drill{d}).failed }
	return cmp.Compare(failures(a), failures(b))
}
