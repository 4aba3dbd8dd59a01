package server

import (
	"encoding/hex"
	"slices"

	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// session serves the requests that read the tree or set, check or remove watches. Methods named after an
// opcode append the record of the reply to out. The connection's lock and the tree's guard it.
type session struct {
	id         jute.SessionID // 0 until the handshake has drawn or read one
	tree       *znode.State
	limits     *Limits
	watchOwner znode.Watcher // gets the events of the watches
}

func (s *session) exists(out *stream.Buffer, r *request) jute.Code {
	var req jute.ExistsRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return jute.MarshallingError
	}
	if req.Watch && s.isPathTooLong(req.Path) {
		return jute.BadArguments
	}
	stat, code := s.tree.Exists(req.Path, r.ids, s.watcherIf(req.Watch))
	out.B = stat.Append(out.B)
	return code
}

// getData inserts data of r.minShared bytes or more instead of copying them.
func (s *session) getData(out *stream.Buffer, r *request) jute.Code {
	var req jute.GetDataRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return jute.MarshallingError
	}
	data, stat, code := s.tree.GetData(req.Path, r.ids, s.watcherIf(req.Watch))
	if code == jute.NoNode && !req.Watch && string(req.Path) == jute.HistoryPath { // a watch of it would never fire
		data, code = s.historyText(r), jute.OK
	}
	if len(data) < r.minShared {
		out.B = jute.GetDataResponse{Data: data, Stat: stat}.Append(out.B)
		return code
	}
	out.B = jute.AppendInt32(out.B, int32(len(data)))
	out.Insert(len(out.B), data)
	out.B = stat.Append(out.B)
	return code
}

// historyText returns the data at jute.HistoryPath.
func (s *session) historyText(r *request) []byte {
	var id [32]byte
	if ensemble := r.c.srv.cfg.EnsembleID; ensemble != nil {
		id = ensemble()
	}
	return []byte(jute.History{Ensemble: hex.EncodeToString(id[:]), Since: znode.HistorySince(s.tree), ACLs: znode.HistoryACLs(s.tree)}.Text())
}

func (s *session) getACL(out *stream.Buffer, r *request) jute.Code {
	var req jute.GetACLRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return jute.MarshallingError
	}
	acl, stat, code := s.tree.GetACL(req.Path, r.ids)
	out.B = jute.GetACLResponse{ACL: acl, Stat: stat}.Append(out.B)
	return code
}

func (s *session) getChildren(out *stream.Buffer, r *request) jute.Code {
	var req jute.GetChildrenRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return jute.MarshallingError
	}
	names, stat, code := s.tree.Children(req.Path, r.ids, s.watcherIf(req.Watch))
	out.B = appendChildNames(out.B, names, nil)
	if r.op == jute.OpGetChildren2 {
		out.B = stat.Append(out.B)
	}
	return code
}

// multiRead serves each operation by itself, up to Limits.MaxUnread bytes of results, and sets no watches. It
// decodes one operation at a time: together they would take 25 times as much memory as the request.
func (s *session) multiRead(out *stream.Buffer, r *request) jute.Code {
	now := s.tree.TreeView()
	var code jute.Code
	out.B, code = s.multiReadFrom(out.B, &now, r.body, r.ids, nil)
	return code
}

// multiReadFrom is multiRead from one copy of the tree.
func (s *session) multiReadFrom(b []byte, from *znode.TreeView, body []byte, ids []*proto.Identity, p *pacer) ([]byte,
	jute.Code,
) {
	begin, code := len(b), jute.OK
	whole := jute.EachMultiOp(body, func(op *jute.MultiOp) (more bool) {
		if op.Op.IsWrite() || len(b)-begin > s.limits.MaxUnread {
			code = jute.MarshallingError
			return false
		}
		before := len(b)
		b, code = appendReadResult(b, from, op, ids, p)
		return p.step(stepsPerOp+(len(b)-before)/bytesPerStep) && code == jute.OK
	})
	if code == jute.OK && !whole {
		code = jute.MarshallingError
	}
	if code != jute.OK {
		return b[:begin], code
	}
	return jute.AppendMultiEnd(b), jute.OK
}

