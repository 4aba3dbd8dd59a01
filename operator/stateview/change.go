package stateview

import (
	"time"

	"rollcall/operator/api"
	"rollcall/operator/subtree"
	"rollcall/operator/view"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// The names of changes of nodes, which are those of an api.Change. Ends of sessions are in endOperations.
var changeOperations = map[znode.ChangeKind]string{
	znode.NodeCreated: "create", znode.NodeDeleted: "delete", znode.DataSet: "set data", znode.ACLSet: "set acl",
	znode.SessionOpened: "open session", znode.ServersChanged: "change servers",
}

var endOperations = map[znode.EndReason]string{
	znode.ReasonClosed: "close session", znode.ReasonExpired: "expire session", znode.ReasonKilled: "kill session",
}

var changeCauses = map[znode.RemovalCause]string{
	znode.CauseDeleted: view.CauseDeleted, znode.CauseSessionEnded: view.CauseSessionEnded,
	znode.CauseTTLExpired: view.CauseTTL, znode.CauseEmptyContainer: view.CauseContainer,
}

var changeNodeKinds = map[znode.NodeKind]string{
	znode.PlainNode: view.KindPersistent, znode.EphemeralNode: view.KindEphemeral, znode.ContainerNode: view.KindContainer,
	znode.TTLNode: view.KindTTL,
}

// ChangeFilter selects changes. The zero value selects all.
type ChangeFilter struct {
	Path    string         // only those of the node at this path and of all nodes below it; "": of all nodes, and of sessions
	Session jute.SessionID // only those by the client of this session, and of the session itself; 0: of all
}

// Matches reports whether the filter selects a change.
func (f ChangeFilter) Matches(c *znode.Change) bool {
	return (f.Session == 0 || c.Session == f.Session) &&
		(f.Path == "" || c.Path != "" && subtree.IsAtOrBelow(c.Path, f.Path))
}

// ChangeRow returns the row of a change.
func ChangeRow(c *znode.Change) api.Change {
	row := api.Change{
		Zxid: view.ZxidText(c.Zxid), Number: c.TxnPart, At: time.UnixMilli(c.AtMs).UTC(), Operation: changeOperations[c.Kind],
		Path: c.Path, Cause: changeCauses[c.Cause], SessionID: view.SessionText(c.Session), Address: c.Address, MemberID: c.Member,
	}
	if c.End != nil {
		row.Operation, row.Cause = endOperations[c.End.Reason], c.End.RequestedBy
	}
	if c.Path != "" {
		version, length := c.Version, c.DataBytes
		row.Version, row.DataLength, row.Kind = &version, &length, changeNodeKinds[c.Node]
	}
	return row
}
