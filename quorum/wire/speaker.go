package wire

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// A member may speak only for itself. raft trusts the sender that a request names: it follows the leader in an
// AppendEntries or a snapshot, and votes for the candidate in a vote request. So each sender is compared with the
// member at the other end of the connection (Conn.PeerID) before raft sees the request.

// errImpostor is wrapped by the error for a request that names another sender than the connection's member.
var errImpostor = errors.New("quorum: a member may speak for itself only")

// errNotLeader is wrapped by the error for a leadership transfer from a member that this one does not follow.
var errNotLeader = errors.New("quorum: leadership is taken over from the leader only")

// checkAndSetSender returns an error unless a request names peer as its sender. raft sends its id and address with
// every request. Some requests have a second address, which raft reads only if that one is empty.
//
// raft distinguishes candidates by the address alone, and stores it with its vote. Addresses may pass from
// one server to another, so checkAndSetSender replaces the address by the server's id.
func (rc *receiver) checkAndSetSender(peer raft.ServerID, command any) error {
	if peer == "" {
		return fmt.Errorf("%w: the connection is not known to be a member's", errImpostor)
	}
	header := senderOf(command)
	if header == nil {
		return fmt.Errorf("%w: a request of type %T has no sender", errImpostor, command)
	}
	if string(header.ID) != string(peer) || len(header.Addr) == 0 {
		return fmt.Errorf("%w: the request says that it is from member %.20q at %.300q", errImpostor, header.ID, header.Addr)
	}
	header.Addr = []byte(peer)
	return nil
}

// senderOf returns the header in which raft names the sender of a request, or nil.
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

// checkFromLeader returns an error unless raft follows the member that transfers leadership. raft would stand
// for election on anyone's request, and the others would vote although they have a leader. The leader
// transfers only to a member that has taken its entries in this term, so that member knows it.
func checkFromLeader(r *raft.Raft, peer raft.ServerID) error {
	if _, leader := r.LeaderWithID(); leader != peer {
		return fmt.Errorf("%w: member %q hands it over, and the leader is %.20q", errNotLeader, peer, leader)
	}
	return nil
}
