package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// On the socket, the giver sends a length of four bytes and the Handover, and the taker a byte when it has resumed the
// session. The session is the taker's from the moment at which the giver sends the last byte.
const (
	byteResumed   = 'R'
	byteConfirmed = 'C'
)

// ErrHandoverWithdrawn means that the giver of a session has taken it back, because this process was too slow.
var ErrHandoverWithdrawn = errors.New("the other process has taken the session back")

// errOtherUser means that the other end of a socket is a process of another user.
var errOtherUser = errors.New("the process at the other end belongs to another user")

// Send gives the session to the process at the other end of a Unix socket, which calls TakeOver. It returns nil when
// that process has resumed the session. The Handover is then that process's: h has no password any more.
//
// If there is an error, or if ctx ends first, the other process does not continue the session, and the caller can
// resume it. Send closes conn in any case. Both ends check that the other one runs as the same user. That needs Linux.
// On other systems the error is errors.ErrUnsupported: use WriteFile there.
func (h *Handover) Send(ctx context.Context, conn *net.UnixConn) error {
	err := h.sendOver(ctx, conn)
	_ = conn.Close() // the other end reads its end, and must give up unless it has been sent byteConfirmed
	if err != nil {
		return fmt.Errorf("client: hand over session %v: %w", h.Session, err)
	}
	h.Password = nil
	return nil
}

func (h *Handover) sendOver(ctx context.Context, conn *net.UnixConn) error {
	text, err := h.encodeFile()
	if err == nil {
		err = checkPeer(conn)
	}
	if err != nil {
		return err
	}
	return withContext(ctx, conn, func() error {
		frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
		if _, err := conn.Write(frame); err != nil {
			return err
		}
		var reply [1]byte
		if _, err := io.ReadFull(conn, reply[:]); err != nil {
			return fmt.Errorf("the other process has not resumed the session: %w", err)
		}
		if reply[0] != byteResumed {
			return fmt.Errorf("%w: the other process replied with byte %d", ErrProtocol, reply[0])
		}
		_, err := conn.Write([]byte{byteConfirmed})
		return err
	})
}

// TakeOver gets a session from a process that calls Handover.Send at the other end of a Unix socket, and resumes it as
// Dial does. It returns the Client, and the rights that the session holds: see Handover.Rights. It closes conn.
//
// If there is an error, the session is not this process's. It is ErrHandoverWithdrawn if the other process has taken it
// back meanwhile.
func TakeOver(ctx context.Context, conn *net.UnixConn, servers string, cfg Config) (*Client, []*Right, error) {
	defer func() { _ = conn.Close() }()
	h, err := receiveHandover(ctx, conn)
	if err != nil {
		return nil, nil, fmt.Errorf("client: take over: %w", err)
	}
	cfg.Resume = &h
	c, err := Dial(ctx, servers, cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := confirmResumed(ctx, conn); err != nil {
		c.Abandon()
		return nil, nil, fmt.Errorf("client: take over session %v: %w", h.Session, err)
	}
	rights, err := h.Rights(ctx, c)
	if err != nil {
		c.Abandon()
		return nil, nil, err
	}
	return c, rights, nil
}

func receiveHandover(ctx context.Context, conn *net.UnixConn) (h Handover, err error) {
	if err := checkPeer(conn); err != nil {
		return Handover{}, err
	}
	err = withContext(ctx, conn, func() error {
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		length := binary.BigEndian.Uint32(head[:])
		if length > maxHandoverSize {
			return fmt.Errorf("%w: %d bytes; at most %d are allowed", ErrHandoverDamaged, length, maxHandoverSize)
		}
		text := make([]byte, length)
		if _, err := io.ReadFull(conn, text); err != nil {
			return err
		}
		h, err = decodeHandover(text)
		return err
	})
	if err == nil {
		err = h.CheckFresh()
	}
	return h, err
}

// confirmResumed reports to the giver that the session is resumed, and waits for its consent.
func confirmResumed(ctx context.Context, conn *net.UnixConn) error {
	return withContext(ctx, conn, func() error {
		var reply [1]byte
		_, err := conn.Write([]byte{byteResumed})
		if err == nil {
			_, err = io.ReadFull(conn, reply[:])
		}
		if err != nil || reply[0] != byteConfirmed {
			return errors.Join(ErrHandoverWithdrawn, err)
		}
		return nil
	})
}

// withContext runs what reads and writes on conn, and interrupts it when ctx ends.
func withContext(ctx context.Context, conn *net.UnixConn, exchange func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // if it fails, conn is closed
	defer stop()
	err := exchange()
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// checkPeer returns an error unless the process at the other end runs as the user of this one.
func checkPeer(conn *net.UnixConn) error {
	uid, err := peerUser(conn)
	if err != nil {
		return err
	}
	return checkUser(uid, os.Geteuid())
}

// checkUser returns an error unless the user of the other process is that of this one.
func checkUser(other, own int) error {
	if other != own {
		return fmt.Errorf("%w: %d, and this one to %d", errOtherUser, other, own)
	}
	return nil
}
