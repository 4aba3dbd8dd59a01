package server

import (
	"bufio"
	"errors"
	"io"
	"os"
	"time"
)

// Commands answers four-letter commands.
type Commands interface {
	// Known reports whether the first four bytes of a connection are a command. If not, they are the
	// length of a frame.
	Known(command string) bool
	// Answer writes the answer to a command, before the connection closes. argument is what the
	// client sends after the command. Answer may wait for both, and returns their errors.
	Answer(command string, argument io.Reader, w io.Writer) error
}

const (
	// commandChunk is the number of bytes of an answer that are sent at a time. Short answers are smaller.
	commandChunk = 32 << 10
	// commandTime is the longest that a client may take for a whole answer. At 1 MB/s it gets the watches of a
	// large server in that time.
	commandTime = time.Minute
)

// answerCommand answers a four-letter command, a part at a time, and ends the connection. The reader
// itself writes, because nothing else is sent.
func (c *conn) answerCommand(command string) {
	c.srv.stats.sent.Add(1)
	if !c.stream.Limit(commandTime, slowReader) {
		return
	}
	c.stream.Lock()
	c.command = true // no handshake will come
	c.replies.traffic.received++
	c.stream.Unlock()
	client := c.stream.Plain()
	w := bufio.NewWriterSize(client, commandChunk)
	err := c.srv.cfg.Commands.Answer(command, client, w)
	if err == nil {
		err = w.Flush()
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.stream.Drop(slowReader)
	case err != nil:
		c.stream.Drop(byClient)
	default:
		c.stream.FinishPlain(commandAnswered)
	}
}
