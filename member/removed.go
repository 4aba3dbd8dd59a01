package member

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"rollcall/proto"
	"rollcall/quorum/wire"
)

// LastAnswers is how long a member that was removed goes on serving. The client that asked for the removal may
// be connected to it, and the reply waits for at most a second (server.reconfigWait).
const LastAnswers = 1500 * time.Millisecond

// askRemoved is how often a member that knows no leader asks the others whether it was removed: nobody sends anything
// to a member that is not in the list.
const askRemoved = 5 * time.Second

// askWhetherRemoved asks all other members, each for a tick at most.
func (m *Member) askWhetherRemoved(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Tick)
	defer cancel()
	var asking sync.WaitGroup
	for _, p := range m.ports.book.Once() {
		if p.ID != m.cfg.ID {
			asking.Go(func() {
				if reply, err := m.hellos.send(ctx, p); err == nil {
					m.noteRemoval(reply)
				}
			})
		}
	}
	asking.Wait()
}

// noteRemoval records that this member was removed, if another member's reply says so: the newest list does not have this member,
// and neither does raft's configuration there. (A member that has left the list may still be a voter, until another one can take
// its place.) A reply does not count if raft does not run there yet, if the state there does not have the list, or if that member
// was removed itself.
func (m *Member) noteRemoval(reply *proto.HelloReply) {
	version, servers := m.lists.newestServers()
	if version == 0 || reply.GetRoster().GetVersion() != version || reply.GetHearsay() || reply.GetRemoved() || slices.ContainsFunc(servers, m.isSelf) {
		return
	}
	configured := reply.GetConfiguration().GetServers()
	if len(configured) > 0 && !slices.ContainsFunc(configured, func(s *proto.ConfiguredServer) bool { return s.GetMember() == m.cfg.ID }) {
		m.removedIn.Store(version)
	}
}

func (m *Member) isSelf(s Server) bool { return s.ID == m.cfg.ID }

// unlisted returns the version of the newest list if that does not have this member, or else 0. A member without data
// waits to be added.
func (m *Member) unlisted() int64 {
	version, servers := m.lists.newestServers()
	if version == 0 || slices.ContainsFunc(servers, m.isSelf) || !m.node.HasData() {
		return 0
	}
	return version
}

// removed returns the version of the newest list if neither that nor raft's configuration has this member, or else 0.
// While this member knows no leader, the configuration of one that does counts.
func (m *Member) removed() int64 {
	version := m.unlisted()
	if (m.removedIn.Load() != version || m.node.Status().LeaderID() != 0) && slices.ContainsFunc(m.node.Status().Configuration(), func(p wire.Peer) bool { return p.ID == m.cfg.ID }) {
		return 0
	}
	return version
}

// askLoop asks the others while this member knows no leader.
func (m *Member) askLoop(ctx context.Context) error {
	if m.cfg.alone() {
		return nil
	}
	ticker := time.NewTicker(askRemoved)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if m.node.Status().LeaderID() == 0 {
			m.askWhetherRemoved(ctx)
		}
	}
}

// removedLoop closes the clients' connections of a member that has left the list, so that they go to the others
// while their sessions have most of their timeouts left. Without it, the connections would end with their leases, much
// later. Until then the clients' writes would get no answer: the state takes no write from a member that is not in the
// list, even if that member still votes.
func (m *Member) removedLoop(ctx context.Context) error {
	ticker := time.NewTicker(m.cfg.Tick / 4)
	defer ticker.Stop()
	removed := false
	for since := (time.Time{}); ; {
		version := m.unlisted()
		if version != 0 && !removed && m.removed() != 0 {
			removed = true
			m.log.Warn("this member was removed from the ensemble and serves no clients; stop it, or add it again", "version", fmt.Sprintf("0x%x", uint64(version)))
		}
		switch {
		case version != 0 && since.IsZero():
			since = time.Now()
			m.log.Info("this member is not in the list of servers any more, and lets its clients go", "version", fmt.Sprintf("0x%x", uint64(version)))
		case version != 0 && time.Since(since) >= LastAnswers:
			m.server.Suspend() // again and again: the end of a dispute undoes it
		case version == 0 && !since.IsZero():
			since, removed = time.Time{}, false
			m.log.Info("this member was added to the ensemble again")
			if m.disputed() == "" {
				m.server.Resume()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.lists.passedOn:
		case <-ticker.C:
		}
	}
}
