package admin

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/zk/jute"
)

const (
	// maxNodeDataBytes limits the data that are shown: all data of a node, unless the configuration allows more.
	maxNodeDataBytes = 1 << 20
	// maxNodeBodyBytes limits a request that changes a node: the longest data in base64, a path and an ACL.
	maxNodeBodyBytes  = 2 << 20
	nodeChangeTimeout = killTimeout
)

// nodesAPI has the endpoints that show and change nodes.
type nodesAPI struct{ ops Operations }

func (n *nodesAPI) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/v1/nodes", access: readAccess, readsEnsemble: true, content: showsPaths, longReply: true, responseBody: api.Node{},
			parameters: []string{"path", "limit", "from"}, requiredParameters: []string{"path"},
			failureStatuses: []int{http.StatusNotFound, http.StatusServiceUnavailable},
			help:            "a node as the caller may see it: its data, its ACL, and its children by name",
			replyJSON:       n.getNode,
		},
		{
			method: "POST", path: "/v1/nodes/create", access: changeAccess, changesEnsemble: true, longReply: true,
			responseBody: api.NodeChanged{}, requestBody: api.NodeCreate{}, failureStatuses: nodeFailures,
			action: "create node", auditTarget: nodeTarget, help: "creates a node", replyJSON: n.createNode,
		},
		{
			method: "POST", path: "/v1/nodes/set", access: changeAccess, changesEnsemble: true, longReply: true,
			responseBody: api.NodeChanged{}, requestBody: api.NodeSet{}, failureStatuses: nodeFailures,
			action: "set node", auditTarget: nodeTarget, help: "sets the data of a node", replyJSON: n.setNode,
		},
		{
			method: "POST", path: "/v1/nodes/delete", access: changeAccess, changesEnsemble: true, longReply: true,
			responseBody: api.NodeChanged{}, requestBody: api.NodeDelete{}, failureStatuses: nodeFailures,
			action: "delete node", auditTarget: nodeTarget, help: "deletes a node without children", replyJSON: n.deleteNode,
		},
	}
}

// nodeFailures are the failure statuses of a change of a node.
var nodeFailures = []int{
	http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable,
	http.StatusGatewayTimeout,
}

// NodeQuery selects a node and a page of its children.
type NodeQuery struct {
	Path       string
	AfterChild string // only children whose names come after this one
	Limit      int    // the most children; their names have view.MaxBytes at most, not counting the last one
	Caller
}

// Caller is the sender of a request about a node. The ACLs decide what it may see.
type Caller struct {
	Host            string // its address, without a port
	IsAdministrator bool   // it is an administrator, who may do everything
}

// Node is a node as a caller may see it.
type Node struct {
	Data         []byte
	Stat         jute.Stat
	ACL          []jute.ACL
	Children     []string
	MoreChildren bool // there are further children
}

// NodeChange is an administrator's change of a node.
type NodeChange struct {
	Op         jute.Op // OpCreate, OpSetData or OpDelete
	Path       string
	Data       []byte
	ACL        []jute.ACL      // of a create
	Mode       jute.CreateMode // of a create: Persistent or PersistentSequential
	Version    int32           // of a set or a delete, that the data must have; -1: any
	CallerHost string          // address of the administrator, without a port
}

// childCursorPrefix precedes the name of the page's last child in a cursor of a node's children.
const childCursorPrefix = "after-"

func (n *nodesAPI) getNode(q *query) (any, error) {
	path, after := q.values.Get("path"), ""
	if from := q.values.Get("from"); from != "" {
		name, ok := strings.CutPrefix(from, childCursorPrefix)
		if !ok || name == "" || !jute.ValidPath("/"+name) || strings.Contains(name, "/") {
			return nil, view.ErrBadCursor
		}
		after = name
	}
	asked := NodeQuery{
		Path: path, AfterChild: after, Limit: cmp.Or(q.intParameter("limit"), view.MaxRows),
		Caller: Caller{Host: hostOfCaller(q.Request), IsAdministrator: q.administrator != ""},
	}
	node, err := n.ops.ReadNode(asked)
	if err != nil {
		return nil, err
	}
	row := apiNode(path, node)
	if q.paths.visibility != allPaths {
		row.Data, row.DataHidden = []byte{}, true
	}
	return row, nil
}

