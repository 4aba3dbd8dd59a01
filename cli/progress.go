package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// progressAfter is for how long a command may be silent before it shows its progress.
	progressAfter = 2 * time.Second
	// progressEvery is how often the line is drawn.
	progressEvery = 200 * time.Millisecond
	// barColumns is the length of the bar.
	barColumns = 30
)

// progress shows on a terminal how far a command is, once it has run for progressAfter. It is safe for
// concurrent use.
type progress struct {
	world World
	what  string
	begun time.Time
	stop  func()        // ends run
	over  chan struct{} // closed when run has ended

	done, total atomic.Int64
}

// newProgress begins to show how many of total things are done; what names them, such as nodes. If total is
// 0, it is not known. The caller must call Done, before it prints anything else on the terminal.
func newProgress(w World, what string, total int) *progress {
	ctx, stop := context.WithCancel(context.Background())
	p := &progress{world: w, what: what, begun: time.Now(), stop: stop, over: make(chan struct{})}
	p.total.Store(int64(total))
	if !w.ErrTerminal {
		close(p.over)
		return p
	}
	go p.run(ctx)
	return p
}

// Add counts n more things as done.
func (p *progress) Add(n int) { p.done.Add(int64(n)) }

// Expect sets how many things have to be done in all.
func (p *progress) Expect(total int) { p.total.Store(int64(total)) }

// Done removes the line. Nothing is drawn after it. It may be called again.
func (p *progress) Done() {
	p.stop()
	<-p.over
}

// run draws the line until ctx ends, and removes it.
func (p *progress) run(ctx context.Context) {
	defer close(p.over)
	select {
	case <-ctx.Done():
		return
	case <-time.After(progressAfter):
	}
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		_, _ = io.WriteString(p.world.Err, clearLine+p.line(time.Since(p.begun))) // nothing can be done about an error
		select {
		case <-ctx.Done():
			_, _ = io.WriteString(p.world.Err, clearLine)
			return
		case <-ticker.C:
		}
	}
}

// clearLine goes to the beginning of a terminal's line and empties it.
const clearLine = "\r\x1b[K"

// line returns the line after so much time: a bar if it is known how much there is to do.
func (p *progress) line(after time.Duration) string {
	done, total := p.done.Load(), p.total.Load()
	begin := fmt.Sprintf("%4.0f s  ", after.Seconds())
	switch {
	case total > 0:
		full := int(min(done, total) * barColumns / total)
		return fmt.Sprintf("%s[%s%s] %d of %d %s", begin, strings.Repeat("=", full), strings.Repeat(" ", barColumns-full), done, total, p.what)
	case done > 0:
		return fmt.Sprintf("%s%d %s", begin, done, p.what)
	}
	return begin + p.what
}
