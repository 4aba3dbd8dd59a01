package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"rollcall/proto"
	"rollcall/quorum/wire"
)

// round is the outcome of one round of requests, by member.
type round struct {
	replies map[uint32]*proto.HelloReply
	failed  map[uint32]error // those without a usable reply
}

// askAll sends a Hello to everybody else who is known, once. Why a member has refused is logged when it changes.
func (n *Node) askAll(ctx context.Context) round {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r := round{replies: map[uint32]*proto.HelloReply{}, failed: map[uint32]error{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range n.cfg.Book.Once() {
		if p.ID == n.cfg.Self {
			continue
		}
		wg.Go(func() {
			reply, err := n.cfg.Ask(ctx, p)
			if err == nil {
				err = n.checkReply(p, reply)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.failed[p.ID] = err
				return
			}
			r.replies[p.ID] = reply
		})
	}
	wg.Wait()
	n.logComplaints(r)
	return r
}

// checkReply returns an error for a reply that does not count: of another member, or of one of another ensemble.
func (n *Node) checkReply(p wire.Peer, reply *proto.HelloReply) error {
	theirs, own := ensembleOf(reply), n.cfg.Book.Ensemble()
	switch {
	case reply.GetMember() != p.ID:
		return fmt.Errorf("member %d has replied", reply.GetMember())
	case theirs != wire.EnsembleID{} && own != wire.EnsembleID{} && theirs != own && n.HasData():
		return wire.ErrOtherEnsemble
	}
	return nil
}

// logComplaints logs what an operator must know: members of another ensemble, and disks that run twice. Each is logged once.
func (n *Node) logComplaints(r round) {
	n.complaints.Lock()
	defer n.complaints.Unlock()
	for id, a := range r.replies {
		if rival := a.GetRival(); rival != "" {
			n.complaints.log(n, id, "another process runs with this member's number; stop one of them", rival)
		} else {
			delete(n.complaints.of, id)
		}
	}
	for id, err := range r.failed {
		n.logger.Debug("no usable reply", "peer", id, "err", err)
		switch {
		case errors.Is(err, wire.ErrOtherEnsemble):
			n.complaints.log(n, id, "a member is of another ensemble; if it must come into this one, empty its data directory", err.Error())
		case errors.Is(err, wire.ErrTwins):
			n.complaints.log(n, id, "a disk has two processes", err.Error())
		}
	}
}

// complaints has what was logged last of each member.
type complaints struct {
	sync.Mutex
	of map[uint32]string
}

func (f *complaints) log(n *Node, id uint32, message, why string) {
	if f.of == nil {
		f.of = map[uint32]string{}
	}
	if f.of[id] != message {
		f.of[id] = message
		n.logger.Error(message, "peer", id, "reason", why)
	}
}
