package shell

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/term"
)

const (
	// maxPosted limits the events and hints that wait to be printed, while a terminal blocks or a command
	// prints. Further ones are only counted.
	maxPosted = 1000
	// maxPostedBytes limits their bytes.
	maxPostedBytes   = 1 << 20
	outputBufferSize = 16 << 10
)

// style is the colour of a text on a terminal.
type style string

const (
	plainStyle style = ""
	errorStyle style = "\x1b[31m" // red
	eventStyle style = "\x1b[36m" // cyan
	hintStyle  style = "\x1b[2m"  // faint
	resetStyle       = "\x1b[0m"
)

// screen prints. Like zkCli.sh, commands print results to Out and messages to Err. Events come at any time:
// postEvent queues them without blocking, and they are printed before any later output. A screen is safe for
// concurrent use.
type screen struct {
	cfg    *Config
	wake   chan struct{} // capacity 1; signals posted texts
	prompt func() string

	mu         sync.Mutex // guards the next fields and all writing; locked before postedMu
	out        *bufio.Writer
	terminal   *term.Terminal // of an interactive shell; nil: print to Out and Err
	writeError error          // of the first failed write to Out

	postedMu     sync.Mutex // guards the next fields
	posted       []postedText
	postedBytes  int // of posted
	droppedCount int
}

// postedText waits to be printed: a hint to Err, an event to Out.
type postedText struct {
	style style
	text  string
}

func newScreen(cfg *Config) *screen {
	return &screen{cfg: cfg, wake: make(chan struct{}, 1), out: bufio.NewWriterSize(cfg.Out, outputBufferSize)}
}

// attachTerminal puts the terminal of a descriptor into raw mode and prints through t from now on. After each
// output it draws prompt again. detach undoes both; if prompted, it ends the line of the prompt. Both run
// under the lock, because in raw mode output straight to Out would break lines.
func (s *screen) attachTerminal(fd int, t *term.Terminal, prompt func() string) (detach func(prompted bool),
	err error,
) {
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
		_ = term.Restore(fd, before) // nothing can be done about an error
		if s.terminal = nil; prompted {
			s.writeText(s.out, "\n")
		}
	}, nil
}

// renewPrompt updates the terminal's prompt. It holds the lock while it reads the prompt, so that it cannot
// overwrite a newer one.
func (s *screen) renewPrompt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terminal.SetPrompt(s.prompt())
}

// print writes output of a command to Out. It may be buffered until flush.
func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printPosted()
	s.writeStyled(s.out, s.cfg.OutTerminal, plainStyle, text)
}

// printf writes a line of output to Out.
func (s *screen) printf(format string, args ...any) { s.print(fmt.Sprintf(format, args...) + "\n") }

// printMessage writes a line to Err.
func (s *screen) printMessage(how style, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printPosted()
	s.flushOut()
	s.writeStyled(s.cfg.Err, s.cfg.ErrTerminal, how, text+"\n")
}

// flush writes buffered output, and returns the error of the first failed write to Out.
func (s *screen) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printPosted()
	s.flushOut()
	return s.writeError
}

// postEvent queues a text for Out. It never blocks.
func (s *screen) postEvent(text string) { s.enqueue(postedText{eventStyle, text}) }

// postHint queues a line for Err, if Err is a terminal. It never blocks.
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

// printPostedUntil prints posted texts until done is closed.
func (s *screen) printPostedUntil(done <-chan struct{}) {
	for {
		select {
		case <-s.wake:
			_ = s.flush() // the next command reports the failure
		case <-done:
			return
		}
	}
}

// printPosted prints posted texts. mu is held.
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

// name returns a text that a client has chosen and that has one line, such as a path, as part of a text to print to
// Out. On a terminal, and with Escape, its line ends are replaced, too: a node could otherwise forge lines.
func (s *screen) name(text string) string {
	if !s.cfg.OutTerminal && !s.cfg.Escape {
		return text
	}
	return s.cfg.EscapeText(text)
}

// names returns a list of names.
func (s *screen) names(texts []string) string {
	shown := make([]string, len(texts))
	for i, text := range texts {
		shown[i] = s.name(text)
	}
	return "[" + strings.Join(shown, ", ") + "]\n"
}

// data returns the data of a node as part of a text to print to Out. With Escape it has one line.
func (s *screen) data(text string) string {
	if !s.cfg.Escape {
		return text
	}
	return s.cfg.EscapeText(text)
}

// writeStyled writes a text in a style. On a terminal, and with Escape, it replaces characters that are not
// printable. mu is held.
func (s *screen) writeStyled(to io.Writer, terminal bool, how style, text string) {
	if !terminal && !s.cfg.Escape {
		s.writeText(to, text)
		return
	}
	if text = cellPattern.ReplaceAllStringFunc(text, s.cfg.EscapeText); !terminal {
		s.writeText(to, text)
		return
	}
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

// cellPattern matches the text between tabs and line ends, which stay.
var cellPattern = regexp.MustCompile(`[^\t\n]+`)

func (s *screen) writeText(to io.Writer, text string) {
	if _, err := io.WriteString(to, text); err != nil && s.writeError == nil && to != s.cfg.Err {
		s.writeError = fmt.Errorf("shell: print: %w", err)
	}
}

// flushOut writes the buffer. mu is held.
func (s *screen) flushOut() {
	if err := s.out.Flush(); err != nil && s.writeError == nil {
		s.writeError = fmt.Errorf("shell: print: %w", err)
	}
}
