package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"rollcall/internal/screentext"
	"rollcall/lab/result"
)

// The measures of a time axis, in units of its view box. A unit is a pixel if the page is wide enough.
const (
	axisWidth   = 1040
	plotLeft    = 150 // the names of the lanes are left of it
	plotRight   = 890 // and their numbers right of this
	barHeight   = 16
	laneGap     = 8
	headHeight  = 22 // the heading above a group of lanes
	stepsHeight = 26
	charWidth   = 6.6 // about, of the text in a bar
	nameColumns = 21  // the characters of a lane's name that fit left of the plot
	minBar      = 2   // a shorter bar would not be seen
	minLabel    = 60  // a shorter bar holds no text that says anything
	// maxFaultRows is the number of rows for faults that overlap. With more, the lanes below would leave the screen;
	// the table of faults has all of them.
	maxFaultRows = 12
	// maxTicks is the number of marks on the axis that have room for their text.
	maxTicks = 10
)

// px is a number of units, formatted with one decimal.
type px float64

// String implements fmt.Stringer.
func (p px) String() string { return strconv.FormatFloat(math.Round(float64(p)*10)/10, 'f', -1, 64) }

// timeAxis is the picture of one run of a drill: one time axis, and lanes.
type timeAxis struct {
	Title, Desc string
	Width       px
	Height      px
	PlotLeft    px
	PlotRight   px
	PlotTop     px
	PlotBottom  px
	Bands       []bar // the times of faults, behind all lanes
	Heads       []label
	Lanes       []lane
	Ticks       []tick

	span result.Millis
	y    px // where the next lane begins
}

type label struct {
	Y    px
	Text string
}

type tick struct {
	X    px
	Text string
}

type lane struct {
	Name     string
	Title    string // the whole name; "": Name is
	Value    string // right of it
	Y        px
	Middle   px // of its text
	Height   px
	Bottom   px
	Bars     []bar
	Marks    []mark
	Line     string // the path of a line of steps
	Area     string // and of the area below it
	Baseline bool
}

type bar struct {
	X, Y, Width, Height px
	TextX, TextY        px
	Text                string // in the bar, or right of it
	Title               string
	Class               string
}

type mark struct {
	X, Y  px
	Title string
}

// axisOf draws a run of a drill on an ensemble.
func axisOf(d result.Drill, members []string) *timeAxis {
	a := &timeAxis{
		Title: "What happened in " + screentext.Escape(d.Name), Width: axisWidth, PlotLeft: plotLeft, PlotRight: plotRight,
		span: spanOf(d), y: 4,
	}
	a.Desc = a.describeDrill(d)
	a.PlotTop = a.y
	a.addFaults(d.Faults)
	a.addLeaders(d.Leaders)
	a.addGaps("Writes", writes, d.Gaps)
	a.addGaps("Reads", reads, d.Gaps)
	a.addSessions(d.Sessions, members)
	a.addViolations(d.Verdicts)
	a.addTicks()
	return a
}

// spanOf returns the end of the axis, which no event is after.
func spanOf(d result.Drill) result.Millis {
	span := max(1, d.Took)
	for _, f := range d.Faults {
		span = max(span, f.From, f.To)
	}
	for _, l := range d.Leaders {
		span = max(span, l.At)
	}
	for _, g := range d.Gaps {
		span = max(span, g.Longest.To)
	}
	for _, s := range d.Sessions {
		span = max(span, s.At)
	}
	return span
}

func (a *timeAxis) describeDrill(d result.Drill) string {
	var parts []string
	for _, f := range d.Faults {
		parts = append(parts, fmt.Sprintf("%s, from %s to %s", screentext.Escape(f.Text), formatMoment(f.From), healedText(f)))
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing was broken")
	}
	return fmt.Sprintf("A time axis of %s. Faults: %s.%s The tables below have the same numbers.", formatDuration(a.span),
		strings.Join(parts, "; "), pausesSentence([]result.Drill{d}))
}

// xOf returns the place of a time.
func (a *timeAxis) xOf(at result.Millis) px {
	return placeOf(min(max(at, 0), a.span), a.span)
}

