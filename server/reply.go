package server

import (
	"encoding/binary"
	"time"

	"rollcall/jute"
	"rollcall/proto"
	"rollcall/server/stream"
	"rollcall/znode"
)

const (
	noReplyZxid = -1 // the zxid in the reply to an operation that the server does not know
	zxidOffset  = 8  // where the zxid is in a reply frame: after length and xid
)

const (
	// shareFrom is a length in bytes. Data of a node that are at least as long are not copied into
	// a reply, but sent from the node's memory. A loop does not write such a reply.
	shareFrom = 64 << 10
	// shareWaiting is the same for a read that has waited. It is smaller, because apply may answer
	// many such reads.
	shareWaiting = 8 << 10
)

// answer queues the reply to a request that does not go through the log, and frees r. The caller
// holds the lock and the tree's lock.
func (c *conn) answer(r *request) {
	if r.how.before != nil && r.code == jute.OK && !r.parts {
		if r.code = r.how.before(c, r); c.stream.Dead() {
			return
		}
	}
	out := c.stream.Output()
	b, mark := jute.BeginFrame(out.B)
	header := jute.ReplyHeader{Xid: r.xid, Zxid: c.zxidOf(r)}
	begin := len(b)
	b = header.Append(b)
	extra := out.Extra()
	switch header.Err = r.code; {
	case r.read != nil:
		b, header.Err = r.read.appendRecord(b)
	case r.code == jute.OK && r.how.answer != nil:
		b, header.Err = r.how.answer(c, b, r)
	}
	if header.Err != jute.OK {
		b = header.Append(b[:begin]) // and no more, for most operations
		if r.how.failed != nil {
			b = r.how.failed(b)
		}
	}
	extra = out.Extra() - extra
	out.B = jute.EndFrame(b, mark)
	binary.BigEndian.PutUint32(b[mark:], uint32(len(b)-mark-lengthSize+extra))
	c.srv.stats.refuse(header.Err)
	c.srv.stats.response(len(b) - begin + extra)
	if len(b)-begin+extra >= stream.AccountStep {
		c.stream.Count() // smaller replies are counted when they are about to be sent
	}
	if r.read != nil {
		r.read.appendEvents()
	}
	c.replied(r)
}

// zxidOf returns the zxid for a reply that is made now. The zxids of a connection never decrease,
// even if an older reply had to wait.
func (c *conn) zxidOf(r *request) int64 {
	switch {
	case r.noZxid:
		return 0
	case r.ends && r.why == unknownOp:
		return noReplyZxid
	case r.read != nil && !r.working:
		return r.read.zxid
	}
	c.shown = max(c.shown, c.srv.cfg.State.Zxid())
	return c.shown
}

// replied is called when the reply to a request is queued. The caller holds the lock.
func (c *conn) replied(r *request) {
	now := time.Now()
	took := now.Sub(r.begun)
	c.srv.stats.reply(took, r.how.class)
	c.traffic.reply(r.op, r.xid, c.shown, now.Sub(c.srv.begun), took)
	if r.ends {
		c.stream.Finish(r.why)
	}
	r.free()
}

func (c *conn) exists(b []byte, r *request) ([]byte, jute.Code) {
	var req jute.ExistsRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	if req.Watch && c.tooLong(req.Path) {
		return b, jute.BadArguments
	}
	stat, code := c.srv.cfg.State.Exists(req.Path, r.ids, c.watcher(req.Watch))
	return stat.Append(b), code
}

// getData appends to b, which is the stream's output. It inserts data of r.share bytes or more
// instead of copying them.
func (c *conn) getData(b []byte, r *request) ([]byte, jute.Code) {
	var req jute.GetDataRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	data, stat, code := c.srv.cfg.State.GetData(req.Path, r.ids, c.watcher(req.Watch))
	if len(data) < r.share {
		return jute.GetDataResponse{Data: data, Stat: stat}.Append(b), code
	}
	b = jute.AppendInt32(b, int32(len(data)))
	c.stream.Output().Insert(len(b), data)
	return stat.Append(b), code
}

func (c *conn) getACL(b []byte, r *request) ([]byte, jute.Code) {
	var req jute.GetACLRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	acl, stat, code := c.srv.cfg.State.GetACL(req.Path, r.ids)
	return jute.GetACLResponse{ACL: acl, Stat: stat}.Append(b), code
}

