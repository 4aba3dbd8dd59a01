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
	// fourLetterTimeout bounds the silence of a member during its reply.
	fourLetterTimeout = 10 * time.Second
	// fourLetterMaxTime bounds the whole reply. The longest known, of all watches, takes seconds.
	fourLetterMaxTime = 10 * time.Minute
	// maxLine is the buffer for a line in bytes. Longer lines are printed in parts.
	maxLine = 64 << 10
	// maxStructuredReply bounds a reply printed as JSON or YAML, in bytes. Only lists of all sessions or
	// watches of a large ensemble are longer. At most two replies are in memory at a time.
	maxStructuredReply = 32 << 20
)

var fourLetterPattern = regexp.MustCompile(`^[a-z]{4}$`)

func newFourLetter(w IOStreams) *cobra.Command {
	link, out := NewEnsembleFlags(w), NewOutput(w)
	cmd := out.Register(&cobra.Command{
		Use: "word [flags] WORD", Short: "send a four-letter word such as mntr, and print the answer", GroupID: InspectGroup,
		Args: RangeArgs(1, 1, "one word"),
		Long: "Sends a four-letter word such as mntr to each member of --hosts, and prints the answers. If there are " +
			"several members, each answer has the member's address above " +
			"it. docs/words.md lists the words.",
		Example: "  rollcall word mntr\n  rollcall word --hosts zoo1:2181,zoo2:2181 srvr",
		RunE: func(cmd *cobra.Command, args []string) error {
			hosts, err := link.Hosts()
			if err != nil {
				return err
			}
			if !fourLetterPattern.MatchString(args[0]) {
				return UsageError.Errorf("word: %.100q is not a word of four letters; docs/words.md lists them", args[0])
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
					_, _ = fmt.Fprintln(w.Out, map[bool]string{true: "\n"}[i > 0]+addr) // the error of the reply counts
				}
				err := sendFourLetter(cmd.Context(), link, dial, addr, args[0],
					func(reply *bufio.Reader) error { return copyVisible(w.Out, reply) })
				failed = append(failed, link.fourLetterError(addr, err))
			}
			return errors.Join(failed...)
		},
	})
	link.registerHostsFlags(cmd, "`host:port,...` of the members to ask")
	return cmd
}

type fourLetterReply struct {
	Server  string `json:"server"` // host:port
	Command string `json:"word"`
	Reply   string `json:"answer"` // as the member sent it
}

// printReplies prints a row for each server that replies, and nothing if none does. It queries a server after
// the previous reply is printed.
func (l *EnsembleFlags) printReplies(ctx context.Context, dial Dialer, out *Output, hosts []string, word string) error {
	var failed []error
	answered := 0
	err := PrintRows(out, nil, func(yield func(fourLetterReply, error) bool) {
		for _, addr := range hosts {
			text := new(strings.Builder)
			if err := sendFourLetter(ctx, l, dial, addr, word,
				func(reply *bufio.Reader) error { return copyBounded(text, reply) }); err != nil {
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

// fourLetterError adds the member's address, the variable that set it, and advice. It returns nil for nil.
func (l *EnsembleFlags) fourLetterError(addr string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ECONNREFUSED):
		err = fmt.Errorf("%w; start it first, or name another one with --hosts", err)
	}
	return fmt.Errorf("word: %s: %w", l.describeHosts(addr), err)
}

func copyBounded(out io.Writer, in io.Reader) error {
	switch n, err := io.Copy(out, io.LimitReader(in, maxStructuredReply+1)); {
	case err != nil:
		return Unavailable.Errorf("the answer is not complete: %w", err)
	case n > maxStructuredReply:
		return fmt.Errorf("the answer has more than %d bytes, which JSON and YAML do not hold; leave -o out",
			maxStructuredReply)
	}
	return nil
}

// sendFourLetter is sendToClientPort. If there is no reply, because the port is for something else, it gives up early and
// says so.
func sendFourLetter(ctx context.Context, l *EnsembleFlags, dial Dialer, addr, word string,
	take func(reply *bufio.Reader) error,
) error {
	err := l.giveUpAtWrongPorts(ctx, []string{addr}, func(ctx context.Context) error {
		return sendToClientPort(ctx, l.streams, dial, addr, word, take)
	})
	var wrong *wrongPortError
	if StatusOf(err) == Unavailable && ctx.Err() == nil && !errors.Is(err, syscall.ECONNREFUSED) {
		_ = errors.As(l.ports.findWrongPorts(ctx, l.streams, &l.tls, []string{addr}), &wrong)
	}
	if wrong != nil || errors.As(err, &wrong) {
		return WithStatus(Unavailable, wrong)
	}
	return err
}

var errEndlessWord = fmt.Errorf("it has not ended after %v", fourLetterMaxTime)

func sendToClientPort(ctx context.Context, w IOStreams, dial Dialer, addr, word string,
	take func(reply *bufio.Reader) error,
) error {
	defer startWaiting(w, addr).Done()
	ctx, stop := context.WithTimeoutCause(ctx, fourLetterMaxTime, errEndlessWord)
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
	reply := bufio.NewReaderSize(&deadlineReader{conn}, maxLine)
	begin, err := reply.Peek(len(word) + len(notListedText))
	switch {
	case strings.HasSuffix(string(begin), notListedText):
		text, _ := reply.ReadString('\n')
		return Denied.Errorf("%s; add it to 4lw.commands.whitelist in that member's zoo.cfg, and start "+
			"the member again", strings.TrimRight(text, ".\n"))
	case len(begin) == 0:
		return Unavailable.Errorf("the connection ended without an answer (%w); is that a port where a member takes clients, and does "+
			"it know the word?", err)
	}
	err = take(reply)
	if err != nil && errors.Is(context.Cause(ctx), errEndlessWord) {
		return Unavailable.Errorf("the answer is not complete: %w", errEndlessWord)
	}
	return err
}

// notListedText follows the command in the reply of a member that does not whitelist it.
const notListedText = " is not executed because"

func copyVisible(out io.Writer, in *bufio.Reader) error {
	for {
		line, err := in.ReadSlice('\n')
		text, isWhole := strings.CutSuffix(string(line), "\n")
		text = JoinFunc(strings.Split(text, "\t"), "\t", EscapeUnprintable)
		if isWhole {
			text += "\n"
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return Unavailable.Errorf("the answer is not complete: %w", err)
		}
	}
}

// deadlineReader fails if nothing arrives for fourLetterTimeout.
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
