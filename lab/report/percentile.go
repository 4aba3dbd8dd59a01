package report

import (
	"fmt"
	"slices"

	"rollcall/lab/result"
)

// minRuns is the number of runs from which on percentiles are shown. With fewer, a median says less than the runs
// themselves.
const minRuns = 10

// percentiles are those that are shown, in percent.
var percentiles = []int{50, 90, 99}

// percentile returns the p-th percentile by the nearest rank: the smallest value that at least p percent of the
// values do not exceed. It reports false if there are too few values to show it: fewer than minRuns, or fewer than
// 1/(1-p/100), where it would always be the maximum.
func percentile(sorted []result.Millis, p int) (result.Millis, bool) {
	n := len(sorted)
	if n < minRuns || n*(100-p) < 100 {
		return 0, false
	}
	rank := (p*n + 99) / 100 // rounded up
	return sorted[max(rank, 1)-1], true
}

// distribution is the spread of a duration over the runs of a drill, sorted.
type distribution []result.Millis

// distributionOf returns the distribution of the longest pauses of a kind.
func distributionOf(runs []result.Drill, kind string) distribution {
	return slices.Sorted(slices.Values(longestPauses(runs, kind)))
}

// maxText returns the largest value, or "" if there is none.
func (d distribution) maxText() string {
	if len(d) == 0 {
		return ""
	}
	return formatDuration(d[len(d)-1])
}

// tableCells returns n, each percentile, and the maximum.
func (d distribution) tableCells() []string {
	cells := []string{formatNumber(len(d))}
	for _, p := range percentiles {
		value, shown := percentile(d, p)
		if shown {
			cells = append(cells, formatDuration(value))
		} else {
			cells = append(cells, "n < "+formatNumber(max(minRuns, 100/(100-p))))
		}
	}
	return append(cells, d.maxText())
}

// distributionHeads are the headings of cells.
func distributionHeads() []string {
	heads := []string{"n"}
	for _, p := range percentiles {
		heads = append(heads, fmt.Sprintf("p%d", p))
	}
	return append(heads, "max")
}

// fewRuns is the reason for which a drill has no percentiles, or "" if it has some.
func fewRuns(n int) string {
	if n >= minRuns {
		return ""
	}
	return fmt.Sprintf("No percentile is shown: they need at least %d runs, and there are %d.", minRuns, n)
}
