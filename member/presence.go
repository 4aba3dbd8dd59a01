package member

import (
	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// raftServerList returns raft's configuration as a list. It may lack several changes of the state's list.
// Together they can give servers each other's addresses although no single change does, and then all of these
// servers would wait.
func raftServerList(node *quorum.Node) (list serverlist.List) {
	for _, p := range node.Status().ConfiguredMembers() {
		s := serverlist.Server{ID: p.ID, Observer: p.Observer}
		s.Host, s.ElectionPort = splitHostPort(p.Addr)
		list = append(list, s)
	}
	return list
}

// reachableAfterChange implements leader.Config.ReachableServers. If raft's configuration could not follow the list
// after the change, it returns no members, so the change is rejected. It queues an operator's list, so that this
// member contacts the new servers.
func (t *terms) reachableAfterChange(txn *proto.Txn) []uint32 {
	change, err := znode.DecodeServerListChange(txn)
	if err != nil {
		return nil // apply rejects it
	}
	next := t.m.serverLists.listAfter(change)
	if err := raftServerList(t.m.node).CheckAddressCycles(next); err != nil {
		t.m.log.Warn("a change of the list of servers is rejected until raft's configuration has followed the last ones",
			"reason", err)
		return nil
	}
	if jute.Op(txn.GetOp()) == jute.OpChangeServers && len(next) > 0 {
		t.proposedLists.enqueueIfEmpty(next)
	}
	return t.m.node.Reachability().PresentMembers(raftPeers(serversFromList(next)))
}
