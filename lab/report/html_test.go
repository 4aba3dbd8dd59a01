package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"rollcall/lab/result"
)

func TestHTML(t *testing.T) { golden(t, "report.html", written(t, WriteHTML, sample())) }

// The texts of the results are in the page, and none of them is an element or an attribute.
func TestHTMLIsEscaped(t *testing.T) {
	page := written(t, WriteHTML, hostile())
	checkElements(t, page)
	checkElements(t, written(t, formats["compare html"], hostile()))
	for _, word := range []string{
		"command", "software", "member", "clients", "title", "reason", "fault", "leader", "gap", "sessions", "rule",
		"promise", "page", "violation", "history",
	} {
		if !strings.Contains(page, word+"&lt;/script") {
			t.Errorf("the page lacks the text of %s", word)
		}
	}
}

// checkElements checks that a page has no element or attribute that reaches the network or runs.
func checkElements(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	active := []string{"script", "img", "link", "iframe", "object", "foreignObject", "image", "use"}
	seen := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		seen++
		if slices.Contains(active, start.Name.Local) {
			t.Errorf("the page has <%s>", start.Name.Local)
		}
		for _, a := range start.Attr {
			name := a.Name.Local
			external := name == "href" && !strings.HasPrefix(a.Value, "#")
			if strings.HasPrefix(name, "on") || name == "src" || name == "style" || external {
				t.Errorf("the page has %s=%q in <%s>", name, a.Value, start.Name.Local)
			}
		}
	}
	if seen < 30 {
		t.Errorf("%d elements were found", seen)
	}
}

// A leader's bar says as much as fits: member and term, the member, or nothing.
func TestLeadersAreNamed(t *testing.T) {
	d := result.Drill{Took: 1_000}
	for _, at := range []result.Millis{0, 400, 510, 545, 549} {
		d.Leaders = append(d.Leaders, result.Leader{At: at, Member: "2", Term: 7})
	}
	d.Leaders[3].Member = ""
	var texts []string
	for _, b := range axisOf(d, nil).Lanes[0].Bars {
		texts = append(texts, b.Text)
	}
	if want := []string{"member 2, term 7", "2, term 7", "2", "", "member 2, term 7"}; !slices.Equal(texts, want) {
		t.Errorf("the bars say %q, want %q", texts, want)
	}
}

// A page of a drill that ran often has only some of the runs in full: those that failed, and the slowest.
func TestManyRunsAreBounded(t *testing.T) {
	run := repeated(100)
	run.Drills[3].Outcome = result.Fail
	d := drillViewOf(groupByName(run.Drills)[0], "x", membersOf(run))
	var shown []int
	for _, r := range d.Runs {
		shown = append(shown, r.Repeat)
	}
	if want := []int{4, 92, 93, 94, 95, 96, 97, 98, 99, 100}; !slices.Equal(shown, want) || d.Others != 90 {
		t.Errorf("runs %v in full and %d others, want %v", shown, d.Others, want)
	}
	for _, s := range d.Repeated.Dots { // those of reads are one pile
		for _, dot := range s.Dots {
			if dot.X < plotLeft || dot.X > plotRight || dot.Y < dotRadius || dot.Y > s.Bottom-dotRadius {
				t.Errorf("a dot of %s is outside, at %v, %v", s.Name, dot.X, dot.Y)
			}
		}
	}
	page := written(t, WriteHTML, run)
	if n := strings.Count(page, `class="dot"`) + strings.Count(page, `class="cross"`); n != 200 {
		t.Errorf("%d dots, want one for each run, for writes and for reads", n)
	}
	if len(page) > 1<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

// No result makes an axis that leaves its picture, or a path without a bound.
func TestAxisIsBounded(t *testing.T) {
	d := leaderKill(1)
	d.Sessions = nil
	for i := range 200_000 {
		d.Sessions = append(d.Sessions, result.SessionCount{At: result.Millis(i) / 10, Connected: map[string]int{"1": i % 7}})
	}
	d.Faults = nil
	for i := range 100 {
		d.Faults = append(d.Faults, result.Fault{Text: fmt.Sprint("fault ", i), From: 100, To: 15_000})
	}
	d.Faults = append(d.Faults, result.Fault{Text: "before", From: -50, To: -10})
	d.Faults = append(d.Faults, result.Fault{Text: "not healed", From: 19_000})
	a := axisOf(d, []string{"1"})
	for _, l := range a.Lanes {
		for _, b := range l.Bars {
			if b.X < plotLeft || b.X+b.Width > plotRight+minBar || b.Y < a.PlotTop || b.Y+b.Height > a.PlotBottom {
				t.Errorf("lane %s: %+v is outside", l.Name, b)
			}
		}
		if len(l.Line) > 40_000 {
			t.Errorf("lane %s has a path of %d bytes", l.Name, len(l.Line))
		}
	}
	rows := map[px]bool{}
	for _, b := range a.Lanes[0].Bars {
		rows[b.Y] = true
	}
	if len(rows) != maxFaultRows || !strings.Contains(a.Lanes[0].Value, "in the table") {
		t.Errorf("%d rows of faults are drawn: %s", len(rows), a.Lanes[0].Value)
	}
	for _, span := range []result.Millis{1, 3, 99, 1_000, 20_000, 61_000, 3_600_000} {
		if n := float64(span / tickStep(span)); n > maxTicks || n < maxTicks/3 {
			t.Errorf("%v has %v ticks", span, n)
		}
	}
}