// placeOf returns the place of a time in a plot that ends at most.
func placeOf(at, most result.Millis) px {
	return plotLeft + px(float64(at)/float64(most)*(plotRight-plotLeft))
}

// addHead begins a group of lanes.
func (a *timeAxis) addHead(text string) {
	a.Heads = append(a.Heads, label{a.y + 14, text})
	a.y += headHeight
}

// addLane adds a lane of the given height.
func (a *timeAxis) addLane(l lane, height px) {
	if screentext.Columns(l.Name) > nameColumns {
		l.Title, l.Name = l.Name, screentext.Truncate(l.Name, nameColumns-1)+"…"
	}
	l.Y, l.Height, l.Middle, l.Bottom = a.y, height, a.y+height/2+4, a.y+height
	a.Lanes = append(a.Lanes, l)
	a.y += height + laneGap
}

// newBar returns a bar in the lane that is added next.
func (a *timeAxis) newBar(from, to result.Millis, class, text, title string) bar {
	x := a.xOf(from)
	b := bar{X: x, Y: a.y, Width: max(minBar, a.xOf(to)-x), Height: barHeight, Title: screentext.Escape(title), Class: class}
	b.placeText(screentext.Escape(text))
	return b
}

// placeText puts the text into the bar if it fits, and else right of it, or left of it at the end of the axis. Text that
// has no room is cut, or left out of a short bar. Tables have it in full.
func (b *bar) placeText(text string) {
	wide := px(charWidth * float64(screentext.Columns(text)))
	b.Text, b.TextY = text, b.Y+barHeight/2+4
	switch {
	case wide+8 <= b.Width:
		b.TextX = b.X + 5
		b.Class += " holds"
	case b.X+b.Width+4+wide <= plotRight:
		b.TextX = b.X + b.Width + 4
	case b.X-4-wide >= plotLeft:
		b.TextX = b.X - 4 - wide
	case b.Width > minLabel:
		b.Text = screentext.Truncate(text, int((b.Width-12)/charWidth)-1) + "…"
		b.TextX = b.X + 5
		b.Class += " holds"
	default:
		b.Text = ""
	}
}

// holdsText reports whether the text is in the bar.
func (b *bar) holdsText() bool { return strings.HasSuffix(b.Class, " holds") }

// rightEnd returns the right end of a bar and its text.
func (b *bar) rightEnd() px {
	return max(b.X+b.Width, b.TextX+px(charWidth*float64(screentext.Columns(b.Text))))
}

func isHealed(f result.Fault) bool { return f.To >= f.From && f.To > 0 }

func healedText(f result.Fault) string {
	if isHealed(f) {
		return formatMoment(f.To)
	}
	return "the end"
}

// addFaults adds a row for each fault that overlaps others.
func (a *timeAxis) addFaults(faults []result.Fault) {
	if len(faults) == 0 {
		return
	}
	a.addHead("Faults")
	top, rows, left := a.y, []px{}, 0 // rows has the right end of each row
	var bars []bar
	earlier := func(x, y result.Fault) int { return cmp.Compare(x.From, y.From) }
	for _, f := range slices.SortedStableFunc(slices.Values(faults), earlier) {
		to := f.To
		if !isHealed(f) {
			to = a.span
		}
		b := a.newBar(f.From, to, "fault", f.Text, fmt.Sprintf("%s: from %s to %s", f.Text, formatMoment(f.From), healedText(f)))
		a.Bands = append(a.Bands, bar{X: b.X, Width: b.Width})
		row := slices.IndexFunc(rows, func(end px) bool { return end+6 < min(b.X, cmp.Or(b.TextX, b.X)) })
		switch {
		case row < 0 && len(rows) == maxFaultRows:
			left++
			continue
		case row < 0:
			row, rows = len(rows), append(rows, 0)
		}
		shift := px(row * (barHeight + 3))
		b.Y, b.TextY = b.Y+shift, b.TextY+shift
		rows[row] = b.rightEnd()
		bars = append(bars, b)
	}
	a.y = top
	l := lane{Name: "broken", Bars: bars, Value: countText(len(faults), "fault", "faults")}
	if left > 0 {
		l.Value = fmt.Sprintf("%s, %d in the table", l.Value, left)
	}
	a.addLane(l, px(len(rows)*(barHeight+3)-3))
}

