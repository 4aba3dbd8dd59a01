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

// Medians returns a table of the medians of figures, with a line for each row and side of parts, whose names are separated
// by spaces. A line without any of the figures is left out.
func (k *measurements) Medians(parts string, figures ...string) string {
	var b strings.Builder
	b.WriteString("| case | side |")
	for _, figure := range figures {
		fmt.Fprintf(&b, " %s |", figureTitle(figure))
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(figures)) + "\n")
	for _, part := range strings.Fields(parts) {
		for _, row := range k.targetRows(part) {
			name := row
			for _, side := range []string{k.baselineSide(part), "Rollcall", floorSide} {
				if cells := k.medianCells(part, row, side, figures); cells != "" {
					fmt.Fprintf(&b, "| %s | %s |%s\n", name, k.sideTitle(part, row, side), cells)
					name = ""
				}
			}
		}
	}
	return b.String()
}

// targetRows returns the rows of a part, in the order of compare.txt.
func (k *measurements) targetRows(part string) []string {
	var rows []string
	for _, t := range k.targets {
		if t.part == part && !slices.Contains(rows, t.row) {
			rows = append(rows, t.row)
		}
	}
	return rows
}

// medianCells returns the cells of a line of Medians, or "" if none of the figures was measured.
func (k *measurements) medianCells(part, row, side string, figures []string) string {
	var b strings.Builder
	measured := false
	for _, figure := range figures {
		s := k.rowSpread(part, row, side, figure)
		measured = measured || s.runs > 0
		fmt.Fprintf(&b, " %s |", s.medianCell())
	}
	if !measured {
		return ""
	}
	return b.String()
}

// sideTitle returns the name of a side, with the reasons that make its values in a row less reliable.
func (k *measurements) sideTitle(part, row, side string) string {
	title := side
	if k.isVoid(part, row, side) {
		title += ", void"
	}
	var failed int64
	for _, l := range k.runsByPart[part] {
		if l.Row == row && l.Side == side {
			for _, r := range l.Results {
				for _, n := range r.Errors {
					failed += n
				}
			}
		}
	}
	if failed > 0 {
		title += fmt.Sprintf(", %d errors", failed)
	}
	return title
}

// medianCell returns the median, or "-" if there were no runs.
func (s spread) medianCell() string {
	if s.runs == 0 {
		return "-"
	}
	return formatNumber(s.median)
}
