package zk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// link is a connection of a Conn. It reports its end, and replies that are too long.
type link struct {
	net.Conn
	c        *Conn
	server   string
	once     sync.Once
	inFrame  int    // bytes of the present frame that have not come
	lengthIn []byte // of the next frame
}

// Read checks the lengths of frames if they have a limit.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		l.c.noteFailure()
	}
	if l.c.settings.maxBufferSize <= 0 {
		return n, err
	}
	for rest := b[:n]; len(rest) > 0; {
		if l.inFrame > 0 {
			skip := min(l.inFrame, len(rest))
			l.inFrame, rest = l.inFrame-skip, rest[skip:]
			continue
		}
		l.lengthIn, rest = append(l.lengthIn, rest[0]), rest[1:]
		if len(l.lengthIn) < 4 {
			continue
		}
		l.inFrame = int(binary.BigEndian.Uint32(l.lengthIn))
		l.lengthIn = l.lengthIn[:0]
		if l.inFrame > l.c.settings.maxBufferSize {
			err := fmt.Errorf("received packet from server with length %d, which exceeds max buffer size %d", l.inFrame,
				l.c.settings.maxBufferSize)
			l.c.settings.logger.Printf("%v", err)
			return 0, err
		}
	}
	return n, err
}

// Close closes the connection, and reports that once.
func (l *link) Close() error {
	err := l.Conn.Close()
	l.once.Do(func() { l.c.setStateOf(StateDisconnected, l.server) })
	return err
}
