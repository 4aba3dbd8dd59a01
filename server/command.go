package server

import (
	"bufio"
	"errors"
	"io"
	"os"
	"time"
)

// Commands runs four-letter commands.
type Commands interface {
	// IsCommand reports whether the first four bytes of a connection are a command. If not, they are the
	// length of a frame.
	IsCommand(command string) bool
	// WriteReply runs a command and writes its reply, before the connection closes. argument is the input
	// after the command. WriteReply may wait for argument and w, and returns their errors.
	WriteReply(command string, argument io.Reader, w io.Writer) error
}

const (
	// commandChunkSize is the number of bytes of a reply that are sent at a time. Short replies take less.
	commandChunkSize = 32 << 10
	// maxCommandTime limits the time that a client takes for a whole reply. At 1 MB/s it can receive the
	// watches of a large server.
	maxCommandTime = time.Minute
)

// serveCommand runs a four-letter command and ends the connection. The reader itself writes the reply,
// because nothing else is sent.
func (c *conn) serveCommand(command string) {
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
