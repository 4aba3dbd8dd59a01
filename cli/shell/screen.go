package shell

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/term"
)

const (
	// maxPosted is how many events and hints wait to be printed. They are posted while a terminal
	// takes nothing, or while a command prints. Those beyond it are counted, and not shown.
	maxPosted = 1000
	// maxPostedBytes is how many bytes of them wait.
	maxPostedBytes = 1 << 20
	// outputBufferSize is how many bytes of a command's output are written at once.
	outputBufferSize = 16 << 10
)

// style is the colour of a text on a terminal.
type style string

// These are the styles.
const (
	plainStyle style = ""
	errorStyle style = "\x1b[31m" // red
	eventStyle style = "\x1b[36m" // cyan
	hintStyle  style = "\x1b[2m"  // faint
	resetStyle       = "\x1b[0m"
)

// screen is where the shell prints. Commands print what they answer to Out and messages to Err, as
// zkCli.sh does. Watches fire at any time: postEvent takes their events without waiting, and they are
// printed before anything that is printed later. A screen is safe for concurrent use.
type screen struct {
	cfg    *Config
	wake   chan struct{} // has room for one: something is posted
	prompt func() string

	mu         sync.Mutex // guards the next fields and all writing; it is taken before posting
	out        *bufio.Writer
	terminal   *term.Terminal // through which an interactive shell prints; nil: straight to Out and Err
	writeError error          // of the first write to Out that failed

	postedMu     sync.Mutex // guards the next fields
	posted       []postedText
	postedBytes  int // of posted
	droppedCount int // texts that were not kept
}

// postedText is a text that waits to be printed: an aside to Err, anything else to Out.
type postedText struct {
	style style
	text  string
}

func newScreen(cfg *Config) *screen {
	return &screen{cfg: cfg, wake: make(chan struct{}, 1), out: bufio.NewWriterSize(cfg.Out, outputBufferSize)}
}

// attachTerminal puts the terminal at a descriptor into raw mode, and prints through t from now on. t's prompt is that of
// prompt, and is drawn again after what is printed. detach ends both; if the prompt is shown, it ends that line.
// Nothing is printed between the two steps, because in raw mode a line that is printed straight to Out only goes down.
func (s *screen) attachTerminal(fd int, t *term.Terminal, prompt func() string) (detach func(prompted bool), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	s.terminal, s.prompt = t, prompt
	return func(prompted bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = term.Restore(fd, before) // there is nobody to tell
		if s.terminal = nil; prompted {
			s.writeText(s.out, "\n")
		}
	}, nil
}

// renewPrompt sets the terminal's prompt to that of now. It takes the lock before it asks for that: an event that comes
// meanwhile sets a newer one afterwards.
func (s *screen) renewPrompt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terminal.SetPrompt(s.prompt())
}

// print writes a text of a command to Out. It may be held back until flush is called.
func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printPosted()
	s.writeStyled(s.out, s.cfg.OutTerminal, plainStyle, text)
}

// printf writes a line of a command to Out.
func (s *screen) printf(format string, args ...any) { s.print(fmt.Sprintf(format, args...) + "\n") }

// printMessage writes a line to Err.
func (s *screen) printMessage(how style, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printPosted()
	s.flushOut()
	s.writeStyled(s.cfg.Err, s.cfg.ErrTerminal, how, text+"\n")
}

// flush writes what is held back, and returns the error of the first write to Out that failed.
func (s *screen) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printPosted()
	s.flushOut()
	return s.writeError
}

// postEvent takes a text for Out. It never waits.
func (s *screen) postEvent(text string) { s.enqueue(postedText{eventStyle, text}) }

// postHint takes a line for Err, which is printed if a person sees it. It never waits.
func (s *screen) postHint(text string) {
	if s.cfg.ErrTerminal {
		s.enqueue(postedText{hintStyle, text + "\n"})
	}
}

func (s *screen) enqueue(p postedText) {
	s.postedMu.Lock()
	if len(s.posted) < maxPosted && s.postedBytes+len(p.text) <= maxPostedBytes {
		s.posted = append(s.posted, p)
		s.postedBytes += len(p.text)
	} else {
		s.droppedCount++
	}
	s.postedMu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// printPostedUntil prints what is posted until done is closed.
func (s *screen) printPostedUntil(done <-chan struct{}) {
	for {
		select {
		case <-s.wake:
			_ = s.flush() // the next command tells of the failure
		case <-done:
			return
		}
	}
}

// printPosted prints what is posted. mu is held.
func (s *screen) printPosted() {
	s.postedMu.Lock()
	all, lost := s.posted, s.droppedCount
	s.posted, s.postedBytes, s.droppedCount = nil, 0, 0
	s.postedMu.Unlock()
	if len(all) == 0 && lost == 0 {
		return
	}
	if s.terminal != nil {
		s.terminal.SetPrompt(s.prompt())
	}
	for _, p := range all {
		if p.style == hintStyle {
			s.flushOut()
			s.writeStyled(s.cfg.Err, s.cfg.ErrTerminal, hintStyle, p.text)
		} else {
			s.writeStyled(s.out, s.cfg.OutTerminal, p.style, p.text)
		}
	}
	if lost > 0 {
		s.writeStyled(s.out, s.cfg.OutTerminal, eventStyle, fmt.Sprintf("\n%d more events are not shown\n", lost))
	}
}

// writeStyled writes a text in a style. What a terminal would not simply show is replaced. mu is held.
func (s *screen) writeStyled(to io.Writer, terminal bool, how style, text string) {
	if !terminal {
		s.writeText(to, text)
		return
	}
	text = s.visibleText(text)
	if how != plainStyle && s.cfg.Colors {
		line, end := strings.CutSuffix(text, "\n")
		text = string(how) + line + resetStyle
		if end {
			text += "\n"
		}
	}
	if s.terminal != nil {
		s.flushOut()
		to = s.terminal
	}
	s.writeText(to, text)
}

func (s *screen) writeText(to io.Writer, text string) {
	if _, err := io.WriteString(to, text); err != nil && s.writeError == nil && to != s.cfg.Err {
		s.writeError = fmt.Errorf("shell: print: %w", err)
	}
}

// flushOut writes what is held back. mu is held.
func (s *screen) flushOut() {
	if err := s.out.Flush(); err != nil && s.writeError == nil {
		s.writeError = fmt.Errorf("shell: print: %w", err)
	}
}

// visibleText returns a text of several lines as a terminal may get it. Lines and tabs stay as they are.
func (s *screen) visibleText(text string) string {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		line, end := strings.CutSuffix(line, "\n")
		for i, cell := range strings.Split(line, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(s.cfg.Visible(cell))
		}
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
