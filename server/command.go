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
	// IsCommand reports whether the first four bytes of a connection are a command. If not, they are the
	// length of a frame.
	IsCommand(command string) bool
	// WriteReply writes the answer to a command, before the connection closes. argument is what the
	// client sends after the command. Answer may wait for both, and returns their errors.
	WriteReply(command string, argument io.Reader, w io.Writer) error
}

const (
	// commandChunkSize is the number of bytes of an answer that are sent at a time. Short answers are smaller.
	commandChunkSize = 32 << 10
	// maxCommandTime is the longest that a client may take for a whole answer. At 1 MB/s it gets the watches of a
	// large server in that time.
	maxCommandTime = time.Minute
)

// answerCommand answers a four-letter command, a part at a time, and ends the connection. The reader
// itself writes, because nothing else is sent.
func (c *conn) answerCommand(command string) {
	c.srv.stats.sent.Add(1)
	if !c.stream.DropAfter(maxCommandTime, slowReader) {
		return
	}
	c.stream.Lock()
	c.isCommand = true // no handshake will come
	c.replies.traffic.received++
	c.stream.Unlock()
	client := c.stream.Plain()
	w := bufio.NewWriterSize(client, commandChunkSize)
	err := c.srv.cfg.Commands.WriteReply(command, client, w)
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
