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
	// Known reports whether the first four bytes of a connection are a word: else they are
	// the length of a frame.
	Known(word string) bool
	// Answer writes what is to be sent before the connection closes. argument is what the
	// client sends behind the word. It may wait for both, and ends with their error.
	Answer(word string, argument io.Reader, w io.Writer) error
}

const (
	// wordChunk is how much of an answer is sent at once: more than the short ones have.
	wordChunk = 32 << 10
	// wordTime is how long a client may take for all of an answer: at 1 MB/s it gets the
	// watches of a large server.
	wordTime = time.Minute
)

// answerWord answers a four-letter word, a part at a time, and ends the connection. The
// reader itself writes: there is nothing else to send.
func (c *conn) answerWord(word string) {
	c.srv.stats.sent.Add(1)
	if !c.beginWord() {
		return
	}
	timer := time.AfterFunc(wordTime, func() { c.cut(slowReader) })
	defer timer.Stop()
	c.in.rest = c.in.rest[len(word):]
	w := bufio.NewWriterSize(wordWriter{c}, wordChunk)
	err := c.srv.cfg.Words.Answer(word, &c.in, w)
	if err == nil {
		err = w.Flush()
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.cut(slowReader)
	case err != nil:
		c.cut(byClient)
	default:
		c.endWord()
	}
}

// beginWord notes that the connection carries a word; no handshake will come.
func (c *conn) beginWord() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return false
	}
	c.deadline.Stop()
	c.word, c.expires = true, time.Now().Add(wordTime)
	c.traffic.received++
	return true
}

func (c *conn) endWord() {
	c.mu.Lock()
	c.endAfter(wordAnswered)
	c.mu.Unlock()
	c.finish()
}

// wordWriter writes to the client's socket, each part within the deadline of a client
// that has no session.
type wordWriter struct{ c *conn }

func (w wordWriter) Write(b []byte) (int, error) {
	w.c.armWrite(time.Now())
	return w.c.sock.Write(b)
}
