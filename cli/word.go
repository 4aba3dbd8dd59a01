package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

const (
	// wordTime is how long a member may be silent while it answers a four-letter word.
	wordTime = 10 * time.Second
	// maxLine is how much of a line is held in memory, in bytes. Longer ones are printed in parts.
	maxLine = 64 << 10
	// maxHeld is how long an answer may be that is printed as JSON or YAML, in bytes. Only lists of all sessions or
	// watches of a large ensemble are longer. An answer is printed before the next member is asked, so at most
	// two are in memory at a time, however many members there are.
	maxHeld = 32 << 20
)

var fourLetters = regexp.MustCompile(`^[a-z]{4}$`)

// newWord returns the command that sends a four-letter word.
func newWord(w World) *cobra.Command {
	link, out := NewLink(w), NewOutput(w)
	cmd := &cobra.Command{
		Use: "word [flags] WORD", Short: "send a four-letter word such as mntr, and print the answer", GroupID: Look, Args: Takes(1, 1, "one word"),
		Long: "Sends a four-letter word such as mntr to each member of --hosts, and prints the answers. If there are several members, each answer has the member's address above " +
			"it. docs/words.md lists the words.",
		Example: "  rollcall word mntr\n  rollcall word --hosts zoo1:2181,zoo2:2181 srvr",
		RunE: func(cmd *cobra.Command, args []string) error {
			hosts, err := link.Hosts()
			if err != nil {
				return err
			}
			if !fourLetters.MatchString(args[0]) {
				return With(WrongUse, fmt.Errorf("word: %.100q is not a word of four letters; docs/words.md lists them", args[0]))
			}
			dial, err := link.tls.Dialer(w)
			if err != nil {
				return err
			}
			if !out.Text() {
				return link.printAnswers(cmd.Context(), dial, out, hosts, args[0])
			}
			var failed []error
			for i, addr := range hosts {
				if len(hosts) > 1 {
					_, _ = fmt.Fprintln(w.Out, map[bool]string{true: "\n"}[i > 0]+addr) // the answer's error counts
				}
				err := askWord(cmd.Context(), w, dial, addr, args[0], func(answer *bufio.Reader) error { return copyVisible(w.Out, answer) })
				failed = append(failed, link.wordError(addr, err))
			}
			return errors.Join(failed...)
		},
	}
	out.Register(cmd)
	link.registerAddresses(cmd, "`host:port,...` of the members to ask")
	return cmd
}

// wordAnswer is the answer of a member to a word, as JSON has it.
type wordAnswer struct {
	Server string `json:"server"` // host:port
	Word   string `json:"word"`
	Answer string `json:"answer"` // as the member sent it
}

// printAnswers prints a row for each server that answers. It asks a server when the answer of the one before is
// printed. If none answers, it prints nothing.
func (l *Link) printAnswers(ctx context.Context, dial Dialer, out *Output, hosts []string, word string) error {
	var failed []error
	answered := 0
	err := Print(out, nil, func(yield func(wordAnswer, error) bool) {
		for _, addr := range hosts {
			text := new(strings.Builder)
			if err := askWord(ctx, l.world, dial, addr, word, func(answer *bufio.Reader) error { return copyBounded(text, answer) }); err != nil {
				failed = append(failed, l.wordError(addr, err))
				continue
			}
			if answered++; !yield(wordAnswer{addr, word, text.String()}, nil) {
				return
			}
		}
		if answered == 0 {
			yield(wordAnswer{}, errors.Join(failed...))
		}
	})
	if answered == 0 {
		return err
	}
	return errors.Join(append(failed, err)...)
}

// wordError adds to err, the error of a four-letter word, the address of the member, the flag or variable that named the address, and what to do.
// It returns nil if err is nil.
func (l *Link) wordError(addr string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("word: %s: %w; start it first, or name another one with --hosts", l.place(addr, l.hostsOrigin()), err)
	}
	return fmt.Errorf("word: %s: %w", l.place(addr, l.hostsOrigin()), err)
}

// askWord sends a word to the member at addr, and shows that it waits. take reads the answer.
func askWord(ctx context.Context, w World, dial Dialer, addr, word string, take func(answer *bufio.Reader) error) error {
	defer waiting(w, addr).Done()
	return sendWord(ctx, dial, addr, word, take)
}

// copyBounded copies an answer of at most maxHeld bytes.
func copyBounded(out io.Writer, in io.Reader) error {
	switch n, err := io.Copy(out, io.LimitReader(in, maxHeld+1)); {
	case err != nil:
		return With(NoMember, fmt.Errorf("the answer is not complete: %w", err))
	case n > maxHeld:
		return fmt.Errorf("the answer has more than %d bytes, which JSON and YAML do not hold; leave -o out", maxHeld)
	}
	return nil
}

// sendWord sends a word to the member at addr. take reads the answer.
func sendWord(ctx context.Context, dial Dialer, addr, word string, take func(answer *bufio.Reader) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	within, cancel := context.WithTimeout(ctx, wordTime)
	defer cancel()
	conn, err := dial(within, addr)
	if err != nil {
		return With(NoMember, err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // which ends the read
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, word); err != nil {
		return With(NoMember, err)
	}
	answer := bufio.NewReaderSize(&wordReader{conn}, maxLine)
	begin, err := answer.Peek(len(word) + len(notListed))
	switch {
	case strings.HasSuffix(string(begin), notListed):
		text, _ := answer.ReadString('\n')
		return With(Refused, fmt.Errorf("%s; add it to 4lw.commands.whitelist in that member's zoo.cfg, and start the member again", strings.TrimRight(text, ".\n")))
	case len(begin) == 0:
		return With(NoMember, fmt.Errorf("the connection ended without an answer (%w); is that a port where a member takes clients, and does it know the word?", err))
	}
	return take(answer)
}

// notListed is what a member says after a word that is not on its whitelist, up to the reason.
const notListed = " is not executed because"

// copyVisible copies lines of text, in characters that a terminal simply shows.
func copyVisible(out io.Writer, in *bufio.Reader) error {
	for {
		line, err := in.ReadSlice('\n')
		text, ended := strings.CutSuffix(string(line), "\n")
		parts := strings.Split(text, "\t")
		for i := range parts {
			parts[i] = Visible(parts[i])
		}
		text = strings.Join(parts, "\t")
		if ended {
			text += "\n"
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return With(NoMember, fmt.Errorf("the answer is not complete: %w", err))
		}
	}
}

// wordReader reads an answer. A member that is silent for wordTime ends it.
type wordReader struct{ conn net.Conn }

func (r *wordReader) Read(b []byte) (int, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(wordTime)); err != nil {
		return 0, err
	}
	n, err := r.conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("nothing came for %v", wordTime)
	}
	return n, err
}
