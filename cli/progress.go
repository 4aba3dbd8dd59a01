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

	"rollcall/internal/screentext"
)

const (
	// progressAfter is the time without output before progress is shown.
	progressAfter = 2 * time.Second
	progressEvery = 200 * time.Millisecond
	// maxLull is the longest pause within one task, such as between two requests. After a longer one the
	// command has waited for its user, or for the next round of --watch.
	maxLull    = 100 * time.Millisecond
	barColumns = 30
	clearLine  = "\r\x1b[K"
)

// WithProgress returns w with a progress line on its terminal. The line appears after progressAfter without
// output, and is removed before any output. It does nothing if Err is no terminal.
func WithProgress(w IOStreams) IOStreams {
	if !w.ErrTerminal || w.progressLine != nil {
		return w
	}
	w.progressLine = &progressLine{out: w.Err, columns: w.ErrColumns}
	w.Err = progressErasingWriter{w.progressLine, w.Err}
	if w.OutTerminal {
		w.Out = progressErasingWriter{w.progressLine, w.Out}
	}
	return w
}

// Progress is work that the progress line may show. It is safe for concurrent use.
type Progress struct {
	line      *progressLine // nil: there is none
	what      string
	waitsOnly bool // for a reply; any other work is shown instead

	done, total atomic.Int64
}

// NewProgress starts work on total things named by what, such as nodes. A total of 0 is unknown. The caller
// must call Done.
func NewProgress(w IOStreams, what string, total int) *Progress {
	p := &Progress{line: w.progressLine, what: what}
	p.total.Store(int64(total))
	p.line.startWork(p)
	return p
}

// startWaiting starts waiting for a reply from addr. The caller must call Done.
func startWaiting(w IOStreams, addr string) *Progress {
	p := &Progress{line: w.progressLine, what: addr, waitsOnly: true}
	p.line.startWork(p)
	return p
}

// summarizeServers names a list of at least one server.
func summarizeServers(servers []string) string {
	if len(servers) == 1 {
		return servers[0]
	}
	return servers[0] + " and " + FormatCount(len(servers)-1, "other", "others")
}

// Add counts n more things as done.
func (p *Progress) Add(n int) { p.done.Add(int64(n)) }

// Set sets the number of things done.
func (p *Progress) Set(done int) { p.done.Store(int64(done)) }

// SetTotal sets the total number of things.
func (p *Progress) SetTotal(total int) { p.total.Store(int64(total)) }

// Done ends the work. It may be called again.
func (p *Progress) Done() { p.line.endWork(p) }

// lineText returns a bar if the total is known.
func (p *Progress) lineText() string {
	done, total := p.done.Load(), p.total.Load()
	switch {
	case total > 0:
		full := int(min(done, total) * barColumns / total)
		return fmt.Sprintf("[%s%s] %d of %d %s", strings.Repeat("=", full), strings.Repeat(" ", barColumns-full), done, total,
			p.what)
	case done > 0:
		return fmt.Sprintf("%d %s", done, p.what)
	case p.waitsOnly:
		return "waiting for " + p.what
	}
	return p.what
}

// progressLine draws the progress on a terminal. Its goroutine runs while there is work.
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

func (l *progressLine) drawUntil(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(l.drawIfDue(ctx)):
		}
	}
}

// drawIfDue returns the time until the next call.
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

// workToShow prefers the latest work that is not just waiting, and then the earliest wait.
func (l *progressLine) workToShow() *Progress {
	for _, p := range slices.Backward(l.activeWorks) {
		if !p.waitsOnly {
			return p
		}
	}
	return l.activeWorks[0]
}

// fitToTerminal truncates text so that the terminal does not wrap it: clearLine clears one line only.
func (l *progressLine) fitToTerminal(text string) string {
	columns := defaultColumns
	if l.columns != nil {
		columns = l.columns()
	}
	return screentext.Truncate(EscapeUnprintable(text), columns-1)
}

func (l *progressLine) eraseLine() {
	if l.drawn {
		_, _ = io.WriteString(l.out, clearLine) // nothing can be done about an error
	}
	l.drawn = false
}

// userEndedLine notes that the user has ended the terminal's line.
func (l *progressLine) userEndedLine() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.partialLine = false
	}
}

type progressErasingWriter struct {
	line *progressLine
	out  io.Writer
}

func (b progressErasingWriter) Write(text []byte) (int, error) {
	b.line.mu.Lock()
	defer b.line.mu.Unlock()
	b.line.eraseLine()
	b.line.quietSince = time.Now()
	if n := len(text); n > 0 {
		b.line.partialLine = text[n-1] != '\n'
	}
	return b.out.Write(text)
}

// progressTransport shows each HTTP request as work until its reply has been read. If a request fails because another
// kind of port is there, the error says so.
type progressTransport struct {
	streams IOStreams
	*http.Transport
	ports *portCheck // nil: the errors stay as they are
}

func (s *progressTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	work := startWaiting(s.streams, r.URL.Host)
	reply, err := s.Transport.RoundTrip(r)
	if err != nil {
		if s.ports != nil {
			err = s.ports.explainAdminError(r.Context(), r.URL.Scheme, r.URL.Host, err)
		}
		work.Done()
		return nil, err
	}
	reply.Body = replyBody{reply.Body, work}
	return reply, nil
}

type replyBody struct {
	io.ReadCloser
	work *Progress
}

func (b replyBody) Close() error {
	b.work.Done()
	return b.ReadCloser.Close()
}