// addLeaders adds one lane with the leaders and their terms.
func (a *timeAxis) addLeaders(leaders []result.Leader) {
	if len(leaders) == 0 {
		return
	}
	a.addHead("Leader")
	l := lane{Name: "leader, term", Value: countText(countLeaderChanges(leaders), "change", "changes")}
	for i, at := range leaders {
		to := a.span
		if i+1 < len(leaders) {
			to = leaders[i+1].At
		}
		text, class := leaderText(at), "leader"
		if at.Member == "" {
			class = "nobody"
		}
		title := fmt.Sprintf("%s: from %s to %s", text, formatMoment(at.At), formatMoment(to))
		var b bar
		for _, short := range []string{text, strings.TrimPrefix(text, "member "), at.Member} { // there is no room beside it
			if b = a.newBar(at.At, to, class, short, title); b.holdsText() {
				break
			}
		}
		if !b.holdsText() {
			b.Text = ""
		}
		l.Bars = append(l.Bars, b)
	}
	a.addLane(l, barHeight)
}

func leaderText(l result.Leader) string {
	switch {
	case l.Member == "":
		return "none known"
	case l.Term == 0:
		return "member " + l.Member
	}
	return fmt.Sprintf("member %s, term %d", l.Member, l.Term)
}

// countLeaderChanges counts how often another member began to lead.
func countLeaderChanges(leaders []result.Leader) int {
	n, last := 0, ""
	for _, l := range leaders {
		if l.Member == "" || l.Member == last {
			continue
		}
		if last != "" {
			n++
		}
		last = l.Member
	}
	return n
}

// addGaps adds a lane for each member that was written to or read from.
func (a *timeAxis) addGaps(head, kind string, gaps []result.Gap) {
	gaps = slices.DeleteFunc(slices.Clone(gaps), func(g result.Gap) bool { return g.Kind != kind })
	if len(gaps) > 0 {
		a.addHead(head + " without an answer")
	}
	for _, g := range gaps {
		l := lane{Name: memberName(g.Member), Value: "longest " + formatDuration(lengthOf(g.Longest)), Baseline: true}
		for _, p := range drawnPauses(g) {
			text := ""
			if p == g.Longest {
				text = formatDuration(lengthOf(p))
			}
			title := fmt.Sprintf("no %s was answered from %s to %s, for %s", kind, formatMoment(p.From), formatMoment(p.To),
				formatDuration(lengthOf(p)))
			l.Bars = append(l.Bars, a.newBar(p.From, p.To, "pause", text, title))
		}
		a.addLane(l, barHeight)
	}
}

// drawnPauses returns the pauses of a gap's lane: those that are listed, and the longest one, however short it is.
func drawnPauses(g result.Gap) []result.Interval {
	if lengthOf(g.Longest) == 0 || slices.Contains(g.Pauses, g.Longest) {
		return g.Pauses
	}
	return append(slices.Clone(g.Pauses), g.Longest)
}

func memberName(name string) string {
	if name == anyMember {
		return "any member"
	}
	return "member " + screentext.Escape(name)
}

// addSessions adds a lane for each member, and those of the suspended and expired sessions.
func (a *timeAxis) addSessions(counts []result.SessionCount, members []string) {
	if len(counts) == 0 {
		return
	}
	a.addHead("Sessions")
	for _, m := range members {
		a.addSteps(memberName(m), counts, func(c result.SessionCount) int { return c.Connected[m] })
	}
	a.addSteps("suspended", counts, func(c result.SessionCount) int { return c.Suspended })
	a.addSteps("expired so far", counts, func(c result.SessionCount) int { return c.Expired })
}

