package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum/wire"
	"rollcall/znode"
)

// present implements leader.Config.Present. If the configuration could not follow the list after the change, nobody
// counts, so that the change is refused.
func (m *Member) present(reconfig *proto.Txn) []uint32 {
	change, err := znode.ChangeOf(reconfig)
	if err != nil {
		return nil // apply refuses it
	}
	next := m.lists.after(change)
	if err := m.configuredList().Moves(next); err != nil {
		m.log.Warn("a change of the list of servers is refused until raft's configuration has followed the last ones", "reason", err)
		return nil
	}
	return m.node.Reachability().Present(raftPeers(serversOf(next)))
}

// configuredList returns raft's configuration as a list. Several changes of the state's list may be missing from it.
// Together they can give servers each other's addresses although each change alone gives none, and then all of these
// servers would wait.
func (m *Member) configuredList() (list serverlist.List) {
	for _, p := range m.node.Status().Configuration() {
		s := serverlist.Server{ID: p.ID, Observer: p.Observer}
		s.Host, s.ElectionPort = split(p.Addr)
		list = append(list, s)
	}
	return list
}

// meet looks for the servers that a change of the list names, where it says that they are. They may be strangers so
// far: with certificates, such a server cannot come to this member before the list has its host. An administrator has
// named the host, so the server is proved by that.
func (m *Member) meet(ctx context.Context, change serverlist.Change) {
	list := m.lists.after(change)
	if len(list) == 0 {
		return
	}
	m.node.Reachability().Meet(ctx, raftPeers(serversOf(list)), func(ctx context.Context, id uint32) (*proto.HelloReply, error) {
		s, _ := list.Find(id)
		return m.askAt(ctx, s)
	})
}

// askAt sends a Hello to a server at the addresses of its line, on a connection of its own.
func (m *Member) askAt(ctx context.Context, s serverlist.Server) (*proto.HelloReply, error) {
	there := newPeers(m.cfg.Tick, func(ctx context.Context, id uint32) (net.Conn, error) {
		return m.ports.hello.At(s.Host).Dial(ctx, m.cfg.Network.Dial, s.QuorumAddr(), id)
	})
	defer there.close()
	c, err := there.follower(s.ID)
	if err != nil {
		return nil, err
	}
	reply, err := c.Hello(ctx, m.hello())
	return reply, there.explain(s.ID, err)
}

// newcomerWait is how long a change of an operator waits for what the servers say that it brings in: a reply takes a few round trips.
const newcomerWait = 2 * time.Second

// checkNewcomers returns an error if a server that comes in or moves from one list to the next has data of another ensemble: it would
// refuse every member of this one for ever, and only its own log would say so. A server that is not reached may be started later.
func (m *Member) checkNewcomers(ctx context.Context, list, next serverlist.List) error {
	ctx, cancel := context.WithTimeout(ctx, newcomerWait)
	defer cancel()
	outcomes := make([]error, len(next))
	var all sync.WaitGroup
	for i, s := range next {
		known, listed := list.Find(s.ID)
		if s.ID == m.cfg.ID || listed && known.QuorumAddr() == s.QuorumAddr() {
			continue
		}
		all.Go(func() {
			if _, err := m.askAt(ctx, s); errors.Is(err, wire.ErrOtherEnsemble) {
				outcomes[i] = fmt.Errorf("member %d at %s has data of another ensemble (%w); if it must come into this one, stop it, empty its data directory but for its number, and start it again", s.ID, s.QuorumAddr(), err)
			}
		})
	}
	all.Wait()
	return errors.Join(outcomes...)
}
