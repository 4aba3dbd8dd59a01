package member

import (
	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// configuredList returns raft's configuration as a list. Several changes of the state's list may be missing from it.
// Together they can give servers each other's addresses although each change alone gives none, and then all of these
// servers would wait.
func configuredList(node *quorum.Node) (list serverlist.List) {
	for _, p := range node.Status().ConfiguredMembers() {
		s := serverlist.Server{ID: p.ID, Observer: p.Observer}
		s.Host, s.ElectionPort = split(p.Addr)
		list = append(list, s)
	}
	return list
}

// present implements leader.Config.Present. If the configuration could not follow the list after the change, nobody
// counts, so that the change is refused.
func (t *terms) present(txn *proto.Txn) []uint32 {
	change, err := znode.ServerListChange(txn)
	if err != nil {
		return nil // apply refuses it
	}
	next := t.m.lists.after(change)
	if err := configuredList(t.m.node).CheckMoves(next); err != nil {
		t.m.log.Warn("a change of the list of servers is refused until raft's configuration has followed the last ones", "reason", err)
		return nil
	}
	if jute.Op(txn.GetOp()) == jute.OpChangeServers && len(next) > 0 {
		t.newcomers.lookFor(next)
	}
	return t.m.node.Reachability().PresentMembers(raftPeers(serversOf(next)))
}