// appendReadResult appends the result of one operation of a multiRead. A null path makes the whole multiRead fail.
func appendReadResult(b []byte, from *znode.TreeView, op *jute.MultiOp, ids []*proto.Identity, p *pacer) ([]byte,
	jute.Code,
) {
	mark := len(b)
	b = jute.MultiHeader{Type: op.Op}.Append(b)
	var code jute.Code
	if op.Op == jute.OpGetData {
		var res jute.GetDataResponse
		res.Data, res.Stat, code = from.GetData(op.GetData.Path, ids)
		b = res.Append(b)
	} else { // getChildren: no other reads are in a multi
		var names znode.ChildNames
		names, code = from.Children(op.GetChildren.Path, ids)
		b = appendChildNames(b, names, p)
	}
	if code != jute.OK && code != jute.MarshallingError {
		return appendError(b[:mark], code), jute.OK
	}
	return b, code
}

// isPathTooLong reports whether a path is too long for a node, and so also for a watch.
func (s *session) isPathTooLong(path []byte) bool { return len(path) > s.limits.MaxPath }

func (s *session) getEphemerals(out *stream.Buffer, r *request) jute.Code {
	var req jute.GetEphemeralsRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return jute.MarshallingError
	}
	out.B = appendCounted(out.B, 0, s.tree.TreeView().Ephemerals(s.id, req.Path).All(), nil)
	return jute.OK
}

func (s *session) getAllChildrenNumber(out *stream.Buffer, r *request) jute.Code {
	var req jute.GetAllChildrenNumberRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return jute.MarshallingError
	}
	n, code := s.tree.TreeView().AllChildrenNumber(req.Path, r.ids)
	out.B = jute.AppendInt32(out.B, int32(n))
	return code
}

func (s *session) addWatch(out *stream.Buffer, r *request) jute.Code {
	var req jute.AddWatchRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return jute.MarshallingError
	}
	if s.isPathTooLong(req.Path) {
		return jute.BadArguments
	}
	code := s.tree.AddWatch(req.Path, req.Mode, s.watchOwner)
	out.B = jute.ErrorResponse{Err: code}.Append(out.B)
	return code
}

func (s *session) checkWatches(out *stream.Buffer, r *request) jute.Code {
	var req jute.CheckWatchesRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return jute.MarshallingError
	}
	return s.tree.Watches().CheckWatch(req.Path, req.Type, s.watchOwner)
}

func (s *session) removeWatches(out *stream.Buffer, r *request) jute.Code {
	var req jute.RemoveWatchesRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return jute.MarshallingError
	}
	return s.tree.Watches().RemoveWatch(req.Path, req.Type, s.watchOwner)
}

func (s *session) whoAmI(out *stream.Buffer, r *request) jute.Code {
	var res jute.WhoAmIResponse
	for _, id := range r.ids {
		res.ClientInfo = append(res.ClientInfo, clientInfo(id))
	}
	out.B = res.Append(out.B)
	return jute.OK
}

func (s *session) watcherIf(wanted bool) znode.Watcher {
	if !wanted {
		return nil
	}
	return s.watchOwner
}

// decodeSetWatches decodes either form of the request.
func (s *session) decodeSetWatches(r *request) (*jute.SetWatches2, jute.Code) {
	var req jute.SetWatches2
	d := jute.NewDecoder(r.body)
	if r.op == jute.OpSetWatches2 {
		req.Decode(&d)
	} else {
		var old jute.SetWatches // has no persistent watches
		old.Decode(&d)
		req = jute.SetWatches2{
			RelativeZxid: old.RelativeZxid, Data: old.Data, Exist: old.Exist, Child: old.Child,
			Persistent: [][]byte{}, Recursive: [][]byte{},
		}
	}
	if d.Err() != nil {
		return nil, jute.MarshallingError
	}
	if s.hasLongPath(&req) {
		return nil, jute.BadArguments
	}
	return &req, jute.OK
}

func (s *session) hasLongPath(req *jute.SetWatches2) bool {
	for _, list := range [][][]byte{req.Data, req.Exist, req.Child, req.Persistent, req.Recursive} {
		if slices.ContainsFunc(list, s.isPathTooLong) {
			return true
		}
	}
	return false
}
