package main

import (
	"slices"
	"strings"
)

// tableRow returns a row of a table.
func tableRow(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// figureCells returns the title of a figure, and its values on both sides.
func (k *measurements) figureCells(part, row, figure string) []string {
	return []string{figureTitle(figure), k.baselineCell(part, row, figure), k.rowSpread(part, row, "Rollcall", figure).String()}
}

// comparison returns a row of a table that compares both sides. After its first cell and figureCells, it has more cells.
func (k *measurements) comparison(first, part, row, figure string, more ...string) string {
	return tableRow(slices.Concat([]string{first}, k.figureCells(part, row, figure), more)...)
}

// Against returns rows of a table that compares both sides. rowsAndFigures has a row, a figure of it, the next row, and so on.
func (k *measurements) Against(part string, rowsAndFigures ...string) (rows string) {
	for pair := range slices.Chunk(rowsAndFigures, 2) {
		row, figure := pair[0], pair[1]
		rows += k.comparison(row, part, row, figure, k.ratioCell(part, row, figure, byBaseline))
	}
	return rows
}

// Alone returns rows of a table of the part in which Rollcall is alone. rowsAndFigures is as in Against.
func (k *measurements) Alone(rowsAndFigures ...string) (rows string) {
	for pair := range slices.Chunk(rowsAndFigures, 2) {
		rows += tableRow(pair[0], figureTitle(pair[1]), k.rowSpread("alone", pair[0], "Rollcall", pair[1]).String())
	}
	return rows
}

// LinkMedians returns rows of the part links: the medians of a figure on both sides, for each delay.
func (k *measurements) LinkMedians(figure string, names ...string) (rows string) {
	for _, row := range names {
		cells := []string{row}
		for _, delay := range linkDelays {
			for _, side := range []string{baselineSide(linkPart(delay)), "Rollcall"} {
				cells = append(cells, k.rowSpread(linkPart(delay), row, side, figure).medianCell())
			}
		}
		rows += tableRow(cells...)
	}
	return rows
}

// medianCell returns the median, or "-" if there were no runs.
func (s spread) medianCell() string {
	if s.runs == 0 {
		return "-"
	}
	return formatNumber(s.median)
}
