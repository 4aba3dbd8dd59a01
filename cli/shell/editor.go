package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	// maxLineRunes limits the characters of a line. term.Terminal ignores further ones.
	maxLineRunes = 4096
	// completionWait limits the wait of Tab for the names of nodes.
	completionWait = 2 * time.Second
	// maxListed limits the names that Tab lists.
	maxListed = 100
)

// editor lets a person edit lines on a terminal.
type editor struct {
	shell    *Shell
	ctx      context.Context
	keys     *keyboard
	terminal *term.Terminal
	history  *history
}

type terminalIO struct {
	io.Reader
	io.Writer
}

// runInteractive runs lines from a terminal.
func (s *Shell) runInteractive(ctx context.Context) error {
	in, ok := s.cfg.In.(*os.File)
	if !ok {
		return errors.New("shell: a terminal must be a file")
	}
	e := &editor{shell: s, ctx: ctx, keys: newKeyboard(), history: openHistory(s.cfg.HistoryFile, s.screen.postHint)}
	defer e.history.close()
	e.terminal = term.NewTerminal(terminalIO{e.keys, s.cfg.Out}, "")
	e.terminal.History = e.history
	e.terminal.AutoCompleteCallback = e.completeOnTab
	detach, err := s.screen.attachTerminal(int(in.Fd()), e.terminal, s.promptText)
	if err != nil {
		return fmt.Errorf("shell: terminal: %w", err)
	}
	prompted := false
	defer func() { detach(prompted) }()
	go e.keys.readAhead(in) // ends with the terminal, or with the process
	defer context.AfterFunc(ctx, func() { e.keys.endWith(ctx.Err()) })()
	for {
		line, err := e.readLine()
		if err != nil {
			prompted = true
			return e.ignoreInputEnd(err)
		}
		if e.runTypedLine(line) {
			return nil
		}
	}
}

// ignoreInputEnd returns the error of a failed read. The ends of the input and of ctx are no errors.
func (e *editor) ignoreInputEnd(err error) error {
	if errors.Is(err, io.EOF) || e.ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("shell: read: %w", err)
}

func (e *editor) readLine() (string, error) {
	if err := e.shell.screen.flush(); err != nil {
		return "", io.EOF // Run returns the error
	}
	if e.shell.cfg.Size != nil {
		if columns, lines := e.shell.cfg.Size(); columns > 0 { // some terminals do not know their size
			_ = e.terminal.SetSize(columns, lines) // a wrong size only looks bad
		}
	}
	e.shell.screen.renewPrompt()
	return e.terminal.ReadLine()
}

// runTypedLine runs a line that Ctrl-C can interrupt, and reports whether the shell ends.
func (e *editor) runTypedLine(line string) (done bool) {
	if utf8.RuneCountInString(line) >= maxLineRunes {
		e.shell.screen.printMessage(errorStyle,
			fmt.Sprintf("A line on a terminal has at most %d characters. Nothing was done. Longer ones may come from a file: "+
				"rollcall shell <FILE", maxLineRunes-1))
		return false
	}
	if strings.TrimSpace(line) == "" {
		return false
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	e.keys.setInterrupt(cancel)
	defer e.keys.setInterrupt(nil)
	return e.shell.executeLine(ctx, line)
}

// completeOnTab is called for each typed character. Tab completes the word before the cursor. Other control
// characters are dropped, because the terminal would show them as they are.
func (e *editor) completeOnTab(line string, pos int, key rune) (newLine string, newPos int, handled bool) {
	if key != '\t' {
		return line, pos, unicode.IsControl(key) || key == utf8.RuneError
	}
	ctx, cancel := context.WithTimeout(e.ctx, completionWait)
	defer cancel()
	e.keys.setInterrupt(cancel)
	defer e.keys.setInterrupt(nil)
	completed, choices := completeLastWord(line[:pos], e.shell.verbs, func(path string) []string {
		names, _, err := e.shell.session.listChildren(ctx, path, false)
		if err != nil {
			return nil
		}
		return names
	})
	if completed == line[:pos] && len(choices) > 1 {
		e.shell.screen.print(formatChoices(choices))
		_ = e.shell.screen.flush() // the next line reports the failure
	}
	return completed + line[pos:], len(completed), true
}

// formatChoices returns the choices as a paragraph. Of a path it shows the last name.
func formatChoices(choices []string) string {
	var names []string
	for _, choice := range choices[:min(len(choices), maxListed)] {
		names = append(names, choice[strings.LastIndexByte(choice, '/')+1:])
	}
	if more := len(choices) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("… and %d more", more))
	}
	return strings.Join(names, "  ") + "\n"
}

// promptText returns the prompt in the form of zkCli.sh. It may be called by any goroutine.
func (s *Shell) promptText() string {
	session := s.sessions.Load()
	state := session.shownState()
	text := fmt.Sprintf("[zk: %s(%s) %d] ", session.givenText, state, s.commands.currentNumber())
	if !s.cfg.Colors {
		return text
	}
	color := cmp.Or(map[string]string{connected: "\x1b[32m", connecting: "\x1b[33m"}[state], "\x1b[31m")
	return strings.Replace(text, state, color+state+resetStyle, 1)
}
