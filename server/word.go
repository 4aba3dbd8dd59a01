package server

import (
	"bufio"
	"errors"
	"io"
	"os"
	"time"
)

// Words answers four-letter words.
type Words interface {
	// Known reports whether the first four bytes of a connection are a word. If not, they are the
	// length of a frame.
	Known(word string) bool
	// Answer writes the answer to a word, before the connection closes. argument is what the
	// client sends after the word. Answer may wait for both, and returns their errors.
	Answer(word string, argument io.Reader, w io.Writer) error
}

const (
	// wordChunk is how much of an answer is sent at a time. Short answers are smaller.
	wordChunk = 32 << 10
	// wordTime is how long a client may take for a whole answer. At 1 MB/s it gets the watches of a
	// large server in that time.
	wordTime = time.Minute
)

// answerWord answers a four-letter word, a part at a time, and ends the connection. The reader
// itself writes, because nothing else is sent.
func (c *conn) answerWord(word string) {
	c.srv.stats.sent.Add(1)
	if !c.stream.Limit(wordTime, slowReader) {
		return
	}
	c.stream.Lock()
	c.word = true // no handshake will come
	c.replies.traffic.received++
	c.stream.Unlock()
	client := c.stream.Plain()
	w := bufio.NewWriterSize(client, wordChunk)
	err := c.srv.cfg.Words.Answer(word, client, w)
	if err == nil {
		err = w.Flush()
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.stream.Drop(slowReader)
	case err != nil:
		c.stream.Drop(byClient)
	default:
		c.stream.FinishPlain(wordAnswered)
	}
}
