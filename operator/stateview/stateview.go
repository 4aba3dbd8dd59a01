// Package stateview answers operators' queries that need the replicated state alone: about sessions and their ends, ephemeral
// nodes, owners and removals of nodes. Members answer so from their present state, and commands from a state of the past.
//
//   - Viewer: a state, whose lock it takes for a part of a reply at a time.
package stateview

import (
	"context"
	"runtime"
	"slices"

	"rollcall/operator/view"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	// sessionsPerLock is the number of sessions that a reply visits under one hold of the tree's lock: some tens of
	// microseconds.
	sessionsPerLock = 128
	// maxScanned limits the sessions that a reply visits to find the matching ones: some tens of milliseconds.
	maxScanned = 512 * sessionsPerLock
	// listedPerLock is the number of nodes or ends that a listing reads under one hold of the lock, some tens of
	// microseconds.
	listedPerLock = 1024
)

// Viewer answers queries about a state. It is safe for concurrent use.
type Viewer struct{ State *znode.State }

// Reply returns the reply to a query, or nil if the query needs more than the state. If ctx ends, the reply may lack rows.
func (v Viewer) Reply(ctx context.Context, r *proto.ViewRequest) *proto.ViewReply {
	switch about := r.About.(type) {
	case *proto.ViewRequest_Sessions:
		return &proto.ViewReply{About: &proto.ViewReply_Sessions{Sessions: v.sessionRows(ctx, about.Sessions)}}
	case *proto.ViewRequest_Owner:
		return &proto.ViewReply{About: &proto.ViewReply_Owner{Owner: v.ownerRow(ctx, about.Owner)}}
	case *proto.ViewRequest_Ephemerals:
		return &proto.ViewReply{About: &proto.ViewReply_Ephemerals{Ephemerals: v.ephemeralRows(about.Ephemerals)}}
	case *proto.ViewRequest_Removals:
		return &proto.ViewReply{About: &proto.ViewReply_Removals{Removals: v.removalRows(ctx, about.Removals)}}
	}
	return nil
}

// rowLimit returns the maximum number of rows in a reply.
func rowLimit(limit uint32) int { return int(min(limit, view.MaxRows)) }

// sessionRows returns sessions of the state from an id on.
func (v Viewer) sessionRows(ctx context.Context, q *proto.ViewSessions) *proto.SessionRows {
	limit, want := rowLimit(q.Limit), view.NewClientFilter(string(q.Address))
	r := &proto.SessionRows{Next: q.First, Rows: make([]*proto.SessionRow, 0, limit)}
	free := make([]proto.SessionRow, limit) // one allocation, without the lock
	for range maxScanned / sessionsPerLock {
		if v.appendSessions(q, free, want, r); r.Next == 0 || len(r.Rows) == limit || ctx.Err() != nil {
			break
		}
	}
	return r
}

// appendSessions adds sessions from r.Next on, until all rows of free are used or the lock was held long
// enough. It sets r.Next to the id at which to continue, or 0 if there are no more.
func (v Viewer) appendSessions(q *proto.ViewSessions, free []proto.SessionRow, want view.ClientFilter,
	r *proto.SessionRows,
) {
	tree := v.State
	tree.RLock()
	defer tree.RUnlock()
	looked := 0
	for one := range tree.Sessions(jute.SessionID(r.Next)) {
		if r.Next = uint64(one.ID); looked >= sessionsPerLock || len(r.Rows) == len(free) {
			return
		}
		looked++
		if q.Member != 0 && one.Owner.Member != q.Member || !want.Matches(one.Address) {
			continue
		}
		ephemerals := tree.TreeView().EphemeralCountOf(one.ID)
		looked += ephemerals / ephemeralsPerVisit
		row := &free[len(r.Rows)]
		row.Id, row.Member, row.Address, row.TimeoutMs = uint64(one.ID), one.Owner.Member, []byte(one.Address),
			uint32(one.Timeout.Milliseconds())
		row.CreatedMs, row.Ephemerals = one.CreatedMs, uint32(ephemerals)
		r.Rows = append(r.Rows, row)
	}
	r.Next = 0
}

