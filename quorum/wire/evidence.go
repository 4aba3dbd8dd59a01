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

// isClosedByPeer reports whether an error of a connection means that the other end has closed or reset it. A timeout, a
// connection that this member has closed, and a request that cannot be read mean something else.
func isClosedByPeer(err error) bool {
	if errors.Is(err, errNotRaftRequest) {
		return false
	}
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// HasConnectionFrom reports whether a server has a connection to this member's port.
func (t *Transport) HasConnectionFrom(server raft.ServerID) bool {
	return t.receiver.peerConns.hasConnFrom(server)
}

// ProbeResult is the result of a dial to a member's port, as evidence of whether its process lives.
type ProbeResult int

const (
	ProbeReplied ProbeResult = iota // the process answers, or nothing at all does
	ProbeRefused                    // nothing listens there
	// ProbeClosed means that the port took the connection and ended it without an answer. A process that dies may lose
	// its connections before its port.
	ProbeClosed
)

// Probe dials a server, for at most an election timeout, and says hello, for at most another one.
func (t *Transport) Probe(server raft.ServerID) ProbeResult {
	addr, known := t.addressOf(server)
	if !known {
		return ProbeReplied
	}
	return t.probeAddress(addr)
}

func (t *Transport) probeAddress(addr raft.ServerAddress) ProbeResult {
	conn, err := t.cfg.StreamLayer.Dial(addr, t.cfg.ElectionTimeout)
	switch {
	case err == nil:
		_ = conn.Close() // nothing was sent
		return ProbeReplied
	case errors.Is(err, syscall.ECONNREFUSED):
		return ProbeRefused
	case isClosedByPeer(err):
		return ProbeClosed
	}
	return ProbeReplied
}

// AwaitMainLoop waits until raft's main loop has done what it is doing, which may be to store a vote. It returns an error if
// that takes longer than a time. raft ignores a request of term 0.
func (t *Transport) AwaitMainLoop(within time.Duration) error {
	_, err := t.receiver.passToRaft(raft.RPC{Command: &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
	}}, time.After(within))
	return err
}

// StandForElection makes this member's raft stand for election at once, as if the leader had handed over to it. If raft does not
// take the request within a time, it is busy with what another member has sent, and Stand returns an error.
func (t *Transport) StandForElection(within time.Duration) error {
	_, err := t.receiver.passToRaft(raft.RPC{Command: &raft.TimeoutNowRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
	}}, time.After(within))
	return err
}
