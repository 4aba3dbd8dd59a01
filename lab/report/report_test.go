package report

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"rollcall/internal/screentext"
	"rollcall/lab/result"
)

// formats are all formats, each with what writes it.
var formats = map[string]func(io.Writer, result.Run) error{
	"html": WriteHTML, "junit": WriteJUnit, "json": WriteJSON, "text": plainText,
	"compare html": func(w io.Writer, r result.Run) error { return Compare(r, r).WriteHTML(w) },
	"compare text": func(w io.Writer, r result.Run) error { return Compare(r, r).WriteText(w, TextOptions{}) },
}

// Nothing in a text, a page or a test report is obeyed by a terminal, also if a drill is repeated.
func TestNamesAreEscaped(t *testing.T) {
	once, repeats := hostile(), hostile()
	for i := range repeats.Drills {
		repeats.Drills[i].Name = "repeated" + nasty
	}
	for name, write := range formats {
		for _, run := range []result.Run{once, repeats} {
			text := strings.ReplaceAll(written(t, write, run), "\n", "")
			if screentext.Escape(text) != text {
				t.Errorf("%s has characters that are not printable", name)
			}
		}
	}
}

// The pause of a drill is the pause of the clients that may use any member, not of the clients of one member.
func TestLongestPause(t *testing.T) {
	d := result.Drill{Gaps: []result.Gap{
		{Member: "1", Kind: writes, Longest: span(0, 900)},
		{Kind: reads, Longest: span(0, 5)},
		{Kind: writes, Longest: span(10, 40)},
	}}
	if got, ok := longestPause(d, writes); got != 30 || !ok {
		t.Errorf("the longest pause is %v, %t", got, ok)
	}
	if _, ok := longestPause(result.Drill{Gaps: d.Gaps[:2]}, writes); ok {
		t.Error("the pause of one member is that of the drill")
	}
}

// What a manager reads of a drill.
func TestSentence(t *testing.T) {
	passed, failed := result.Drill{Outcome: result.Pass}, result.Drill{Outcome: result.Fail, Reason: "it did not get well"}
	notRun := result.Drill{Outcome: result.NotRun, Reason: "needs root."}
	kept := passed
	kept.Verdicts = []result.Verdict{{Outcome: result.Pass}, {Outcome: result.NotRun}}
	lost := result.Drill{Outcome: result.Fail, Verdicts: []result.Verdict{{Rule: "lost-writes", Outcome: result.Fail}}}
	tests := []struct {
		runs []result.Drill
		want string
	}{
		{[]result.Drill{passed}, "No promise was judged."},
		{[]result.Drill{failed}, "No promise was judged. It did not get well."},
		{[]result.Drill{notRun}, "It did not run: needs root."},
		{[]result.Drill{kept}, "The only promise that was judged was kept."},
		{[]result.Drill{lost}, "Of 1 promise, 1 was broken: lost-writes."},
		{[]result.Drill{kept, kept}, "All 2 runs passed."},
		{[]result.Drill{kept, lost}, "Of 2 runs, 1 passed and 1 failed. Broken: lost-writes."},
		{[]result.Drill{kept, notRun, lost}, "Of 3 runs, 1 passed, 1 failed and 1 did not run. Broken: lost-writes."},
		{[]result.Drill{notRun, notRun}, "None of the 2 runs took place: needs root."},
	}
	for _, tt := range tests {
		if got := (drillGroup{runs: tt.runs}).outcomeSentence(); got != tt.want {
			t.Errorf("the sentence is %q, want %q", got, tt.want)
		}
	}
}

// An error of the writer comes back.
func TestErrorsOfWriters(t *testing.T) {
	for name, write := range formats {
		whole := &limited{left: 1 << 20}
		if err := write(whole, sample()); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, whole.written.Len() - 1} {
			if err := write(&limited{left: n}, sample()); !errors.Is(err, errFull) {
				t.Errorf("%s after %d bytes: %v", name, n, err)
			}
		}
	}
}

var errFull = errors.New("full")

// limited is a writer that fails once it is full.
type limited struct {
	left    int
	written bytes.Buffer
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, errFull
	}
	l.left -= len(p)
	return l.written.Write(p)
}

func TestDuration(t *testing.T) {
	tests := map[result.Millis]string{
		0: "0 ms", 3.24: "3.2 ms", 9.96: "10 ms", 412.4: "412 ms", 999.6: "1.00 s", 3_204: "3.20 s", 12_340: "12.3 s",
		119_960: "2 min 0 s", 123_400: "2 min 3 s",
	}
	for m, want := range tests {
		if got := formatDuration(m); got != want {
			t.Errorf("duration(%v) = %q, want %q", float64(m), got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	tests := map[int]string{0: "0", 999: "999", 1000: "1,000", 12345: "12,345", 123456: "123,456", 1234567: "1,234,567"}
	for n, want := range tests {
		if got := formatNumber(n); got != want {
			t.Errorf("number(%d) = %q", n, got)
		}
	}
}
