package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"rollcall/internal/localsocket"
)

// IOStreams are the streams, terminal, environment and clock of a command. The zero value of a flag means a
// file or a pipe.
type IOStreams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      []string         // NAME=value, as os.Environ returns it
	Now      func() time.Time // for ages

	// Whether In, Out and Err are terminals.
	InTerminal, OutTerminal, ErrTerminal bool
	// TerminalSize is the size of the terminal of Out. It is nil if Out is none.
	TerminalSize func() (columns, lines int)
	// ReadPassword prompts on the terminal of In, without echo. It is nil if In is none.
	ReadPassword func(prompt string) (string, error)
	// ErrColumns is the width of the terminal of Err, or nil if it is not known.
	ErrColumns func() int

	// LocateMember returns the place of the member of this machine, as config.LocateMember does. If it is nil, commands
	// do not search for that member.
	LocateMember func(file string, env []string) (localsocket.MemberPlace, error)

	// OpenKeptLog opens the log that members keep. If it is nil, commands show the present only.
	OpenKeptLog KeptLogOpener

	// LowerPriority gives way to other processes from now on. It is nil if this process has other work than
	// the command.
	LowerPriority func()

	progressLine        *progressLine // for progress; nil: there is none. See WithProgress
	membersPollInterval time.Duration // 0: membersPollEvery. Tests set it
	adminPort           string        // "": the constant defaultAdminPort. Tests set it
	portReplyTimeout    time.Duration // of a check of a port; 0: the default
	sessionOpenTimeout  time.Duration // 0: defaultSessionOpenTimeout. Tests set it
}

// ProcessStreams returns the streams of this process.
func ProcessStreams() IOStreams {
	w := IOStreams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Now: time.Now, LowerPriority: lowerPriority,
		InTerminal: term.IsTerminal(int(os.Stdin.Fd())), OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
	if w.InTerminal {
		w.ReadPassword = func(prompt string) (string, error) {
			_, _ = fmt.Fprint(os.Stderr, prompt) // the output may be a file
			text, err := term.ReadPassword(int(os.Stdin.Fd()))
			_, _ = fmt.Fprintln(os.Stderr)
			return string(text), err
		}
	}
	if w.OutTerminal {
		w.TerminalSize = func() (columns, lines int) { return terminalSize(os.Stdout) }
	}
	if w.ErrTerminal {
		w.ErrColumns = func() int {
			columns, _ := terminalSize(os.Stderr)
			return columns
		}
	}
	return w
}

func terminalSize(terminal *os.File) (columns, lines int) {
	columns, lines, err := term.GetSize(int(terminal.Fd()))
	if err != nil || columns == 0 || lines == 0 { // a serial console reports 0 by default
		return defaultColumns, defaultLines
	}
	return columns, lines
}

// The size of a terminal that does not report it.
const (
	defaultColumns = 80
	defaultLines   = 24
)

// Getenv returns the value of a variable. An empty variable counts as unset.
func (w IOStreams) Getenv(name string) string {
	for _, v := range w.Env {
		if value, found := strings.CutPrefix(v, name+"="); found {
			return value
		}
	}
	return ""
}

// setting returns the value of a flag, or else of its variable, such as ROLLCALL_TOKEN_FILE of token-file. Errors name it by
// its origin: the variable if only that is set, or else the flag.
func (w IOStreams) setting(value, flag string) (_, origin string) {
	variable := "ROLLCALL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	if fromEnv := w.Getenv(variable); value == "" && fromEnv != "" {
		return fromEnv, variable
	}
	return value, "--" + flag
}

// AllowsColor honours NO_COLOR and TERM=dumb.
func (w IOStreams) AllowsColor() bool {
	return w.OutTerminal && w.Getenv("NO_COLOR") == "" && w.Getenv("TERM") != "dumb"
}
