package quorum

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

const (
	// admitInterval is how often a leader looks for members that are missing in its configuration.
	admitInterval = askInterval
	// recoveryTerms is added to raft's term by a recovery. It is more elections than the lost
	// members can have held since the surviving member last heard of one. So no entry of theirs has
	// the index and term of one written afterwards, and no client has seen a later zxid.
	recoveryTerms = 1 << 16
)

// keyRecovery is the key in the stable store for a recovery of the data. Its value has the hash of
// the server list of the recovery, and a random number of 8 bytes.
var keyRecovery = []byte("RollcallRecovery")

// ErrRival is returned by a recovered member that is still alone and finds another member with
// data: running both would create two ensembles.
var ErrRival = errors.New("runs with data of its own")

// readRecovery returns the number of the recovery that this member's data went through. It returns
// 0 if there was none, or if it was for another server list.
func readRecovery(stable *disk.Stable, peers []wire.Peer) (uint64, error) {
	v, err := stable.Value(keyRecovery)
	if err != nil {
		return 0, fmt.Errorf("quorum: read state: %w", err)
	}
	hash := wire.ConfigHash(peers)
	if len(v) != len(hash)+8 || !slices.Equal(v[:len(hash)], hash) {
		return 0, nil
	}
	return binary.BigEndian.Uint64(v[len(hash):]), nil
}

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
// recovery. It then knows of everything that was promised since.
func (n *Node) Recovering() bool {
	r := n.raft.Load()
	return r != nil && !n.joining.Load() && n.alone(voters(r))
}

// CaughtUp reports whether this member has all that it missed and waits for the leader to make it a
// voter.
func (n *Node) CaughtUp() bool {
	r := n.raft.Load()
	return r != nil && n.HasData() && !n.joining.Load() && !n.votes(r)
}

// votes reports whether this member is a voter of its own configuration.
func (n *Node) votes(r *raft.Raft) bool {
	return slices.Contains(voters(r), n.self().ServerID())
}

func (n *Node) alone(voters []raft.ServerID) bool {
	return len(n.cfg.Peers) > 1 && len(voters) == 1 && voters[0] == n.self().ServerID()
}

// voters returns the voters in raft's latest configuration.
func voters(r *raft.Raft) (ids []raft.ServerID) {
	for _, s := range r.GetConfiguration().Configuration().Servers { // does not wait
		if s.Suffrage == raft.Voter {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// admitLoop completes the configuration of a recovered ensemble while this member leads. It adds
// other members when they join, and makes them voters when they have caught up.
func (n *Node) admitLoop(ctx context.Context, r *raft.Raft) {
	ticker := time.NewTicker(admitInterval)
	defer ticker.Stop()
	warned := map[uint32]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if r.State() != raft.Leader || len(voters(r)) == len(n.cfg.Peers) {
			continue
		}
		answers := n.askAll(ctx)
		rivals, followed := n.rivals(answers)
		for _, p := range rivals {
			if !followed && n.alone(voters(r)) {
				n.fatal(fmt.Errorf("quorum: this member was recovered, but member %d (%s) %w; empty the folder of the one that must not continue",
					p.ID, p.Addr, ErrRival))
				return
			}
			if !warned[p.ID] {
				warned[p.ID] = true
				n.logger.Warn("a member is not taken in: it has data from before the recovery; empty its folder", "peer", p.ID)
			}
		}
		for _, change := range n.changes(r, answers) {
			if err := n.change(ctx, change); err != nil {
				n.logger.Info("membership not changed; this member will try again", "err", err)
				break
			}
		}
	}
}

// rivals returns the members with data that did not go through the same recovery. It also reports
// whether there are members that did.
func (n *Node) rivals(answers map[uint32]*proto.HelloReply) (rivals []wire.Peer, followed bool) {
	for _, p := range wire.Sorted(n.cfg.Peers) {
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

// changes returns the changes that the answers allow, in order. It makes no member a voter until
// enough members have caught up that further empty members could join through the voters; see
// joinQuorum.
func (n *Node) changes(r *raft.Raft, answers map[uint32]*proto.HelloReply) (changes []func() raft.IndexFuture) {
	suffrage := map[raft.ServerID]raft.ServerSuffrage{}
	ready := 0
	for _, s := range r.GetConfiguration().Configuration().Servers {
		suffrage[s.ID] = s.Suffrage
		if s.Suffrage == raft.Voter {
			ready++
		}
	}
	var promoted []func() raft.IndexFuture
	for _, p := range wire.Sorted(n.cfg.Peers) {
		a := answers[p.ID]
		has, in := suffrage[p.ServerID()]
		switch {
		case a.GetRecovery() != n.Recovery() || !a.GetJoining():
		case !in:
			changes = append(changes, func() raft.IndexFuture {
				return r.AddNonvoter(p.ServerID(), raft.ServerAddress(p.Addr), 0, n.election)
			})
		case has != raft.Voter && a.GetCaughtUp():
			ready++
			promoted = append(promoted, func() raft.IndexFuture {
				return r.AddVoter(p.ServerID(), raft.ServerAddress(p.Addr), 0, n.election)
			})
		}
	}
	if ready >= joinQuorum(len(n.cfg.Peers)) {
		changes = append(changes, promoted...)
	}
	return changes
}

// change makes one change and waits for its outcome.
func (n *Node) change(ctx context.Context, change func() raft.IndexFuture) error {
	outcome := make(chan error, 1)
	go func() { outcome <- change().Error() }() // raft ends it with the term, or when it stops
	select {
	case err := <-outcome:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// checkServers compares raft's configuration with the server list. After a recovery it
// may lack members.
func checkServers(have []raft.Server, peers []wire.Peer, recovered bool) error {
	want := wire.Configuration(peers).Servers
	have = slices.SortedFunc(slices.Values(have), func(a, b raft.Server) int { return cmp.Compare(wire.MemberID(a.ID), wire.MemberID(b.ID)) })
	ok := len(have) == 0 || slices.Equal(have, want)
	if recovered {
		ok = !slices.ContainsFunc(have, func(s raft.Server) bool {
			s.Suffrage = raft.Voter
			return !slices.Contains(want, s)
		})
	}
	if !ok {
		return fmt.Errorf("quorum: the stored configuration %w: it has %v; was a recovery not finished?", disk.ErrServersChanged, have)
	}
	return nil
}
