package wire

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// A member may speak for itself only. raft believes what a request says of its sender: it follows
// the leader that an AppendEntries or a snapshot names, and counts its vote for the candidate that
// asks. So each request is held against the member that the connection belongs to (Conn.Peer) before
// raft sees it.

// errImpostor is wrapped by the error for a request that speaks for another member than the one that
// its connection belongs to.
var errImpostor = errors.New("quorum: a member may speak for itself only")

// errNotLeader is wrapped by the error for a leadership that is handed over by a member that this one
// does not follow.
var errNotLeader = errors.New("quorum: leadership is taken over from the leader only")

// checkSpeaker returns an error unless a request names the member peer as its sender. raft has always
// sent its id and address with every request. Some requests have a second address, which raft reads only
// if that one is empty.
//
// raft tells candidates apart by the address alone, and stores it with its vote. Addresses change and may
// pass from one server to another, so checkSpeaker puts the server's name in place of the address.
func (rc *receiver) checkSpeaker(peer raft.ServerID, command any) error {
	if peer == "" {
		return fmt.Errorf("%w: the connection is not known to be a member's", errImpostor)
	}
	header := senderOf(command)
	if header == nil {
		return fmt.Errorf("%w: a request of type %T names nobody", errImpostor, command)
	}
	if string(header.ID) != string(peer) || len(header.Addr) == 0 {
		return fmt.Errorf("%w: the request says that it is from member %.20q at %.300q", errImpostor, header.ID, header.Addr)
	}
	header.Addr = []byte(peer)
	return nil
}

// senderOf returns the part of a request in which raft names its sender, or nil.
func senderOf(command any) *raft.RPCHeader {
	switch req := command.(type) {
	case *raft.AppendEntriesRequest:
		return &req.RPCHeader
	case *raft.RequestVoteRequest:
		return &req.RPCHeader
	case *raft.RequestPreVoteRequest:
		return &req.RPCHeader
	case *raft.InstallSnapshotRequest:
		return &req.RPCHeader
	case *raft.TimeoutNowRequest:
		return &req.RPCHeader
	}
	return nil
}

// checkHandOver returns an error unless raft follows the member that hands leadership over. raft would
// stand for election whoever asks, and the others would vote although they have a leader. The leader
// hands over only to a member that has taken its entries in this term, so that member knows it.
func checkHandOver(r *raft.Raft, peer raft.ServerID) error {
	if _, leader := r.LeaderWithID(); leader != peer {
		return fmt.Errorf("%w: member %q hands it over, and the leader is %.20q", errNotLeader, peer, leader)
	}
	return nil
}
