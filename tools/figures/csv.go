package main

import (
	"bytes"
	"encoding/csv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// figuresCSV returns every figure of every row on each side, with the number of its void runs and of their errors.
func (k *measurements) figuresCSV() []byte {
	rows := [][]string{{"part", "case", "figure", "unit", "side", "median", "least", "most", "runs", "void", "errors"}}
	for _, part := range slices.Sorted(maps.Keys(k.runsByPart)) {
		for _, row := range k.rowNames(part) {
			for _, side := range k.sidesOf(part, row) {
				void, failed := flawsOf(k.runsOf(row, side, part))
				for _, figure := range k.figureNames(part, row) {
					if s := k.rowSpread(part, row, side, figure); s.runs > 0 {
						rows = append(rows, slices.Concat([]string{part, row, figure, figureUnits[figure], side}, s.fields(),
							[]string{strconv.Itoa(void), strconv.FormatInt(failed, 10)}))
					}
				}
			}
		}
	}
	return csvText(rows)
}

// targetsCSV returns all figures with targets.
func (k *measurements) targetsCSV() []byte {
	rows := [][]string{{"part", "case", "figure", "ZooKeeper", "Rollcall", "target"}}
	for _, f := range k.judgedFigures() {
		rows = append(rows, slices.Concat([]string{f.part, f.row}, k.figureCells(f.part, f.row, f.figure),
			[]string{strings.ReplaceAll(strings.Join(f.verdicts, "; "), "**", "")}))
	}
	return csvText(rows)
}

// curvesCSV returns the points of all curves.
func (k *measurements) curvesCSV() []byte {
	rows := [][]string{{"curve", "unit", "size", "median", "least", "most", "runs"}}
	for _, p := range k.curves {
		rows = append(rows, append([]string{p.curve, p.unit, strconv.FormatFloat(p.x, 'f', -1, 64)}, p.y.fields()...))
	}
	return csvText(rows)
}

func csvText(rows [][]string) []byte {
	var b bytes.Buffer
	_ = csv.NewWriter(&b).WriteAll(rows) // a write to a buffer cannot fail
	return b.Bytes()
}

// fields returns the median, the minimum, the maximum and the number of runs.
func (s spread) fields() []string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	return []string{f(s.median), f(s.minimum), f(s.maximum), strconv.Itoa(s.runs)}
}
