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
	// fourLetterTimeout is how long a member may be silent while it answers a four-letter word.
	fourLetterTimeout = 10 * time.Second
	// maxLine is how much of a line is held in memory, in bytes. Longer ones are printed in parts.
	maxLine = 64 << 10
	// maxStructuredReply is how long an answer may be that is printed as JSON or YAML, in bytes. Only lists of all sessions or
	// watches of a large ensemble are longer. An answer is printed before the next member is asked, so at most
	// two are in memory at a time, however many members there are.
	maxStructuredReply = 32 << 20
)

var fourLetterPattern = regexp.MustCompile(`^[a-z]{4}$`)

// newFourLetter returns the command that sends a four-letter word.
func newFourLetter(w IOStreams) *cobra.Command {
	link, out := NewLink(w), NewOutput(w)
	cmd := &cobra.Command{
		Use: "word [flags] WORD", Short: "send a four-letter word such as mntr, and print the answer", GroupID: InspectGroup, Args: RangeArgs(1, 1, "one word"),
		Long: "Sends a four-letter word such as mntr to each member of --hosts, and prints the answers. If there are several members, each answer has the member's address above " +
			"it. docs/words.md lists the words.",
		Example: "  rollcall word mntr\n  rollcall word --hosts zoo1:2181,zoo2:2181 srvr",
		RunE: func(cmd *cobra.Command, args []string) error {
			hosts, err := link.Hosts()
			if err != nil {
				return err
			}
			if !fourLetterPattern.MatchString(args[0]) {
				return WithStatus(UsageError, fmt.Errorf("word: %.100q is not a word of four letters; docs/words.md lists them", args[0]))
			}
			dial, err := link.tls.Dialer(w)
			if err != nil {
				return err
			}
			if !out.IsText() {
				return link.printReplies(cmd.Context(), dial, out, hosts, args[0])
			}
			var failed []error
			for i, addr := range hosts {
				if len(hosts) > 1 {
					_, _ = fmt.Fprintln(w.Out, map[bool]string{true: "\n"}[i > 0]+addr) // the answer's error counts
				}
				err := sendAndWait(cmd.Context(), w, dial, addr, args[0], func(answer *bufio.Reader) error { return copyVisible(w.Out, answer) })
				failed = append(failed, link.fourLetterError(addr, err))
			}
			return errors.Join(failed...)
		},
	}
	out.Register(cmd)
	link.registerAddresses(cmd, "`host:port,...` of the members to ask")
	return cmd
}

// fourLetterReply is the answer of a member to a word, as JSON has it.
type fourLetterReply struct {
	Server  string `json:"server"` // host:port
	Command string `json:"word"`
	Reply   string `json:"answer"` // as the member sent it
}

// printReplies prints a row for each server that answers. It asks a server when the answer of the one before is
// printed. If none answers, it prints nothing.
func (l *Link) printReplies(ctx context.Context, dial Dialer, out *Output, hosts []string, word string) error {
	var failed []error
	answered := 0
	err := PrintRows(out, nil, func(yield func(fourLetterReply, error) bool) {
		for _, addr := range hosts {
			text := new(strings.Builder)
			if err := sendAndWait(ctx, l.streams, dial, addr, word, func(answer *bufio.Reader) error { return copyBounded(text, answer) }); err != nil {
				failed = append(failed, l.fourLetterError(addr, err))
				continue
			}
			if answered++; !yield(fourLetterReply{addr, word, text.String()}, nil) {
				return
			}
		}
		if answered == 0 {
			yield(fourLetterReply{}, errors.Join(failed...))
		}
	})
	if answered == 0 {
		return err
	}
	return errors.Join(append(failed, err)...)
}

// fourLetterError adds to err, the error of a four-letter word, the address of the member, the flag or variable that named the address, and what to do.
// It returns nil if err is nil.
func (l *Link) fourLetterError(addr string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("word: %s: %w; start it first, or name another one with --hosts", l.describeAddress(addr, l.hostsOrigin()), err)
	}
	return fmt.Errorf("word: %s: %w", l.describeAddress(addr, l.hostsOrigin()), err)
}

// sendAndWait sends a word to the member at addr, and shows that it waits. take reads the answer.
func sendAndWait(ctx context.Context, w IOStreams, dial Dialer, addr, word string, take func(answer *bufio.Reader) error) error {
	defer startWaiting(w, addr).Done()
	return sendFourLetter(ctx, dial, addr, word, take)
}

// copyBounded copies an answer of at most maxHeld bytes.
func copyBounded(out io.Writer, in io.Reader) error {
	switch n, err := io.Copy(out, io.LimitReader(in, maxStructuredReply+1)); {
	case err != nil:
		return WithStatus(Unavailable, fmt.Errorf("the answer is not complete: %w", err))
	case n > maxStructuredReply:
		return fmt.Errorf("the answer has more than %d bytes, which JSON and YAML do not hold; leave -o out", maxStructuredReply)
	}
	return nil
}

// sendFourLetter sends a word to the member at addr. take reads the answer.
func sendFourLetter(ctx context.Context, dial Dialer, addr, word string, take func(answer *bufio.Reader) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	within, cancel := context.WithTimeout(ctx, fourLetterTimeout)
	defer cancel()
	conn, err := dial(within, addr)
	if err != nil {
		return WithStatus(Unavailable, err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // which ends the read
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, word); err != nil {
		return WithStatus(Unavailable, err)
	}
	answer := bufio.NewReaderSize(&deadlineReader{conn}, maxLine)
	begin, err := answer.Peek(len(word) + len(notListedText))
	switch {
	case strings.HasSuffix(string(begin), notListedText):
		text, _ := answer.ReadString('\n')
		return WithStatus(Denied, fmt.Errorf("%s; add it to 4lw.commands.whitelist in that member's zoo.cfg, and start the member again", strings.TrimRight(text, ".\n")))
	case len(begin) == 0:
		return WithStatus(Unavailable, fmt.Errorf("the connection ended without an answer (%w); is that a port where a member takes clients, and does it know the word?", err))
	}
	return take(answer)
}

// notListedText is what a member says after a word that is not on its whitelist, up to the reason.
const notListedText = " is not executed because"

// copyVisible copies lines of text, in characters that a terminal simply shows.
func copyVisible(out io.Writer, in *bufio.Reader) error {
	for {
		line, err := in.ReadSlice('\n')
		text, ended := strings.CutSuffix(string(line), "\n")
		parts := strings.Split(text, "\t")
		for i := range parts {
			parts[i] = EscapeUnprintable(parts[i])
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
			return WithStatus(Unavailable, fmt.Errorf("the answer is not complete: %w", err))
		}
	}
}

// deadlineReader reads an answer. A member that is silent for wordTime ends it.
type deadlineReader struct{ conn net.Conn }

func (r *deadlineReader) Read(b []byte) (int, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(fourLetterTimeout)); err != nil {
		return 0, err
	}
	n, err := r.conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("nothing came for %v", fourLetterTimeout)
	}
	return n, err
}
