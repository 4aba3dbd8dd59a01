package fakezk

import (
	"bytes"
	"slices"
	"strings"

	"rollcall/client/internal/nodepath"
	"rollcall/zk/jute"
)

// record is the record of a reply.
type record interface{ Append([]byte) []byte }

// executeRequest carries a request out. The lock is held.
func (c *conn) executeRequest(op jute.Op, body []byte) (jute.Code, record) {
	s := c.server
	if op.IsWrite() && op != jute.OpCloseSession {
		if s.readOnly {
			return jute.NotReadOnly, nil
		}
		return c.executeWrite(op, body)
	}
	d := jute.NewDecoder(body)
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		var r jute.WatchedPath
		r.Decode(&d)
		return c.readNode(op, string(r.Path), r.Watch)
	case jute.OpMultiRead:
		ops, err := jute.DecodeMulti(&d, nil)
		if err != nil {
			return jute.MarshallingError, nil
		}
		return jute.OK, c.readEach(ops)
	case jute.OpGetEphemerals:
		return jute.OK, c.listEphemerals(string(d.ReadBytes()))
	case jute.OpSync:
		c.catchUp()
		return jute.OK, jute.SyncResponse{Path: d.ReadBytes()}
	case jute.OpAddWatch, jute.OpRemoveWatches, jute.OpCheckWatches:
		if s.Before36 && op != jute.OpRemoveWatches || s.Before35 {
			return jute.Unimplemented, nil
		}
		return c.changeWatch(op, string(d.ReadBytes()), d.ReadInt32(), s.Before39)
	case jute.OpSetWatches, jute.OpSetWatches2:
		c.setWatches(decodeSetWatches(op, &d))
	case jute.OpCloseSession:
		s.endSession(c.session)
	case jute.OpPing, jute.OpAuth:
	default:
		return jute.Unimplemented, nil
	}
	return jute.OK, nil
}

// executeWrite carries out a write, and sends the events of its changes.
func (c *conn) executeWrite(op jute.Op, body []byte) (jute.Code, record) {
	s := c.server
	c.catchUp()
	s.zxid++
	t := transaction{tree: s.nodes, zxid: s.zxid, session: c.session.id}
	d := jute.NewDecoder(body)
	if op == jute.OpMulti {
		ops, err := jute.DecodeMulti(&d, nil)
		if err != nil {
			return jute.MarshallingError, nil
		}
		before := s.nodes.clone()
		results, ok := t.runMulti(ops)
		if !ok {
			s.nodes = before
			return jute.OK, results
		}
		s.sendChanges(t.changes)
		return jute.OK, results
	}
	var single jute.MultiOp
	switch single.Op = op; {
	case op.IsCreate() && op != jute.OpCreateTTL:
		single.Create.Decode(&d)
	case op == jute.OpDelete:
		single.Delete.Decode(&d)
	case op == jute.OpSetData:
		single.SetData.Decode(&d)
	default:
		return jute.Unimplemented, nil
	}
	code, rec := t.run(&single)
	s.sendChanges(t.changes)
	return code, rec
}

// readNode reads a node, and sets a watch if the request has one.
func (c *conn) readNode(op jute.Op, path string, watch bool) (jute.Code, record) {
	nodes := c.nodes()
	n := nodes[path]
	if n != nil && n.secret && !(op == jute.OpExists && c.server.StatsAreOpen) {
		return jute.NoAuth, nil
	}
	if watch && (n != nil || op == jute.OpExists) {
		table := c.data
		if op == jute.OpGetChildren || op == jute.OpGetChildren2 {
			table = c.children
		}
		addWatch(table, path, modeOnce, c.server.Before39)
	}
	if n == nil {
		if s := c.server; s.Ensemble != "" && op == jute.OpGetData && path == jute.HistoryPath {
			return jute.OK, jute.GetDataResponse{Data: []byte(jute.History{Ensemble: s.Ensemble, Since: s.historyFrom, ACLs: s.aclsChanged}.Text())}
		}
		return jute.NoNode, nil
	}
	switch op {
	case jute.OpGetData:
		return jute.OK, jute.GetDataResponse{Data: n.data, Stat: n.stat}
	case jute.OpExists:
		return jute.OK, jute.ExistsResponse{Stat: n.stat}
	case jute.OpGetChildren:
		return jute.OK, jute.GetChildrenResponse{Children: nodes.childrenOf(path)}
	}
	return jute.OK, jute.GetChildren2Response{Children: nodes.childrenOf(path), Stat: n.stat}
}

// readEach returns the results of the reads of a multi. Each of them succeeds or fails by itself.
func (c *conn) readEach(ops []jute.MultiOp) (results multiResults) {
	for _, op := range ops {
		code, rec := c.readNode(op.Op, string(op.Path()), false)
		results = append(results, multiResult{op.Op, code, rec})
	}
	return results
}

// listEphemerals returns the paths of the session's nodes that begin with prefix.
func (c *conn) listEphemerals(prefix string) (list jute.GetEphemeralsResponse) {
	for path, n := range c.nodes() {
		if n.stat.EphemeralOwner == c.session.id && strings.HasPrefix(path, prefix) {
			list.Ephemerals = append(list.Ephemerals, []byte(path))
		}
	}
	slices.SortFunc(list.Ephemerals, bytes.Compare)
	return list
}

// endSession deletes the session's nodes in one transaction.
func (s *Server) endSession(ended *session) {
	delete(s.sessions, ended.id)
	ended.link = nil
	s.zxid++
	t := transaction{tree: s.nodes, zxid: s.zxid}
	for path, n := range s.nodes {
		if n.stat.EphemeralOwner == ended.id {
			t.delete(path)
		}
	}
	slices.SortFunc(t.changes, func(a, b change) int { return strings.Compare(a.path, b.path) })
	s.sendChanges(t.changes)
}

// childrenOf returns the sorted names of a node's children.
func (t tree) childrenOf(path string) (names [][]byte) {
	for child := range t {
		if child != "/" && nodepath.Parent(child) == path {
			_, name := nodepath.SplitLast(child)
			names = append(names, []byte(name))
		}
	}
	slices.SortFunc(names, bytes.Compare)
	return names
}