// addSteps adds a lane with a line of steps.
func (a *timeAxis) addSteps(name string, counts []result.SessionCount, of func(result.SessionCount) int) {
	least, most := of(counts[0]), of(counts[0])
	for _, c := range counts {
		least, most = min(least, of(c)), max(most, of(c))
	}
	l := lane{Name: name, Value: formatNumber(most), Baseline: true}
	if least != most {
		l.Value = formatNumber(least) + " to " + formatNumber(most)
	}
	bottom := a.y + stepsHeight
	height := func(n int) px { return bottom - px(n)*(stepsHeight-2)/px(max(1, most)) }
	s := stepPath{}
	for _, c := range counts {
		s.addStep(a.xOf(c.At), height(of(c)))
	}
	s.flushStep()
	l.Line = fmt.Sprintf("%sH%s", s.path.String(), px(plotRight))
	l.Area = fmt.Sprintf("%sV%sH%sZ", l.Line, bottom, s.first)
	a.addLane(l, stepsHeight)
}

// stepPath makes the path of a line of steps. Steps within half a unit are drawn as one, over their whole range, so that
// the path has a bound.
type stepPath struct {
	path  strings.Builder
	first px
	begun bool
	y     px // where the path is
	// The steps that are not in the path yet: where they are, how far up and down they go, and where they end.
	x, top, bottom, last px
}

// addStep adds a step at x to y. The steps must come in the order of x.
func (s *stepPath) addStep(x, y px) {
	switch {
	case !s.begun:
		s.begun, s.first, s.x, s.y, s.top, s.bottom, s.last = true, x, x, y, y, y, y
		fmt.Fprintf(&s.path, "M%s %s", x, y)
		return
	case y == s.last: // no step
		return
	case x-s.x >= .5:
		s.flushStep()
		s.x, s.top, s.bottom = x, s.y, s.y
	}
	s.top, s.bottom, s.last = min(s.top, y), max(s.bottom, y), y
}

// flushStep adds the steps at s.x to the path.
func (s *stepPath) flushStep() {
	if s.top == s.y && s.bottom == s.y {
		return
	}
	fmt.Fprintf(&s.path, "H%s", s.x)
	for _, y := range []px{s.top, s.bottom, s.last} {
		if y != s.y {
			fmt.Fprintf(&s.path, "V%s", y)
			s.y = y
		}
	}
}

// addViolations marks when promises were broken.
func (a *timeAxis) addViolations(verdicts []result.Verdict) {
	l, n := lane{Name: "violations"}, 0
	for _, v := range verdicts {
		n += countViolations(v)
		for _, at := range v.Violations {
			title := screentext.Escape(fmt.Sprintf("%s: %s at %s", v.Rule, at.Text, formatMoment(at.At)))
			l.Marks = append(l.Marks, mark{a.xOf(at.At), a.y + headHeight + barHeight/2, title})
		}
	}
	if n == 0 {
		return
	}
	a.addHead("Broken promises")
	l.Value, l.Baseline = formatNumber(n), true
	a.addLane(l, barHeight)
}

// addTicks ends the picture with the marks of time.
func (a *timeAxis) addTicks() {
	a.PlotBottom = a.y
	for i := range a.Bands {
		a.Bands[i].Y, a.Bands[i].Height = a.PlotTop, a.PlotBottom-a.PlotTop
	}
	a.Ticks, a.Height = ticksUpTo(a.span), a.y+24
}

// ticksUpTo returns the marks of time of a plot that ends at most.
func ticksUpTo(most result.Millis) (ticks []tick) {
	step := tickStep(most)
	for at := result.Millis(0); at <= most; at += step {
		ticks = append(ticks, tick{placeOf(at, most), tickText(at, step)})
	}
	return ticks
}

// tickStep returns 1, 2 or 5 times a power of ten, so that there are at most maxTicks.
func tickStep(span result.Millis) result.Millis {
	step := math.Pow(10, math.Floor(math.Log10(float64(span)/maxTicks)))
	for _, by := range []float64{1, 2, 5} {
		if float64(span)/(by*step) <= maxTicks {
			return result.Millis(by * step)
		}
	}
	return result.Millis(10 * step)
}

func tickText(at, step result.Millis) string {
	decimals := max(0, int(math.Ceil(3-math.Log10(float64(step))-1e-9)))
	return strconv.FormatFloat(float64(at)/1000, 'f', decimals, 64) + " s"
}
