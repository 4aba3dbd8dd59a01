// Package shell is a client for people and scripts that know ZooKeeper's zkCli.sh: it has the verbs of
// zkCli.sh 3.8 under their names, with their flags, and prints what it prints. Lines come from a
// terminal, with editing, history and completion, or from a file or pipe.
//
//   - Shell runs commands. verbs.go has the table of them, and words.go and options.go read a line as
//     zkCli.sh does.
//   - session is the session with an ensemble. requests.go has what it asks about nodes, through a nodes.Space.
//   - quotaCommands has the verbs about quotas, which are nodes under /zookeeper/quota.
//   - screen is all that is printed, and editor the line that is edited on a terminal.
//
// Commands run one at a time on the goroutine of Run. The events of watches come at any time; screen
// prints them between commands, and above the line that is being edited.
package shell

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"rollcall/client"
)

// maxLine limits a line of a file or pipe. It is far more than servers accept.
const maxLine = 16 << 20

// maxTimeout limits the session timeout to request. Servers have limits of their own.
const maxTimeout = 24 * time.Hour

// Config configures a shell: the ensemble, its input and its output.
type Config struct {
	Hosts   string        // host:port,host:port/root; the ports and the root may be missing
	Timeout time.Duration // the session timeout to request; 0: DefaultTimeout
	Session client.Config // the login, the identities, the longest request and the connections of each session

	Command []string // the words of the only command; nil: lines are read from In

	In       io.Reader
	Out, Err io.Writer

	// Whether In, Out and Err are terminals. If In and Out are, In must be an *os.File, and the line is
	// edited there. If Out or Err is, EscapeText must be set.
	InTerminal, OutTerminal, ErrTerminal bool

	Colors      bool                        // a terminal may show colours
	Size        func() (columns, lines int) // the size of the terminal that Out is; nil: not known
	Escape      bool                        // escapes as on a terminal wherever the output goes, and line ends of data
	EscapeText  func(text string) string    // replaces characters that are not printable; text has no line ends
	HistoryFile string                      // the file of the history; "": none
	Version     string                      // for the verb version
}

// Check returns an error if the configuration is invalid.
func (c *Config) Check() error {
	if _, err := parseTarget(c.Hosts); err != nil {
		return fmt.Errorf("hosts: %w", err)
	}
	if c.Timeout < 0 || c.Timeout > maxTimeout || c.Timeout > 0 && c.Timeout < time.Millisecond {
		return fmt.Errorf("timeout %v must be 1ms to %v", c.Timeout, maxTimeout)
	}
	return nil
}

// Shell runs commands. Only the goroutine of Run uses it, unless a comment permits more.
type Shell struct {
	cfg          *Config
	verbs        map[string]*verb
	target       *target
	screen       *screen
	session      *session
	sessions     atomic.Pointer[session] // session, for the prompt of any goroutine
	printWatches atomic.Bool
	commands     commandLog
	status       int
}

// Run runs commands until there are none, quit or the end of ctx. It returns the exit status of the last
// command. The error says that commands could not be read, or output not written.
func Run(ctx context.Context, cfg Config) (status int, err error) {
	if err := cfg.Check(); err != nil {
		return statusFailed, err
	}
	target, _ := parseTarget(cfg.Hosts) // cfg.Check has parsed it
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	s := &Shell{cfg: &cfg, verbs: verbTable(), target: target, screen: newScreen(&cfg)}
	s.printWatches.Store(true)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.screen.printPostedUntil(done)
	}()
	s.screen.print("Connecting to " + target.givenText + "\n")
	s.startNewSession()
	err = s.runCommands(ctx)
	s.printWatches.Store(false) // the end of the session is no news
	s.session.close()
	close(done)
	<-ended
	if ctx.Err() != nil {
		s.status = statusInterrupted
	}
	return s.status, errors.Join(err, s.screen.flush())
}

// startNewSession replaces the session.
func (s *Shell) startNewSession() {
	s.session = startSession(s.cfg, s.target, s.postWatchEvent, s.screen.postHint)
	s.sessions.Store(s.session)
}

func (s *Shell) runCommands(ctx context.Context) error {
	switch {
	case s.cfg.Command != nil:
		s.runCommand(ctx, s.cfg.Command)
		return nil
	case s.cfg.InTerminal && s.cfg.OutTerminal:
		s.screen.print("Welcome to Rollcall! help lists the commands, and Tab completes them.\n")
		return s.runInteractive(ctx)
	}
	s.screen.print("Welcome to Rollcall!\n")
	return s.readLines(ctx)
}

func (s *Shell) readLines(ctx context.Context) error {
	lines, failed := make(chan string), make(chan error, 1)
	go func() { // ends with In, or with the process
		in := bufio.NewScanner(s.cfg.In)
		in.Buffer(nil, maxLine)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
		failed <- in.Err()
	}()
	for {
		if err := s.screen.flush(); err != nil {
			return nil // Run returns it
		}
		select {
		case line := <-lines:
			if s.executeLine(ctx, line) {
				return nil
			}
		case err := <-failed:
			if errors.Is(err, bufio.ErrTooLong) {
				err = fmt.Errorf("a line is longer than %d bytes", maxLine)
			}
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// executeLine runs a line, and reports whether the shell ends.
func (s *Shell) executeLine(ctx context.Context, line string) (done bool) {
	words := splitLine(line)
	if len(words) == 0 {
		return false
	}
	s.commands.appendLine(line)
	done = s.runCommand(ctx, words)
	s.commands.countLineRun()
	return done
}

// runCommand runs a command given as words, prints its failure, and reports whether the shell ends.
func (s *Shell) runCommand(ctx context.Context, words []string) (done bool) {
	done, err := s.runVerb(ctx, words)
	if done {
		return true // with the status of the command before
	}
	f, isFailure := errors.AsType[*requestError](err)
	var unknown unknownVerb
	switch {
	case err == nil:
		s.status = statusOK
		return false
	case errors.As(err, &unknown):
		s.status = statusUnknown
		s.screen.printMessage(plainStyle, usageText(s.verbs))
	case errors.Is(err, errUsage):
		err = zkCliError(words[0] + " " + s.verbs[words[0]].usage)
		fallthrough
	default:
		s.status = statusFailed
	}
	s.screen.printMessage(errorStyle, err.Error())
	if isFailure && f.reason != nil {
		s.screen.printMessage(errorStyle, f.reason.Error())
	}
	return false
}

func (s *Shell) runVerb(ctx context.Context, words []string) (done bool, err error) {
	v, known := s.verbs[words[0]]
	if !known {
		return false, unknownVerb(words[0])
	}
	if v.runLocal != nil {
		if done, err := v.runLocal(s, ctx, words); done || err != nil {
			return done, err
		}
	}
	if !s.session.isAlive() {
		s.screen.print("Not connected\n") // zkCli.sh says so after every verb but quit
		return false, nil
	}
	if v.run == nil {
		return false, nil
	}
	a, err := v.parseArguments(s, words)
	if err != nil {
		return false, err
	}
	return false, v.run(s, ctx, a)
}
