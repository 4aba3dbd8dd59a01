package wire

import (
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// When a process dies, the kernel ends its connections and refuses new ones to its ports. A member that observes
// both knows within milliseconds that a leader has died. Package quorum decides; the observations are made here.

// isClosedByPeer reports whether a connection's error means that the other end closed or reset it. Timeouts,
// connections that this member closed, and invalid requests do not count.
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

// ProbeResult is the result of dialing a member's port, as evidence of whether its process is alive.
type ProbeResult int

const (
	ProbeNotDead ProbeResult = iota // the process replied, or the dial timed out
	ProbeRefused                    // nothing listens there
	// ProbeClosed means that the port accepted the connection and closed it without a reply. A dying process
	// may lose its connections before its port.
	ProbeClosed
)

// Probe dials a server and exchanges hellos, each within an election timeout.
func (t *Transport) Probe(server raft.ServerID) ProbeResult {
	addr, known := t.addressOf(server)
	if !known {
		return ProbeNotDead
	}
	return t.probeAddress(addr)
}

func (t *Transport) probeAddress(addr raft.ServerAddress) ProbeResult {
	conn, err := t.cfg.StreamLayer.Dial(addr, t.cfg.ElectionTimeout)
	switch {
	case err == nil:
		_ = conn.Close() // nothing was sent
		return ProbeNotDead
	case errors.Is(err, syscall.ECONNREFUSED):
		return ProbeRefused
	case isClosedByPeer(err):
		return ProbeClosed
	}
	return ProbeNotDead
}

// AwaitMainLoop waits until raft's main loop has finished its current work, such as storing a vote. It
// returns an error after within. Its request has term 0, which raft ignores.
func (t *Transport) AwaitMainLoop(within time.Duration) error {
	_, err := t.receiver.callRaft(raft.RPC{Command: &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
	}}, time.After(within))
	return err
}

// StandForElection makes this member's raft stand for election at once, as if the leader had handed over to it. It
// returns an error if raft does not take the request within the time, because it is busy with another member's
// request.
func (t *Transport) StandForElection(within time.Duration) error {
	_, err := t.receiver.callRaft(raft.RPC{Command: &raft.TimeoutNowRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
	}}, time.After(within))
	return err
}

// EnterTerm makes this member's raft enter a term, unless it has a later one, as a request of that term does. raft
// has no call for it. The request is for a vote, in this member's own name and with an empty log, so raft grants no
// vote; if its own log is empty too, the vote is its own. EnterTerm returns an error if the term is not stored within
// the time. It may be stored later all the same.
func (t *Transport) EnterTerm(term uint64, within time.Duration) error {
	r := t.cfg.Raft()
	if r == nil {
		return errStarting
	}
	if r.CurrentTerm() >= term {
		return nil
	}
	self, limit := t.cfg.LocalServer, time.After(within)
	answer, err := t.receiver.submitToRaft(raft.RPC{Command: &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(self.ServerID()), Addr: []byte(self.ServerAddress()),
		},
		Term:               term,
		LeadershipTransfer: true, // raft may still know the leader
	}}, limit)
	if err != nil {
		return err
	}
	select {
	case got := <-answer:
		return got.Error
	case <-limit:
		return errInterrupted
	}
}
