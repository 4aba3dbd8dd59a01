package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"rollcall/server/stream"
)

// acceptPause and maxAcceptPause bound the wait after accept fails, for example for want of file descriptors.
// It is long enough to use no processor time, and short enough that clients do not give up.
const (
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// listener accepts connections, and holds what they share.
type listener struct {
	net.Listener
	acceptor  *stream.Acceptor // replaces Listener.Accept; nil if connections may speak TLS, or the listener is not TCP
	speaksTLS bool
	openConns sync.WaitGroup
	streams   stream.Group
}

func (l *listener) close() {
	_ = l.Listener.Close()
	if l.acceptor != nil {
		l.acceptor.Close()
	}
}

// acceptAll calls accept until ctx ends or the listener is closed. It continues after temporary errors, such
// as too many open files or an aborted connection, and calls failed with the first error after a success.
func acceptAll(ctx context.Context, accept func() error, failed func(error)) error {
	pause := time.Duration(0)
	for {
		err := accept()
		switch {
		case err == nil:
			pause = 0
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("server: accept: %w", err)
		}
		if pause == 0 {
			failed(err)
		}
		pause = min(max(2*pause, acceptPause), maxAcceptPause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
