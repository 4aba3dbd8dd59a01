package report

import (
	"strings"
	"testing"
	"time"

	"rollcall/lab/result"
)

// showDrill shows a drill.
func showDrill(l display) {
	fault := result.Fault{Kind: "kill", Member: "2", Text: "kill -9 of member 2, the leader", From: 5_000}
	l.Say("the ensemble is well")
	l.Began(Current{Name: "leader-kill", Title: "The leader is killed", Repeat: 2, Of: 3, Number: 1, All: 9})
	l.Now(Numbers{At: 4_900, Held: 100, WriteGap: 12, ReadGap: 3, Left: 80 * time.Second})
	l.Broke(fault)
	for _, pause := range []result.Millis{300, 1_200, 1_400} {
		l.Now(Numbers{
			At: 5_000 + pause, Held: 60, Suspended: 40, WritePause: pause, WriteGap: pause, ReadGap: 20, Left: 79 * time.Second,
		})
	}
	l.Now(Numbers{At: 6_500, Held: 100, WriteGap: 1_430, ReadGap: 20, Left: 77 * time.Second})
	l.Healed(fault)
	l.Now(Numbers{At: 8_000, Held: 98, Expired: 2, WriteGap: 1_430, ReadGap: 20, Left: 75 * time.Second})
	d := leaderKill(2)
	l.Ended(d)
	l.Close()
	l.Say("healing \x1b[31m")
}

// Elsewhere than on a terminal a line is printed when something changes.
func TestLiveLines(t *testing.T) {
	var b strings.Builder
	showDrill(NewLive(&b, LiveOptions{}))
	golden(t, "live.txt", b.String())
}

// On a terminal, lines are redrawn, and those that stay are above them.
func TestLiveOnATerminal(t *testing.T) {
	s := &screen{t: t}
	l := NewLive(s, LiveOptions{Terminal: true, Columns: func() int { return 40 }, Colours: true})
	var frames strings.Builder
	showDrill(recorded{l, func() { frames.WriteString(s.text() + "--------\n") }})
	golden(t, "screen.txt", frames.String())
}

// A display that is closed while a drill runs, as after Ctrl-C, leaves nothing behind, and prints lines from then on.
func TestLiveClosesWhileADrillRuns(t *testing.T) {
	s := &screen{t: t}
	l := NewLive(s, LiveOptions{Terminal: true})
	l.Began(Current{Name: "cut", Number: 1, All: 1})
	l.Close()
	if len(s.lines) > 0 {
		t.Errorf("the screen keeps %q", s.lines)
	}
	l.Now(Numbers{At: 1_000})
	l.Healed(result.Fault{Text: "member 2 is cut off"})
	if got, want := s.text(), "healed: member 2 is cut off\n"; got != want {
		t.Errorf("the screen has %q, want %q", got, want)
	}
}

// No text of others reaches a terminal as it is.
func TestLiveEscapes(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var b strings.Builder
		l := NewLive(&b, LiveOptions{Terminal: terminal, Columns: func() int { return 1000 }})
		l.Began(Current{Name: "name" + nasty, Title: "title" + nasty})
		l.Broke(result.Fault{Text: "fault" + nasty})
		l.Healed(result.Fault{Text: "fault" + nasty})
		l.Ended(hostile().Drills[1])
		l.Say("line" + nasty)
		text := strings.NewReplacer("\n", "", "\x1b[0J", "", "\x1b[6F", "").Replace(b.String())
		if strings.ContainsAny(text, "\x1b\x00\u202e\u009b") || !strings.Contains(text, `\u202e`) {
			t.Errorf("terminal %t: %q", terminal, b.String())
		}
	}
}

// display is a Live, or a recorded one.
type display interface {
	Began(d Current)
	Broke(f result.Fault)
	Healed(f result.Fault)
	Now(n Numbers)
	Ended(d result.Drill)
	Say(line string)
	Close()
}

// recorded calls after each call of a Live.
type recorded struct {
	*Live
	after func()
}

func (r recorded) Began(d Current)       { r.Live.Began(d); r.after() }
func (r recorded) Broke(f result.Fault)  { r.Live.Broke(f); r.after() }
func (r recorded) Healed(f result.Fault) { r.Live.Healed(f); r.after() }
func (r recorded) Now(n Numbers)         { r.Live.Now(n); r.after() }
func (r recorded) Ended(d result.Drill)  { r.Live.Ended(d); r.after() }
func (r recorded) Say(line string)       { r.Live.Say(line); r.after() }
func (r recorded) Close()                { r.Live.Close(); r.after() }

// screen is a terminal that knows the sequences that a Live uses.
type screen struct {
	t     *testing.T
	lines []string
}

func (s *screen) Write(p []byte) (int, error) {
	text := string(p)
	if up, ok := strings.CutPrefix(text, "\x1b["); ok && strings.HasSuffix(up, "F\x1b[0J") {
		n := int(up[0] - '0')
		if len(up) != len("6F\x1b[0J") || n > len(s.lines) {
			s.t.Fatalf("%q with %d lines", text, len(s.lines))
		}
		s.lines = s.lines[:len(s.lines)-n]
		return len(p), nil
	}
	if !strings.HasSuffix(text, "\n") {
		s.t.Fatalf("%q does not end its line", text)
	}
	s.lines = append(s.lines, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	return len(p), nil
}

func (s *screen) text() string { return strings.Join(s.lines, "\n") + "\n" }
