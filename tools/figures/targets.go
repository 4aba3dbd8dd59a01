package main

import (
	"cmp"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
)

// target is the target of a row in compare.txt. figure is "" if the row has none.
type target struct {
	part, row string
	figure    string
	atLeast   bool // otherwise: at most
	limit     float64
	text      string // as in compare.txt
	unit      string // byBaseline or byFloor: the limit is one of Rollcall's value divided by that of the other side; "": of Rollcall's value itself
}

// Units of targets that are ratios.
const (
	byBaseline = "x"
	byFloor    = "f"
)

func readTargets(file string) ([]target, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []target
	for n, row := range strings.Split(string(text), "\n") {
		if row == "" || row[0] == '#' {
			continue
		}
		fields := strings.Split(row, "|")
		if len(fields) != 4 {
			return nil, fmt.Errorf("%s:%d: %d columns, want 4", file, n+1, len(fields))
		}
		for _, text := range strings.Split(fields[3], ",") {
			t := target{part: strings.TrimSpace(fields[0]), row: strings.TrimSpace(fields[1])}
			if err := t.parse(strings.TrimSpace(text)); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, n+1, err)
			}
			list = append(list, t)
		}
	}
	return list, nil
}

// parse parses "ops/s >= 3x", "p50 <= 1.25f" or "RSS MiB <= 30". An empty text is no target.
func (t *target) parse(text string) error {
	if text == "" {
		return nil
	}
	figure, value, atLeast := strings.Cut(text, " >= ")
	sign := "≥ "
	if !atLeast {
		var atMost bool
		if figure, value, atMost = strings.Cut(text, " <= "); !atMost {
			return fmt.Errorf("%q has neither >= nor <=", text)
		}
		sign = "≤ "
	}
	t.figure, t.atLeast, t.text = figure, atLeast, sign+value
	for _, unit := range []string{byBaseline, byFloor} {
		if number, ok := strings.CutSuffix(value, unit); ok {
			value, t.unit = number, unit
		}
	}
	limit, ok := new(big.Rat).SetString(value) // also a fraction
	if !ok {
		return fmt.Errorf("%q: %q is no number", text, value)
	}
	t.limit, _ = limit.Float64()
	return nil
}

// baselines are the other runs in the parts that measure Rollcall alone.
var baselines = map[string]string{"alone": "no snapshots", "backup": "no backups"}

// baselineSide returns the side to compare a part's Rollcall with.
func baselineSide(part string) string { return cmp.Or(baselines[part], "ZooKeeper") }

// floorSide is the name of the simplest server that answers a row: lab/bench/floor.
const floorSide = "Floor"

// floorParts are the parts that are also measured on the floor.
var floorParts = []string{"three", "one"}

// comparedSide returns the side with which a part's Rollcall is compared in a unit, or "" if the unit is none of a ratio.
func comparedSide(part, unit string) string {
	return map[string]string{byBaseline: baselineSide(part), byFloor: floorSide}[unit]
}

// ratio returns Rollcall's value divided by that of the side that the unit names, as the ratio of medians. In the part
// backup, a round is a pair of runs on one ensemble, and the ratio is the median of the pairs' ratios. If there is no ratio,
// missing has the reason.
func (k *measurements) ratio(part, row, figure, unit string) (ratio float64, missing string) {
	side := comparedSide(part, unit)
	theirs, ours := k.rowSpread(part, row, side, figure), k.rowSpread(part, row, "Rollcall", figure)
	switch {
	case ours.runs == 0:
		return 0, "not measured"
	case theirs.runs == 0 && unit == byFloor:
		return 0, "not measured on the floor"
	case theirs.runs == 0:
		return 0, "not measured on " + side
	case theirs.median == 0:
		return 0, "no ratio to 0"
	case part != "backup":
		return ours.median / theirs.median, ""
	}
	first, second := k.valuesByRound(part, row, side, figure), k.valuesByRound(part, row, "Rollcall", figure)
	var ratios []float64
	for round, v := range first {
		if w, ok := second[round]; ok && v != 0 {
			ratios = append(ratios, w/v)
		}
	}
	if len(ratios) == 0 {
		return 0, "no pair was measured"
	}
	return spreadOf(ratios).median, ""
}

