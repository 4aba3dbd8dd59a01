package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"rollcall/internal/screentext"
	"rollcall/lab/result"
)

// Current is the drill that runs.
type Current struct {
	Name, Title string
	Repeat, Of  int // run Repeat of Of runs, from 1; Of is 0 or 1 if the drill is not repeated
	Number, All int // drill Number of All, from 1
}

// Numbers are the numbers of a moment.
type Numbers struct {
	At result.Millis // since the drill began
	// The time without an answer up to now, for clients that may use any member.
	WritePause, ReadPause result.Millis
	// The longest such time so far, the present one included.
	WriteGap, ReadGap        result.Millis
	Held, Suspended, Expired int           // sessions
	Left                     time.Duration // until all drills are done, about; 0: unknown
}

// LiveOptions describe where a Live is shown. The zero value is for a file or a pipe.
type LiveOptions struct {
	Terminal bool       // lines can be redrawn
	Columns  func() int // of the terminal. If it is nil, defaultColumns
	Colours  bool
}

// defaultColumns is the width of a terminal whose width is unknown.
const defaultColumns = 80

// longPauseAfter is the time without a reply after which a line reports it. An election takes less.
const longPauseAfter = result.Millis(1000)

// NewLive returns a Live that writes to w.
func NewLive(w io.Writer, o LiveOptions) *Live {
	if o.Columns == nil {
		o.Columns = func() int { return defaultColumns }
	}
	return &Live{out: w, options: o}
}

// Live shows the progress of drills. On a terminal it keeps a few lines that are redrawn, below the lines
// that stay. Elsewhere it prints a line when something changes. It starts no goroutine: it draws when it is called.
// Its methods do not fail, since a display that is gone is no reason to end a drill, and are safe for concurrent use.
type Live struct {
	out     io.Writer
	options LiveOptions

	mu      sync.Mutex
	drill   Current
	running bool
	closed  bool
	broken  []result.Fault
	last    Numbers
	pauses  [2]longPause // of writes and reads
	below   []string     // the lines that are redrawn
}

// longPause is a time without a reply that lines report.
type longPause struct {
	kind   string
	told   bool
	length result.Millis // as last passed to Now
}

// keepsLines reports whether lines are kept below the others.
func (l *Live) keepsLines() bool { return l.options.Terminal && !l.closed }

// Began begins a drill.
func (l *Live) Began(d Current) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drill, l.running, l.broken, l.last = d, true, nil, Numbers{}
	l.pauses = [2]longPause{{kind: writes}, {kind: reads}}
	if !l.keepsLines() {
		l.printLine(l.drillText() + ": " + d.Title)
	}
	l.redrawLines()
}

// Broke reports that a fault was made.
func (l *Live) Broke(f result.Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = append(l.broken, f)
	if !l.keepsLines() {
		l.printLine("broken: " + f.Text)
	}
	l.redrawLines()
}

// Healed reports that a fault was repaired. It takes the same Kind, Member and Text as Broke.
func (l *Live) Healed(f result.Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	same := func(b result.Fault) bool { return b.Kind == f.Kind && b.Member == f.Member && b.Text == f.Text }
	if i := slices.IndexFunc(l.broken, same); i >= 0 {
		l.broken = slices.Delete(l.broken, i, i+1)
	}
	if !l.keepsLines() {
		l.printLine("healed: " + f.Text)
	}
	l.redrawLines()
}

// Now updates the numbers. Call it a few times in each second.
func (l *Live) Now(n Numbers) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.last
	l.last = n
	if !l.keepsLines() {
		l.pauses[0].printChange(l, n.WritePause)
		l.pauses[1].printChange(l, n.ReadPause)
		if n.Expired != before.Expired || (n.Suspended == 0) != (before.Suspended == 0) {
			l.printLine(sessionsNow(n))
		}
	}
	l.redrawLines()
}

