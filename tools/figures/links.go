package main

import (
	"fmt"
	"slices"
	"strings"
)

// linkDelays are the delays of links between members, in ms each way.
var linkDelays = []string{"1", "5", "25"}

// linkFigures are the values of the table of links. The others are in the measurements.
var linkFigures = []string{
	"p50", "p99", "longest gap of writes", "longest gap of reads at the others", "sessions lost", "acknowledged writes lost", "seconds",
}

// linkPart returns the part with the measurements of a delay.
func linkPart(delay string) string { return "links-" + delay + "ms" }

// HasLinks reports whether members were measured over links with a delay.
func (k *measurements) HasLinks() bool {
	return slices.ContainsFunc(linkDelays, func(delay string) bool { return len(k.runsByPart[linkPart(delay)]) > 0 })
}

// Links returns the table of the part links: the medians of both sides, in columns for each delay.
func (k *measurements) Links() string {
	var b strings.Builder
	b.WriteString("| case | figure |")
	for _, delay := range linkDelays {
		fmt.Fprintf(&b, " %s ms: ZooKeeper | Rollcall |", delay)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", 2*len(linkDelays)) + "\n")
	var parts []string
	for _, delay := range linkDelays {
		parts = append(parts, linkPart(delay))
	}
	for _, t := range k.targets {
		if t.part != "links" {
			continue
		}
		name := t.row
		for _, figure := range linkFigures {
			if !k.hasFigure(parts, t.row, figure) {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s |", name, figureTitle(figure))
			for _, part := range parts {
				fmt.Fprintf(&b, " %s | %s |", k.rowSpread(part, t.row, k.baselineSide(part), figure).medianCell(),
					k.rowSpread(part, t.row, "Rollcall", figure).medianCell())
			}
			b.WriteByte('\n')
			name = ""
		}
	}
	return b.String() + k.remarkLines(parts)
}

// hasFigure reports whether a figure of a row was measured in any of the parts.
func (k *measurements) hasFigure(parts []string, row, figure string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(k.figureNames(part, row), figure) })
}
