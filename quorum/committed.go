package quorum

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// raft's latest configuration may not be committed, and raft forgets at a restart how far the log is. A member that
// joins must know whether it is: until then, a majority of the configuration before it may have chosen another one
// (heard.former). So every member stores which configuration was committed last, and says both in its Hello.

// keyCommitted is the key in the stable store for the newest configuration that is known to be committed, as a
// proto.Configuration. No value: there is none beyond the first one, or the folder is of an earlier version.
var keyCommitted = []byte("RollcallCommitted")

// indexed is a configuration, by id, and the index of its entry in the log, or 0 if that is not known. The zero value is
// no configuration.
type indexed struct {
	index   uint64
	servers []wire.Peer
}

func (c indexed) equal(other indexed) bool {
	return c.index == other.index && slices.Equal(c.servers, other.servers)
}

// latest returns raft's latest configuration. It returns none before raft runs, and before raft has one.
func (n *Node) latest() indexed {
	r := n.raft.Load()
	if r == nil {
		return indexed{}
	}
	c := indexed{n.log.lastChange(), wire.Peers(r.GetConfiguration().Configuration())} // does not wait
	if stored := n.fsm.committed.Load(); c.index == 0 && stored != nil && slices.Equal(c.servers, stored.servers) {
		c.index = stored.index // it is in a snapshot
	}
	return c
}

// committed returns the newest configuration of which this member knows that it is committed, or none. A configuration
// is committed if it is in a snapshot or the first one, if it was applied, and if an earlier process has stored that.
func (n *Node) committed() indexed {
	stored := n.fsm.committed.Load()
	if r := n.raft.Load(); r != nil {
		last := n.log.lastChange()
		if last <= max(disk.BootstrapIndex, r.AppliedIndex()) || stored != nil && last <= stored.index {
			return n.latest()
		}
	}
	if stored == nil || stored.index <= n.snapshot {
		return indexed{} // the snapshot may have come from another member, with a newer one
	}
	return *stored
}

// Configurations returns raft's latest configuration, which may not be committed, and the newest one that is
// committed as far as this member knows. Each is nil if there is none.
func (n *Node) Configurations() (latest, committed *pb.Configuration) {
	return n.latest().message(), n.committed().message()
}

// message returns c for other members, or nil if there are no servers.
func (c indexed) message() *pb.Configuration {
	if len(c.servers) == 0 {
		return nil
	}
	m := &pb.Configuration{Index: c.index}
	for _, s := range c.servers {
		m.Servers = append(m.Servers, &pb.ConfiguredServer{Member: s.ID, Address: s.Addr, Voter: !s.Observer})
	}
	return m
}

// indexedOf returns the configuration of a message, which may be nil.
func indexedOf(m *pb.Configuration) indexed {
	c := indexed{index: m.GetIndex()}
	for _, s := range m.GetServers() {
		c.servers = append(c.servers, wire.Peer{ID: s.GetMember(), Addr: s.GetAddress(), Observer: !s.GetVoter()})
	}
	c.servers = wire.Sorted(c.servers)
	return c
}

// storeLoop stores the configurations that are committed. No entry waits for that to be applied, so a member that is
// killed at that moment forgets one.
func (n *Node) storeLoop(ctx context.Context) {
	var last uint64
	if c := n.fsm.committed.Load(); c != nil {
		last = c.index
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.settled:
		}
		c := n.fsm.committed.Load()
		if c == nil || c.index <= max(last, disk.BootstrapIndex) { // after a restart entries are applied once more
			continue
		}
		value, err := proto.Marshal(c.message())
		if err == nil {
			err = n.disk.Stable().Set(keyCommitted, value)
		}
		if err != nil {
			n.fatal(fmt.Errorf("quorum: write configuration: %w", err))
			return
		}
		last = c.index
	}
}

// readCommitted reads what storeLoop has stored, and the index of the newest snapshot.
func (n *Node) readCommitted() error {
	value, err := n.disk.Stable().Value(keyCommitted)
	if err != nil {
		return fmt.Errorf("quorum: read configuration: %w", err)
	}
	if n.snapshot, err = n.disk.Newest(); err != nil {
		return fmt.Errorf("quorum: read snapshots: %w", err)
	}
	var m pb.Configuration
	if err := proto.Unmarshal(value, &m); err != nil {
		return fmt.Errorf("quorum: the stored configuration is %w: %w", disk.ErrDamaged, err)
	}
	if c := indexedOf(&m); len(c.servers) > 0 {
		n.fsm.committed.Store(&c)
	}
	return nil
}
