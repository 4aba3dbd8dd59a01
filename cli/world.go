package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

// IOStreams is what a command has of its surroundings. The zero value of a flag stands for a file or a pipe.
type IOStreams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      []string         // NAME=value, as os.Environ returns it
	Now      func() time.Time // for ages

	// Whether In, Out and Err are terminals.
	InTerminal, OutTerminal, ErrTerminal bool
	// TerminalSize returns the columns and lines of the terminal. It is nil if Out is none.
	TerminalSize func() (columns, lines int)
	// ReadPassword asks on the terminal that In is, and returns what is typed without an echo. It is nil if In is none.
	ReadPassword func(prompt string) (string, error)
	// ErrColumns returns the columns of the terminal that Err is. It is nil if they are not known.
	ErrColumns func() int

	// LowerPriority lets other processes of the machine have the processors first, from now on. It is nil if this process does
	// something else besides the command.
	LowerPriority func()

	progressLine        *progressLine // for progress; nil: there is none. See WithProgress
	membersPollInterval time.Duration // the time that every returns; 0: lookEvery. Tests set it
	adminPort           string        // the port that operatorPort returns; "": defaultPort. Tests set it
}

// ProcessStreams returns the surroundings of this process.
func ProcessStreams() IOStreams {
	w := IOStreams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Now: time.Now, LowerPriority: lowerPriority,
		InTerminal: term.IsTerminal(int(os.Stdin.Fd())), OutTerminal: term.IsTerminal(int(os.Stdout.Fd())), ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
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

// terminalSize returns the size of a terminal.
func terminalSize(terminal *os.File) (columns, lines int) {
	columns, lines, err := term.GetSize(int(terminal.Fd()))
	if err != nil || columns == 0 || lines == 0 { // a serial console has 0 until somebody sets it
		return defaultColumns, defaultLines
	}
	return columns, lines
}

// The size of a terminal that does not tell it.
const (
	defaultColumns = 80
	defaultLines   = 24
)

// Getenv returns the value of a variable. A variable that is set to "" counts as not set.
func (w IOStreams) Getenv(name string) string {
	i := slices.IndexFunc(w.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	if i < 0 {
		return ""
	}
	return w.Env[i][len(name)+1:]
}

// flagOrEnv returns the value of a flag, or that of its variable.
func (w IOStreams) flagOrEnv(flag, variable string) string {
	if flag != "" {
		return flag
	}
	return w.Getenv(variable)
}

// flagOrEnvName returns what names a setting in errors: the variable, if the flag is not given and the variable is set, or else the flag.
// name is that of the flag.
func (w IOStreams) flagOrEnvName(flag, name, variable string) string {
	if flag == "" && w.Getenv(variable) != "" {
		return variable
	}
	return "--" + name
}

// allowsColor reports whether the output may have colours: on a terminal that can show them, unless the
// user has set NO_COLOR.
func (w IOStreams) allowsColor() bool {
	return w.OutTerminal && w.Getenv("NO_COLOR") == "" && w.Getenv("TERM") != "dumb"
}