func apiNode(path string, n Node) api.Node {
	row := api.Node{
		Path: path, Data: append([]byte{}, n.Data[:min(len(n.Data), maxNodeDataBytes)]...),
		Children: append([]string{}, n.Children...), Stat: apiStat(n.Stat),
		ACL: make([]api.ACL, len(n.ACL)),
	}
	if last := len(n.Children) - 1; n.MoreChildren && last >= 0 {
		row.NextChildren = childCursorPrefix + n.Children[last]
	}
	for i, a := range n.ACL {
		row.ACL[i] = api.ACL{Scheme: string(a.ID.Scheme), ID: string(a.ID.ID), Perms: a.Perms.Letters()}
	}
	return row
}

func apiStat(s jute.Stat) api.Stat {
	return api.Stat{
		Czxid: view.ZxidText(s.Czxid), Mzxid: view.ZxidText(s.Mzxid), Pzxid: view.ZxidText(s.Pzxid),
		Ctime: utcMillis(time.UnixMilli(s.Ctime)), Mtime: utcMillis(time.UnixMilli(s.Mtime)),
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion, Owner: view.SessionText(s.EphemeralOwner),
		DataLength: s.DataLength, NumChildren: s.NumChildren,
	}
}

func (n *nodesAPI) createNode(q *query) (any, error) {
	var body api.NodeCreate
	q.decodeBodyUpTo(&body, maxNodeBodyBytes)
	c := NodeChange{Op: jute.OpCreate, Path: body.Path, Data: body.Data, ACL: q.parseACL(body.ACL)}
	if body.Sequential {
		c.Mode = jute.PersistentSequential
	}
	return n.changeNode(q, c)
}

func (n *nodesAPI) setNode(q *query) (any, error) {
	var body api.NodeSet
	if q.decodeBodyUpTo(&body, maxNodeBodyBytes); body.Data == nil { // it must not be lost by a slip
		q.addFault(`data is missing: give it in base64, or "" for none`)
	}
	return n.changeNode(q, NodeChange{
		Op: jute.OpSetData, Path: body.Path, Data: body.Data,
		Version: versionOrAny(body.Version),
	})
}

func (n *nodesAPI) deleteNode(q *query) (any, error) {
	var body api.NodeDelete
	q.decodeBodyUpTo(&body, maxNodeBodyBytes)
	return n.changeNode(q, NodeChange{Op: jute.OpDelete, Path: body.Path, Version: versionOrAny(body.Version)})
}

func (n *nodesAPI) changeNode(q *query, c NodeChange) (any, error) {
	q.SetPathValue(auditNodeKey, c.Path)
	if sequence := c.Mode.IsSequential(); !jute.ValidPath(c.Path) && !(sequence && jute.ValidPath(c.Path+"0")) {
		q.addFault("path: %.100q is not the path of a node; write one such as /locks/a", c.Path)
	}
	if q.fault != nil {
		return nil, q.fault
	}
	ctx, cancel := context.WithTimeout(q.Context(), nodeChangeTimeout)
	defer cancel()
	c.CallerHost = hostOfCaller(q.Request)
	path, stat, err := n.ops.ChangeNode(ctx, c)
	if err != nil {
		return nil, err
	}
	q.SetPathValue(auditNodeKey, path)
	changed := api.NodeChanged{Path: path}
	if c.Op != jute.OpDelete {
		row := apiStat(stat)
		changed.Stat = &row
	}
	return changed, nil
}

// auditNodeKey is the path value that holds the path of the node for the audit log.
const auditNodeKey = "node"

func nodeTarget(r *http.Request) string { return cmp.Or(r.PathValue(auditNodeKey), "a node") }

func versionOrAny(v *int32) int32 {
	if v == nil {
		return -1
	}
	return *v
}

// parseACL returns the ACL of a node to be created.
func (q *query) parseACL(rows []api.ACL) []jute.ACL {
	if rows == nil {
		return jute.OpenACL
	}
	list := make([]jute.ACL, 0, len(rows))
	for i, row := range rows {
		perms, err := jute.ParsePerms(row.Perms)
		if err != nil {
			q.addFault("acl: entry %d: %v", i+1, err)
		}
		list = append(list, jute.ACL{Perms: perms, ID: jute.ID{Scheme: []byte(row.Scheme), ID: []byte(row.ID)}})
	}
	return list
}
