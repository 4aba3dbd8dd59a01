package shell

import (
	"context"
	"fmt"
	"strconv"
)

// Verbs of the shell itself. They report whether the shell ends.

func (s *Shell) quit(context.Context, []string) (done bool, err error) {
	s.session.close()
	return true, nil
}

func (s *Shell) closeSession(context.Context, *arguments) error {
	s.session.close()
	return nil
}

// connect opens a session with the ensemble in the next word, or with the present one.
func (s *Shell) connect(_ context.Context, words []string) (done bool, err error) {
	if len(words) > 1 {
		target, err := parseTarget(words[1])
		if err != nil {
			return false, err
		}
		s.target = target
	}
	s.session.close()
	s.startNewSession()
	return false, nil
}

func (s *Shell) printHelp(context.Context, []string) (done bool, err error) {
	s.screen.printMessage(plainStyle, usageText(s.verbs))
	return false, nil
}

func (s *Shell) printHistory(context.Context, []string) (done bool, err error) {
	for i, line := range s.commands.recentLines() {
		s.screen.printf("%d - %s", i, line)
	}
	return false, nil
}

// redoLine runs an earlier line once more.
func (s *Shell) redoLine(ctx context.Context, words []string) (done bool, err error) {
	if len(words) < 2 {
		return false, nil
	}
	n, err := strconv.ParseInt(words[1], 0, 32)
	if err != nil {
		return false, fmt.Errorf("redo: %q is not a number of a line; history lists them", words[1])
	}
	line, known := s.commands.earlierLine(int(n))
	if !known {
		return false, zkCliError("Command index out of range")
	}
	again := splitLine(line)
	if again[0] == "redo" {
		return false, zkCliError("No redoing redos")
	}
	s.commands.replaceCurrent(line)
	return s.runCommand(ctx, again), nil
}

func (s *Shell) setPrintWatches(_ context.Context, words []string) (done bool, err error) {
	if len(words) == 1 {
		s.screen.printf("printwatches is %s", map[bool]string{true: "on", false: "off"}[s.printWatches.Load()])
		return false, nil
	}
	s.printWatches.Store(words[1] == "on")
	return false, nil
}
