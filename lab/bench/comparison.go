package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteComparison writes a comparison as a plain-text table.
func WriteComparison(w io.Writer, c *Comparison) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var b strings.Builder
	fmt.Fprintf(&b, "case\tfigure\t%s\t(least-most)\t%s\t(least-most)\t%s/%s\t\n", c.A, c.B, c.B, c.A)
	for i := range c.Cases {
		m := &c.Cases[i]
		name := m.Case
		for j := range m.Figures {
			f := &m.Figures[j]
			if f.isUnmeasured() {
				continue
			}
			fmt.Fprintf(&b, "%s\t%s\t%s\t(%s-%s)\t%s\t(%s-%s)\t%s\t\n", name, f.nameWithUnit(),
				formatNumber(f.A.Median), formatNumber(f.A.Min), formatNumber(f.A.Max),
				formatNumber(f.B.Median), formatNumber(f.B.Min), formatNumber(f.B.Max), f.ratioText())
			name = ""
		}
		for _, remark := range c.remarksOn(m) {
			fmt.Fprintf(&b, "\t%s\n", remark)
		}
	}
	if _, err := io.WriteString(tw, b.String()); err != nil {
		return err
	}
	return tw.Flush()
}

// WriteMarkdown writes a comparison as Markdown tables, and lists where B is worse than A.
func WriteMarkdown(w io.Writer, c *Comparison) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d runs each, by turns; in brackets the least and the greatest.\n\n", c.Rounds)
	fmt.Fprintf(&b, "| case | figure | %s | %s | %s/%s |\n|---|---|---|---|---|\n", c.A, c.B, c.B, c.A)
	var behind, remarks []string
	for i := range c.Cases {
		m := &c.Cases[i]
		name := m.Case
		for j := range m.Figures {
			f := &m.Figures[j]
			if f.isUnmeasured() {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, f.nameWithUnit(), f.A, f.B, f.ratioText())
			name = ""
			if f.IsWorse() {
				behind = append(behind, fmt.Sprintf("* %s, %s: %s and %s (%s)", m.Case, f.nameWithUnit(), formatNumber(f.A.Median),
					formatNumber(f.B.Median), f.ratioText()))
			}
		}
		for _, remark := range c.remarksOn(m) {
			remarks = append(remarks, "* "+m.Case+": "+remark)
		}
	}
	if len(remarks) > 0 {
		fmt.Fprintf(&b, "\n%s\n", strings.Join(remarks, "\n"))
	}
	fmt.Fprintf(&b, "\n### Where %s is behind\n\n", c.B)
	if len(behind) == 0 {
		behind = []string{"Nowhere in this table."}
	}
	b.WriteString(strings.Join(behind, "\n") + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// remarksOn returns the reasons that make a case's values less reliable.
func (c *Comparison) remarksOn(m *CaseComparison) []string {
	var list []string
	for side, name := range []string{c.A, c.B} {
		if n := m.Void[side]; n > 0 {
			list = append(list, fmt.Sprintf("void: %d of %d runs on %s, in which the tool used more than a third of the "+
				"servers' CPU", n, c.Rounds, name))
		}
		if n := m.Errors[side]; n > 0 {
			list = append(list, fmt.Sprintf("%d errors on %s", n, name))
		}
	}
	return list
}

// isUnmeasured reports whether the value is missing because no process was given.
func (f *FigurePair) isUnmeasured() bool { return f.A.Max == 0 && f.B.Max == 0 && f.Unit != unitCount }

func (f *FigurePair) nameWithUnit() string {
	if f.Unit == unitCount || f.Unit == unitRate {
		return f.Name
	}
	return f.Name + ", " + f.Unit
}

func (f *FigurePair) ratioText() string {
	if f.Ratio == nil {
		return "-"
	}
	return formatNumber(*f.Ratio) + "x"
}

// String returns the median, with the spread in brackets.
func (s Spread) String() string {
	return fmt.Sprintf("%s (%s-%s)", formatNumber(s.Median), formatNumber(s.Min), formatNumber(s.Max))
}