// printChange prints when a long pause begins and ends.
func (p *longPause) printChange(l *Live, length result.Millis) {
	switch {
	case length >= longPauseAfter && !p.told:
		p.told = true
		l.printLine(fmt.Sprintf("no %s has been answered for %s", p.kind, formatDuration(length)))
	case p.told && length < p.length: // it is another one, or none
		p.told = false
		l.printLine(fmt.Sprintf("%ss are answered again, after about %s", p.kind, formatDuration(p.length)))
	}
	p.length = length
}

// Ended ends the drill that began.
func (l *Live) Ended(d result.Drill) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = false
	g := drillGroup{name: d.Name, title: d.Title, runs: []result.Drill{d}}
	outcome := fmt.Sprintf("%-*s", len(result.NotRun), d.Outcome)
	if tint := outcomeTint(string(d.Outcome)); l.options.Colours {
		outcome = tint + outcome + tintReset
	}
	l.printRaw(outcome + "  " + screentext.Escape(d.Name+": "+g.outcomeSentence()))
	l.redrawLines()
}

// Say prints a line of the caller's, which stays.
func (l *Live) Say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.printLine(line)
	l.redrawLines()
}

// Close removes what does not stay. Later calls print lines only.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.eraseLines()
	l.closed = true
}

func (l *Live) printLine(line string) { l.printRaw(screentext.Escape(line)) }

// printRaw prints an escaped line above the lines that are redrawn.
func (l *Live) printRaw(line string) {
	l.eraseLines()
	_, _ = io.WriteString(l.out, line+"\n") // nothing can be done about an error
}

func (l *Live) eraseLines() {
	if n := len(l.below); n > 0 {
		_, _ = fmt.Fprintf(l.out, "\x1b[%dF\x1b[0J", n) // to the start of the first of them, and delete what follows
	}
	l.below = nil
}

// redrawLines redraws the lines below, if they changed.
func (l *Live) redrawLines() {
	if !l.keepsLines() {
		return
	}
	var lines []string
	if l.running {
		lines = l.liveLines()
	}
	if columns := l.options.Columns(); columns > 1 {
		for i := range lines { // a longer line would wrap, and erasing would leave its rest
			lines[i] = screentext.Truncate(lines[i], columns-1)
		}
	}
	if slices.Equal(lines, l.below) {
		return
	}
	l.eraseLines()
	if len(lines) > 0 {
		_, _ = io.WriteString(l.out, strings.Join(lines, "\n")+"\n")
	}
	l.below = lines
}

// liveLines returns the lines that are redrawn, escaped and without colours.
func (l *Live) liveLines() []string {
	n := l.last
	head := l.drillText()
	if n.Left > 0 {
		head += ", about " + n.Left.Round(time.Second).String() + " left"
	}
	lines := []string{
		"", head, "broken:   " + l.brokenText(),
		"writes:   " + pauseNow(n.WritePause, n.WriteGap), "reads:    " + pauseNow(n.ReadPause, n.ReadGap), sessionsNow(n),
	}
	for i := range lines {
		lines[i] = screentext.Escape(lines[i])
	}
	return lines
}

func (l *Live) drillText() string {
	text := fmt.Sprintf("drill %d of %d: %s", l.drill.Number, l.drill.All, l.drill.Name)
	if l.drill.Of > 1 {
		text += fmt.Sprintf(", run %d of %d", l.drill.Repeat, l.drill.Of)
	}
	return text
}

// brokenText names what is broken now, and for how long.
func (l *Live) brokenText() string {
	var parts []string
	for _, f := range l.broken {
		parts = append(parts, fmt.Sprintf("%s (%s)", f.Text, formatDuration(max(0, l.last.At-f.From))))
	}
	return cmp.Or(strings.Join(parts, "; "), "nothing")
}

func pauseNow(now, longest result.Millis) string {
	text := "longest pause " + formatDuration(longest)
	if now > result.PauseAfter {
		text += ", none answered for " + formatDuration(now)
	}
	return text
}

func sessionsNow(n Numbers) string {
	return fmt.Sprintf("sessions: %s held, %s suspended, %s expired",
		formatNumber(n.Held), formatNumber(n.Suspended), formatNumber(n.Expired))
}
