package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"rollcall/proto"
	"rollcall/quorum/wire"
)

// A list of servers is taken only if a majority of its voters could vote at once (Present). A server that comes in or
// moves must therefore be there before the list names it. It shows that in one of two ways: it asks this member and
// says its address, or an operator names it, and it answers at the address of its new line (Meet).

const (
	// metFor is how long a member that was met counts as present. A member that waits asks each askInterval, or each
	// askTimeout if others do not answer.
	metFor = 2*askTimeout + askInterval
	// presenceWait is how long the members that a change names may take to be there. One that has just been started
	// listens after a fraction of a second. An operator waits, so it is a few rounds of questions.
	presenceWait = 6 * askInterval
	// maxAddress bounds the address that a member says it has: a name of 253 bytes, a port, and two brackets.
	maxAddress = 264
)

// met records where and when this member has met others last. It is safe for concurrent use. Ids are at most 255.
type met struct {
	mu sync.Mutex
	of map[uint32]meeting
}

type meeting struct {
	addr string // of its raft
	at   time.Time
}

// Met records that another member is there: it has asked this one and said where its raft is reached, or it has
// answered at the address that an operator has named.
func (n *Node) Met(p wire.Peer) {
	if len(p.Addr) > maxAddress {
		return
	}
	n.met.mu.Lock()
	defer n.met.mu.Unlock()
	if n.met.of == nil {
		n.met.of = map[uint32]meeting{}
	}
	n.met.of[p.ID] = meeting{p.Addr, time.Now()}
}

// has reports whether a member was met lately at its address.
func (m *met) has(p wire.Peer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.of[p.ID]
	return last.addr == p.Addr && time.Since(last.at) <= metFor
}

// Present returns the ids of those members of a list, in its order, that could vote now at the addresses that it gives
// them. A member whose address in the configuration is that one must answer raft while this member leads. The others
// must have been met there lately.
func (n *Node) Present(list []wire.Peer) (ids []uint32) {
	have, reached := n.Configuration(), append(n.trans.Reached(n.election), n.cfg.Self)
	for _, p := range list {
		h, in := find(have, p.ID)
		there := p.ID == n.cfg.Self && p.Addr == n.self().Addr || n.met.has(p)
		if in && h.Addr == p.Addr {
			there = slices.Contains(reached, p.ID)
		}
		if there {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// Meet looks for the voters of a list that are not present, until most of its voters are, or presenceWait is over.
// ask sends a Hello to a member of the list at its address there. If some voters are not found, Meet logs why.
func (n *Node) Meet(ctx context.Context, list []wire.Peer, ask func(ctx context.Context, id uint32) (*proto.HelloReply, error)) {
	ctx, cancel := context.WithTimeout(ctx, presenceWait)
	defer cancel()
	for {
		absent := n.absent(list)
		if 2*len(absent) < len(wire.Voters(list)) {
			return
		}
		found, why := n.look(ctx, absent, ask)
		if found {
			continue
		}
		select {
		case <-ctx.Done():
			n.logger.Info("too few voters of a new server list are there", "absent", wire.Canonical(absent), "reason", why)
			return
		case <-time.After(askInterval):
		}
	}
}

// absent returns the voters of a list that are not present.
func (n *Node) absent(list []wire.Peer) []wire.Peer {
	present := n.Present(list)
	return slices.DeleteFunc(slices.Clone(list), func(p wire.Peer) bool { return p.Observer || slices.Contains(present, p.ID) })
}

// look asks those of some members that the configuration does not have at their addresses, all at the same time. It
// reports whether one of them is there, and otherwise returns why not. raft says who is there of the others.
func (n *Node) look(ctx context.Context, absent []wire.Peer, ask func(ctx context.Context, id uint32) (*proto.HelloReply, error)) (found bool, why error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	have := n.Configuration()
	outcomes := make([]error, len(absent))
	var all sync.WaitGroup
	for i, p := range absent {
		if h, in := find(have, p.ID); in && h.Addr == p.Addr {
			outcomes[i] = fmt.Errorf("member %d does not answer raft", p.ID)
			continue
		}
		all.Go(func() {
			reply, err := ask(ctx, p.ID)
			switch {
			case err == nil && reply.GetMember() != p.ID:
				err = fmt.Errorf("member %d has answered in place of member %d", reply.GetMember(), p.ID)
			case err == nil:
				err = n.sameEnsemble(reply)
			}
			if err == nil {
				n.Met(p)
			}
			outcomes[i] = err
		})
	}
	all.Wait()
	return slices.Contains(outcomes, nil), errors.Join(outcomes...)
}
