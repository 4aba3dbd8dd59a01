package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// progressAfter is for how long a command may be silent before it shows its progress.
	progressAfter = 2 * time.Second
	// progressEvery is how often the line is drawn.
	progressEvery = 200 * time.Millisecond
	// lull is the longest pause in which a command is still at the same work, such as a file between two
	// requests. After a longer one it has waited for its user, or for the next round of --watch.
	lull = 100 * time.Millisecond
	// barColumns is the length of the bar.
	barColumns = 30
	// clearLine goes to the beginning of a terminal's line and empties it.
	clearLine = "\r\x1b[K"
)

// WithProgress returns w with a line on its terminal for the progress of its commands. It is shown when they have
// worked for progressAfter without printing anything, and removed before they print. If Err is no terminal,
// there is none.
func WithProgress(w World) World {
	if !w.ErrTerminal || w.line != nil {
		return w
	}
	w.line = &line{out: w.Err, columns: w.Columns}
	w.Err = around{w.line, w.Err}
	if w.OutTerminal {
		w.Out = around{w.line, w.Out}
	}
	return w
}

// Progress is a work of a command that the line of its terminal may show. It is safe for concurrent use.
type Progress struct {
	line  *line // nil: there is none
	what  string
	waits bool // it only waits for an answer, and any other work says more

	done, total atomic.Int64
}

// NewProgress begins a work on total things; what names them, such as nodes. If total is 0, it is not known.
// The caller must call Done.
func NewProgress(w World, what string, total int) *Progress {
	p := &Progress{line: w.line, what: what}
	p.total.Store(int64(total))
	p.line.begin(p)
	return p
}

// waiting begins to wait for an answer of the server at an address. The caller must call Done.
func waiting(w World, addr string) *Progress {
	p := &Progress{line: w.line, what: addr, waits: true}
	p.line.begin(p)
	return p
}

// oneOf names servers of which one answers, in a few words. There is at least one.
func oneOf(servers []string) string {
	switch others := len(servers) - 1; others {
	case 0:
		return servers[0]
	case 1:
		return servers[0] + " and 1 other"
	default:
		return fmt.Sprintf("%s and %d others", servers[0], others)
	}
}

// Add counts n more things as done.
func (p *Progress) Add(n int) { p.done.Add(int64(n)) }

// Set sets how many things are done.
func (p *Progress) Set(done int) { p.done.Store(int64(done)) }

// Expect sets how many things have to be done in all.
func (p *Progress) Expect(total int) { p.total.Store(int64(total)) }

// Done ends the work. The line does not show it any more. It may be called again.
func (p *Progress) Done() { p.line.end(p) }

// text returns what the line says of the work: a bar if it is known how much there is to do.
func (p *Progress) text() string {
	done, total := p.done.Load(), p.total.Load()
	switch {
	case total > 0:
		full := int(min(done, total) * barColumns / total)
		return fmt.Sprintf("[%s%s] %d of %d %s", strings.Repeat("=", full), strings.Repeat(" ", barColumns-full), done, total, p.what)
	case done > 0:
		return fmt.Sprintf("%d %s", done, p.what)
	case p.waits:
		return "waiting for " + p.what
	}
	return p.what
}

// line is the line of a terminal that shows progress. Its goroutine lives as long as there is work.
type line struct {
	out     io.Writer  // the terminal
	columns func() int // of the terminal; nil: they are not known

	mu    sync.Mutex
	works []*Progress        // under way, in the order in which they began
	begun time.Time          // when the first of them did, or one before it without a lull between
	quiet time.Time          // since when nothing was printed meanwhile
	ended time.Time          // when there was work last
	drawn bool               // the line is on the terminal
	part  bool               // the terminal's line has a part of a line of the command's, which must stay
	stop  context.CancelFunc // ends the goroutine
}

func (l *line) begin(p *Progress) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.works = append(l.works, p); len(l.works) > 1 {
		return
	}
	if now := time.Now(); now.Sub(l.ended) > lull {
		l.begun, l.quiet = now, now
	}
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	go l.run(ctx)
}

func (l *line) end(p *Progress) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.works, p)
	if i < 0 {
		return // it has ended before
	}
	if l.works = slices.Delete(l.works, i, i+1); len(l.works) == 0 {
		l.ended = time.Now()
		l.stop()
		l.erase()
	}
}

// run draws the line until ctx ends.
func (l *line) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.draw(ctx)):
		}
	}
}

// draw draws the line, if it is due, and returns when to do so again.
func (l *line) draw(ctx context.Context) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	early := l.quiet.Add(progressAfter).Sub(now)
	switch {
	case early > 0:
		return early
	case ctx.Err() == nil && !l.part:
		text := fmt.Sprintf("%4.0f s  %s", now.Sub(l.begun).Seconds(), l.shown().text())
		_, _ = io.WriteString(l.out, clearLine+l.fitting(text)) // nothing can be done about an error
		l.drawn = true
	}
	return progressEvery
}

// shown returns the work that says most: the last one that does not only wait, or else the first one that does.
func (l *line) shown() *Progress {
	for _, p := range slices.Backward(l.works) {
		if !p.waits {
			return p
		}
	}
	return l.works[0]
}

// fitting returns the beginning of text that leaves the last column of the terminal free. In a longer text the
// terminal would go on in its next line, and clearLine would empty that one alone.
func (l *line) fitting(text string) string {
	columns := defaultColumns
	if l.columns != nil {
		columns = l.columns()
	}
	return firstColumns(Visible(text), columns-1)
}

// erase removes the line.
func (l *line) erase() {
	if l.drawn {
		_, _ = io.WriteString(l.out, clearLine) // nothing can be done about an error
	}
	l.drawn = false
}

// entered says that the user has ended the terminal's line.
func (l *line) entered() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.part = false
	}
}

// around is an output on the terminal of a line.
type around struct {
	line *line
	out  io.Writer
}

// Write implements io.Writer.
func (b around) Write(text []byte) (int, error) {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	b.line.erase()
	b.line.quiet = time.Now()
	if n := len(text); n > 0 {
		b.line.part = text[n-1] != '\n'
	}
	return b.out.Write(text)
}

// requests sends requests over HTTP. Each is a work that lasts until its answer has been read.
type requests struct {
	world World
	*http.Transport
}

// RoundTrip implements http.RoundTripper.
func (s *requests) RoundTrip(r *http.Request) (*http.Response, error) {
	work := waiting(s.world, r.URL.Host)
	answer, err := s.Transport.RoundTrip(r)
	if err != nil {
		work.Done()
		return nil, err
	}
	answer.Body = answerBody{answer.Body, work}
	return answer, nil
}

// answerBody is the body of an answer that is awaited.
type answerBody struct {
	io.ReadCloser
	work *Progress
}

// Close implements io.Closer.
func (b answerBody) Close() error {
	b.work.Done()
	return b.ReadCloser.Close()
}
