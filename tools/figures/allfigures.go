package main

import (
	"bytes"
	"encoding/csv"
	"maps"
	"slices"
	"strconv"
)

// figuresCSV returns every figure of every row on each side, with the number of its void runs and of their errors.
func (k *measurements) figuresCSV() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"part", "case", "figure", "unit", "side", "median", "least", "most", "runs", "void", "errors"}) // a write to a buffer cannot fail
	for _, part := range slices.Sorted(maps.Keys(k.runsByPart)) {
		for _, row := range k.rowNames(part) {
			for _, side := range k.sidesOf(part, row) {
				void, failed := k.flawsOf(part, row, side)
				for _, figure := range k.figureNames(part, row) {
					if s := k.rowSpread(part, row, side, figure); s.runs > 0 {
						f := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
						_ = w.Write([]string{
							part, row, figure, figureUnits[figure], side, f(s.median), f(s.minimum), f(s.maximum),
							strconv.Itoa(s.runs), strconv.Itoa(void), strconv.FormatInt(failed, 10),
						})
					}
				}
			}
		}
	}
	w.Flush()
	return b.Bytes()
}

// sidesOf returns the sides on which a row was measured, in the order of their first runs.
func (k *measurements) sidesOf(part, row string) (sides []string) {
	for _, l := range k.runsByPart[part] {
		if l.Row == row && !slices.Contains(sides, l.Side) {
			sides = append(sides, l.Side)
		}
	}
	return sides
}

// flawsOf returns the number of a row's void runs on a side, and the number of errors in all of its runs there.
func (k *measurements) flawsOf(part, row, side string) (void int, failed int64) {
	for _, l := range k.runsByPart[part] {
		if l.Row != row || l.Side != side {
			continue
		}
		for _, r := range l.Results {
			if r.Void {
				void++
			}
			for _, n := range r.Errors {
				failed += n
			}
		}
	}
	return void, failed
}
