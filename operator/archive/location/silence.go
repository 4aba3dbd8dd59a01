package location

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

const (
	// silenceLimit is the longest that a connection to a bucket may transfer no byte while a request is on it, in either direction. Then
	// the request fails. A service that is busy replies sooner.
	silenceLimit = time.Minute
	// writePart is the number of bytes that must be sent within silenceLimit: so a slow connection is not taken for a silent one.
	writePart = 16 << 10
)

// noSilence returns a function that dials as dial does, and whose connections fail after they have transferred nothing for a time.
func noSilence(limit time.Duration, dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: c, limit: limit}, nil
	}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// watchedConn is a connection whose reads and writes fail after it has transferred nothing for limit. A byte in one direction extends
// the time of both: while a long object is sent, nothing comes.
type watchedConn struct {
	net.Conn
	limit    time.Duration
	isSilent atomic.Bool // it has failed: then the client closes it, which ends the transfer in the other direction with another error
}

// Read implements io.Reader.
func (c *watchedConn) Read(b []byte) (int, error) {
	if err := c.extend(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	return n, c.finish(n, err)
}

// Write implements io.Writer.
func (c *watchedConn) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		if err = c.extend(); err != nil {
			break
		}
		var part int
		part, err = c.Conn.Write(b[:min(len(b), writePart)])
		n, b = n+part, b[part:]
	}
	return n, c.finish(n, err)
}

func (c *watchedConn) extend() error { return c.SetDeadline(time.Now().Add(c.limit)) }

// finish extends the time after a transfer of n bytes, or explains its error.
func (c *watchedConn) finish(n int, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.isSilent.Store(true)
	}
	switch {
	case err != nil && c.isSilent.Load():
		return fmt.Errorf("the service has neither taken nor sent a byte for %v: %w", c.limit, os.ErrDeadlineExceeded)
	case err == nil && n > 0:
		return c.extend()
	}
	return err
}