func (c *conn) getChildren(b []byte, r *request) ([]byte, jute.Code) {
	var req jute.GetChildrenRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	names, stat, code := c.srv.cfg.State.Children(req.Path, r.ids, c.watcher(req.Watch))
	b = appendNames(b, names)
	if r.op == jute.OpGetChildren2 {
		b = stat.Append(b)
	}
	return b, code
}

// multiRead answers each operation by itself. It answers up to Limits.MaxUnread bytes, because a
// small request could ask for any amount. It sets no watches. It decodes one operation at a time: decoded
// together they would take 25 times as much memory as the request.
func (c *conn) multiRead(b []byte, r *request) ([]byte, jute.Code) {
	now := c.srv.cfg.State.Look()
	return c.readAll(b, &now, r.body, r.ids)
}

// readAll does the same from the tree at one time.
func (c *conn) readAll(b []byte, from *znode.Copy, body []byte, ids []*proto.Identity) ([]byte, jute.Code) {
	begin, code := len(b), jute.OK
	whole := jute.EachOfMulti(body, func(op *jute.MultiOp) (more bool) {
		if op.Op.IsWrite() || len(b)-begin > c.srv.cfg.Limits.MaxUnread {
			code = jute.MarshallingError
			return false
		}
		b, code = readOne(b, from, op, ids)
		return code == jute.OK
	})
	if code == jute.OK && !whole {
		code = jute.MarshallingError
	}
	if code != jute.OK {
		return b[:begin], code
	}
	return jute.AppendMultiEnd(b), jute.OK
}

// readOne appends the result of one operation of a multiRead. A null path makes the whole multiRead fail.
func readOne(b []byte, from *znode.Copy, op *jute.MultiOp, ids []*proto.Identity) ([]byte, jute.Code) {
	mark := len(b)
	b = jute.MultiHeader{Type: op.Op}.Append(b)
	var code jute.Code
	if op.Op == jute.OpGetData {
		var res jute.GetDataResponse
		res.Data, res.Stat, code = from.GetData(op.GetData.Path, ids)
		b = res.Append(b)
	} else { // getChildren: no other reads are in a multi
		var names znode.Names
		names, code = from.Children(op.GetChildren.Path, ids)
		b = appendListed(b, names)
	}
	if code != jute.OK && code != jute.MarshallingError {
		return appendError(b[:mark], code), jute.OK
	}
	return b, code
}

// setWatches serves both forms of the request, if it is short.
func (c *conn) setWatches(r *request) jute.Code {
	req, code := c.readSetWatches(r)
	if code != jute.OK {
		return code
	}
	return c.watchAgain(req)
}

// watchAgain queues the events that the client has missed and sets the other watches.
func (c *conn) watchAgain(req *jute.SetWatches2) jute.Code {
	return c.srv.cfg.State.SetWatches(req, c, func(t jute.EventType, path []byte) {
		if !c.stream.Dead() {
			c.event(t, string(path), missedZxid)
		}
	})
}

// tooLong reports whether no node may be created at a path, so that nobody may watch it either.
func (c *conn) tooLong(path []byte) bool { return len(path) > c.srv.cfg.Limits.MaxPath }

// missedZxid is the zxid of the events that setWatches sends for missed changes. The zxids of the
// changes are not known.
const missedZxid = -1

func (c *conn) getEphemerals(b []byte, r *request) ([]byte, jute.Code) {
	var req jute.GetEphemeralsRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	return appendNames(b, c.srv.cfg.State.GetEphemerals(c.session, req.Path)), jute.OK
}

func (c *conn) getAllChildrenNumber(b []byte, r *request) ([]byte, jute.Code) {
	var req jute.GetAllChildrenNumberRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	n, code := c.srv.cfg.State.AllChildrenNumber(req.Path, r.ids)
	return jute.AppendInt32(b, int32(n)), code
}

func (c *conn) addWatch(b []byte, r *request) ([]byte, jute.Code) {
	var req jute.AddWatchRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	if c.tooLong(req.Path) {
		return b, jute.BadArguments
	}
	code := c.srv.cfg.State.AddWatch(req.Path, req.Mode, c)
	return jute.ErrorResponse{Err: code}.Append(b), code
}