// ratioCell returns a ratio with its unit, or "-" if there is none.
func (k *measurements) ratioCell(part, row, figure, unit string) string {
	ratio, missing := k.ratio(part, row, figure, unit)
	if missing != "" {
		return "-"
	}
	return formatNumber(ratio) + unit
}

func (k *measurements) baselineCell(part, row, figure string) string {
	s := k.rowSpread(part, row, baselineSide(part), figure)
	if baselines[part] != "" && s.runs > 0 {
		return "without: " + s.String()
	}
	return s.String()
}

// serverFigures do not include what the load generator costs.
var serverFigures = []string{"server CPU per op", "RSS of the servers", "RSS growth per session", "expired", "early"}

// voidVerdict is the verdict of a target that a void row cannot decide.
const voidVerdict = "void"

// isConclusive reports whether a ratio decides its target although its row is void. If the load generator takes a larger
// share of the faster side's time, it brings the ratio nearer to 1: without it the ratio would be further from 1, on the
// same side.
func (k *measurements) isConclusive(t target, ratio float64, met bool) bool {
	faster, slower := "Rollcall", comparedSide(t.part, t.unit)
	if isFaster := (ratio >= 1) == t.atLeast; isFaster != met || slower == "" {
		return false
	} else if !isFaster {
		faster, slower = slower, faster
	}
	onFaster, onSlower := k.toolShare(t.part, t.row, faster), k.toolShare(t.part, t.row, slower)
	return onSlower > 0 && onFaster >= onSlower
}

// toolShare returns the load generator's CPU time divided by the servers', or 0 if it was not measured.
func (k *measurements) toolShare(part, row, side string) float64 {
	servers := k.rowSpread(part, row, side, "server CPU per op").median
	if servers == 0 {
		return 0
	}
	return k.rowSpread(part, row, side, "tool CPU per op").median / servers
}

// judgeTarget returns the reached value and the verdict.
func (k *measurements) judgeTarget(t target) (reached, verdict string) {
	b := k.rowSpread(t.part, t.row, "Rollcall", t.figure)
	if b.runs == 0 {
		return "-", "not measured"
	}
	value, missing := b.median, ""
	if t.unit != "" {
		value, missing = k.ratio(t.part, t.row, t.figure, t.unit)
	}
	if missing != "" {
		return "-", missing
	}
	met := t.atLeast && value >= t.limit || !t.atLeast && value <= t.limit
	reached = formatNumber(value) + t.unit
	switch {
	case !slices.Contains(serverFigures, t.figure) && k.isVoid(t.part, t.row, "Rollcall", comparedSide(t.part, t.unit)) && !k.isConclusive(t, value, met):
		return reached, voidVerdict
	case met:
		return reached, "met"
	}
	return reached, "**missed**"
}

// judgedFigure is a figure with targets. verdicts has every target of it, with the value or the ratio that was reached.
type judgedFigure struct {
	part, row, figure string
	verdicts          []string
	allMet            bool
}

func (k *measurements) judgedFigures() (list []judgedFigure) {
	for _, t := range k.targets {
		if t.figure == "" {
			continue
		}
		i := slices.IndexFunc(list, func(f judgedFigure) bool { return f.part == t.part && f.row == t.row && f.figure == t.figure })
		if i < 0 {
			i, list = len(list), append(list, judgedFigure{part: t.part, row: t.row, figure: t.figure, allMet: true})
		}
		reached, verdict := k.judgeTarget(t)
		text := t.text + " " + verdict
		if t.unit != "" && reached != "-" {
			text = t.text + ": " + reached + " " + verdict
		}
		list[i].verdicts = append(list[i].verdicts, text)
		list[i].allMet = list[i].allMet && verdict == "met"
	}
	return list
}

