package main

import (
	"fmt"
	"slices"
	"strings"
)

// rowFigure is a figure of a row, as the short tables name it.
type rowFigure struct{ row, figure string }

// pairsOf returns the pairs of a list: a row, a figure of it, the next row, and so on.
func pairsOf(list []string) (pairs []rowFigure) {
	for pair := range slices.Chunk(list, 2) {
		pairs = append(pairs, rowFigure{pair[0], pair[1]})
	}
	return pairs
}

// Against returns rows of a table that compares both sides: figures of rows of one part.
func (k *measurements) Against(part string, rowsAndFigures ...string) string {
	var b strings.Builder
	for _, p := range pairsOf(rowsAndFigures) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", p.row, figureTitle(p.figure), k.baselineCell(part, p.row, p.figure),
			k.rowSpread(part, p.row, "Rollcall", p.figure), k.baselineRatioCell(part, p.row, p.figure))
	}
	return b.String()
}

// Alone returns rows of a table of the part in which Rollcall is alone.
func (k *measurements) Alone(rowsAndFigures ...string) string {
	var b strings.Builder
	for _, p := range pairsOf(rowsAndFigures) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.row, figureTitle(p.figure), k.rowSpread("alone", p.row, "Rollcall", p.figure))
	}
	return b.String()
}

// LinkMedians returns rows of the part links: the medians of a figure on both sides, for each delay.
func (k *measurements) LinkMedians(figure string, rows ...string) string {
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |", row)
		for _, delay := range linkDelays {
			for _, side := range []string{k.baselineSide(linkPart(delay)), "Rollcall"} {
				fmt.Fprintf(&b, " %s |", k.rowSpread(linkPart(delay), row, side, figure).medianCell())
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// medianCell returns the median, or "-" if there were no runs.
func (s spread) medianCell() string {
	if s.runs == 0 {
		return "-"
	}
	return formatNumber(s.median)
}
