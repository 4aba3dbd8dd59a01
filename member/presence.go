package member

import (
	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// raftServerList returns raft's configuration as a list. Several changes of the state's list may be missing from it.
// Together they can give servers each other's addresses although each change alone gives none, and then all of these
// servers would wait.
func raftServerList(node *quorum.Node) (list serverlist.List) {
	for _, p := range node.Status().ConfiguredMembers() {
		s := serverlist.Server{ID: p.ID, Observer: p.Observer}
		s.Host, s.ElectionPort = splitHostPort(p.Addr)
		list = append(list, s)
	}
	return list
}

// presentAfterChange implements leader.Config.Present. If the configuration could not follow the list after the change, nobody
// counts, so that the change is refused.
func (t *terms) presentAfterChange(txn *proto.Txn) []uint32 {
	change, err := znode.ServerListChange(txn)
	if err != nil {
		return nil // apply refuses it
	}
	next := t.m.serverLists.listAfter(change)
	if err := raftServerList(t.m.node).CheckMoves(next); err != nil {
		t.m.log.Warn("a change of the list of servers is refused until raft's configuration has followed the last ones", "reason", err)
		return nil
	}
	if jute.Op(txn.GetOp()) == jute.OpChangeServers && len(next) > 0 {
		t.newcomers.enqueueList(next)
	}
	return t.m.node.Reachability().PresentMembers(raftPeers(serversFromList(next)))
}
