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

// askAll sends one Hello to each of the other known members, and returns their replies. It logs the complaints in them.
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

// checkReply returns an error for a reply that does not count: one of another member than p, or of a member of another ensemble.
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
	for id, a := range r.replies {
		n.NoteRival(id, a.GetRival())
	}
	n.complaints.Lock()
	defer n.complaints.Unlock()
	for id, err := range r.failed {
		n.logger.Debug("no usable reply", "peer", id, "err", err)
		switch {
		case errors.Is(err, wire.ErrOtherEnsemble):
			const message = "a member is of another ensemble; if it must come into this one, empty its data directory"
			n.complaints.log(n, id, message, message, err)
		case errors.Is(err, wire.ErrTwins):
			const message = "a disk has two processes"
			n.complaints.log(n, id, message, message, err)
		}
	}
}

// NoteRival logs that the leader, which is member from, knows another process with this member's number: once, as long as that
// does not change. rival is "" if the member knows none.
func (n *Node) NoteRival(from uint32, rival string) {
	n.complaints.Lock()
	defer n.complaints.Unlock()
	if rival == "" {
		delete(n.complaints.of, from)
		return
	}
	n.complaints.log(n, from, rival, "another process runs with this member's number; stop one of them", rival)
}

// complaints has what was logged last about each member.
type complaints struct {
	sync.Mutex
	of map[uint32]string
}

// log logs a message with its reason, unless the last complaint about the member was the same.
func (c *complaints) log(n *Node, id uint32, same, message string, reason any) {
	if c.of == nil {
		c.of = map[uint32]string{}
	}
	if c.of[id] != same {
		c.of[id] = same
		n.logger.Error(message, "peer", id, "reason", reason)
	}
}