// Unmet returns the table of the figures with a target that is not met. Its last column has every target of a figure.
func (k *measurements) Unmet() string {
	table := "| case | figure | ZooKeeper | Rollcall | target |\n|---|---|---|---|---|\n"
	last := ""
	for _, f := range k.judgedFigures() {
		if f.allMet {
			continue
		}
		name := f.row
		if name == last {
			name = "" // the row above has it
		}
		last = f.row
		table += k.comparison(name, f.part, f.row, f.figure, strings.Join(f.verdicts, "; "))
	}
	return table
}

// isVoid reports whether the load generator took too much CPU time in any run of a row on these sides.
func (k *measurements) isVoid(part, row string, sides ...string) bool {
	return slices.ContainsFunc(sides, func(side string) bool {
		void, _ := flawsOf(k.runsOf(row, side, part))
		return void > 0
	})
}

// TargetCount returns a sentence with the numbers of targets that are met, missed, void and not measured.
func (k *measurements) TargetCount() string {
	count := map[string]int{}
	all := 0
	for _, t := range k.targets {
		if t.figure == "" {
			continue
		}
		_, verdict := k.judgeTarget(t)
		count[verdict]++
		all++
	}
	return fmt.Sprintf("Of %d targets %d are met, %d missed, %d void, and %d not measured.", all, count["met"],
		count["**missed**"], count[voidVerdict], all-count["met"]-count["**missed**"]-count[voidVerdict])
}

// All returns the long table of some parts: every value on all sides.
func (k *measurements) All(parts ...string) string {
	table := "| case | figure | ZooKeeper | Rollcall | ratio |\n|---|---|---|---|---|\n"
	floor := slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(floorParts, part) })
	if floor {
		table = "| case | figure | ZooKeeper | Rollcall | ratio | floor | of the floor |\n|---|---|---|---|---|---|---|\n"
	}
	var seen []string
	for _, t := range k.targets {
		if !slices.Contains(parts, t.part) || slices.Contains(seen, t.part+"|"+t.row) {
			continue
		}
		seen = append(seen, t.part+"|"+t.row)
		name := t.row
		for _, figure := range k.figureNames(t.part, t.row) {
			more := []string{k.ratioCell(t.part, t.row, figure, byBaseline)}
			if floor {
				more = append(more, k.rowSpread(t.part, t.row, floorSide, figure).String(), k.ratioCell(t.part, t.row, figure, byFloor))
			}
			table += k.comparison(name, t.part, t.row, figure, more...)
			name = ""
		}
	}
	return table + k.remarkLines(parts)
}

// remarkLines returns the reasons that make the values of some parts less reliable.
func (k *measurements) remarkLines(parts []string) (lines string) {
	type about struct{ row, side string }
	seen := map[about]bool{}
	for _, part := range parts {
		for _, l := range k.runsByPart[part] {
			if seen[about{l.Row, l.Side}] {
				continue
			}
			seen[about{l.Row, l.Side}] = true
			runs := k.runsOf(l.Row, l.Side, parts...)
			void, failed := flawsOf(runs)
			if void > 0 {
				lines += fmt.Sprintf("* %s on %s: void, %d of %d runs: the load generator used more than a third of the servers' CPU time\n",
					l.Row, l.Side, void, len(runs))
			}
			if failed > 0 {
				lines += fmt.Sprintf("* %s on %s: %d errors\n", l.Row, l.Side, failed)
			}
		}
	}
	if lines != "" {
		return "\n" + lines
	}
	return ""
}

func figureTitle(figure string) string {
	if u := figureUnits[figure]; u != "" && u != "/s" {
		return figure + ", " + u
	}
	return figure
}

// String returns the median, with the spread in brackets if there were several runs.
func (s spread) String() string {
	switch s.runs {
	case 0:
		return "-"
	case 1:
		return formatNumber(s.median)
	}
	return fmt.Sprintf("%s (%s-%s)", formatNumber(s.median), formatNumber(s.minimum), formatNumber(s.maximum))
}

// formatNumber formats a value with three digits, or with all digits before the point.
func formatNumber(v float64) string {
	switch {
	case v == float64(int64(v)) || v >= 100 || v <= -100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10 || v <= -10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 1 || v <= -1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}