func (c *conn) checkWatches(b []byte, r *request) ([]byte, jute.Code) {
	var req jute.CheckWatchesRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	return b, c.srv.cfg.State.CheckWatches(req.Path, req.Type, c)
}

func (c *conn) removeWatches(b []byte, r *request) ([]byte, jute.Code) {
	var req jute.RemoveWatchesRequest
	d := jute.NewDecoder(r.body)
	if req.Decode(&d); d.Err() != nil {
		return b, jute.MarshallingError
	}
	return b, c.srv.cfg.State.RemoveWatches(req.Path, req.Type, c)
}

func (c *conn) whoAmI(b []byte, r *request) ([]byte, jute.Code) {
	var res jute.WhoAmIResponse
	for _, id := range r.ids {
		res.ClientInfo = append(res.ClientInfo, clientInfo(id))
	}
	return res.Append(b), jute.OK
}

// watcher returns c if the request sets a watch, or nil.
func (c *conn) watcher(wanted bool) znode.Watcher {
	if !wanted {
		return nil
	}
	return c
}

func appendNames(b []byte, names []string) []byte {
	b = jute.AppendCount(b, len(names))
	for _, name := range names {
		b = jute.AppendString(b, name)
	}
	return b
}

// appendApplied appends the reply to a request of the log. The caller holds the lock and the
// tree's lock.
func (c *conn) appendApplied(b []byte, r *request, res *znode.Result) []byte {
	zxid := res.Zxid
	if zxid == 0 {
		zxid = c.srv.cfg.State.Zxid() // a sync, or a write that took no zxid
	}
	c.shown = max(c.shown, zxid)
	b, mark := jute.BeginFrame(b)
	c.srv.stats.refuse(res.Code)
	b = jute.ReplyHeader{Xid: r.xid, Zxid: c.shown, Err: res.Code}.Append(b)
	if res.Code == jute.OK {
		b = c.appendResult(b, r, res)
	}
	c.srv.stats.response(len(b) - mark - lengthSize)
	return jute.EndFrame(b, mark)
}

// appendReply queues a reply that was made while earlier requests were not answered. Their replies
// may have shown the client a later zxid.
func (c *conn) appendReply(frame []byte) {
	out := c.stream.Output()
	binary.BigEndian.PutUint64(frame[zxidOffset:], uint64(c.shown))
	out.B = append(out.B, frame...)
}

// The result functions append the record of a write that succeeded, alone or in a multi.

func pathResult(b []byte, path string, _ *jute.Stat) []byte { return jute.AppendString(b, path) }

func nodeResult(b []byte, path string, stat *jute.Stat) []byte {
	return stat.Append(jute.AppendString(b, path))
}

func statResult(b []byte, _ string, stat *jute.Stat) []byte { return stat.Append(b) }

// appendResult appends the record of a successful write or sync.
func (c *conn) appendResult(b []byte, r *request, res *znode.Result) []byte {
	switch {
	case r.op == jute.OpSync:
		return appendSync(b, r.body)
	case r.op == jute.OpMulti:
		return c.appendMulti(b, res.Multi)
	case r.op == jute.OpReconfig:
		return jute.GetDataResponse{Data: res.Data, Stat: res.Stat}.Append(b)
	case r.how.result != nil:
		return r.how.result(b, res.Path, &res.Stat)
	}
	return b // delete, closeSession: a header
}

func appendSync(b, body []byte) []byte {
	var req jute.SyncRequest
	d := jute.NewDecoder(body)
	req.Decode(&d)
	return jute.SyncResponse(req).Append(b)
}

// appendMulti appends the results of a multi that writes.
func (c *conn) appendMulti(b []byte, results []znode.OpResult) []byte {
	for i := range results {
		res := &results[i]
		if res.Op == jute.OpError {
			b = appendError(b, res.Code)
			continue
		}
		b = jute.MultiHeader{Type: res.Op}.Append(b)
		if how := c.srv.operations.of(res.Op); how.result != nil {
			b = how.result(b, res.Path, &res.Stat)
		}
	}
	return jute.AppendMultiEnd(b)
}

func appendError(b []byte, code jute.Code) []byte {
	b = jute.MultiHeader{Type: jute.OpError, Err: code}.Append(b)
	return jute.ErrorResponse{Err: code}.Append(b)
}
