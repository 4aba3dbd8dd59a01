package wire

import (
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// When a process dies, the kernel ends its connections and refuses new ones to its ports. A member that sees both
// knows within milliseconds that a leader has died. The functions here tell what was seen; package quorum judges it.

// brokenOff reports whether an error of a connection means that the other end has closed or reset it. A timeout, a
// connection that this member has closed, and a request that cannot be read mean something else.
func brokenOff(err error) bool {
	if errors.Is(err, errBounds) {
		return false
	}
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// Connected reports whether a server has a connection to this member's port.
func (t *Transport) Connected(server raft.ServerID) bool { return t.receiver.conns.from(server) }

// Knock is the result of a dial to a member's port, as evidence of whether its process lives.
type Knock int

const (
	Answered Knock = iota // the process answers, or nothing at all does
	Refused               // nothing listens there
	// BrokenOff means that the port took the connection and ended it without an answer. A process that dies may lose
	// its connections before its port.
	BrokenOff
)

// Knock dials a server, for at most an election timeout, and says hello, for at most another one.
func (t *Transport) Knock(server raft.ServerID) Knock {
	addr, known := t.addressOf(server)
	if !known {
		return Answered
	}
	return t.knock(addr)
}

func (t *Transport) knock(addr raft.ServerAddress) Knock {
	conn, err := t.cfg.Stream.Dial(addr, t.cfg.Election)
	switch {
	case err == nil:
		_ = conn.Close() // nothing was sent
		return Answered
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case brokenOff(err):
		return BrokenOff
	}
	return Answered
}

// Settle waits until raft's main loop has done what it is doing, which may be to store a vote. It returns an error if
// that takes longer than a time. raft ignores a request of term 0.
func (t *Transport) Settle(within time.Duration) error {
	_, err := t.receiver.pass(raft.RPC{Command: &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
	}}, time.After(within))
	return err
}

// Stand makes this member's raft stand for election at once, as if the leader had handed over to it. If raft does not
// take the request within a time, it is busy with what another member has sent, and Stand returns an error.
func (t *Transport) Stand(within time.Duration) error {
	_, err := t.receiver.pass(raft.RPC{Command: &raft.TimeoutNowRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
	}}, time.After(within))
	return err
}