// ephemeralsPerVisit is the number of ephemeral nodes that are counted in the time of visiting a session.
const ephemeralsPerVisit = 32

// ownerRow returns the kind of a node and its session, or the sessions of its ephemeral children.
func (v Viewer) ownerRow(ctx context.Context, q *proto.ViewOwner) *proto.OwnerRow {
	r := v.kindRow(string(q.Path))
	if r.Session == 0 { // an ephemeral node has no children
		v.addChildren(ctx, string(q.Path), r)
	}
	return r
}

func (v Viewer) kindRow(path string) *proto.OwnerRow {
	tree := v.State
	tree.RLock()
	defer tree.RUnlock()
	kind, session := tree.TreeView().KindOf(path)
	r := &proto.OwnerRow{Kind: nodeKinds[kind], Session: uint64(session)}
	if session != 0 {
		_, lives := tree.Session(session)
		r.Ended = !lives
	}
	return r
}

// addChildren adds the ephemeral children of a node and their sessions. The tree's lock is released between parts, so
// a child that comes or goes meanwhile may be missing.
func (v Viewer) addChildren(ctx context.Context, path string, r *proto.OwnerRow) {
	var children []ownedChild
	tree, after := v.State, ""
	for range maxScanned / listedPerLock {
		tree.RLock()
		after = tree.TreeView().EphemeralChildren(path, after, listedPerLock, func(name string, owner jute.SessionID) {
			children = append(children, ownedChild{name, owner})
			r.Ephemerals++
		})
		tree.RUnlock()
		children = firstInLine(children)
		if after == "" || ctx.Err() != nil {
			break
		}
		runtime.Gosched() // clients wait for the processor meanwhile
	}
	r.Partial = after != ""
	tree.RLock()
	defer tree.RUnlock()
	for _, child := range children {
		session, lives := tree.Session(child.owner)
		r.Children = append(r.Children, &proto.ChildRow{
			Name: []byte(child.name), Session: uint64(child.owner), Ended: !lives,
			Member: session.Owner.Member, Address: []byte(session.Address),
		})
	}
}

type ownedChild struct {
	name  string
	owner jute.SessionID
}

// firstInLine returns the children of a reply, in order. Those that are not among them are dropped after each hold of the lock,
// so a line of any length costs a sort of listedPerLock names and of a reply at a time.
func firstInLine(children []ownedChild) []ownedChild {
	slices.SortFunc(children, func(a, b ownedChild) int { return view.CompareInLine(a.name, b.name) })
	kept := min(len(children), view.MaxOwnedChildren)
	clear(children[kept:])
	return children[:kept]
}

var nodeKinds = map[znode.NodeKind]proto.NodeKind{
	znode.NoNode: proto.NodeKind_NODE_KIND_NONE, znode.PlainNode: proto.NodeKind_NODE_KIND_PLAIN,
	znode.EphemeralNode: proto.NodeKind_NODE_KIND_EPHEMERAL,
	znode.ContainerNode: proto.NodeKind_NODE_KIND_CONTAINER, znode.TTLNode: proto.NodeKind_NODE_KIND_TTL,
}

// ephemeralRows returns the ephemeral nodes of a session from a path on, under one hold of the lock: a page has
// fewer than listedPerLock.
func (v Viewer) ephemeralRows(q *proto.ViewEphemerals) *proto.EphemeralRows {
	tree := v.State
	tree.RLock()
	defer tree.RUnlock()
	limit, size := rowLimit(q.Limit), 0
	r := &proto.EphemeralRows{}
	for owner, path := range tree.TreeView().EphemeralsFrom(jute.SessionID(q.Session), string(q.First)) {
		if owner != jute.SessionID(q.Session) {
			break
		}
		if size += len(path); len(r.Paths) == limit || size > view.MaxBytes && len(r.Paths) > 0 {
			r.Next = []byte(path)
			break
		}
		r.Paths = append(r.Paths, []byte(path))
	}
	return r
}
