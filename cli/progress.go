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
	// maxLull is the longest pause in which a command is still at the same work, such as a file between two
	// requests. After a longer one it has waited for its user, or for the next round of --watch.
	maxLull = 100 * time.Millisecond
	// barColumns is the length of the bar.
	barColumns = 30
	// clearLine goes to the beginning of a terminal's line and empties it.
	clearLine = "\r\x1b[K"
)

// WithProgress returns w with a line on its terminal for the progress of its commands. It is shown when they have
// worked for progressAfter without printing anything, and removed before they print. If Err is no terminal,
// there is none.
func WithProgress(w IOStreams) IOStreams {
	if !w.ErrTerminal || w.progressLine != nil {
		return w
	}
	w.progressLine = &progressLine{out: w.Err, columns: w.ErrColumns}
	w.Err = lineWriter{w.progressLine, w.Err}
	if w.OutTerminal {
		w.Out = lineWriter{w.progressLine, w.Out}
	}
	return w
}

// Progress is a work of a command that the line of its terminal may show. It is safe for concurrent use.
type Progress struct {
	line      *progressLine // nil: there is none
	what      string
	waitsOnly bool // it only waits for an answer, and any other work says more

	done, total atomic.Int64
}

// NewProgress begins a work on total things; what names them, such as nodes. If total is 0, it is not known.
// The caller must call Done.
func NewProgress(w IOStreams, what string, total int) *Progress {
	p := &Progress{line: w.progressLine, what: what}
	p.total.Store(int64(total))
	p.line.startWork(p)
	return p
}

// startWaiting begins to wait for an answer of the server at an address. The caller must call Done.
func startWaiting(w IOStreams, addr string) *Progress {
	p := &Progress{line: w.progressLine, what: addr, waitsOnly: true}
	p.line.startWork(p)
	return p
}

// summarizeServers names servers of which one answers, in a few words. There is at least one.
func summarizeServers(servers []string) string {
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

// SetTotal sets how many things have to be done in all.
func (p *Progress) SetTotal(total int) { p.total.Store(int64(total)) }

// Done ends the work. The line does not show it any more. It may be called again.
func (p *Progress) Done() { p.line.endWork(p) }

// lineText returns what the line says of the work: a bar if it is known how much there is to do.
func (p *Progress) lineText() string {
	done, total := p.done.Load(), p.total.Load()
	switch {
	case total > 0:
		full := int(min(done, total) * barColumns / total)
		return fmt.Sprintf("[%s%s] %d of %d %s", strings.Repeat("=", full), strings.Repeat(" ", barColumns-full), done, total, p.what)
	case done > 0:
		return fmt.Sprintf("%d %s", done, p.what)
	case p.waitsOnly:
		return "waiting for " + p.what
	}
	return p.what
}

// progressLine is the line of a terminal that shows progress. Its goroutine lives as long as there is work.
type progressLine struct {
	out     io.Writer  // the terminal
	columns func() int // of the terminal; nil: they are not known

	mu          sync.Mutex
	activeWorks []*Progress        // under way, in the order in which they began
	startedAt   time.Time          // when the first of them did, or one before it without a lull between
	quietSince  time.Time          // since when nothing was printed meanwhile
	endedAt     time.Time          // when there was work last
	drawn       bool               // the line is on the terminal
	partialLine bool               // the terminal's line has a part of a line of the command's, which must stay
	stop        context.CancelFunc // ends the goroutine
}

func (l *progressLine) startWork(p *Progress) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.activeWorks = append(l.activeWorks, p); len(l.activeWorks) > 1 {
		return
	}
	if now := time.Now(); now.Sub(l.endedAt) > maxLull {
		l.startedAt, l.quietSince = now, now
	}
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	go l.drawUntil(ctx)
}

func (l *progressLine) endWork(p *Progress) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.activeWorks, p)
	if i < 0 {
		return // it has ended before
	}
	if l.activeWorks = slices.Delete(l.activeWorks, i, i+1); len(l.activeWorks) == 0 {
		l.endedAt = time.Now()
		l.stop()
		l.eraseLine()
	}
}

// drawUntil draws the line until ctx ends.
func (l *progressLine) drawUntil(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.drawIfDue(ctx)):
		}
	}
}

// drawIfDue draws the line, if it is due, and returns when to do so again.
func (l *progressLine) drawIfDue(ctx context.Context) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	early := l.quietSince.Add(progressAfter).Sub(now)
	switch {
	case early > 0:
		return early
	case ctx.Err() == nil && !l.partialLine:
		text := fmt.Sprintf("%4.0f s  %s", now.Sub(l.startedAt).Seconds(), l.workToShow().lineText())
		_, _ = io.WriteString(l.out, clearLine+l.fitToTerminal(text)) // nothing can be done about an error
		l.drawn = true
	}
	return progressEvery
}

// workToShow returns the work that says most: the last one that does not only wait, or else the first one that does.
func (l *progressLine) workToShow() *Progress {
	for _, p := range slices.Backward(l.activeWorks) {
		if !p.waitsOnly {
			return p
		}
	}
	return l.activeWorks[0]
}

// fitToTerminal returns the beginning of text that leaves the last column of the terminal free. In a longer text the
// terminal would go on in its next line, and clearLine would empty that one alone.
func (l *progressLine) fitToTerminal(text string) string {
	columns := defaultColumns
	if l.columns != nil {
		columns = l.columns()
	}
	return truncateColumns(EscapeUnprintable(text), columns-1)
}

// eraseLine removes the line.
func (l *progressLine) eraseLine() {
	if l.drawn {
		_, _ = io.WriteString(l.out, clearLine) // nothing can be done about an error
	}
	l.drawn = false
}

// noteEntered says that the user has ended the terminal's line.
func (l *progressLine) noteEntered() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.partialLine = false
	}
}

// lineWriter is an output on the terminal of a line.
type lineWriter struct {
	line *progressLine
	out  io.Writer
}

// Write implements io.Writer.
func (b lineWriter) Write(text []byte) (int, error) {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	b.line.eraseLine()
	b.line.quietSince = time.Now()
	if n := len(text); n > 0 {
		b.line.partialLine = text[n-1] != '\n'
	}
	return b.out.Write(text)
}

// progressTransport sends requests over HTTP. Each is a work that lasts until its answer has been read.
type progressTransport struct {
	streams IOStreams
	*http.Transport
}

// RoundTrip implements http.RoundTripper.
func (s *progressTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	work := startWaiting(s.streams, r.URL.Host)
	answer, err := s.Transport.RoundTrip(r)
	if err != nil {
		work.Done()
		return nil, err
	}
	answer.Body = replyBody{answer.Body, work}
	return answer, nil
}

// replyBody is the body of an answer that is awaited.
type replyBody struct {
	io.ReadCloser
	work *Progress
}

// Close implements io.Closer.
func (b replyBody) Close() error {
	b.work.Done()
	return b.ReadCloser.Close()
}
