package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// recoveryTerms is added to raft's term by a recovery. It is more elections than the lost
// members can have held since the surviving member last heard of one. So no entry of theirs has
// the index and term of one written afterwards, and no client has seen a later zxid.
const recoveryTerms = 1 << 16

// keyRecovery is the key in the stable store for a recovery of the data, or for their planting. Its value
// ends with a number of 8 bytes, which is random for a recovery. Before it, there is room for 32 bytes that
// earlier versions read.
var keyRecovery = []byte("RollcallRecovery")

// ErrRival is returned by a recovered member that is still alone and finds another member with
// data: running both would create two ensembles.
var ErrRival = errors.New("runs with data of its own")

// recoverySize is the length of the value of keyRecovery.
const recoverySize = 32 + 8

// keyFollowed is the key in the stable store for the number of the recovery since which there have been several voters.
var keyFollowed = []byte("RollcallFollowed")

// readRecovery returns the number of the recovery that this member's data went through, or 0 if there was
// none.
func readRecovery(stable *disk.Stable) (uint64, error) {
	v, err := stable.Value(keyRecovery)
	if err != nil {
		return 0, fmt.Errorf("quorum: read state: %w", err)
	}
	if len(v) != recoverySize {
		return 0, nil
	}
	return binary.BigEndian.Uint64(v[recoverySize-8:]), nil
}

// writeRecovery stores the number of a recovery under a server list.
func writeRecovery(stable *disk.Stable, peers []wire.Peer, number uint64) error {
	if err := stable.Set(keyRecovery, binary.BigEndian.AppendUint64(wire.ConfigHash(peers), number)); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	return nil
}

// Recovery returns the number of the recovery that this member's data went through, or 0 if there
// was none.
func (n *Node) Recovery() uint64 { return n.recovery.Load() }

// Recovering reports whether this member is the only voter among several members, as it is after a
// recovery until another one has followed. It then knows of everything that was promised since.
func (n *Node) Recovering() bool {
	r := n.raft.Load()
	return r != nil && !n.joining.Load() && !n.followed.Load() && n.only(voters(r))
}

// noteFollowed stores that another voter has come in since this member's data were recovered or planted. Members with
// other data are no danger any more, even if this one becomes the only voter again.
func (n *Node) noteFollowed(r *raft.Raft) error {
	if n.Recovery() == 0 || n.followed.Load() || len(voters(r)) < 2 {
		return nil
	}
	if err := n.disk.Stable().SetUint64(keyFollowed, n.Recovery()); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	n.followed.Store(true)
	return nil
}

// readFollowed reads what noteFollowed has stored. Another recovery makes it void.
func (n *Node) readFollowed() error {
	number, err := n.disk.Stable().GetUint64(keyFollowed)
	if err != nil {
		return fmt.Errorf("quorum: read state: %w", err)
	}
	n.followed.Store(number != 0 && number == n.Recovery())
	return nil
}

// CaughtUp reports whether this member has all that it missed and waits for the leader to make it a
// voter.
func (n *Node) CaughtUp() bool {
	r := n.raft.Load()
	return r != nil && n.HasData() && !n.joining.Load() && !n.votes(r)
}

// only reports whether this member is the only voter, and others are to be.
func (n *Node) only(voters []raft.ServerID) bool {
	return len(voters) == 1 && voters[0] == n.self().ServerID() && len(wire.Voters(n.wantedPeers())) > 1
}

// checkRivals looks for members with data from before the recovery of this one. It returns an error if this
// member must stop for one, and logs others once; warned remembers them.
func (n *Node) checkRivals(r *raft.Raft, answers map[uint32]*proto.HelloReply, warned map[uint32]bool) error {
	if n.Recovery() == 0 {
		return nil
	}
	rivals, followed := n.rivals(answers)
	followed = followed || n.followed.Load()
	for _, p := range rivals {
		if !followed && n.only(voters(r)) {
			return fmt.Errorf("quorum: this member was recovered, but member %d (%s) %w; empty the folder of the one that must not continue",
				p.ID, p.Addr, ErrRival)
		}
		if !warned[p.ID] {
			warned[p.ID] = true
			n.logger.Warn("a member is not taken in: it has data from before the recovery; empty its folder", "peer", p.ID)
		}
	}
	return nil
}

// rivals returns the members with data that did not go through the same recovery. It also reports
// whether there are members that did.
func (n *Node) rivals(answers map[uint32]*proto.HelloReply) (rivals []wire.Peer, followed bool) {
	for _, p := range n.cfg.Book.Once() {
		a := answers[p.ID]
		switch {
		case !a.GetHasData():
		case a.GetRecovery() == n.Recovery():
			followed = true
		default:
			rivals = append(rivals, p)
		}
	}
	return rivals, followed
}
